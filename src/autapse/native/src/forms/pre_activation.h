// s' = alpha * (u + R act(s)) + beta * s, where s is the state.
#pragma once

#include "../form.h"

namespace {

template <class T, class Act> struct PreActivation final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    const T *alpha, *beta;

    // reserve: y = act(s), v = u + R y; grads: of v, alpha and beta; work: R y, y
    PreActivation(const autapse_scan& problem, Scratch& scratch)
        : Form<T>(problem, scratch), alpha(this->in(problem.alpha)), beta(this->in(problem.beta)) {
        this->linear(this->in(p.matrix), H, H);
        this->widths(2 * padded<T>(H), 2 * H, 3 * H);
        this->drive(0, H, 0);
        this->matrix_gradient(0, 0, H, Source::reserve, 0, H);
        if (p.grad_alpha) this->totals.add({this->out(p.grad_alpha), H, H});
        if (p.grad_beta) this->totals.add({this->out(p.grad_beta), 2 * H, H});
    }

    void forward(const Step<T>& s) const override {
        T* y = s.reserve ? s.reserve : s.work + padded<T>(H);
        const int64_t y_stride = s.reserve ? this->reserve_columns : this->work_stride;
        for (int64_t r = 0; r < s.count; r++)
            each<T>(H, [&](auto lane, int64_t j) {
                lane.store(y + r * y_stride + j, Act::template value<T>(lane.load(s.h_prev + r * H + j)));
            });
        this->linears[0].apply(s.count, y, y_stride, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *a = s.work + r * this->work_stride, *s_prev = s.h_prev + r * H;
            T *to = s.h + r * H, *reserve = row(s.reserve, r, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> v = lane.load(u + j) + lane.load(a + j);
                if (reserve) lane.store(reserve + H + j, v);
                lane.store(to + j, lane.load(alpha + j) * v + lane.load(beta + j) * lane.load(s_prev + j));
            });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t r = 0; r < s.count; r++) {
            const T *v = s.reserve + r * this->reserve_columns + H, *s_prev = s.h_prev + r * H;
            const T *dh = s.dh + r * this->dh_stride, *from_output = row(s.grad_h, r, H);
            T *grads = s.grads + r * this->gradient_stride, *held = s.work + r * this->work_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> d = total_gradient(lane, dh, from_output, j);
                lane.store(grads + j, d * lane.load(alpha + j));
                lane.store(grads + H + j, d * lane.load(v + j));
                lane.store(grads + 2 * H + j, d * lane.load(s_prev + j));
                lane.store(held + j, d * lane.load(beta + j));
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dh, this->dh_stride, Start::zero);
        for (int64_t r = 0; r < s.count; r++) {
            const T *y = s.reserve + r * this->reserve_columns, *held = s.work + r * this->work_stride;
            T* dh = s.dh + r * this->dh_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> slope = Act::template slope<T>(lane.load(y + j));
                lane.store(dh + j, lane.load(dh + j) * slope + lane.load(held + j));
            });
        }
    }
};

} // namespace
