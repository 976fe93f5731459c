// Tridiagonal systems along sequences, for implicit networks without a kernel.
#pragma once

#include "sequences.h"

namespace {

template <class T> int solve_tridiagonal(const autapse_tridiagonal& p, Scratch& scratch) {
    RedBlack layout(p.layout);
    if (const autapse_result broken = layout.fill(scratch)) return broken;
    const Elimination<T> system{layout,
                                p.channels,
                                static_cast<const T*>(p.lower),
                                static_cast<const T*>(p.upper),
                                static_cast<T*>(p.inverse),
                                static_cast<T*>(p.ahead),
                                p.transposed != 0};
    in_parallel(layout.threads((double)layout.total * p.channels * 8, p.threads), [&](Team team) {
        // Sequences are sorted by length, so taking every n-th of them gives each thread about the same work.
        for (int64_t b = team.index; b < layout.count; b += team.count) {
            if (!p.factored) system.eliminate(b);
            if (p.right) system.solve(b, static_cast<const T*>(p.right), p.right_rows, static_cast<T*>(p.y));
        }
    });
    return AUTAPSE_DONE;
}

} // namespace
