// c = tanh(u_c + R_c h), g = sigmoid(u_g + R_g h); h' = g h + (1 - g) c
// k = max(0, u_k + R_k h), q = sigmoid(u_q + R_q h); y' = q v + (1 - q) k, where v is the last part of the drive.
#pragma once

#include "../form.h"

namespace {

// The driver's h is the output y, which no step reads, and its c is the state h.
template <class T> struct Crossing final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    // reserve: c, g, k, q, v, h; grads: of the four arguments and of v
    Crossing(const autapse_scan& problem, Scratch& scratch) : Form<T>(problem, scratch) {
        this->widths(4 * H, 6 * H, 5 * H);
        this->linear(this->in(p.matrix), 4 * H, H);
        this->drive(0, 5 * H, 0);
        this->matrix_gradient(0, 0, 4 * H, Source::reserve, 5 * H, H);
    }

    void forward(const Step<T>& s) const override {
        this->linears[0].apply(s.count, s.c_prev, H, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *a = s.work + r * this->work_stride, *h_prev = s.c_prev + r * H;
            T *y = s.h + r * H, *h = s.c + r * H, *reserve = row(s.reserve, r, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> c = tanh<T>(lane.load(u + j) + lane.load(a + j)), before = lane.load(h_prev + j);
                Vec<T> g = sigmoid<T>(lane.load(u + H + j) + lane.load(a + H + j));
                Vec<T> k = Relu::value<T>(lane.load(u + 2 * H + j) + lane.load(a + 2 * H + j));
                Vec<T> q = sigmoid<T>(lane.load(u + 3 * H + j) + lane.load(a + 3 * H + j)), v = lane.load(u + 4 * H + j);
                lane.store(h + j, g * before + (T(1) - g) * c);
                lane.store(y + j, q * v + (T(1) - q) * k);
                if (reserve) {
                    lane.store(reserve + j, c);
                    lane.store(reserve + H + j, g);
                    lane.store(reserve + 2 * H + j, k);
                    lane.store(reserve + 3 * H + j, q);
                    lane.store(reserve + 4 * H + j, v);
                    lane.store(reserve + 5 * H + j, before);
                }
            });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t r = 0; r < s.count; r++) {
            const T* reserve = s.reserve + r * this->reserve_columns;
            const T *grad_y = row(s.grad_h, r, H), *grad_h = row(s.grad_c, r, H);
            T *dy = s.dh + r * this->dh_stride, *dh = s.dc + r * this->dc_stride;
            T* grads = s.grads + r * this->gradient_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> c = lane.load(reserve + j), g = lane.load(reserve + H + j), k = lane.load(reserve + 2 * H + j);
                Vec<T> q = lane.load(reserve + 3 * H + j), v = lane.load(reserve + 4 * H + j);
                Vec<T> d = total_gradient(lane, dh, grad_h, j), e = total_gradient(lane, dy, grad_y, j);
                lane.store(grads + j, d * (T(1) - g) * (T(1) - c * c));
                lane.store(grads + H + j, d * (lane.load(reserve + 5 * H + j) - c) * g * (T(1) - g));
                lane.store(grads + 2 * H + j, e * (T(1) - q) * Relu::slope<T>(k));
                lane.store(grads + 3 * H + j, e * (v - k) * q * (T(1) - q));
                lane.store(grads + 4 * H + j, e * q);
                lane.store(dh + j, d * g);
                lane.store(dy + j, Vec<T>{});
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dc, this->dc_stride, Start::add);
    }
};

} // namespace
