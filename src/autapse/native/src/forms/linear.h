// h' = b + z h + the sum over k of a_k (M_k h); the drive is b, z, a_1 ... a_n.
// With cells: c' = b + z c + the sum over k < n of a_k (M_k h), h' = e + s c' + q c + a_n (M_n h); e, s and q end the drive.
#pragma once

#include "../form.h"

namespace {

template <class T> struct LinearRecurrence final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    const bool cells;
    const int64_t n, summed, columns; // products; those of the first state; columns of the drive

    // reserve: the products M_k h, then the drive; grads: of the drive, then of the products
    LinearRecurrence(const autapse_scan& problem, Scratch& scratch)
        : Form<T>(problem, scratch), cells(problem.c0), n(problem.inner), summed(n - (cells ? 1 : 0)),
          columns((2 + n + (cells ? 3 : 0)) * H) {
        this->widths(n * H, n * H + columns, columns + n * H);
        this->linear(this->in(p.matrix), n * H, H);
        this->drive(0, columns, 0);
        this->matrix_gradient(0, columns, n * H, Source::previous, 0, H);
    }

    void forward(const Step<T>& s) const override {
        this->linears[0].apply(s.count, s.h_prev, H, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *product = s.work + r * this->work_stride;
            const T* before = (cells ? s.c_prev : s.h_prev) + r * H;
            const T *a = u + 2 * H, *e = a + n * H, *factor = e + H, *past = factor + H; // with cells only
            T *h = s.h + r * H, *c = cells ? s.c + r * H : nullptr;
            each<T>(H, [&](auto lane, int64_t j) {
                const Vec<T> old = lane.load(before + j);
                Vec<T> state = lane.load(u + j) + lane.load(u + H + j) * old;
                for (int64_t k = 0; k < summed; k++) state += lane.load(a + k * H + j) * lane.load(product + k * H + j);
                if (cells) {
                    lane.store(c + j, state);
                    state = lane.load(e + j) + lane.load(factor + j) * state + lane.load(past + j) * old +
                            lane.load(a + summed * H + j) * lane.load(product + summed * H + j);
                }
                lane.store(h + j, state);
            });
            T* reserve = row(s.reserve, r, this->reserve_columns);
            if (!reserve) continue;
            each<T>(n * H, [&](auto lane, int64_t j) { lane.store(reserve + j, lane.load(product + j)); });
            each<T>(columns, [&](auto lane, int64_t j) { lane.store(reserve + n * H + j, lane.load(u + j)); });
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t r = 0; r < s.count; r++) {
            const T *product = s.reserve + r * this->reserve_columns, *u = product + n * H, *a = u + 2 * H;
            const T *before = (cells ? s.c_prev : s.h_prev) + r * H, *after = cells ? s.c + r * H : nullptr;
            const T *from_h = row(s.grad_h, r, H), *from_c = cells ? row(s.grad_c, r, H) : nullptr;
            T *dh = s.dh + r * this->dh_stride, *dc = cells ? s.dc + r * this->dc_stride : nullptr;
            T *grads = s.grads + r * this->gradient_stride, *of_a = grads + 2 * H, *of_product = grads + columns;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> d = total_gradient(lane, dh, from_h, j), past{};
                auto through = [&](int64_t k, Vec<T> gradient) {
                    lane.store(of_a + k * H + j, gradient * lane.load(product + k * H + j));
                    lane.store(of_product + k * H + j, gradient * lane.load(a + k * H + j));
                };
                if (cells) {
                    const int64_t e = (2 + n) * H + j, factor = e + H;
                    past = d * lane.load(u + factor + H);
                    lane.store(grads + e, d);
                    lane.store(grads + factor + H, d * lane.load(before + j));
                    lane.store(grads + factor, d * lane.load(after + j));
                    through(summed, d);
                    d = total_gradient(lane, dc, from_c, j) + d * lane.load(u + factor);
                }
                lane.store(grads + j, d);
                lane.store(grads + H + j, d * lane.load(before + j));
                for (int64_t k = 0; k < summed; k++) through(k, d);
                lane.store((cells ? dc : dh) + j, d * lane.load(u + H + j) + past);
            });
        }
        this->linears[0].back(s.count, s.grads + columns, this->gradient_stride, s.dh, this->dh_stride,
                              cells ? Start::zero : Start::add);
    }
};

} // namespace
