// The red-black tridiagonal quasi-Newton iteration with guarded Anderson acceleration, for the implicit GRU's rule on
// the stencil (-1, 1). autapse.solve.Tridiagonal does the same with any system.
//
// Sequences do not interact, so a thread takes its own sequences through all iterations. No result depends on the other
// sequences of the batch.
#pragma once

#include <cmath>
#include <limits>

#include "sequences.h"

namespace {

constexpr int64_t most_window = 8;

template <class T> class Relaxation {
public:
    Relaxation(const autapse_implicit& problem, const autapse_relaxation& settings)
        : p(problem), r(settings), H(p.hidden), layout(r.layout) {}

    int run(Scratch& scratch) {
        if (const autapse_result broken = layout.fill(scratch)) return broken;
        const int64_t rows = layout.total, threads = layout.threads((double)rows * H * H * 5, p.threads);
        if (!ImplicitRule<T>(p).drive_rows_hold()) return AUTAPSE_MALFORMED;
        z = static_cast<T*>(r.z);
        value = scratch.take<T>(layout.free * H);
        bands = scratch.take<T>(2 * rows * H);
        inverse = scratch.take<T>(rows * H);
        ahead = scratch.take<T>(rows * H);
        y = scratch.take<T>(rows * H);
        best = scratch.take<T>(rows * H);
        history = scratch.take<T>((2 * r.window + 2) * layout.free * H);
        memory = scratch.take<Memory>(layout.count);
        work_size = ImplicitRule<T>(p).evaluate_work();
        work = scratch.take<T>(threads * work_size);
        places = scratch.take<int64_t>(threads * rows);
        lists = scratch.take<int64_t>(threads * (layout.count + threads));
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        total_rows = rows;
        in_parallel(threads, [&](Team team) { iterate(team); });
        return AUTAPSE_DONE;
    }

private:
    // The state of the iteration for one sequence.
    struct Memory {
        double least, accelerated, penalty;
        int64_t rest, seen, kept; // plain steps to take; iterations; entries of the window
        bool last;                // whether there is a last point and residual
    };

    T* changed(int64_t n) const { return history + n * layout.free * H; }           // differences of residuals
    T* stepped(int64_t n) const { return history + (r.window + n) * layout.free * H; } // differences of points
    T* last_point() const { return history + 2 * r.window * layout.free * H; }
    T* last_residual() const { return history + (2 * r.window + 1) * layout.free * H; }

    void iterate(Team team) {
        int64_t* active = lists + team.index * (layout.count + team.count);
        const int64_t own = deal(layout, team, active, active + layout.count);
        int64_t count = 0;
        for (int64_t n = 0; n < own; n++) {
            const int64_t b = active[n];
            memory[b] = {INFINITY, INFINITY, 4, 0, 0, 0, false};
            copy(b, best, z); // returned if no point is better, for example if all are NaN
            if (layout.lengths[b]) active[count++] = b;
            else report(b, true, 0, 1);
        }
        int64_t* rows = places + team.index * total_rows;
        T* own_work = work + team.index * work_size;
        while (count) {
            evaluate(active, count, 1, rows, own_work);
            evaluate(active, count, 0, rows, own_work);
            int64_t staying = 0;
            for (int64_t n = 0; n < count; n++)
                if (step(active[n])) active[staying++] = active[n];
            count = staying;
        }
    }

    void evaluate(const int64_t* active, int64_t count, int64_t parity, int64_t* rows, T* own_work) {
        autapse_implicit part = p;
        part.h = parity ? z : value;
        part.bands = bands;
        part.band_stride = total_rows * H;
        part.slope = nullptr;
        const T* edges = static_cast<const T*>(p.edges);
        ImplicitRule<T>(part).evaluate_rows(
            [&](int64_t i) { return rows[i]; }, list_rows(layout, active, count, parity, rows), own_work,
            [&](int64_t j, int64_t row) {
                const int64_t near = layout.near(j, row);
                if (near >= 0) return (const T*)z + near * H;
                return edges + layout.edge(layout.step_of[row] + layout.offsets[j], layout.sequence_of[row]) * H;
            });
    }

    void report(int64_t b, bool converged, double residual, int64_t iterations) {
        r.converged[b] = converged;
        r.residual[b] = residual;
        r.iterations[b] = iterations;
    }

    // Reads the result of an evaluation and takes the next step; false if the sequence is done.
    bool step(int64_t b) {
        Memory& m = memory[b];
        double residual = 0, size = 0;
        even_rows(layout, b, [&](int64_t row) {
            T* found = value + row * H;
            combine(found, found, T(-1), z + row * H, H); // now the residual
            residual += product_of(found, found, H);
        });
        for (int64_t t = 0; t < layout.lengths[b]; t++)
            size += product_of(z + layout.row(t, b) * H, z + layout.row(t, b) * H, H);
        residual = std::sqrt(residual);
        size = std::sqrt(size);
        m.seen++;
        const bool broken = std::isnan(residual) || std::isnan(size), finite = std::isfinite(size);
        const double now = finite && std::isfinite(residual) ? residual / (size > 1e-12 ? size : 1e-12) : INFINITY;
        const bool done = finite && residual <= r.rtol * size + r.atol;
        if (now < m.least || done) {
            m.least = now;
            copy(b, best, z);
        }
        if (done || broken || m.seen >= r.max_iterations) {
            report(b, done, m.least, m.seen);
            copy(b, z, best);
            return false;
        }
        accelerate(b, m, now);
        Elimination<T> system{layout, H, bands + layout.lower() * total_rows * H,
                              bands + (1 - layout.lower()) * total_rows * H, inverse, ahead, false};
        system.eliminate(b);
        system.solve(b, value, layout.free, y);
        even_rows(layout, b, [&](int64_t row) { combine(z + row * H, z + row * H, T(1), y + row * H, H); });
        return true;
    }

    void copy(int64_t b, T* to, const T* from) {
        for (int64_t t = 0; t < layout.lengths[b]; t++) {
            const int64_t at = layout.row(t, b) * H;
            std::memcpy(to + at, from + at, H * sizeof(T));
        }
    }

    // Makes z and the residual of the even steps the point and the residual from which the next step starts.
    void accelerate(int64_t b, Memory& m, double now) {
        if (!r.window) return;
        if (m.last) {
            const int64_t slot = m.kept++ % r.window;
            even_rows(layout, b, [&](int64_t row) {
                const int64_t at = row * H;
                combine(stepped(slot) + at, z + at, T(-1), last_point() + at, H);
                combine(changed(slot) + at, value + at, T(-1), last_residual() + at, H);
            });
        }
        m.last = true;
        even_rows(layout, b, [&](int64_t row) {
            std::memcpy(last_point() + row * H, z + row * H, H * sizeof(T));
            std::memcpy(last_residual() + row * H, value + row * H, H * sizeof(T));
        });
        const bool bad = now > r.guard * m.accelerated;
        m.rest = bad ? (int64_t)m.penalty : larger(m.rest - 1, 0);
        if (bad && m.penalty < 1e9) m.penalty *= 2;
        const bool use = now < r.threshold && m.rest == 0 && m.kept > 0;
        m.accelerated = use ? now : INFINITY;
        if (use) extrapolate(b, smaller(m.kept, r.window));
    }

    void extrapolate(int64_t b, int64_t count) {
        double gram[most_window][most_window] = {}, weights[most_window] = {};
        even_rows(layout, b, [&](int64_t row) {
            for (int64_t i = 0; i < count; i++) {
                const T* change = changed(i) + row * H;
                for (int64_t j = 0; j <= i; j++) gram[i][j] += product_of(change, changed(j) + row * H, H);
                weights[i] += product_of(change, value + row * H, H);
            }
        });
        if (!solve_small(gram, weights, count)) return;
        even_rows(layout, b, [&](int64_t row) {
            for (int64_t i = 0; i < count; i++) {
                combine(z + row * H, z + row * H, T(-weights[i]), stepped(i) + row * H, H);
                combine(value + row * H, value + row * H, T(-weights[i]), changed(i) + row * H, H);
            }
        });
    }

    // By Cholesky factors, slightly regularised since the window may be nearly dependent. False if not finite.
    static bool solve_small(double a[most_window][most_window], double* x, int64_t n) {
        double trace = 0;
        for (int64_t i = 0; i < n; i++) trace += a[i][i];
        for (int64_t i = 0; i < n; i++) a[i][i] += 1e-10 * (trace > 1e-300 ? trace : 1e-300);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                double left = a[i][j];
                for (int64_t k = 0; k < j; k++) left -= a[i][k] * a[j][k];
                if (i > j) a[i][j] = left / a[j][j];
                else if (left > 0 && std::isfinite(left)) a[i][i] = std::sqrt(left);
                else return false;
            }
        for (int64_t i = 0; i < n; i++) {
            for (int64_t k = 0; k < i; k++) x[i] -= a[i][k] * x[k];
            x[i] /= a[i][i];
        }
        for (int64_t i = n - 1; i >= 0; i--) {
            for (int64_t k = i + 1; k < n; k++) x[i] -= a[k][i] * x[k];
            x[i] /= a[i][i];
        }
        for (int64_t i = 0; i < n; i++)
            if (!std::isfinite(x[i])) return false;
        return true;
    }

    const autapse_implicit& p;
    const autapse_relaxation& r;
    const int64_t H;
    RedBlack layout;
    int64_t total_rows = 0, work_size = 0;
    T *z = nullptr, *value = nullptr, *bands = nullptr, *inverse = nullptr, *ahead = nullptr, *y = nullptr;
    T *best = nullptr, *history = nullptr, *work = nullptr;
    Memory* memory = nullptr;
    int64_t *places = nullptr, *lists = nullptr;
};

} // namespace
