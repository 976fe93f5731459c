// i, f = sigmoid(u + R h + p c), g = tanh(u_g + R_g h); c' = f c + i g
// o = sigmoid(u_o + R_o h + p_o c + q_o c'); h' = P (o tanh c'). Peepholes p, q and projection P are optional.
#pragma once

#include "../form.h"

namespace {

template <class T> struct LongShortTerm final : Form<T> {
    using Form<T>::H;
    using Form<T>::O;
    using Form<T>::p;

    const T* peepholes;
    const bool projected;
    const int64_t peepholes_at, product_at, state_at;

    // reserve: i, f, g, o; grads: of the four arguments, of the peepholes, then o tanh c' and the gradient of P's product
    LongShortTerm(const autapse_scan& problem, Scratch& scratch)
        : Form<T>(problem, scratch), peepholes(this->in(problem.offset)), projected(problem.projection),
          peepholes_at(4 * H), product_at(peepholes_at + (peepholes ? 4 * H : 0)), state_at(product_at + H) {
        this->widths(padded<T>(4 * H) + (projected ? padded<T>(O) : 0), 4 * H, projected ? state_at + O : product_at);
        this->linear(this->in(p.matrix), 4 * H, O);
        if (projected) this->linear(this->in(p.projection), O, H);
        this->drive(0, 4 * H, 0);
        this->matrix_gradient(0, 0, 4 * H, Source::previous, 0, O);
        if (peepholes && p.grad_offset) this->totals.add({this->out(p.grad_offset), peepholes_at, 4 * H});
        if (projected && p.grad_projection)
            this->outers.add({this->out(p.grad_projection), state_at, O, Source::grads, product_at, H});
    }

    void forward(const Step<T>& s) const override {
        this->linears[0].apply(s.count, s.h_prev, O, s.work, this->work_stride);
        for (int64_t r = 0; r < s.count; r++) {
            const T *u = s.u + r * s.u_stride, *c_prev = s.c_prev + r * H;
            T *a = s.work + r * this->work_stride, *c_out = s.c + r * H, *reserve = row(s.reserve, r, 4 * H);
            T* product = projected ? a : s.h + r * H; // the input of P overwrites i's argument
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> a_i = lane.load(u + j) + lane.load(a + j), a_f = lane.load(u + H + j) + lane.load(a + H + j);
                Vec<T> a_g = lane.load(u + 2 * H + j) + lane.load(a + 2 * H + j);
                Vec<T> a_o = lane.load(u + 3 * H + j) + lane.load(a + 3 * H + j), c = lane.load(c_prev + j);
                if (peepholes) {
                    a_i += lane.load(peepholes + j) * c;
                    a_f += lane.load(peepholes + H + j) * c;
                    a_o += lane.load(peepholes + 2 * H + j) * c;
                }
                Vec<T> i = sigmoid<T>(a_i), f = sigmoid<T>(a_f), g = tanh<T>(a_g);
                c = f * c + i * g;
                if (peepholes) a_o += lane.load(peepholes + 3 * H + j) * c;
                Vec<T> o = sigmoid<T>(a_o);
                lane.store(c_out + j, c);
                lane.store(product + j, o * tanh<T>(c));
                if (reserve) {
                    lane.store(reserve + j, i);
                    lane.store(reserve + H + j, f);
                    lane.store(reserve + 2 * H + j, g);
                    lane.store(reserve + 3 * H + j, o);
                }
            });
        }
        if (!projected) return;
        T* out = s.work + padded<T>(4 * H);
        this->linears[1].apply(s.count, s.work, this->work_stride, out, this->work_stride);
        for (int64_t r = 0; r < s.count; r++)
            each<T>(O, [&](auto lane, int64_t j) { lane.store(s.h + r * O + j, lane.load(out + r * this->work_stride + j)); });
    }

    void backward(const Step<T>& s) const override {
        const T *dm = s.dh, *from_output = s.grad_h; // gradient of o tanh c'
        int64_t dm_stride = this->dh_stride;
        if (projected) {
            for (int64_t r = 0; r < s.count; r++)
                each<T>(O, [&](auto lane, int64_t j) {
                    lane.store(s.grads + r * this->gradient_stride + state_at + j,
                               total_gradient(lane, s.dh + r * this->dh_stride, row(s.grad_h, r, O), j));
                });
            this->linears[1].back(s.count, s.grads + state_at, this->gradient_stride, s.work, this->work_stride, Start::zero);
            dm = s.work;
            dm_stride = this->work_stride;
            from_output = nullptr;
        }
        for (int64_t r = 0; r < s.count; r++) {
            const T *reserve = s.reserve + r * 4 * H, *c_prev = s.c_prev + r * H, *c_new = s.c + r * H;
            const T *grad_c = row(s.grad_c, r, H), *from = row(from_output, r, H);
            T *dc_row = s.dc + r * this->dc_stride, *grads = s.grads + r * this->gradient_stride;
            each<T>(H, [&](auto lane, int64_t j) {
                Vec<T> i = lane.load(reserve + j), f = lane.load(reserve + H + j), g = lane.load(reserve + 2 * H + j);
                Vec<T> o = lane.load(reserve + 3 * H + j), c_old = lane.load(c_prev + j), c = lane.load(c_new + j);
                Vec<T> squashed = tanh<T>(c), d = total_gradient(lane, dm + r * dm_stride, from, j);
                Vec<T> dc = total_gradient(lane, dc_row, grad_c, j) + d * o * (T(1) - squashed * squashed);
                Vec<T> d_o = d * squashed * o * (T(1) - o);
                if (peepholes) dc += d_o * lane.load(peepholes + 3 * H + j);
                Vec<T> d_i = dc * g * i * (T(1) - i), d_f = dc * c_old * f * (T(1) - f);
                lane.store(grads + j, d_i);
                lane.store(grads + H + j, d_f);
                lane.store(grads + 2 * H + j, dc * i * (T(1) - g * g));
                lane.store(grads + 3 * H + j, d_o);
                dc *= f;
                if (peepholes) {
                    dc += d_i * lane.load(peepholes + j) + d_f * lane.load(peepholes + H + j);
                    dc += d_o * lane.load(peepholes + 2 * H + j);
                    lane.store(grads + peepholes_at + j, d_i * c_old);
                    lane.store(grads + peepholes_at + H + j, d_f * c_old);
                    lane.store(grads + peepholes_at + 2 * H + j, d_o * c_old);
                    lane.store(grads + peepholes_at + 3 * H + j, d_o * c);
                }
                lane.store(dc_row + j, dc);
                if (projected) lane.store(grads + product_at + j, o * squashed);
            });
        }
        this->linears[0].back(s.count, s.grads, this->gradient_stride, s.dh, this->dh_stride, Start::zero);
    }
};

} // namespace
