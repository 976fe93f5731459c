// h' = modrelu(u + R h; b) with modrelu(a; b) = a / |a| max(0, |a| + b). The state has the real parts of n = H / 2 complex
// numbers, then their imaginary parts; so have the drive and the rows and columns of R.
#pragma once

#include <cmath>

#include "../form.h"

namespace {

template <class T> INLINE Vec<T> square_root(Vec<T> x) {
    alignas(vector_bytes) T values[lanes<T>]; // compilers turn the loop into one instruction
    store(values, x);
    for (int i = 0; i < lanes<T>; i++) values[i] = std::sqrt(values[i]);
    return load(values);
}

template <class T> struct ComplexModulus final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    const int64_t n;
    const T* threshold;

    // reserve: a = u + R h; grads: of a, then of the threshold
    ComplexModulus(const autapse_scan& problem, Scratch& scratch)
        : Form<T>(problem, scratch), n(problem.hidden / 2), threshold(this->in(problem.offset)) {
        this->widths(H, H, H + n);
        this->linear(this->in(p.matrix), H, H);
        this->drive(0, H, 0);
        this->matrix_gradient(0, 0, H, Source::previous, 0, H);
        if (p.grad_offset) this->totals.add({this->out(p.grad_offset), H, n});
    }

    // The direction of a complex number, its modulus after modrelu, and the quotient of both moduli; 0 for the number 0.
    struct Polar {
        Vec<T> x, y, modulus, scale;
    };
    template <class Lane> INLINE Polar polar(Lane lane, Vec<T> re, Vec<T> im, int64_t j) const {
        const Vec<T> square = re * re + im * im, zero = {};
        const Vec<T> before = square_root<T>(square > T(0) ? square : splat(T(1)));
        Vec<T> modulus = threshold ? before + lane.load(threshold + j) : before;
        modulus = (square > T(0)) & (modulus > T(0)) ? modulus : zero;
        return {re / before, im / before, modulus, modulus / before};
    }

    void forward(const Step<T>& s) const override {
        this->linears[0].apply(s.count, s.h_prev, H, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *a = s.work + r * this->work_stride;
            T *h = s.h + r * H, *reserve = row(s.reserve, r, this->reserve_columns);
            each<T>(n, [&](auto lane, int64_t j) {
                Vec<T> re = lane.load(u + j) + lane.load(a + j), im = lane.load(u + n + j) + lane.load(a + n + j);
                const Polar z = polar(lane, re, im, j);
                lane.store(h + j, re * z.scale);
                lane.store(h + n + j, im * z.scale);
                if (reserve) {
                    lane.store(reserve + j, re);
                    lane.store(reserve + n + j, im);
                }
            });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t r = 0; r < s.count; r++) {
            const T *a = s.reserve + r * this->reserve_columns, *from_output = row(s.grad_h, r, H);
            T *dh = s.dh + r * this->dh_stride, *grads = s.grads + r * this->gradient_stride;
            each<T>(n, [&](auto lane, int64_t j) {
                const Polar z = polar(lane, lane.load(a + j), lane.load(a + n + j), j);
                Vec<T> re = total_gradient(lane, dh, from_output, j), im = total_gradient(lane, dh, from_output, n + j);
                // The modulus grows by 1, what is across the direction by the scale.
                Vec<T> along = z.modulus > T(0) ? re * z.x + im * z.y : Vec<T>{};
                lane.store(grads + j, z.scale * re + (T(1) - z.scale) * along * z.x);
                lane.store(grads + n + j, z.scale * im + (T(1) - z.scale) * along * z.y);
                lane.store(grads + H + j, along);
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dh, this->dh_stride, Start::zero);
    }
};

} // namespace
