// Additive attention: w_ts = softmax over s of sum_a v_a tanh(q_ta + k_sa), and its gradients.
// The reference is autapse/models/additive.py. Rows of a batch do not interact. No tensor has a value per pair and unit.
//
// tanh(x) = 1 - 2r with r = 1 / (1 + exp 2x), and exp 2(q + k) = exp 2q * exp 2k: one exponential per row of q and k.
// Up to four r come from one division: 1/a = b / (ab). If q + k may be so large that these products overflow, r comes
// from tanh instead.
#pragma once

#include <atomic>

#include "abi.h"
#include "memory.h"
#include "rows.h"
#include "team.h"

namespace {

template <class T> class Additive {
public:
    Additive(const autapse_attention& p, Scratch& scratch, bool backward) : p(p), wide(whole(p.size)) {
        const int64_t across = whole(p.sources) + 3 * lanes<T>; // the last group of four vectors may have three without steps
        stride = backward ? wide : across;
        keys = scratch.take<T>(backward ? p.sources * wide : p.size * across);
        query = scratch.take<T>(wide);
        energy = scratch.take<T>(across);
        if (!backward) return;
        d_keys = scratch.take<T>(p.sources * wide);
        d_vector = scratch.take<T>(wide);
    }

    void forward(int64_t b) {
        const int64_t S = p.sources, steps = targets(b), n = sources(b);
        T* weight = static_cast<T*>(p.weight) + b * p.targets * S;
        clear(weight + (n ? steps * S : 0), (p.targets - (n ? steps : 0)) * S);
        if (!n) return;
        choose(b, steps, n);
        const T *k = at(p.key, b, S), *v = static_cast<const T*>(p.vector);
        T total = 0;
        for (int64_t a = 0; a < p.size; a++) {
            total += v[a];
            for (int64_t s = 0; s < stride; s++) keys[a * stride + s] = s < n ? k[s * p.size + a] : T(0);
            transform(keys + a * stride, keys + a * stride, stride, T(1));
        }
        for (int64_t t = 0; t < steps; t++) {
            transform(query, at(p.query, b, p.targets) + t * p.size, p.size, unit);
            int64_t s = 0;
            for (; s + 4 * lanes<T> <= n; s += 4 * lanes<T>) energies<4>(s, v, total);
            if (s + 2 * lanes<T> < n) energies<4>(s, v, total);
            else if (s + lanes<T> < n) energies<2>(s, v, total);
            else if (s < n) energies<1>(s, v, total);
            softmax(weight + t * S, energy, n);
            clear(weight + t * S + n, S - n);
        }
    }

    // d_shared: [A], this sequence's part of the gradient of the vector
    void backward(int64_t b, T* d_shared) {
        const int64_t A = p.size, S = p.sources, steps = targets(b), n = sources(b);
        T *d_query = static_cast<T*>(p.grad_query) + b * p.targets * A, *d_key = static_cast<T*>(p.grad_key) + b * S * A;
        clear(d_query, p.targets * A);
        clear(d_key, S * A);
        clear(d_shared, A);
        if (!n) return;
        choose(b, steps, n);
        clear(d_keys, n * wide);
        clear(d_vector, wide);
        clear(query, wide);
        for (int64_t s = 0; s < n; s++) {
            clear(keys + s * wide, wide);
            transform(keys + s * wide, at(p.key, b, S) + s * A, A, T(1));
        }
        const T *weight = static_cast<const T*>(p.weight) + b * p.targets * S, *v = static_cast<const T*>(p.vector);
        const T* d_weight = static_cast<const T*>(p.grad_weight) + b * p.targets * S;
        for (int64_t t = 0; t < steps; t++) {
            transform(query, at(p.query, b, p.targets) + t * A, A, unit);
            clear(energy, n);
            softmax_backward(energy, weight + t * S, d_weight + t * S, n);
            for (int64_t a = 0; a < A; a += lanes<T>) {
                Vec<T> to_query{}, to_vector = load(d_vector + a);
                const Vec<T> q = load(query + a);
                int64_t s = 0;
                for (; s + 4 <= n; s += 4) slopes<4>(q, s, a, to_query, to_vector);
                for (; s < n; s++) slopes<1>(q, s, a, to_query, to_vector);
                store(d_vector + a, to_vector);
                finish(d_query + t * A, to_query, v, a);
            }
        }
        for (int64_t s = 0; s < n; s++)
            for (int64_t a = 0; a < A; a += lanes<T>) finish(d_key + s * A, load(d_keys + s * wide + a), v, a);
        // The energies' gradients of a step sum to zero, so of tanh = 1 - 2r only r counts.
        for (int64_t a = 0; a < A; a++) d_shared[a] = T(-2) * d_vector[a];
    }

private:
    // Added to exp 2(q + k) in place of 1, so that products of four stay far from overflow and underflow.
    static constexpr T unit = sizeof(T) == 4 ? T(0x1p-30) : T(0x1p-250);
    static constexpr T reach = sizeof(T) == 4 ? T(20) : T(170); // of |q| + |k|: four factors exp 40 * unit are finite

    static int64_t whole(int64_t n) { return (n + lanes<T> - 1) / lanes<T> * lanes<T>; } // in whole vectors

    // The first row of a sequence in a tensor with so many steps.
    const T* at(const void* base, int64_t b, int64_t steps) const {
        return static_cast<const T*>(base) + b * steps * p.size;
    }
    int64_t targets(int64_t b) const { return p.target_lengths ? p.target_lengths[b] : p.targets; }
    int64_t sources(int64_t b) const { return p.source_lengths ? p.source_lengths[b] : p.sources; }

    // Whether exponentials of this sequence may be multiplied; not if a value is NaN.
    void choose(int64_t b, int64_t steps, int64_t n) {
        auto modulus = [](Vec<T> x) { return x < T(0) ? -x : x; };
        const int64_t A = p.size;
        const T most = steps ? greatest(at(p.query, b, p.targets), steps * A, modulus) : T(0);
        by_products = most + greatest(at(p.key, b, p.sources), n * A, modulus) <= reach;
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
    template <int V> void energies(int64_t s, const T* v, T total) {
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

    void finish(T* row, Vec<T> slope, const T* v, int64_t a) const {
        for (int64_t i = 0; i < lanes<T> && a + i < p.size; i++) row[a + i] = T(4) * v[a + i] * slope[i];
    }

    const autapse_attention& p;
    const int64_t wide;          // A in whole vectors
    int64_t stride;              // of the keys
    bool by_products = false;
    T *keys, *query, *energy;    // transformed: [A, S] forward, [S, A] backward; [A]; energies or their gradients [S]
    T *d_keys, *d_vector;        // [S, A], [A]
};

inline bool lengths_fit(const int64_t* lengths, int64_t count, int64_t most) {
    for (int64_t b = 0; lengths && b < count; b++)
        if (lengths[b] < 0 || lengths[b] > most) return false;
    return true;
}

template <class T> int run_additive(const autapse_attention& p, bool backward) {
    if (!lengths_fit(p.target_lengths, p.batch, p.targets) || !lengths_fit(p.source_lengths, p.batch, p.sources))
        return AUTAPSE_MALFORMED;
    static thread_local Scratch shared;
    shared.begin();
    T* parts = backward ? shared.take<T>(p.batch * p.size) : nullptr; // [B, A], summed in one order
    std::atomic<bool> failed{shared.failed};
    if (failed) return AUTAPSE_NO_MEMORY;
    const double work = double(p.batch) * p.targets * p.sources * p.size * (backward ? 4 : 2);
    in_parallel(threads_for(work, p.threads), [&](Team team) {
        static thread_local Scratch scratch;
        scratch.begin();
        Additive<T> attention(p, scratch, backward);
        if (scratch.failed) {
            failed = true;
            return;
        }
        // Every n-th sequence: if they are sorted by length, each thread still has about the same work.
        for (int64_t b = team.index; b < p.batch; b += team.count)
            backward ? attention.backward(b, parts + b * p.size) : attention.forward(b);
    });
    if (failed) return AUTAPSE_NO_MEMORY;
    if (backward) {
        T* total = static_cast<T*>(p.grad_vector);
        clear(total, p.size);
        for (int64_t b = 0; b < p.batch; b++) add(total, T(1), parts + b * p.size, p.size);
    }
    return AUTAPSE_DONE;
}

} // namespace
