// The heads of an explicit memory in one step: addresses by content and location, erase and add, reads.
// The reference is autapse/cells/heads.py. Rows of a batch do not interact.
#pragma once

#include <atomic>
#include <cmath>

#include "memory.h"
#include "rows.h"
#include "team.h"

namespace {

// log x for normal x: x = 2^e m with m from 1/sqrt 2 to sqrt 2, and log m = 2 atanh((m - 1)/(m + 1)) by its series.
template <class T> INLINE Vec<T> logarithm(Vec<T> x) {
    constexpr int digits = sizeof(T) == 4 ? 23 : 52, terms = sizeof(T) == 4 ? 6 : 12;
    const Bits<T> fraction = (Bits<T>(1) << digits) - 1;
    const Bits<T> half = sizeof(T) == 4 ? Bits<T>(0x3f3504f3) : Bits<T>(0x3fe6a09e667f3bcd); // 1/sqrt 2
    IntVec<T> bits = (IntVec<T>)x, moved = bits - half;
    IntVec<T> power = moved >> digits;
    Vec<T> m = (Vec<T>)((moved & fraction) + half);
    Vec<T> e = __builtin_convertvector(power, Vec<T>);
    Vec<T> s = (m - T(1)) / (m + T(1)), z = s * s, series = splat(T(1) / (2 * terms + 1));
    for (int k = terms - 1; k >= 0; k--) series = series * z + T(1) / (2 * k + 1);
    Vec<T> value = e * T(0.693147180559945309) + T(2) * s * series;
    return x != x ? x : value;
}

inline double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

template <class T> class Heads {
public:
    Heads(const autapse_heads& problem, Scratch& scratch)
        : p(problem), heads(p.reads + p.writes), changed(p.writes * p.width), kinds(2 * p.shifts + 1) {
        const bool content = p.content, location = p.location;
        vectors = (content ? heads * p.width : 0) + changed;
        positives = heads * (content + location);
        gates = (content && location ? heads : 0) + changed;
        numbers = vectors + positives + gates + (location ? heads * kinds : 0);
        for (T** buffer : {&similar, &by_content, &mixed, &moved, &logs, &d_address, &d_other})
            *buffer = scratch.take<T>(heads * p.slots);
        for (T** buffer : {&number, &d_number}) *buffer = scratch.take<T>(numbers);
        norm = scratch.take<T>(p.slots);
        key_norm = scratch.take<T>(heads);
        d_memory = scratch.take<T>(p.slots * p.width);
        around = scratch.take<T>(p.slots + 2 * p.shifts);
        kept = scratch.take<T>(p.width);
    }

    void forward(int64_t b) {
        const T* memory = at(p.memory, b, p.slots * p.width);
        T* address = at(p.new_address, b, heads * p.slots);
        T* written = at(p.new_memory, b, p.slots * p.width);
        T* reads = at(p.read, b, p.reads * p.width);
        activate(b);
        find(memory, at(p.address, b, heads * p.slots), address);
        clear(reads, p.reads * p.width);
        for (int64_t i = 0; i < p.slots; i++) {
            write(memory + i * p.width, written + i * p.width, address, i);
            for (int64_t h = 0; h < p.reads; h++)
                add(reads + h * p.width, address[h * p.slots + i], written + i * p.width, p.width);
        }
    }

    void backward(int64_t b) {
        const int64_t W = p.width, cells = p.slots * W;
        const T* memory = at(p.memory, b, cells);
        const T *before = at(p.address, b, heads * p.slots), *address = at(p.new_address, b, heads * p.slots);
        const T *written = at(p.new_memory, b, cells), *d_reads = at(p.grad_read, b, p.reads * W);
        T *d_old = at(p.grad_memory, b, cells), *d_before = at(p.grad_address, b, heads * p.slots);
        activate(b);
        find(memory, before, nullptr);
        clear(d_number, numbers);
        clear(d_before, heads * p.slots);
        start(d_memory, at(p.grad_new_memory, b, cells), cells);
        start(d_address, at(p.grad_new_address, b, heads * p.slots), heads * p.slots);
        if (d_reads)
            for (int64_t i = 0; i < p.slots; i++)
                for (int64_t h = 0; h < p.reads; h++) {
                    d_address[h * p.slots + i] += dot(d_reads + h * W, written + i * W, W);
                    add(d_memory + i * W, address[h * p.slots + i], d_reads + h * W, W);
                }
        for (int64_t i = 0; i < p.slots; i++) write_backward(memory + i * W, d_old + i * W, address, i);
        find_backward(memory, before, address, d_old, d_before);
        activate_backward(at(p.grad_number, b, numbers));
    }

private:
    template <class P> auto at(P* base, int64_t b, int64_t width) const {
        using Element = std::conditional_t<std::is_const_v<P>, const T, T>;
        return base ? static_cast<Element*>(base) + b * width : nullptr;
    }

    void start(T* to, const T* from, int64_t n) const { from ? copy(to, from, n) : clear(to, n); }

    // The parts of the heads' numbers, and of their gradients.
    T* key(T* all, int64_t h) const { return all + h * p.width; }
    T* added(T* all, int64_t j) const { return all + vectors - changed + j * p.width; }
    T* sharpness(T* all) const { return all + vectors; }
    T* exponent(T* all) const { return all + vectors + positives - heads; }
    T* gate(T* all) const { return all + vectors + positives; }
    T* erased(T* all, int64_t j) const { return all + vectors + positives + gates - changed + j * p.width; }
    template <class P> P* moves(P* all, int64_t h) const { return all + vectors + positives + gates + h * kinds; }

    void activate(int64_t b) {
        const T* raw = at(p.number, b, numbers);
        map(number, raw, vectors, [](Vec<T> x) { return tanh<T>(x); });
        for (int64_t j = vectors; j < vectors + positives; j++) number[j] = T(softplus(raw[j]));
        if (p.location)
            for (int64_t h = 0; h < heads; h++) exponent(number)[h] += 1;
        map(number + vectors + positives, raw + vectors + positives, gates, [](Vec<T> x) { return sigmoid<T>(x); });
        if (p.location)
            for (int64_t h = 0; h < heads; h++) softmax(moves(number, h), moves(raw, h), kinds);
    }

    void activate_backward(T* result) {
        for (int64_t j = 0; j < vectors; j++) result[j] = d_number[j] * (1 - number[j] * number[j]);
        // d softplus = 1 - exp(-softplus); the exponents are 1 + softplus
        for (int64_t j = vectors; j < vectors + positives; j++) {
            const T one = p.location && j >= vectors + positives - heads ? T(1) : T(0);
            result[j] = d_number[j] * -std::expm1(-(number[j] - one));
        }
        for (int64_t j = vectors + positives; j < vectors + positives + gates; j++)
            result[j] = d_number[j] * number[j] * (1 - number[j]);
        if (!p.location) return;
        clear(moves(result, 0), heads * kinds);
        for (int64_t h = 0; h < heads; h++) softmax_backward(moves(result, h), moves(number, h), moves(d_number, h), kinds);
    }

    // The addresses of all heads; all that its backward pass needs stays in the buffers. Writes nothing to a null.
    void find(const T* memory, const T* before, T* address) {
        if (p.content) compare(memory);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t first = h * p.slots;
            const T* w = before + first;
            if (p.content) {
                map(logs + first, similar + first, p.slots, [&](Vec<T> c) { return c * sharpness(number)[h]; });
                softmax(by_content + first, logs + first, p.slots);
                w = by_content + first;
            }
            if (!p.location) {
                if (address) copy(address + first, w, p.slots);
                continue;
            }
            const T g = p.content ? gate(number)[h] : T(0);
            each<T>(p.slots, [&](auto lane, int64_t i) {
                const Vec<T> old = lane.load(before + first + i);
                lane.store(mixed + first + i, old + g * (lane.load(w + i) - old));
            });
            surround(mixed + first);
            clear(moved + first, p.slots);
            for (int64_t m = 0; m < kinds; m++) add(moved + first, moves(number, h)[m], around + m, p.slots);
            const T smallest = T(p.smallest), gamma = exponent(number)[h];
            map(logs + first, moved + first, p.slots, [&](Vec<T> v) {
                return logarithm<T>(v < smallest ? splat(smallest) : v);
            });
            if (!address) continue;
            map(address + first, logs + first, p.slots, [&](Vec<T> l) { return l * gamma; });
            softmax(address + first, address + first, p.slots);
        }
    }

    // The circle of slots as a line, with the ends repeated.
    void surround(const T* w) {
        copy(around, w + p.slots - p.shifts, p.shifts);
        copy(around + p.shifts, w, p.slots);
        copy(around + p.shifts + p.slots, w, p.shifts);
    }

    void compare(const T* memory) {
        const int64_t W = p.width;
        for (int64_t h = 0; h < heads; h++)
            key_norm[h] = p.dot ? T(1) : T(1) / std::sqrt(dot(key(number, h), key(number, h), W) + T(p.shortest));
        for (int64_t i = 0; i < p.slots; i++) {
            const T* slot = memory + i * W;
            norm[i] = p.dot ? T(1) : T(1) / std::sqrt(dot(slot, slot, W) + T(p.shortest));
            for (int64_t h = 0; h < heads; h++)
                similar[h * p.slots + i] = dot(key(number, h), slot, W) * (norm[i] * key_norm[h]);
        }
    }

    void find_backward(const T* memory, const T* before, const T* address, T* d_old, T* d_before) {
        for (int64_t h = 0; h < heads; h++) {
            const int64_t first = h * p.slots;
            T *dw = d_address + first, *other = d_other + first;
            if (p.location) {
                move_backward(h, address + first);
                const T g = p.content ? gate(number)[h] : T(0);
                each<T>(p.slots, [&](auto lane, int64_t i) {
                    lane.store(d_before + first + i, (T(1) - g) * lane.load(dw + i));
                });
                if (!p.content) continue;
                gate(d_number)[h] = dot(dw, by_content + first, p.slots) - dot(dw, before + first, p.slots);
                map(dw, dw, p.slots, [&](Vec<T> v) { return v * g; });
            }
            clear(other, p.slots);
            softmax_backward(other, by_content + first, dw, p.slots);
            sharpness(d_number)[h] = dot(other, similar + first, p.slots);
            map(other, other, p.slots, [&](Vec<T> v) { return v * sharpness(number)[h]; });
        }
        if (p.content) compare_backward(memory, d_old);
    }

    // From the gradient of a head's address, in d_address, to that before the shift.
    void move_backward(int64_t h, const T* w) {
        const int64_t first = h * p.slots;
        T *dw = d_address + first, *other = d_other + first;
        clear(other, p.slots);
        softmax_backward(other, w, dw, p.slots);
        exponent(d_number)[h] = dot(other, logs + first, p.slots);
        const T gamma = exponent(number)[h], smallest = T(p.smallest);
        each<T>(p.slots, [&](auto lane, int64_t i) {
            const Vec<T> v = lane.load(moved + first + i);
            lane.store(other + i, v < smallest ? Vec<T>{} : lane.load(other + i) * gamma / v);
        });
        surround(mixed + first);
        for (int64_t m = 0; m < kinds; m++) moves(d_number, h)[m] = dot(other, around + m, p.slots);
        surround(other);
        clear(dw, p.slots);
        for (int64_t m = 0; m < kinds; m++) add(dw, moves(number, h)[kinds - 1 - m], around + m, p.slots);
    }

    void compare_backward(const T* memory, T* d_old) {
        const int64_t W = p.width;
        for (int64_t h = 0; h < heads && !p.dot; h++) {
            const T pull = dot(d_other + h * p.slots, similar + h * p.slots, p.slots);
            add(key(d_number, h), -pull * key_norm[h] * key_norm[h], key(number, h), W);
        }
        for (int64_t i = 0; i < p.slots; i++) {
            T pull = 0;
            for (int64_t h = 0; h < heads; h++) {
                const T d = d_other[h * p.slots + i], scale = d * (norm[i] * key_norm[h]);
                add(key(d_number, h), scale, memory + i * W, W);
                add(d_old + i * W, scale, key(number, h), W);
                pull += d * similar[h * p.slots + i];
            }
            if (!p.dot) add(d_old + i * W, -pull * norm[i] * norm[i], memory + i * W, W);
        }
    }

    // written = slot * product of (1 - w e) + sum of w a, over the write heads
    void write(const T* slot, T* written, const T* address, int64_t i) {
        each<T>(p.width, [&](auto lane, int64_t v) {
            Vec<T> value = lane.load(slot + v);
            for (int64_t j = 0; j < p.writes; j++)
                value *= T(1) - address[(p.reads + j) * p.slots + i] * lane.load(erased(number, j) + v);
            for (int64_t j = 0; j < p.writes; j++)
                value += address[(p.reads + j) * p.slots + i] * lane.load(added(number, j) + v);
            lane.store(written + v, value);
        });
    }

    void write_backward(const T* slot, T* d_slot, const T* address, int64_t i) {
        const T* d = d_memory + i * p.width;
        for (int64_t j = 0; j < p.writes; j++) {
            const T w = address[(p.reads + j) * p.slots + i];
            others(address, i, j);
            Vec<T> total{};
            each<T>(p.width, [&](auto lane, int64_t v) {
                const Vec<T> g = lane.load(d + v), e = lane.load(erased(number, j) + v);
                const Vec<T> factor = g * lane.load(slot + v) * lane.load(kept + v); // derivative by 1 - w e
                total += g * lane.load(added(number, j) + v) - factor * e;
                T *da = added(d_number, j) + v, *de = erased(d_number, j) + v;
                lane.store(da, lane.load(da) + w * g);
                lane.store(de, lane.load(de) - w * factor);
                if (j == 0) lane.store(d_slot + v, g * lane.load(kept + v) * (T(1) - w * e));
            });
            d_address[(p.reads + j) * p.slots + i] += sum<T>(total);
        }
    }

    // kept = product of (1 - w e) over the write heads other than j
    void others(const T* address, int64_t i, int64_t j) {
        std::fill(kept, kept + p.width, T(1));
        for (int64_t k = 0; k < p.writes; k++) {
            if (k == j) continue;
            const T w = address[(p.reads + k) * p.slots + i];
            each<T>(p.width, [&](auto lane, int64_t v) {
                lane.store(kept + v, lane.load(kept + v) * (T(1) - w * lane.load(erased(number, k) + v)));
            });
        }
    }

    const autapse_heads& p;
    const int64_t heads, changed, kinds;
    int64_t vectors, positives, gates, numbers;
    T *similar, *by_content, *mixed, *moved, *logs, *d_address, *d_other; // [heads, slots]
    T *number, *d_number;                                                // [numbers]
    T *norm, *key_norm;                                                  // [slots], [heads]
    T *d_memory, *around, *kept;                                         // [slots, width], [slots + 2 shifts], [width]
};

template <class T> int run_heads(const autapse_heads& p, bool backward) {
    const int64_t rows = p.batch;
    std::atomic<bool> failed{false};
    const double work = double(rows) * p.slots * (p.reads + p.writes) * (8 * p.width + 64) * (backward ? 3 : 1);
    in_parallel(threads_for(work, p.threads), [&](Team team) {
        static thread_local Scratch scratch;
        scratch.begin();
        Heads<T> heads(p, scratch);
        if (scratch.failed) {
            failed = true;
            return;
        }
        for (int64_t b = team.from(rows); b < team.to(rows); b++) backward ? heads.backward(b) : heads.forward(b);
    });
    return failed ? AUTAPSE_NO_MEMORY : AUTAPSE_DONE;
}

} // namespace
