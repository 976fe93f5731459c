// The weights of attention for all pairs of steps, and their gradients. The reference is
// autapse/models/attention_weights.py. Sequences of a batch do not interact. No tensor has a value per pair and unit.
//
// A kind of attention (additive.h, monotonic.h) is a struct that has, for one sequence:
//   prepare(span)             once before its steps
//   weigh(span, t, w)         the weights of step t of the target
//   clear_gradients(b, d)     zero gradients
//   pull(span, t, w, dw)      the gradients from the weights of step t
//   finish(span, d)           once after its steps, in the backward pass
// d has `shared` elements: the sequence's part of the gradient of what all sequences share.
#pragma once

#include <atomic>

#include "additive.h"
#include "monotonic.h"
#include "team.h"

namespace {

// Weights past the lengths are zero.
template <class T, class Kind> void attend(const autapse_attention& p, Kind& kind, int64_t b) {
    const Span span = span_of(p, b);
    const int64_t S = p.sources;
    T* weight = static_cast<T*>(p.weight) + b * p.targets * S;
    clear(weight + span.targets * S, (p.targets - span.targets) * S);
    if (!span.targets) return;
    kind.prepare(span);
    for (int64_t t = 0; t < span.targets; t++) {
        kind.weigh(span, t, weight + t * S);
        clear(weight + t * S + span.sources, S - span.sources);
    }
}

template <class T, class Kind> void attend_backward(const autapse_attention& p, Kind& kind, int64_t b, T* d_shared) {
    const Span span = span_of(p, b);
    kind.clear_gradients(b, d_shared);
    if (!span.targets) return;
    kind.prepare(span);
    for (int64_t t = 0; t < span.targets; t++) {
        const int64_t row = (b * p.targets + t) * p.sources;
        kind.pull(span, t, static_cast<const T*>(p.weight) + row, static_cast<const T*>(p.grad_weight) + row);
    }
    kind.finish(span, d_shared);
}

template <class T, class Kind> int run_kind(const autapse_attention& p, bool backward) {
    if (!lengths_fit(p.target_lengths, p.batch, p.targets) || !lengths_fit(p.source_lengths, p.batch, p.sources))
        return AUTAPSE_MALFORMED;
    static thread_local Scratch shared;
    shared.begin();
    const int64_t size = Kind::shared(p);
    T* parts = backward ? shared.take<T>(p.batch * size) : nullptr; // [B, size], summed in one order
    std::atomic<bool> failed{shared.failed};
    if (failed) return AUTAPSE_NO_MEMORY;
    const double work = double(p.batch) * p.targets * p.sources * p.size * Kind::work * (backward ? 2 : 1);
    in_parallel(threads_for(work, p.threads), [&](Team team) {
        static thread_local Scratch scratch;
        scratch.begin();
        Kind kind(p, scratch, backward);
        if (scratch.failed) {
            failed = true;
            return;
        }
        // Every n-th sequence: if they are sorted by length, each thread still has about the same work.
        for (int64_t b = team.index; b < p.batch; b += team.count)
            backward ? attend_backward<T>(p, kind, b, parts + b * size) : attend<T>(p, kind, b);
    });
    if (failed) return AUTAPSE_NO_MEMORY;
    if (backward && size) {
        T* total = static_cast<T*>(p.grad_vector);
        clear(total, size);
        for (int64_t b = 0; b < p.batch; b++) add(total, T(1), parts + b * size, size);
    }
    return AUTAPSE_DONE;
}

template <class T> int run_attention(const autapse_attention& p, bool backward) {
    return p.monotonic ? run_kind<T, Monotonic<T>>(p, backward) : run_kind<T, Additive<T>>(p, backward);
}

} // namespace
