// Monotonic attention: w_ts = sum over k of the softmax over k and s together of a_k - (r_k (c_k - s))^2, with
// s = 1, 2, ..., S and a window k's height a, root of its sharpness r and centre c.
//
// The largest energy of a window is at the step nearest to its centre. So only the steps near a window are computed:
// beyond them the exponential is zero. The backward pass computes the exponentials again.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "memory.h"
#include "rows.h"
#include "span.h"

namespace {

template <class T> class Monotonic {
public:
    Monotonic(const autapse_attention& p, Scratch& scratch, bool) : p(p) {
        const int64_t across = whole<T>(p.sources);
        step = scratch.take<T>(across);
        row = scratch.take<T>(across);
        if (scratch.failed) return;
        for (int64_t s = 0; s < across; s++) step[s] = T(s + 1);
    }

    static constexpr int work = 16; // of an exponential, in multiply-adds
    static int64_t shared(const autapse_attention&) { return 0; }

    void prepare(Span) {}

    void weigh(Span span, int64_t t, T* weight) {
        const int64_t n = span.sources;
        Vec<T> total{};
        clear(row, whole<T>(n));
        each_window(span, t, [&](int64_t, Window window) {
            near(window, n, [&](int64_t s, Vec<T> e, Vec<T>) {
                total += e;
                store(row + s, load(row + s) + e);
            });
        });
        const T inverse = T(1) / sum<T>(total);
        map(weight, row, n, [&](Vec<T> e) { return e * inverse; });
    }

    void clear_gradients(int64_t b, T*) {
        for (void* gradient : {p.grad_height, p.grad_root, p.grad_place})
            clear(static_cast<T*>(gradient) + b * p.targets * p.size, p.targets * p.size);
    }

    void pull(Span span, int64_t t, const T* weight, const T* d_weight) {
        const int64_t n = span.sources;
        const T mean = dot(weight, d_weight, n);
        each<T>(n, [&](auto lane, int64_t s) { store(row + s, lane.keep(lane.load(d_weight + s) - mean)); });
        T *d_height = static_cast<T*>(p.grad_height), *d_root = static_cast<T*>(p.grad_root);
        T* d_place = static_cast<T*>(p.grad_place);
        Vec<T> total{};
        each_window(span, t, [&](int64_t i, Window window) {
            Vec<T> plain{}, by_distance{}, by_square{};
            near(window, n, [&](int64_t s, Vec<T> e, Vec<T> distance) {
                const Vec<T> d = e * load(row + s), further = d * distance;
                total += e;
                plain += d;
                by_distance += further;
                by_square += further * distance;
            });
            d_height[i] = sum<T>(plain);
            d_root[i] = T(-2) * window.root * sum<T>(by_square);
            d_place[i] = T(-2) * window.root * window.root * sum<T>(by_distance);
        });
        const T inverse = T(1) / sum<T>(total);
        for (int64_t k = 0, i = first(span, t); k < p.size; k++, i++)
            for (T* gradient : {d_height, d_root, d_place}) gradient[i] *= inverse;
    }

    void finish(Span, T*) {}

private:
    static constexpr T limit = sizeof(T) == 4 ? T(87) : T(707); // beyond it exp underflows

    struct Window {
        T height, root, centre;
        T largest; // energy of all windows

        INLINE Vec<T> energy(Vec<T> distance) const {
            const Vec<T> scaled = root * distance;
            return height - scaled * scaled;
        }
    };

    int64_t first(Span span, int64_t t) const { return (span.b * p.targets + t) * p.size; } // element of a window

    Window window(int64_t i) const {
        auto at = [&](const void* base) { return static_cast<const T*>(base)[i]; };
        return {at(p.height), at(p.root), at(p.place), T(0)};
    }

    // f(i, window) for each window of a step; i is its element
    template <class F> INLINE void each_window(Span span, int64_t t, F&& f) {
        const int64_t begin = first(span, t), end = begin + p.size;
        T largest = -std::numeric_limits<T>::infinity(); // NaN if a window has NaN
        for (int64_t i = begin; i < end; i++) {
            const Window one = window(i);
            const T nearest = std::min(std::max(std::round(one.centre), T(1)), T(span.sources));
            const T energy = one.energy(splat(one.centre - nearest))[0];
            largest = energy > largest || energy != energy ? energy : largest;
        }
        for (int64_t i = begin; i < end; i++) {
            Window one = window(i);
            one.largest = largest;
            f(i, one);
        }
    }

    // f(s, e, distance) for each vector of steps of the source near a window: e = exp(energy - largest), and the distances
    // from the centre. With NaN, all steps are near.
    template <class F> INLINE void near(const Window& window, int64_t n, F&& f) const {
        const T room = limit + window.height - window.largest;
        if (room < T(0)) return;
        const T reach = std::sqrt(room / (window.root * window.root));
        const T low = window.centre - reach, high = window.centre + reach;
        int64_t s = low > T(1) ? int64_t(std::min(low, T(n))) - 1 : 0;
        const int64_t end = high < T(n) ? int64_t(std::max(high, T(0))) : n;
        for (s -= s % lanes<T>; s < end; s += lanes<T>) {
            const Vec<T> distance = window.centre - load(step + s);
            auto [scale, part] = exponential(clamp<T>(window.energy(distance) - window.largest, -limit, T(0)));
            Vec<T> e = scale * part + scale;
            if (s + lanes<T> > n) e = Part<T>{n - s}.keep(e);
            f(s, e, distance);
        }
    }

    const autapse_attention& p;
    T *step, *row; // [S]: 1, 2, ..., S; sums of exponentials, or gradients of the weights less their mean
};

} // namespace
