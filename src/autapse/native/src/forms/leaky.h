// h' = alpha * act(u + R h) + beta * h, K times with the same u. R is dense or sparse.
// With delays, u + sum of R_d h_(t-d) in place of u; R is dense then.
#pragma once

#include "../form.h"

namespace {

template <class T, class Act> struct Leaky final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    const int64_t K;
    const bool mixed, per_unit, thresholded;
    const T *alpha, *beta, *threshold;
    // reserve: y of each inner step if it is not the state, then the states between the inner steps
    const int64_t states_at;
    // work: a product, a state between two inner steps, the products of the delays
    const int64_t earlier_at;
    // grads: da of each inner step, their sum if there are several, then those of alpha, beta and threshold
    const int64_t drive_at, alpha_at, beta_at, threshold_at;

    Leaky(const autapse_scan& problem, Scratch& scratch)
        : Form<T>(problem, scratch), K(problem.inner), mixed(problem.alpha || problem.beta),
          per_unit(mixed && !problem.per_step), thresholded(std::is_same_v<Act, ModRelu>),
          alpha(this->in(problem.alpha)), beta(this->in(problem.beta)), threshold(this->in(problem.offset)),
          states_at(mixed ? K * H : 0),
          earlier_at(padded<T>(H) * (K > 1 ? 2 : 1)), drive_at(K > 1 ? K * H : 0), alpha_at(drive_at + H),
          beta_at(alpha_at + (per_unit ? H : 0)), threshold_at(beta_at + (per_unit ? H : 0)) {
        if (p.sparse) this->sparse.rows = this->sparse.cols = this->sparse_back.rows = this->sparse_back.cols = H;
        else this->linear(this->in(p.matrix), H, H);
        this->widths(earlier_at + (this->delays ? padded<T>(H) : 0), states_at + (K - 1) * H,
                     threshold_at + (thresholded ? H : 0), mixed && !per_unit ? 2 * K : 0);
        this->drive(0, H, drive_at);
        for (int64_t k = 0; k < K; k++)
            this->matrix_gradient(0, k * H, H, k ? Source::reserve : Source::previous, k ? states_at + (k - 1) * H : 0, H,
                                  k > 0);
        for (int64_t d = 0; d < this->delays; d++) {
            this->linear(this->in(p.matrix) + (1 + d) * H * H, H, H);
            this->matrix_gradient((1 + d) * H * H, drive_at, H, Source((int64_t)Source::earlier + d), 0, H);
        }
        if (per_unit && p.grad_alpha) this->totals.add({this->out(p.grad_alpha), alpha_at, H});
        if (per_unit && p.grad_beta) this->totals.add({this->out(p.grad_beta), beta_at, H});
        if (thresholded && p.grad_offset) this->totals.add({this->out(p.grad_offset), threshold_at, H});
    }

    template <class Lane> INLINE Vec<T> coefficient(Lane lane, const T* of, T absent, int64_t t, int64_t k, int64_t j) const {
        if (!of) return splat(absent);
        return per_unit ? lane.load(of + j) : splat(of[t * K + k]);
    }

    template <class Lane> INLINE Vec<T> activate(Lane lane, Vec<T> a, int64_t j) const {
        if constexpr (std::is_same_v<Act, ModRelu>)
            return Act::template value<T>(a, threshold ? lane.load(threshold + j) : Vec<T>{});
        else
            return Act::template value<T>(a);
    }

    void forward(const Step<T>& s) const override {
        const T* from = s.h_prev;
        int64_t from_stride = H;
        for (int64_t d = 0; d < this->delays; d++)
            multiply(s.count, s.earlier[d], H, this->linears[1 + d].forward, s.work + earlier_at, this->work_stride,
                     d ? Start::add : Start::zero);
        for (int64_t k = 0; k < K; k++) {
            const bool last = k + 1 == K;
            if (p.sparse) this->sparse.multiply(s.count, from, from_stride, s.work, this->work_stride, false, s.across);
            else this->linears[0].apply(s.count, from, from_stride, s.work, this->work_stride);
            // A state between inner steps goes to the reserve, or to the second half of the work space.
            T* to = last ? s.h : s.reserve ? s.reserve + states_at + k * H : s.work + padded<T>(H);
            const int64_t to_stride = last ? H : s.reserve ? this->reserve_columns : this->work_stride;
            for (int64_t r = 0; r < s.count; r++) {
                const T *u = s.u + r * s.u_stride, *a = s.work + r * this->work_stride, *h = from + r * from_stride;
                const T* earlier = this->delays ? a + earlier_at : nullptr;
                T *y_out = mixed && s.reserve ? s.reserve + r * this->reserve_columns + k * H : nullptr;
                T* h_out = to + r * to_stride;
                each<T>(H, [&](auto lane, int64_t j) {
                    Vec<T> y = lane.load(u + j) + lane.load(a + j);
                    if (earlier) y += lane.load(earlier + j);
                    y = activate(lane, y, j);
                    if (mixed) {
                        if (y_out) lane.store(y_out + j, y);
                        y = coefficient(lane, alpha, T(1), s.t, k, j) * y;
                        if (beta) y += coefficient(lane, beta, T(0), s.t, k, j) * lane.load(h + j);
                    }
                    lane.store(h_out + j, y);
                });
            }
            from = to;
            from_stride = to_stride;
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t k = K - 1; k >= 0; k--) {
            const bool last = k + 1 == K;
            for (int64_t r = 0; r < s.count; r++) {
                const T* reserve = row(s.reserve, r, this->reserve_columns);
                const T* h_in = k ? reserve + states_at + (k - 1) * H : s.h_prev + r * H;
                const T* y_in = mixed ? reserve + k * H : last ? s.h + r * H : reserve + k * H;
                const T* from_output = last ? row(s.grad_h, r, H) : nullptr;
                T *dh = s.dh + r * this->dh_stride, *grads = s.grads + r * this->gradient_stride;
                Vec<T> to_alpha{}, to_beta{};
                each<T>(H, [&](auto lane, int64_t j) {
                    Vec<T> d = total_gradient(lane, dh, from_output, j), y = lane.load(y_in + j);
                    Vec<T> da = d * Act::template slope<T>(y);
                    if (mixed) {
                        da *= coefficient(lane, alpha, T(1), s.t, k, j);
                        Vec<T> dy = d * y, dhold = d * lane.load(h_in + j);
                        if (per_unit) {
                            lane.store(grads + alpha_at + j, last ? dy : dy + lane.load(grads + alpha_at + j));
                            lane.store(grads + beta_at + j, last ? dhold : dhold + lane.load(grads + beta_at + j));
                        } else {
                            to_alpha += lane.keep(dy);
                            to_beta += lane.keep(dhold);
                        }
                        lane.store(dh + j, coefficient(lane, beta, T(0), s.t, k, j) * d);
                    }
                    if (thresholded) {
                        Vec<T> shift = da * sign<T>(y);
                        lane.store(grads + threshold_at + j, last ? shift : shift + lane.load(grads + threshold_at + j));
                    }
                    lane.store(grads + k * H + j, da);
                    if (K > 1) lane.store(grads + drive_at + j, last ? da : da + lane.load(grads + drive_at + j));
                });
                if (this->scalars) {
                    s.scalars[r * this->scalars + k] = sum<T>(to_alpha);
                    s.scalars[r * this->scalars + K + k] = sum<T>(to_beta);
                }
            }
            const T* da = s.grads + k * H;
            if (p.sparse)
                this->sparse_back.multiply(s.count, da, this->gradient_stride, s.dh, this->dh_stride, mixed, s.across);
            else
                this->linears[0].back(s.count, da, this->gradient_stride, s.dh, this->dh_stride,
                                      mixed ? Start::add : Start::zero);
        }
        for (int64_t d = 0; d < this->delays; d++)
            this->linears[1 + d].back(s.count, s.grads + drive_at, this->gradient_stride, s.pending[d], this->dh_stride,
                                      Start::add);
    }
};

} // namespace
