// Additive attention: w_ts = softmax over s of sum_a v_a tanh(q_ta + k_sa).
//
// tanh(x) = 1 - 2r with r = 1 / (1 + exp 2x), and exp 2(q + k) = exp 2q * exp 2k: one exponential per row of q and k.
// Up to four r come from one division: 1/a = b / (ab). If q + k may be so large that these products overflow, r comes
// from tanh instead.
#pragma once

#include "memory.h"
#include "rows.h"
#include "span.h"

namespace {

template <class T> class Additive {
public:
    Additive(const autapse_attention& p, Scratch& scratch, bool backward)
        : p(p), backward(backward), wide(whole<T>(p.size)) {
        const int64_t across = whole<T>(p.sources) + 3 * lanes<T>; // the last group of four vectors may have three without steps
        stride = backward ? wide : across;
        keys = scratch.take<T>(backward ? p.sources * wide : p.size * across);
        query = scratch.take<T>(wide);
        energy = scratch.take<T>(across);
        if (!backward) return;
        d_keys = scratch.take<T>(p.sources * wide);
        d_vector = scratch.take<T>(wide);
    }

    static constexpr int work = 2; // multiply-adds of a pair of steps and a unit
    static int64_t shared(const autapse_attention& p) { return p.size; }

    void prepare(Span span) {
        choose(span);
        backward ? prepare_rows(span) : prepare_columns(span);
    }

    void weigh(Span span, int64_t t, T* weight) {
        const T* v = static_cast<const T*>(p.vector);
        const int64_t n = span.sources;
        transform(query, at(p.query, span.b, p.targets) + t * p.size, p.size, unit);
        int64_t s = 0;
        for (; s + 4 * lanes<T> <= n; s += 4 * lanes<T>) energies<4>(s, v);
        if (s + 2 * lanes<T> < n) energies<4>(s, v);
        else if (s + lanes<T> < n) energies<2>(s, v);
        else if (s < n) energies<1>(s, v);
        softmax(weight, energy, n);
    }

    void clear_gradients(int64_t b, T* d_shared) {
        clear(at(p.grad_query, b, p.targets), p.targets * p.size);
        clear(at(p.grad_key, b, p.sources), p.sources * p.size);
        clear(d_shared, p.size);
    }

    void pull(Span span, int64_t t, const T* weight, const T* d_weight) {
        const int64_t A = p.size, n = span.sources;
        T* d_query = at(p.grad_query, span.b, p.targets) + t * A;
        transform(query, at(p.query, span.b, p.targets) + t * A, A, unit);
        clear(energy, n);
        softmax_backward(energy, weight, d_weight, n);
        for (int64_t a = 0; a < A; a += lanes<T>) {
            Vec<T> to_query{}, to_vector = load(d_vector + a);
            const Vec<T> q = load(query + a);
            int64_t s = 0;
            for (; s + 4 <= n; s += 4) slopes<4>(q, s, a, to_query, to_vector);
            for (; s < n; s++) slopes<1>(q, s, a, to_query, to_vector);
            store(d_vector + a, to_vector);
            spread(d_query, to_query, a);
        }
    }

    void finish(Span span, T* d_shared) {
        T* d_key = at(p.grad_key, span.b, p.sources);
        for (int64_t s = 0; s < span.sources; s++)
            for (int64_t a = 0; a < p.size; a += lanes<T>) spread(d_key + s * p.size, load(d_keys + s * wide + a), a);
        // The energies' gradients of a step sum to zero, so of tanh = 1 - 2r only r counts.
        for (int64_t a = 0; a < p.size; a++) d_shared[a] = T(-2) * d_vector[a];
    }

private:
    // Added to exp 2(q + k) in place of 1, so that products of four stay far from overflow and underflow.
    static constexpr T unit = sizeof(T) == 4 ? T(0x1p-30) : T(0x1p-250);
    static constexpr T reach = sizeof(T) == 4 ? T(20) : T(170); // of |q| + |k|: four factors exp 40 * unit are finite

    // The first row of a sequence in a tensor with so many steps.
    const T* at(const void* base, int64_t b, int64_t steps) const {
        return static_cast<const T*>(base) + b * steps * p.size;
    }
    T* at(void* base, int64_t b, int64_t steps) const { return static_cast<T*>(base) + b * steps * p.size; }

    // Whether exponentials of this sequence may be multiplied; not if a value is NaN.
    void choose(Span span) {
        auto modulus = [](Vec<T> x) { return x < T(0) ? -x : x; };
        const T most = greatest(at(p.query, span.b, p.targets), span.targets * p.size, modulus);
        by_products = most + greatest(at(p.key, span.b, p.sources), span.sources * p.size, modulus) <= reach;
    }

    // For lanes of steps of the source: [A, S].
    void prepare_columns(Span span) {
        const T *k = at(p.key, span.b, p.sources), *v = static_cast<const T*>(p.vector);
        total = 0;
        for (int64_t a = 0; a < p.size; a++) {
            total += v[a];
            for (int64_t s = 0; s < stride; s++) keys[a * stride + s] = s < span.sources ? k[s * p.size + a] : T(0);
            transform(keys + a * stride, keys + a * stride, stride, T(1));
        }
    }

    // For lanes of units: [S, A].
    void prepare_rows(Span span) {
        clear(d_keys, span.sources * wide);
        clear(d_vector, wide);
        clear(query, wide);
        for (int64_t s = 0; s < span.sources; s++) {
            clear(keys + s * wide, wide);
            transform(keys + s * wide, at(p.key, span.b, p.sources) + s * p.size, p.size, T(1));
        }
    }

    // y = scale * exp 2x if products are used, else x
    void transform(T* y, const T* x, int64_t n, T scale) const {
        if (!by_products) {
            if (y != x) copy(y, x, n);
            return;
        }
        map(y, x, n, [&](Vec<T> value) {
            auto [power, part] = exponential(value * T(2));
            return (power * part + power) * scale;
        });
    }

    // r of a transformed q and the transformed keys from k on, `step` elements apart
    template <int V> INLINE void shares(Vec<T> q, const T* k, int64_t step, Vec<T> (&r)[V]) const {
        if (!by_products) {
            for (int i = 0; i < V; i++) r[i] = T(0.5) - T(0.5) * tanh<T>(q + load(k + i * step));
            return;
        }
        Vec<T> d[V];
        for (int i = 0; i < V; i++) d[i] = unit + q * load(k + i * step);
        if constexpr (V == 4) {
            const Vec<T> first = d[0] * d[1], second = d[2] * d[3], inverse = T(1) / (first * second);
            const Vec<T> one = inverse * second * unit, two = inverse * first * unit;
            r[0] = one * d[1], r[1] = one * d[0], r[2] = two * d[3], r[3] = two * d[2];
        } else if constexpr (V == 2) {
            const Vec<T> inverse = unit / (d[0] * d[1]);
            r[0] = inverse * d[1], r[1] = inverse * d[0];
        } else {
            r[0] = unit / d[0];
        }
    }

    // V vectors of energies from step s of the source on
    template <int V> void energies(int64_t s, const T* v) {
        Vec<T> sums[V] = {}, r[V];
        for (int64_t a = 0; a < p.size; a++) {
            shares<V>(splat(query[a]), keys + a * stride + s, lanes<T>, r);
            for (int i = 0; i < V; i++) sums[i] += v[a] * r[i];
        }
        for (int i = 0; i < V; i++) store(energy + s + i * lanes<T>, total - T(2) * sums[i]);
    }

    // Gradients from V steps of the source, without the factor 4 v_a: r - r^2 is a quarter of the slope of tanh.
    template <int V> INLINE void slopes(Vec<T> q, int64_t s, int64_t a, Vec<T>& to_query, Vec<T>& to_vector) {
        Vec<T> r[V];
        shares<V>(q, keys + s * wide + a, wide, r);
        for (int i = 0; i < V; i++) {
            const Vec<T> part = energy[s + i] * r[i], slope = part - part * r[i];
            T* d = d_keys + (s + i) * wide + a;
            to_vector += part;
            to_query += slope;
            store(d, load(d) + slope);
        }
    }

    // The gradient of a row from its slopes.
    void spread(T* row, Vec<T> slope, int64_t a) const {
        const T* v = static_cast<const T*>(p.vector);
        for (int64_t i = 0; i < lanes<T> && a + i < p.size; i++) row[a + i] = T(4) * v[a + i] * slope[i];
    }

    const autapse_attention& p;
    const bool backward;
    const int64_t wide;          // A in whole vectors
    int64_t stride;              // of the keys
    bool by_products = false;
    T total = 0;                 // of the vector
    T *keys, *query, *energy;    // transformed: [A, S] forward, [S, A] backward; [A]; energies or their gradients [S]
    T *d_keys, *d_vector;        // [S, A], [A]
};

} // namespace
