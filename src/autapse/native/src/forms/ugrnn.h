// c = tanh(u_c + R_c h), g = sigmoid(u_g + R_g h); h' = g h + (1 - g) c.
#pragma once

#include "../form.h"

namespace {

template <class T> struct UpdateGate final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    // reserve: c, g; grads: of both arguments
    UpdateGate(const autapse_scan& problem, Scratch& scratch) : Form<T>(problem, scratch) {
        this->widths(2 * H, 2 * H, 2 * H);
        this->linear(this->in(p.matrix), 2 * H, H);
        this->drive(0, 2 * H, 0);
        this->matrix_gradient(0, 0, 2 * H, Source::previous, 0, H);
    }

    void forward(const Step<T>& s) const override {
        this->linears[0].apply(s.count, s.h_prev, H, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *a = s.work + r * this->work_stride, *h_prev = s.h_prev + r * H;
            T *h = s.h + r * H, *reserve = row(s.reserve, r, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> c = tanh<T>(lane.load(u + j) + lane.load(a + j));
                Vec<T> g = sigmoid<T>(lane.load(u + H + j) + lane.load(a + H + j));
                lane.store(h + j, g * lane.load(h_prev + j) + (T(1) - g) * c);
                if (reserve) {
                    lane.store(reserve + j, c);
                    lane.store(reserve + H + j, g);
                }
            });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t r = 0; r < s.count; r++) {
            const T *reserve = s.reserve + r * this->reserve_columns, *h_prev = s.h_prev + r * H;
            const T* from_output = row(s.grad_h, r, H);
            T *dh = s.dh + r * this->dh_stride, *grads = s.grads + r * this->gradient_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> c = lane.load(reserve + j), g = lane.load(reserve + H + j);
                Vec<T> d = total_gradient(lane, dh, from_output, j);
                lane.store(grads + j, d * (T(1) - g) * (T(1) - c * c));
                lane.store(grads + H + j, d * (lane.load(h_prev + j) - c) * g * (T(1) - g));
                lane.store(dh + j, d * g);
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dh, this->dh_stride, Start::add);
    }
};

} // namespace
