// The valid steps of a sequence, for attention.
#pragma once

#include "abi.h"

namespace {

// A sequence of the batch: its number, its steps of the target and of the source.
struct Span {
    int64_t b, targets, sources;
};

inline bool lengths_fit(const int64_t* lengths, int64_t count, int64_t most) {
    for (int64_t b = 0; lengths && b < count; b++)
        if (lengths[b] < 0 || lengths[b] > most) return false;
    return true;
}

// Without a step of the source there is nothing to compute for the target either.
inline Span span_of(const autapse_attention& p, int64_t b) {
    const int64_t n = p.source_lengths ? p.source_lengths[b] : p.sources;
    return {b, !n ? 0 : p.target_lengths ? p.target_lengths[b] : p.targets, n};
}

} // namespace
