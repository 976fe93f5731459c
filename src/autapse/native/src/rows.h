// Rows of numbers: sums, maps and the softmax.
#pragma once

#include <algorithm>

#include "vector.h"

namespace {

template <class T> INLINE T dot(const T* a, const T* b, int64_t n) {
    Vec<T> total{};
    each<T>(n, [&](auto lane, int64_t j) { total += lane.load(a + j) * lane.load(b + j); });
    return sum<T>(total);
}

// y += a x
template <class T> INLINE void add(T* y, T a, const T* x, int64_t n) {
    each<T>(n, [&](auto lane, int64_t j) { lane.store(y + j, lane.load(y + j) + a * lane.load(x + j)); });
}

template <class T> INLINE void clear(T* y, int64_t n) { std::fill(y, y + n, T(0)); }

template <class T> INLINE void copy(T* y, const T* x, int64_t n) { std::copy(x, x + n, y); }

template <class T, class F> INLINE void map(T* y, const T* x, int64_t n, F&& f) {
    each<T>(n, [&](auto lane, int64_t j) { lane.store(y + j, f(lane.load(x + j))); });
}

// the largest f(x); NaN if one is NaN
template <class T, class F> INLINE T greatest(const T* x, int64_t n, F&& f) {
    Vec<T> best = f(splat(x[0]));
    auto compare = [&](Vec<T> v) { best = (v > best) | (v != v) ? v : best; };
    int64_t j = 0;
    for (; j + lanes<T> <= n; j += lanes<T>) compare(f(load(x + j)));
    for (; j < n; j++) compare(f(splat(x[j])));
    T one = best[0];
    for (int i = 1; i < lanes<T>; i++) one = best[i] > one || best[i] != best[i] ? best[i] : one;
    return one;
}

// y = softmax(x); may be in place
template <class T> INLINE void softmax(T* y, const T* x, int64_t n) {
    const T largest = greatest(x, n, [](Vec<T> v) { return v; });
    const T limit = sizeof(T) == 4 ? T(87) : T(707); // beyond it exp underflows
    Vec<T> total{};
    each<T>(n, [&](auto lane, int64_t j) {
        auto [scale, part] = exponential(clamp<T>(lane.load(x + j) - largest, -limit, T(0)));
        Vec<T> e = scale * part + scale;
        total += lane.keep(e);
        lane.store(y + j, e);
    });
    const T inverse = T(1) / sum<T>(total);
    map(y, y, n, [&](Vec<T> e) { return e * inverse; });
}

// dx += y (dy - sum y dy) for y = softmax(x)
template <class T> INLINE void softmax_backward(T* dx, const T* y, const T* dy, int64_t n) {
    const T mean = dot(y, dy, n);
    each<T>(n, [&](auto lane, int64_t j) {
        lane.store(dx + j, lane.load(dx + j) + lane.load(y + j) * (lane.load(dy + j) - mean));
    });
}

} // namespace
