// f = sigmoid(u_f + R_f h), i = sigmoid(u_i + R_i h); h' = f tanh(h) + i tanh(u_c).
#pragma once

#include "../form.h"

namespace {

template <class T> struct ChaosFree final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    // reserve: f, i, tanh(h), tanh(u_c); grads: of both arguments, then of u_c
    ChaosFree(const autapse_scan& problem, Scratch& scratch) : Form<T>(problem, scratch) {
        this->widths(2 * H, 4 * H, 3 * H);
        this->linear(this->in(p.matrix), 2 * H, H);
        this->drive(0, 3 * H, 0);
        this->matrix_gradient(0, 0, 2 * H, Source::previous, 0, H);
    }

    void forward(const Step<T>& s) const override {
        this->linears[0].apply(s.count, s.h_prev, H, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *a = s.work + r * this->work_stride, *h_prev = s.h_prev + r * H;
            T *h = s.h + r * H, *reserve = row(s.reserve, r, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> f = sigmoid<T>(lane.load(u + j) + lane.load(a + j));
                Vec<T> i = sigmoid<T>(lane.load(u + H + j) + lane.load(a + H + j));
                Vec<T> kept = tanh<T>(lane.load(h_prev + j)), c = tanh<T>(lane.load(u + 2 * H + j));
                lane.store(h + j, f * kept + i * c);
                if (reserve) {
                    lane.store(reserve + j, f);
                    lane.store(reserve + H + j, i);
                    lane.store(reserve + 2 * H + j, kept);
                    lane.store(reserve + 3 * H + j, c);
                }
            });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t r = 0; r < s.count; r++) {
            const T *reserve = s.reserve + r * this->reserve_columns, *from_output = row(s.grad_h, r, H);
            T *dh = s.dh + r * this->dh_stride, *grads = s.grads + r * this->gradient_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> f = lane.load(reserve + j), i = lane.load(reserve + H + j);
                Vec<T> kept = lane.load(reserve + 2 * H + j), c = lane.load(reserve + 3 * H + j);
                Vec<T> d = total_gradient(lane, dh, from_output, j);
                lane.store(grads + j, d * kept * f * (T(1) - f));
                lane.store(grads + H + j, d * c * i * (T(1) - i));
                lane.store(grads + 2 * H + j, d * i * (T(1) - c * c));
                lane.store(dh + j, d * f * (T(1) - kept * kept));
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dh, this->dh_stride, Start::add);
    }
};

} // namespace
