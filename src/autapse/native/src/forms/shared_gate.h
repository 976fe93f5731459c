// a = R h; z = sigmoid(u_z + a), c = tanh(u_c + a); h' = (p0 + p1 z) c + (q0 + q1 z) h.
#pragma once

#include "../form.h"

namespace {

template <class T> struct SharedGate final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    // reserve: z, c; grads: of u_z, of u_c, of a; scalars: of p0, p1, q0, q1
    SharedGate(const autapse_scan& problem, Scratch& scratch) : Form<T>(problem, scratch) {
        this->widths(H, 2 * H, 3 * H, 4);
        this->linear(this->in(p.matrix), H, H);
        this->drive(0, 2 * H, 0);
        this->matrix_gradient(0, 2 * H, H, Source::previous, 0, H);
    }

    struct Coefficients {
        T p0, p1, q0, q1;
    };
    Coefficients coefficients(int64_t t) const {
        const T *alpha = this->in(p.alpha) + 2 * t, *beta = this->in(p.beta) + 2 * t;
        return {alpha[0], alpha[1], beta[0], beta[1]};
    }

    void forward(const Step<T>& s) const override {
        const Coefficients k = coefficients(s.t);
        this->linears[0].apply(s.count, s.h_prev, H, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *a = s.work + r * this->work_stride, *h_prev = s.h_prev + r * H;
            T *h = s.h + r * H, *reserve = row(s.reserve, r, this->reserve_columns);
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> shared = lane.load(a + j);
                Vec<T> z = sigmoid<T>(lane.load(u + j) + shared), c = tanh<T>(lane.load(u + H + j) + shared);
                lane.store(h + j, (k.p0 + k.p1 * z) * c + (k.q0 + k.q1 * z) * lane.load(h_prev + j));
                if (reserve) {
                    lane.store(reserve + j, z);
                    lane.store(reserve + H + j, c);
                }
            });
        }
    }

    void backward(const Step<T>& s) const override {
        const Coefficients k = coefficients(s.t);
        for (int64_t r = 0; r < s.count; r++) {
            const T *reserve = s.reserve + r * this->reserve_columns, *h_prev = s.h_prev + r * H;
            const T* from_output = row(s.grad_h, r, H);
            T *dh = s.dh + r * this->dh_stride, *grads = s.grads + r * this->gradient_stride, *scalars = s.scalars + r * 4;
            Vec<T> to_p0{}, to_p1{}, to_q0{}, to_q1{};
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> z = lane.load(reserve + j), c = lane.load(reserve + H + j), h = lane.load(h_prev + j);
                Vec<T> d = total_gradient(lane, dh, from_output, j), dc = d * c, dhold = d * h;
                Vec<T> gate = (k.p1 * dc + k.q1 * dhold) * z * (T(1) - z), candidate = (k.p0 + k.p1 * z) * d * (T(1) - c * c);
                lane.store(grads + j, gate);
                lane.store(grads + H + j, candidate);
                lane.store(grads + 2 * H + j, gate + candidate);
                lane.store(dh + j, (k.q0 + k.q1 * z) * d);
                to_p0 += lane.keep(dc);
                to_p1 += lane.keep(dc * z);
                to_q0 += lane.keep(dhold);
                to_q1 += lane.keep(dhold * z);
            });
            scalars[0] = sum<T>(to_p0);
            scalars[1] = sum<T>(to_p1);
            scalars[2] = sum<T>(to_q0);
            scalars[3] = sum<T>(to_q1);
        }
        this->linears[0].back(s.count, s.grads + 2 * H, this->gradient_stride, s.dh, this->dh_stride, Start::add);
    }
};

} // namespace
