// The adjoint of the implicit GRU on the stencil (-1, 1): v = g + J^T v by GMRES on the even steps. The odd steps are
// eliminated, and the transposed tridiagonal part is the preconditioner. ImplicitSlope.adjoint does the same with
// autapse.solve.GMRES.
//
// Sequences do not interact, so a thread takes its own sequences through all iterations.
#pragma once

#include <cmath>
#include <limits>

#include "sequences.h"

namespace {

template <class T> class Adjoint {
public:
    Adjoint(const autapse_implicit& problem, const autapse_adjoint& settings)
        : p(problem), s(settings), H(p.hidden), layout(s.layout), limit(s.max_iterations) {}

    int run(Scratch& scratch) {
        if (const autapse_result broken = layout.fill(scratch)) return broken;
        rows = layout.total;
        const int64_t threads = layout.threads((double)rows * H * H * 5, p.threads);
        basis = scratch.take<T>((limit + 1) * layout.free * H);
        bands = scratch.take<T>(2 * rows * H);
        inverse = scratch.take<T>(rows * H);
        ahead = scratch.take<T>(rows * H);
        image = scratch.take<T>(rows * H);
        sent = scratch.take<T>(2 * rows * H);
        half = scratch.take<T>(rows * H);
        small = scratch.take<double>(layout.count * small_size());
        work_size = ImplicitRule<T>(p).pull_work();
        work = scratch.take<T>(threads * work_size);
        places = scratch.take<int64_t>(threads * rows);
        lists = scratch.take<int64_t>(threads * (2 * layout.count + threads));
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        in_parallel(threads, [&](Team team) { iterate(team); });
        return AUTAPSE_DONE;
    }

private:
    // The values of one sequence: triangle, rotations, right side, norm of the given right side, number of vectors in
    // the solution.
    int64_t small_size() const { return limit * (limit + 1) + 3 * limit + 3; }
    double* triangle(int64_t b, int64_t column) const { return small + b * small_size() + column * (limit + 1); }
    double* cosines(int64_t b) const { return triangle(b, limit); }
    double* sines(int64_t b) const { return cosines(b) + limit; }
    double* right(int64_t b) const { return sines(b) + limit; }
    double& size(int64_t b) const { return right(b)[limit + 1]; }
    double& used(int64_t b) const { return right(b)[limit + 2]; }
    T* vector(int64_t n) const { return basis + n * layout.free * H; }

    const T* gradient() const { return static_cast<const T*>(s.g); }
    T* result() const { return static_cast<T*>(s.v); }

    Elimination<T> preconditioner() const {
        return {layout, H, bands + layout.lower() * rows * H, bands + (1 - layout.lower()) * rows * H,
                inverse, ahead, true};
    }

    void iterate(Team team) {
        int64_t *own = lists + team.index * (2 * layout.count + team.count), *active = own + layout.count;
        const int64_t mine = deal(layout, team, own, active + layout.count);
        int64_t* at = places + team.index * rows;
        T* own_work = work + team.index * work_size;
        for (int64_t n = 0; n < mine; n++) prepare(own[n]);
        send(own, mine, 1, gradient(), at, own_work);
        int64_t count = 0;
        for (int64_t n = 0; n < mine; n++)
            if (begin(own[n])) active[count++] = own[n];
        for (int64_t step = 0; count; step++) {
            for (int64_t n = 0; n < count; n++) preconditioner().solve(active[n], vector(step), layout.free, image);
            send(active, count, 0, image, at, own_work);
            for (int64_t n = 0; n < count; n++) receive(active[n], 1, half);
            send(active, count, 1, half, at, own_work);
            int64_t staying = 0;
            for (int64_t n = 0; n < count; n++)
                if (extend(active[n], step)) active[staying++] = active[n];
            count = staying;
        }
        for (int64_t n = 0; n < mine; n++) combine_basis(own[n]);
        send(own, mine, 0, result(), at, own_work);
        for (int64_t n = 0; n < mine; n++) finish(own[n]);
    }

    // The bands of a sequence, eliminated.
    void prepare(int64_t b) {
        for (int64_t t = 0; t < layout.lengths[b]; t++) {
            const int64_t row = layout.row(t, b);
            const T* z = slope(2 * 2 + slope_z, row);
            for (int64_t j = 0; j < 2; j++) {
                const T* part = slope(j, row);
                T* band = bands + (j * rows + row) * H;
                each<T>(H, [&](auto lane, int64_t c) {
                    lane.store(band + c, (T(1) - lane.load(z + c)) * lane.load(part + c));
                });
            }
        }
        preconditioner().eliminate(b);
    }

    const T* slope(int64_t part, int64_t row) const { return static_cast<const T*>(p.slope) + part * p.slope_stride + row * H; }

    // What the steps of one parity send to their neighbours, given v at these steps.
    void send(const int64_t* chosen, int64_t many, int64_t parity, const T* v, int64_t* at, T* own_work) {
        autapse_implicit part = p;
        part.arguments = nullptr;
        ImplicitRule<T>(part).pull_rows(
            [&](int64_t i) { return at[i]; }, list_rows(layout, chosen, many, parity, at), own_work,
            [&](int64_t row) { return v + row * H; },
            [&](int64_t j, int64_t row) { return sent + (j * rows + row) * H; });
    }

    // The sum of what the steps of one parity received.
    void receive(int64_t b, int64_t parity, T* to) {
        for (int64_t t = parity; t < layout.lengths[b]; t += 2) {
            const int64_t row = layout.row(t, b), one = layout.far(0, row), two = layout.far(1, row);
            const T *first = one < 0 ? nullptr : sent + one * H, *second = two < 0 ? nullptr : sent + (rows + two) * H;
            each<T>(H, [&](auto lane, int64_t c) {
                Vec<T> total = first ? lane.load(first + c) : Vec<T>{};
                if (second) total += lane.load(second + c);
                lane.store(to + row * H + c, total);
            });
        }
    }

    // The right side g_e + J_oe^T g_o as the first vector; false if it is zero.
    bool begin(int64_t b) {
        receive(b, 0, half);
        double total = 0;
        even_rows(layout, b, [&](int64_t row) {
            combine(half + row * H, half + row * H, T(1), gradient() + row * H, H);
            total += product_of(half + row * H, half + row * H, H);
        });
        const double norm = std::sqrt(total);
        size(b) = norm;
        right(b)[0] = norm;
        used(b) = 0;
        s.iterations[b] = 0;
        s.residual[b] = std::isfinite(norm) ? norm : INFINITY;
        s.converged[b] = std::isfinite(norm) && norm <= s.rtol * norm + s.atol;
        if (s.converged[b] || !std::isfinite(norm) || !limit) return false;
        even_rows(layout, b, [&](int64_t row) { scale(vector(0) + row * H, half + row * H, T(1 / norm)); });
        return true;
    }

    void scale(T* to, const T* from, T factor) {
        each<T>(H, [&](auto lane, int64_t c) { lane.store(to + c, factor * lane.load(from + c)); });
    }

    // One more vector of the space; false if the sequence is done.
    bool extend(int64_t b, int64_t n) {
        receive(b, 0, half);
        even_rows(layout, b, [&](int64_t row) { combine(half + row * H, image + row * H, T(-1), half + row * H, H); });
        double* column = triangle(b, n);
        for (int64_t i = 0; i <= n; i++) column[i] = 0;
        for (int twice = 0; twice < 2; twice++) // one pass loses digits in float
            for (int64_t i = 0; i <= n; i++) {
                double part = 0;
                even_rows(layout, b, [&](int64_t row) { part += product_of(half + row * H, vector(i) + row * H, H); });
                even_rows(layout, b, [&](int64_t row) {
                    combine(half + row * H, half + row * H, T(-part), vector(i) + row * H, H);
                });
                column[i] += part;
            }
        double total = 0;
        even_rows(layout, b, [&](int64_t row) { total += product_of(half + row * H, half + row * H, H); });
        // If the product is in the space already, the rest is rounding error and not a new direction.
        double whole = total;
        for (int64_t i = 0; i <= n; i++) whole += column[i] * column[i];
        const double noise = 8 * (double)std::numeric_limits<T>::epsilon() * std::sqrt(whole);
        const double norm = std::sqrt(total) <= noise ? 0 : std::sqrt(total);
        s.iterations[b] = n + 1;
        const double residual = rotate(b, n, norm, noise);
        if (std::isfinite(residual)) { // if not, the space without this vector is used
            s.residual[b] = residual;
            used(b) = (double)(n + 1);
        }
        s.converged[b] = residual <= s.rtol * size(b) + s.atol;
        if (s.converged[b] || !std::isfinite(residual) || norm == 0 || n + 1 == limit) return false;
        even_rows(layout, b, [&](int64_t row) { scale(vector(n + 1) + row * H, half + row * H, T(1 / norm)); });
        return true;
    }

    // Makes the new column of the Hessenberg matrix triangular; returns the norm of the residual in the larger space.
    double rotate(int64_t b, int64_t n, double norm, double noise) {
        double *column = triangle(b, n), *c = cosines(b), *d = sines(b), *y = right(b);
        column[n + 1] = norm;
        for (int64_t i = 0; i < n; i++) {
            const double first = column[i], second = column[i + 1];
            column[i] = c[i] * first + d[i] * second;
            column[i + 1] = c[i] * second - d[i] * first;
        }
        const double length = std::hypot(column[n], column[n + 1]);
        // A column of zeros means that the matrix is singular: this must not count as a solution.
        const bool singular = length <= noise;
        c[n] = singular ? 0 : column[n] / length;
        d[n] = singular ? 1 : column[n + 1] / length;
        column[n] = singular ? 1 : length;
        y[n + 1] = -d[n] * y[n];
        y[n] *= c[n];
        return std::fabs(y[n + 1]);
    }

    // The solution on the even steps: the preconditioner on the best combination of the vectors.
    void combine_basis(int64_t b) {
        const int64_t count = (int64_t)used(b);
        double* y = right(b);
        for (int64_t i = count - 1; i >= 0; i--) {
            for (int64_t k = i + 1; k < count; k++) y[i] -= triangle(b, k)[i] * y[k];
            y[i] /= triangle(b, i)[i];
        }
        even_rows(layout, b, [&](int64_t row) {
            std::memset(half + row * H, 0, H * sizeof(T));
            for (int64_t i = 0; i < count; i++)
                combine(half + row * H, half + row * H, T(y[i]), vector(i) + row * H, H);
        });
        if (count) preconditioner().solve(b, half, layout.free, image);
        // Without vectors the solution is zero; a preconditioner that is not finite would make it NaN.
        const T* found = count ? image : half;
        even_rows(layout, b, [&](int64_t row) { std::memcpy(result() + row * H, found + row * H, H * sizeof(T)); });
        if (std::isfinite(s.residual[b])) s.residual[b] = size(b) > 0 ? s.residual[b] / size(b) : 0;
    }

    // The odd steps from the even ones.
    void finish(int64_t b) {
        receive(b, 1, result());
        for (int64_t t = 1; t < layout.lengths[b]; t += 2) {
            const int64_t at = layout.row(t, b) * H;
            combine(result() + at, result() + at, T(1), gradient() + at, H);
        }
    }

    const autapse_implicit& p;
    const autapse_adjoint& s;
    const int64_t H;
    RedBlack layout;
    const int64_t limit;
    int64_t rows = 0, work_size = 0;
    T *basis = nullptr, *bands = nullptr, *inverse = nullptr, *ahead = nullptr, *image = nullptr, *sent = nullptr;
    T *half = nullptr, *work = nullptr;
    double* small = nullptr;
    int64_t *places = nullptr, *lists = nullptr;
};

} // namespace
