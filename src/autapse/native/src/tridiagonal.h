// y_t - lower_t y_{t-1} - upper_t y_{t+1} = right_t along each sequence, channel by channel, by elimination without
// pivots. Sequences and channels do not meet: threads share the sequences.
#pragma once

#include "abi.h"
#include "product.h"
#include "team.h"

namespace {

template <class T> class Tridiagonal {
public:
    explicit Tridiagonal(const autapse_tridiagonal& problem) : p(problem), S(p.channels) {}

    void run() {
        const int64_t count = p.steps ? p.sizes[0] : 0;
        int64_t rows = 0;
        for (int64_t t = 0; t < p.steps; t++) rows += p.sizes[t];
        in_parallel(rows * S * 8 < least_parallel ? 1 : larger(p.threads, 1), [&](Team team) {
            // Sequences are sorted by length, so every thread takes each so-many-th of them.
            for (int64_t j = team.index; j < count; j += team.count) {
                if (!p.factored) factor(j);
                if (p.right) solve(j);
            }
        });
    }

private:
    static const T* in(const void* pointer) { return static_cast<const T*>(pointer); }
    static T* out(void* pointer) { return static_cast<T*>(pointer); }

    bool there(int64_t t, int64_t j) const { return t >= 0 && t < p.steps && j < p.sizes[t]; }
    int64_t at(int64_t t, int64_t j) const { return (p.first[t] + j) * S; }
    // what couples row t to the row before it, and to the row after it; null at an end
    const T* before(int64_t t, int64_t j) const {
        if (!there(t - 1, j)) return nullptr;
        return p.transposed ? in(p.upper) + at(t - 1, j) : in(p.lower) + at(t, j);
    }
    const T* after(int64_t t, int64_t j) const {
        if (!there(t + 1, j)) return nullptr;
        return p.transposed ? in(p.lower) + at(t + 1, j) : in(p.upper) + at(t, j);
    }

    void factor(int64_t j) const {
        for (int64_t t = 0; there(t, j); t++) {
            const T *a = before(t, j), *c = after(t, j), *last = a ? out(p.ahead) + at(t - 1, j) : nullptr;
            T *inverse = out(p.inverse) + at(t, j), *ahead = out(p.ahead) + at(t, j);
            each<T>(S, [&](auto lane, int64_t n) {
                Vec<T> d = splat(T(1));
                if (a) d -= lane.load(a + n) * lane.load(last + n);
                d = T(1) / d;
                lane.store(inverse + n, d);
                lane.store(ahead + n, c ? lane.load(c + n) * d : Vec<T>{});
            });
        }
    }

    void solve(int64_t j) const {
        int64_t t = 0;
        for (; there(t, j); t++) {
            const T* right = p.first[t] + j < p.right_rows ? in(p.right) + at(t, j) : nullptr;
            const T *a = before(t, j), *inverse = in(p.inverse) + at(t, j), *last = a ? out(p.y) + at(t - 1, j) : nullptr;
            T* y = out(p.y) + at(t, j);
            each<T>(S, [&](auto lane, int64_t n) {
                Vec<T> sum = right ? lane.load(right + n) : Vec<T>{};
                if (a) sum += lane.load(a + n) * lane.load(last + n);
                lane.store(y + n, sum * lane.load(inverse + n));
            });
        }
        for (t -= 2; t >= 0; t--) {
            const T *ahead = in(p.ahead) + at(t, j), *next = out(p.y) + at(t + 1, j);
            T* y = out(p.y) + at(t, j);
            each<T>(S, [&](auto lane, int64_t n) {
                lane.store(y + n, lane.load(y + n) + lane.load(ahead + n) * lane.load(next + n));
            });
        }
    }

    const autapse_tridiagonal& p;
    const int64_t S;
};

} // namespace
