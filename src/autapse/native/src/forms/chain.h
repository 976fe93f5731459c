// g = act(u + R_1 h); g <- act(b_i + R_i g) for i = 2 ... n, plus g if skip; h' = g.
#pragma once

#include "../form.h"

namespace {

template <class T, class Act> struct Chain final : Form<T> {
    using Form<T>::H;
    using Form<T>::p;

    const int64_t n;
    const bool skip;
    // reserve: g after each map but the last, then act(b_i + R_i g) of each map but the first if it is not g itself
    const int64_t values_at;

    // grads: da of each map
    Chain(const autapse_scan& problem, Scratch& scratch)
        : Form<T>(problem, scratch), n(problem.inner), skip(problem.skip), values_at((n - 1) * H) {
        this->widths(padded<T>(H) * (n > 1 ? 2 : 1), values_at + (skip ? (n - 1) * H : 0), n * H);
        this->drive(0, H, 0);
        for (int64_t i = 0; i < n; i++) {
            this->linear(this->in(p.matrix) + i * H * H, H, H);
            this->matrix_gradient(i * H * H, i * H, H, i ? Source::reserve : Source::previous, i ? (i - 1) * H : 0, H);
            if (i && p.grad_offset) this->totals.add({this->out(p.grad_offset) + (i - 1) * H, i * H, H});
        }
    }

    void forward(const Step<T>& s) const override {
        const T* from = s.h_prev;
        int64_t from_stride = H;
        for (int64_t i = 0; i < n; i++) {
            const bool last = i + 1 == n;
            this->linears[i].apply(s.count, from, from_stride, s.work, this->work_stride);
            T* to = last ? s.h : s.reserve ? s.reserve + i * H : s.work + padded<T>(H);
            const int64_t to_stride = last ? H : s.reserve ? this->reserve_columns : this->work_stride;
            for (int64_t r = 0; r < s.count; r++) {
                const T* offset = i ? this->in(p.offset) + (i - 1) * H : s.u + r * s.u_stride;
                const T *a = s.work + r * this->work_stride, *read = skip && i ? from + r * from_stride : nullptr;
                T* y_out = read && s.reserve ? s.reserve + r * this->reserve_columns + values_at + (i - 1) * H : nullptr;
                T* g = to + r * to_stride;
                each<T>(H, [&](auto lane, int64_t j) {
                    Vec<T> y = Act::template value<T>(lane.load(offset + j) + lane.load(a + j));
                    if (y_out) lane.store(y_out + j, y);
                    lane.store(g + j, read ? y + lane.load(read + j) : y);
                });
            }
            from = to;
            from_stride = to_stride;
        }
    }

    void backward(const Step<T>& s) const override {
        for (int64_t i = n - 1; i >= 0; i--) {
            const bool last = i + 1 == n, added = skip && i;
            for (int64_t r = 0; r < s.count; r++) {
                const T* reserve = row(s.reserve, r, this->reserve_columns);
                const T* y = added ? reserve + values_at + (i - 1) * H : last ? s.h + r * H : reserve + i * H;
                const T* from_output = last ? row(s.grad_h, r, H) : nullptr;
                T *dh = s.dh + r * this->dh_stride, *da = s.grads + r * this->gradient_stride + i * H;
                each<T>(H, [&](auto lane, int64_t j) {
                    Vec<T> d = total_gradient(lane, dh, from_output, j);
                    lane.store(da + j, d * Act::template slope<T>(lane.load(y + j)));
                    if (added) lane.store(dh + j, d);
                });
            }
            this->linears[i].back(s.count, s.grads + i * H, this->gradient_stride, s.dh, this->dh_stride,
                                  added ? Start::add : Start::zero);
        }
    }
};

} // namespace
