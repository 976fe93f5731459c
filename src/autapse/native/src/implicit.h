// The implicit GRU's rule on many positions at once, and its transposed derivative:
//
//   a_j = u_j + U_j h_j, s_j = sigmoid(a_j) / sum of all, m = sum of s_j h_j over the neighbours j,
//   z, r = sigmoid(u + U m), n = tanh(u_h + U_h (r m)), h = m + z (n - m).
//
// Positions do not interact here: each thread takes its own rows, in blocks that fit into the second cache together with
// all intermediate results. A row's result does not depend on the rows next to it.
#pragma once

#include <cstring>

#include "abi.h"
#include "memory.h"
#include "product.h"
#include "team.h"

namespace {

constexpr int64_t rule_block = 48; // rows of a block: a multiple of every tile's height
constexpr int64_t most_offsets = 8;

// The values of each row that pull needs, [part][M][H]. The parts of the offsets come first: s_j, then dm/da_j.
enum Slope { slope_z, slope_by_z, slope_r, slope_by_r, slope_by_new, slope_mixed, slope_reset, slope_parts };

template <class T> INLINE Vec<T> exp_of(Vec<T> x) {
    const T limit = sizeof(T) == 4 ? T(87) : T(707);
    auto [scale, p] = exponential(clamp<T>(x, -limit, limit));
    return scale * p + scale;
}

template <class T> class ImplicitRule {
public:
    explicit ImplicitRule(const autapse_implicit& problem) : p(problem), H(p.hidden), J(p.offsets), W(padded<T>(H)) {
        place(static_cast<T*>(const_cast<void*>(p.packed)));
    }

    int64_t packed_size() const { return size; }
    int64_t evaluate_work() const { return rule_block * W * (2 * J + 5); }
    int64_t pull_work() const { return rule_block * W * 6; }

    // The rule at rows `rows[0 .. count)`; state(j, row) points to the state of neighbour j. Writes h, bands, slope.
    template <class Rows, class State> void evaluate_rows(Rows rows, int64_t count, T* work, State&& state) const {
        for (int64_t first = 0; first < count; first += rule_block)
            evaluate_block(
                [&](int64_t i) { return rows(first + i); }, smaller(rule_block, count - first), work, state);
    }

    // The transposed derivative at rows, v(row) given there; sent(j, row) is where the part of neighbour j goes, or null
    // where only the gradients of the arguments are wanted.
    template <class Rows, class From, class To>
    void pull_rows(Rows rows, int64_t count, T* work, From&& v, To&& sent) const {
        for (int64_t first = 0; first < count; first += rule_block)
            pull_block([&](int64_t i) { return rows(first + i); }, smaller(rule_block, count - first), work, v, sent);
    }

    void pack_matrices() {
        const T *switches = in(p.switches), *rest = in(p.gates), *last = in(p.candidate);
        in_parallel(threads_for_rows(H), [&](Team team) {
            for (int64_t j = 0; j < J; j++) {
                share(forward[j], switches + j * H * H, 1, H, team);
                share(back[j], switches + j * H * H, H, 1, team);
            }
            share(gates, rest, 1, H, team);
            share(back_gates, rest, H, 1, team);
            share(candidate, last, 1, H, team);
            share(back_candidate, last, H, 1, team);
        });
    }

    bool drive_rows_hold() const { return rows_hold(p.drive_rows, p.drive_count); }

    int evaluate(Scratch& scratch) {
        if (!drive_rows_hold()) return AUTAPSE_MALFORMED;
        for (int64_t j = 0; j < J; j++)
            if (!rows_hold(p.index[j], p.table_rows + p.edge_rows)) return AUTAPSE_MALFORMED;
        const int64_t threads = threads_for_rows(p.rows);
        T* memory = scratch.take<T>(threads * evaluate_work());
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        in_parallel(threads, [&](Team team) {
            const int64_t begin = team.from(p.rows);
            evaluate_rows(
                [&](int64_t i) { return begin + i; }, team.to(p.rows) - begin, memory + team.index * evaluate_work(),
                [&](int64_t j, int64_t row) {
                    const int64_t at = p.index[j][row];
                    return at < p.table_rows ? in(p.table) + at * H : in(p.edges) + (at - p.table_rows) * H;
                });
        });
        return AUTAPSE_DONE;
    }

    int pull(Scratch& scratch) {
        const int64_t threads = threads_for_rows(p.rows);
        T* memory = scratch.take<T>(threads * pull_work());
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        in_parallel(threads, [&](Team team) {
            const int64_t begin = team.from(p.rows);
            pull_rows(
                [&](int64_t i) { return begin + i; }, team.to(p.rows) - begin, memory + team.index * pull_work(),
                [&](int64_t row) { return in(p.v) + row * H; },
                [&](int64_t j, int64_t row) { return p.near ? out(p.near) + (j * p.rows + row) * H : nullptr; });
        });
        return AUTAPSE_DONE;
    }

private:
    static const T* in(const void* pointer) { return static_cast<const T*>(pointer); }
    static T* out(void* pointer) { return static_cast<T*>(pointer); }

    int64_t threads_for_rows(int64_t rows) const { return threads_for((double)rows * H * H * (J + 3), p.threads); }

    // Whether every row that is chosen, if rows are, is among `count`.
    bool rows_hold(const int64_t* chosen, int64_t count) const {
        if (!chosen) return p.rows <= count;
        for (int64_t n = 0; n < p.rows; n++)
            if (chosen[n] < 0 || chosen[n] >= count) return false;
        return true;
    }

    void place(T* memory) {
        const T* begin = memory;
        memory += packed_mark<T>;
        auto next = [&](int64_t depth, int64_t width) {
            Packed<T> made{memory, depth, width};
            memory += made.size();
            return made;
        };
        for (int64_t j = 0; j < J; j++) {
            forward[j] = next(H, H);
            back[j] = next(H, H);
        }
        gates = next(H, 2 * H);
        back_gates = next(2 * H, H);
        candidate = next(H, H);
        back_candidate = next(H, H);
        size = memory - begin;
    }

    const T* drive(int64_t row) const { return in(p.u) + (p.drive_rows ? p.drive_rows[row] : row) * (J + 3) * H; }
    T* slope(int64_t part, int64_t row) const { return out(p.slope) + part * p.slope_stride + row * H; }
    T* slope_of(Slope part, int64_t row) const { return slope(2 * J + part, row); }


    template <class Rows, class State> void evaluate_block(Rows rows, int64_t count, T* work, State&& state) const {
        const int64_t area = rule_block * W, wide = padded<T>(2 * H);
        T *near = work, *args = near + J * area, *mixed = args + J * area, *both = mixed + area, *reset = both + 2 * area;
        for (int64_t j = 0; j < J; j++) {
            // Contiguous, for the product.
            for (int64_t i = 0; i < count; i++)
                std::memcpy(near + j * area + i * W, state(j, rows(i)), H * sizeof(T));
            multiply(count, near + j * area, W, forward[j], args + j * area, W);
        }
        for (int64_t i = 0; i < count; i++) mix(rows(i), near + i * W, args + i * W, area, mixed + i * W);
        multiply(count, mixed, W, gates, both, wide);
        for (int64_t i = 0; i < count; i++) open(rows(i), mixed + i * W, both + i * wide, reset + i * W);
        T* last = near; // the neighbours are not needed any more
        multiply(count, reset, W, candidate, last, W);
        for (int64_t i = 0; i < count; i++)
            finish(rows(i), mixed + i * W, both + i * wide, args + i * W, area, last + i * W);
    }

    // s_j takes the place of a_j.
    void mix(int64_t row, const T* near, T* args, int64_t area, T* mixed) const {
        const T* u = drive(row);
        each<T>(H, [&](auto lane, int64_t c) {
            Vec<T> a[most_offsets], weight[most_offsets], top = splat(T(-1e30)), total{}, m{};
            for (int64_t j = 0; j < J; j++) {
                a[j] = lane.load(u + j * H + c) + lane.load(args + j * area + c);
                top = a[j] > top ? a[j] : top;
            }
            // If all are small, scale by the largest: their quotients are finite even if they underflow.
            top = top > T(0) ? Vec<T>{} : top;
            const Vec<T> scale = exp_of<T>(top);
            for (int64_t j = 0; j < J; j++) total += weight[j] = T(1) / (exp_of<T>(top - a[j]) + scale);
            for (int64_t j = 0; j < J; j++) {
                weight[j] = weight[j] / total;
                m += weight[j] * lane.load(near + j * area + c);
                lane.store(args + j * area + c, weight[j]);
            }
            lane.store(mixed + c, m);
            if (!p.slope) return;
            lane.store(slope_of(slope_mixed, row) + c, m);
            for (int64_t j = 0; j < J; j++) {
                lane.store(slope(j, row) + c, weight[j]);
                lane.store(slope(J + j, row) + c, weight[j] * (lane.load(near + j * area + c) - m) * sigmoid<T>(-a[j]));
            }
        });
    }

    // z takes the place of its argument.
    void open(int64_t row, const T* mixed, T* both, T* reset) const {
        const T* u = drive(row) + J * H;
        each<T>(H, [&](auto lane, int64_t c) {
            const Vec<T> m = lane.load(mixed + c);
            const Vec<T> z = sigmoid<T>(lane.load(u + c) + lane.load(both + c));
            const Vec<T> r = sigmoid<T>(lane.load(u + H + c) + lane.load(both + H + c));
            lane.store(reset + c, r * m);
            if (p.slope) {
                lane.store(slope_of(slope_z, row) + c, z);
                lane.store(slope_of(slope_r, row) + c, r);
                lane.store(slope_of(slope_by_r, row) + c, r * (T(1) - r) * m);
                lane.store(slope_of(slope_reset, row) + c, r * m);
            }
            lane.store(both + c, z);
        });
    }

    void finish(int64_t row, const T* mixed, const T* both, const T* s, int64_t area, const T* last) const {
        const T* u = drive(row) + (J + 2) * H;
        T* h = out(p.h) + row * H;
        each<T>(H, [&](auto lane, int64_t c) {
            const Vec<T> n = tanh<T>(lane.load(u + c) + lane.load(last + c));
            const Vec<T> m = lane.load(mixed + c), z = lane.load(both + c);
            lane.store(h + c, m + z * (n - m));
            if (p.bands)
                for (int64_t j = 0; j < J; j++)
                    lane.store(out(p.bands) + j * p.band_stride + row * H + c, (T(1) - z) * lane.load(s + j * area + c));
            if (p.slope) {
                lane.store(slope_of(slope_by_z, row) + c, z * (T(1) - z) * (n - m));
                lane.store(slope_of(slope_by_new, row) + c, z * (T(1) - n * n));
            }
        });
    }

    template <class Rows, class From, class To>
    void pull_block(Rows rows, int64_t count, T* work, From&& from, To&& to) const {
        const int64_t area = rule_block * W, wide = padded<T>(2 * H);
        T *first = work, *product = first + area, *both = product + area, *mixed = both + 2 * area, *sent = mixed + area;
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = rows(i);
            const T *v = from(row), *by_new = slope_of(slope_by_new, row);
            each<T>(H, [&](auto lane, int64_t c) {
                lane.store(first + i * W + c, lane.load(v + c) * lane.load(by_new + c));
            });
            keep(row, J + 2, first + i * W, H);
        }
        multiply(count, first, W, back_candidate, product, W);
        for (int64_t i = 0; i < count; i++)
            pull_gates(rows(i), from(rows(i)), product + i * W, both + i * wide, mixed + i * W);
        multiply(count, both, wide, back_gates, mixed, W, Start::add);
        for (int64_t j = 0; j < J; j++) {
            for (int64_t i = 0; i < count; i++) {
                const T *s = slope(j, rows(i)), *by = slope(J + j, rows(i));
                each<T>(H, [&](auto lane, int64_t c) {
                    const Vec<T> m = lane.load(mixed + i * W + c);
                    lane.store(first + i * W + c, m * lane.load(by + c));
                    lane.store(sent + i * W + c, m * lane.load(s + c));
                });
                keep(rows(i), j, first + i * W, H);
            }
            if (!to(j, rows(0))) continue;
            multiply(count, first, W, back[j], sent, W, Start::add);
            for (int64_t i = 0; i < count; i++) std::memcpy(to(j, rows(i)), sent + i * W, H * sizeof(T));
        }
    }

    void pull_gates(int64_t row, const T* v, const T* product, T* both, T* mixed) const {
        each<T>(H, [&](auto lane, int64_t c) {
            const Vec<T> d = lane.load(v + c), reset = lane.load(product + c);
            lane.store(both + c, d * lane.load(slope_of(slope_by_z, row) + c));
            lane.store(both + H + c, reset * lane.load(slope_of(slope_by_r, row) + c));
            const Vec<T> z = lane.load(slope_of(slope_z, row) + c), r = lane.load(slope_of(slope_r, row) + c);
            lane.store(mixed + c, (T(1) - z) * d + r * reset);
        });
        keep(row, J, both, 2 * H);
    }

    // The gradient of an argument, where it is wanted.
    void keep(int64_t row, int64_t part, const T* from, int64_t columns) const {
        if (p.arguments)
            std::memcpy(out(p.arguments) + (row * (J + 3) + part) * H, from, columns * sizeof(T));
    }

    const autapse_implicit& p;
    const int64_t H, J, W;
    Packed<T> forward[most_offsets], back[most_offsets], gates, back_gates, candidate, back_candidate;
    int64_t size = 0;
};

} // namespace
