// r = sigmoid(u_r + R_r h + b_r), z = sigmoid(u_z + R_z h + b_z); h' = n + z (h - n), where
// n = tanh(u_n + r (R_n h + b_n)) with the reset after the product, n = tanh(u_n + R_n (r h) + b_n) with it before,
// n = modrelu(u_n + r R_n h; m) without b for the gated orthogonal unit.
#pragma once

#include "../form.h"

namespace {

// A row plus a bias, if there is one.
template <class T, class Lane> INLINE Vec<T> biased(Lane lane, const T* a, const T* bias, int64_t j) {
    return bias ? lane.load(a + j) + lane.load(bias + j) : lane.load(a + j);
}

template <class T, class Act> struct ResetAfter final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    static constexpr bool thresholded = std::is_same_v<Act, ModRelu>;
    const T *bias, *threshold;

    // reserve: r, z, n, R_n h + b_n; grads: of r's, z's and the inner argument, of u_n, then of the threshold
    ResetAfter(const autapse_scan& problem, Scratch& scratch)
        : Form<T>(problem, scratch), bias(thresholded ? nullptr : this->in(problem.offset)),
          threshold(thresholded ? this->in(problem.offset) : nullptr) {
        this->widths(3 * H, 4 * H, thresholded ? 5 * H : 4 * H);
        this->linear(this->in(p.matrix), 3 * H, H);
        this->drive(0, 2 * H, 0);
        this->drive(2 * H, H, 3 * H);
        this->matrix_gradient(0, 0, 3 * H, Source::previous, 0, H);
        if (p.grad_offset)
            this->totals.add({this->out(p.grad_offset), thresholded ? 4 * H : 0, thresholded ? H : 3 * H});
    }

    template <class Lane> INLINE Vec<T> activate(Lane lane, Vec<T> a, int64_t j) const {
        if constexpr (thresholded) return Act::template value<T>(a, threshold ? lane.load(threshold + j) : Vec<T>{});
        else return Act::template value<T>(a);
    }

    void forward(const Step<T>& s) const override {
        this->linears[0].apply(s.count, s.h_prev, H, s.work, this->work_stride);
        for (int64_t i = 0; i < s.count; i++) {
            const T *u = s.u + i * s.u_stride, *a = s.work + i * this->work_stride, *h_prev = s.h_prev + i * H;
            T *h = s.h + i * H, *reserve = row(s.reserve, i, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> r = sigmoid<T>(lane.load(u + j) + biased(lane, a, bias, j));
                Vec<T> z = sigmoid<T>(lane.load(u + H + j) + biased(lane, a, bias, H + j));
                Vec<T> inner = biased(lane, a, bias, 2 * H + j);
                Vec<T> n = activate(lane, lane.load(u + 2 * H + j) + r * inner, j);
                lane.store(h + j, n + z * (lane.load(h_prev + j) - n));
                if (reserve) {
                    lane.store(reserve + j, r);
                    lane.store(reserve + H + j, z);
                    lane.store(reserve + 2 * H + j, n);
                    lane.store(reserve + 3 * H + j, inner);
                }
            });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t i = 0; i < s.count; i++) {
            const T *reserve = s.reserve + i * this->reserve_columns, *h_prev = s.h_prev + i * H;
            const T* from_output = row(s.grad_h, i, H);
            T *dh = s.dh + i * this->dh_stride, *grads = s.grads + i * this->gradient_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> r = lane.load(reserve + j), z = lane.load(reserve + H + j), n = lane.load(reserve + 2 * H + j);
                Vec<T> d = total_gradient(lane, dh, from_output, j);
                Vec<T> dn = d * (T(1) - z) * Act::template slope<T>(n);
                lane.store(grads + j, dn * lane.load(reserve + 3 * H + j) * r * (T(1) - r));
                lane.store(grads + H + j, d * (lane.load(h_prev + j) - n) * z * (T(1) - z));
                lane.store(grads + 2 * H + j, dn * r);
                lane.store(grads + 3 * H + j, dn);
                if constexpr (thresholded) lane.store(grads + 4 * H + j, dn * sign<T>(n));
                lane.store(dh + j, d * z);
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dh, this->dh_stride, Start::add);
    }
};

template <class T> struct ResetBefore final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    const T* bias;

    // reserve: r, z, n; grads: of the three arguments, then r h, which R_n acts on
    ResetBefore(const autapse_scan& problem, Scratch& scratch) : Form<T>(problem, scratch), bias(this->in(problem.offset)) {
        this->widths(padded<T>(2 * H) + padded<T>(H), 3 * H, 4 * H);
        this->linear(this->in(p.matrix), 2 * H, H);
        this->linear(this->in(p.matrix) + 2 * H * H, H, H);
        this->drive(0, 3 * H, 0);
        this->matrix_gradient(0, 0, 2 * H, Source::previous, 0, H);
        this->matrix_gradient(2 * H * H, 2 * H, H, Source::grads, 3 * H, H);
        if (p.grad_offset) this->totals.add({this->out(p.grad_offset), 0, 3 * H});
    }

    void forward(const Step<T>& s) const override {
        T *gates = s.work, *candidate = s.work + padded<T>(2 * H); // r h overwrites r's argument, z overwrites z's
        this->linears[0].apply(s.count, s.h_prev, H, gates, this->work_stride);
        for (int64_t i = 0; i < s.count; i++) {
            const T *u = s.u + i * s.u_stride, *h_prev = s.h_prev + i * H;
            T *a = gates + i * this->work_stride, *reserve = row(s.reserve, i, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> r = sigmoid<T>(biased(lane, u, bias, j) + lane.load(a + j));
                Vec<T> z = sigmoid<T>(biased(lane, u, bias, H + j) + lane.load(a + H + j));
                if (reserve) {
                    lane.store(reserve + j, r);
                    lane.store(reserve + H + j, z);
                }
                lane.store(a + j, r * lane.load(h_prev + j));
                lane.store(a + H + j, z);
            });
        }
        this->linears[1].apply(s.count, gates, this->work_stride, candidate, this->work_stride);
        for (int64_t i = 0; i < s.count; i++) {
            const T *u = s.u + i * s.u_stride, *a = candidate + i * this->work_stride, *h_prev = s.h_prev + i * H;
            const T* gate = gates + i * this->work_stride + H;
            T *h = s.h + i * H, *reserve = row(s.reserve, i, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> n = tanh<T>(biased(lane, u, bias, 2 * H + j) + lane.load(a + j));
                if (reserve) lane.store(reserve + 2 * H + j, n);
                lane.store(h + j, n + lane.load(gate + j) * (lane.load(h_prev + j) - n));
            });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t i = 0; i < s.count; i++) {
            const T *reserve = s.reserve + i * this->reserve_columns, *h_prev = s.h_prev + i * H;
            const T* from_output = row(s.grad_h, i, H);
            T *dh = s.dh + i * this->dh_stride, *grads = s.grads + i * this->gradient_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> z = lane.load(reserve + H + j), n = lane.load(reserve + 2 * H + j);
                Vec<T> d = total_gradient(lane, dh, from_output, j), h = lane.load(h_prev + j);
                lane.store(grads + H + j, d * (h - n) * z * (T(1) - z));
                lane.store(grads + 2 * H + j, d * (T(1) - z) * (T(1) - n * n));
                lane.store(grads + 3 * H + j, lane.load(reserve + j) * h);
                lane.store(dh + j, d * z);
            });
        }
        this->linears[1].back(s.count, s.grads + 2 * H, this->gradient_stride, s.work, this->work_stride, Start::zero);
        for (int64_t i = 0; i < s.count; i++) {
            const T *reserve = s.reserve + i * this->reserve_columns, *h_prev = s.h_prev + i * H;
            const T* product = s.work + i * this->work_stride;
            T *dh = s.dh + i * this->dh_stride, *grads = s.grads + i * this->gradient_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> r = lane.load(reserve + j), d = lane.load(product + j);
                lane.store(grads + j, d * lane.load(h_prev + j) * r * (T(1) - r));
                lane.store(dh + j, lane.load(dh + j) + d * r);
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dh, this->dh_stride, Start::add);
    }
};

} // namespace
