// Monotonic attention: w_ts = sum over k of the shares, which are one softmax over k and s together of
// a_k - (r_k (c_k - s))^2, with s = 1, 2, ..., S and a window k's height a, root of its sharpness r and place c.
// The backward pass computes the shares again.
#pragma once

#include "memory.h"
#include "rows.h"
#include "span.h"

namespace {

template <class T> class Monotonic {
public:
    Monotonic(const autapse_attention& p, Scratch& scratch, bool) : p(p) {
        const int64_t across = whole<T>(p.sources);
        share = scratch.take<T>(p.size * p.sources + lanes<T>);
        place = scratch.take<T>(across);
        slope = scratch.take<T>(across);
        if (scratch.failed) return;
        for (int64_t s = 0; s < across; s++) place[s] = T(s + 1);
    }

    static constexpr int work = 16; // of an exponential, in multiply-adds
    static int64_t shared(const autapse_attention&) { return 0; }

    void prepare(Span) {}

    void weigh(Span span, int64_t t, T* weight) {
        compute_shares(row(span.b, t), span.sources);
        each<T>(span.sources, [&](auto lane, int64_t s) {
            Vec<T> total{};
            for (int64_t k = 0; k < p.size; k++) total += load(share + k * span.sources + s);
            lane.store(weight + s, total);
        });
    }

    void clear_gradients(int64_t b, T*) {
        for (void* gradient : {p.grad_height, p.grad_root, p.grad_place})
            clear(static_cast<T*>(gradient) + row(b, 0), p.targets * p.size);
    }

    void pull(Span span, int64_t t, const T* weight, const T* d_weight) {
        const int64_t n = span.sources, first = row(span.b, t);
        compute_shares(first, n);
        const T mean = dot(weight, d_weight, n);
        each<T>(n, [&](auto lane, int64_t s) { store(slope + s, lane.keep(lane.load(d_weight + s) - mean)); });
        for (int64_t k = 0; k < p.size; k++) {
            const T r = at(p.root, first + k), centre = at(p.place, first + k);
            Vec<T> plain{}, by_distance{}, by_square{};
            for (int64_t s = 0; s < n; s += lanes<T>) {
                const Vec<T> d = load(share + k * n + s) * load(slope + s), distance = centre - load(place + s);
                plain += d;
                by_distance += d * distance;
                by_square += d * distance * distance;
            }
            static_cast<T*>(p.grad_height)[first + k] = sum<T>(plain);
            static_cast<T*>(p.grad_root)[first + k] = T(-2) * r * sum<T>(by_square);
            static_cast<T*>(p.grad_place)[first + k] = T(-2) * r * r * sum<T>(by_distance);
        }
    }

    void finish(Span, T*) {}

private:
    int64_t row(int64_t b, int64_t t) const { return (b * p.targets + t) * p.size; }
    static T at(const void* base, int64_t i) { return static_cast<const T*>(base)[i]; }

    // The shares [K, n] of the windows that begin at element `first`.
    void compute_shares(int64_t first, int64_t n) {
        for (int64_t k = 0; k < p.size; k++) {
            const T height = at(p.height, first + k), r = at(p.root, first + k), centre = at(p.place, first + k);
            // The last vector of a window reaches into the next one, which is written after it.
            for (int64_t s = 0; s < n; s += lanes<T>) {
                const Vec<T> distance = r * (centre - load(place + s));
                store(share + k * n + s, height - distance * distance);
            }
        }
        softmax(share, share, p.size * n);
        clear(share + p.size * n, lanes<T>); // read and multiplied by zero
    }

    const autapse_attention& p;
    T *share, *place, *slope;    // [K, S]; 1, 2, ..., S; gradients of the weights without their mean [S]
};

} // namespace
