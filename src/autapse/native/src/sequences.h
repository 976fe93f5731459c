// Shared by the native solvers of implicit systems: the rows of each sequence, the sequences of each thread, and the
// tridiagonal systems of one sequence.
#pragma once

#include "implicit.h"

namespace {

// Row j of step t is row first[t] + j: sequences are sorted, longest first. Even steps come before odd ones, so that the
// rows below `free` are those of the even steps.
class RedBlack {
public:
    explicit RedBlack(const autapse_red_black& l)
        : count(l.count), total(l.rows), offsets{l.lower ? 1 : -1, l.lower ? -1 : 1}, edges(l.own_edges != 0), given(l.lengths) {}

    // Computes all positions from the lengths alone, so that they cannot contradict each other.
    autapse_result fill(Scratch& scratch) {
        int64_t *own_lengths = scratch.take<int64_t>(count), *own_steps = scratch.take<int64_t>(total);
        int64_t* own_sequences = scratch.take<int64_t>(total);
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        int64_t rows = 0;
        for (int64_t b = 0; b < count; b++) {
            const int64_t length = own_lengths[b] = given[b];
            if (length < 0 || length > (b ? own_lengths[b - 1] : total) || length > total - rows) return AUTAPSE_MALFORMED;
            rows += length;
        }
        if (rows != total) return AUTAPSE_MALFORMED;
        const int64_t steps = count ? own_lengths[0] : 0;
        int64_t* own_first = scratch.take<int64_t>(steps);
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        int64_t at = 0;
        for (int64_t parity = 0; parity < 2; parity++) {
            int64_t running = count;
            for (int64_t t = parity; t < steps; t += 2) {
                while (own_lengths[running - 1] <= t) running--;
                own_first[t] = at;
                for (int64_t b = 0; b < running; b++, at++) {
                    own_steps[at] = t;
                    own_sequences[at] = b;
                }
            }
            if (parity == 0) free = at;
        }
        first = own_first, lengths = own_lengths, step_of = own_steps, sequence_of = own_sequences;
        return AUTAPSE_DONE;
    }

    const int64_t count, total;
    int64_t free = 0;
    const int64_t *first = nullptr, *lengths = nullptr, *step_of = nullptr, *sequence_of = nullptr;
    const int64_t offsets[2];
    const bool edges; // whether each sequence has its own states before and after it; if not, one row serves all

    int64_t row(int64_t t, int64_t b) const { return first[t] + b; }
    int64_t edge(int64_t t, int64_t b) const { return edges ? (t < 0 ? b : count + b) : 0; }
    // the row of the neighbour j of a row, or -1 past an end
    int64_t near(int64_t j, int64_t at) const {
        const int64_t t = step_of[at] + offsets[j], b = sequence_of[at];
        return t >= 0 && t < lengths[b] ? row(t, b) : -1;
    }
    // the row that has this one for its neighbour j, or -1
    int64_t far(int64_t j, int64_t at) const {
        const int64_t t = step_of[at] - offsets[j], b = sequence_of[at];
        return t >= 0 && t < lengths[b] ? row(t, b) : -1;
    }
    // no more threads than sequences
    int64_t threads(double multiply_adds, int64_t most) const {
        return smaller(threads_for(multiply_adds, most), larger(count, 1));
    }
    int64_t lower() const { return offsets[0] < 0 ? 0 : 1; } // which of the two offsets is -1

private:
    const int64_t* given;
};

// The sequences of one thread: each goes to the thread that has the fewest rows so far.
inline int64_t deal(const RedBlack& layout, Team team, int64_t* mine, int64_t* loads) {
    int64_t found = 0;
    for (int64_t k = 0; k < team.count; k++) loads[k] = 0;
    for (int64_t b = 0; b < layout.count; b++) {
        int64_t least = 0;
        for (int64_t k = 1; k < team.count; k++)
            if (loads[k] < loads[least]) least = k;
        loads[least] += layout.lengths[b];
        if (least == team.index) mine[found++] = b;
    }
    return found;
}

// The rows of some sequences at steps of one parity.
inline int64_t list_rows(const RedBlack& layout, const int64_t* chosen, int64_t many, int64_t parity, int64_t* rows) {
    int64_t count = 0;
    for (int64_t n = 0; n < many; n++)
        for (int64_t t = parity; t < layout.lengths[chosen[n]]; t += 2) rows[count++] = layout.row(t, chosen[n]);
    return count;
}

// y_t - lower_t y_{t-1} - upper_t y_{t+1} = right_t of one sequence, channel by channel, by elimination without pivots;
// or the transposed system. `inverse` and `ahead` hold the eliminated system.
template <class T> struct Elimination {
    const RedBlack& layout;
    int64_t H;
    const T *lower, *upper;
    T *inverse, *ahead;
    bool transposed;

    const T* before(int64_t t, int64_t b) const {
        if (t == 0) return nullptr;
        return transposed ? upper + layout.row(t - 1, b) * H : lower + layout.row(t, b) * H;
    }
    const T* after(int64_t t, int64_t b) const {
        if (t + 1 == layout.lengths[b]) return nullptr;
        return transposed ? lower + layout.row(t + 1, b) * H : upper + layout.row(t, b) * H;
    }

    void eliminate(int64_t b) const {
        for (int64_t t = 0; t < layout.lengths[b]; t++) {
            const T *a = before(t, b), *c = after(t, b), *last = a ? ahead + layout.row(t - 1, b) * H : nullptr;
            T *pivot = inverse + layout.row(t, b) * H, *next = ahead + layout.row(t, b) * H;
            each<T>(H, [&](auto lane, int64_t n) {
                Vec<T> d = splat(T(1));
                if (a) d -= lane.load(a + n) * lane.load(last + n);
                d = T(1) / d;
                lane.store(pivot + n, d);
                lane.store(next + n, c ? lane.load(c + n) * d : Vec<T>{});
            });
        }
    }

    // right [right_rows, H], zero in the rows beyond -> y [N, H]
    void solve(int64_t b, const T* right, int64_t right_rows, T* y) const {
        const int64_t length = layout.lengths[b];
        for (int64_t t = 0; t < length; t++) {
            const int64_t at = layout.row(t, b) * H;
            const T *a = before(t, b), *last = a ? y + layout.row(t - 1, b) * H : nullptr;
            const T* given = layout.row(t, b) < right_rows ? right + at : nullptr;
            each<T>(H, [&](auto lane, int64_t n) {
                Vec<T> sum = given ? lane.load(given + n) : Vec<T>{};
                if (a) sum += lane.load(a + n) * lane.load(last + n);
                lane.store(y + at + n, sum * lane.load(inverse + at + n));
            });
        }
        for (int64_t t = length - 2; t >= 0; t--) {
            const int64_t at = layout.row(t, b) * H, later = layout.row(t + 1, b) * H;
            each<T>(H, [&](auto lane, int64_t n) {
                lane.store(y + at + n, lane.load(y + at + n) + lane.load(ahead + at + n) * lane.load(y + later + n));
            });
        }
    }
};

// f(row) for each even step of a sequence.
template <class F> void even_rows(const RedBlack& layout, int64_t b, F&& f) {
    for (int64_t t = 0; t < layout.lengths[b]; t += 2) f(layout.row(t, b));
}

template <class T> double product_of(const T* x, const T* y, int64_t n) {
    Vec<T> total{};
    each<T>(n, [&](auto lane, int64_t j) { total += lane.keep(lane.load(x + j) * lane.load(y + j)); });
    return (double)sum<T>(total);
}

// to = x + factor * y
template <class T> void combine(T* to, const T* x, T factor, const T* y, int64_t n) {
    each<T>(n, [&](auto lane, int64_t j) { lane.store(to + j, lane.load(x + j) + factor * lane.load(y + j)); });
}

} // namespace
