// The time loop, the same for every form.
//
// Rows of a batch do not interact in a recurrence, so each thread takes its own rows through a chunk of steps without
// waiting for the others. The backward pass stops after each chunk to add the chunk's share of the weight gradients:
// there each thread has its own *elements* of the gradients, and every element is summed over the rows in one fixed
// order. So no sum depends on the number of threads.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "form.h"
#include "team.h"

namespace {

constexpr int64_t chunk_rows = 512; // rows of a chunk of steps: its buffers stay in the outer caches

template <class T> void copy_rows(T* to, const T* from, int64_t rows, int64_t columns) {
    if (rows > 0 && to != from) std::memcpy(to, from, rows * columns * sizeof(T));
}

template <class T> class Scan {
public:
    Scan(const autapse_scan& problem, Form<T>& form, Scratch& scratch)
        : p(problem), form(form), scratch(scratch), H(p.hidden), O(p.outputs), D(p.weight ? p.inputs : form.drive_columns),
          G(form.drive_columns) {
        offsets = scratch.take<int64_t>(p.steps + 1);
        sizes = scratch.take<int64_t>(p.steps);
        if (scratch.failed || !read_sizes() || !read_pattern()) return;
        ragged = p.steps > 0 && sizes[0] != sizes[p.steps - 1];
        most_rows = larger(chunk_rows, p.steps ? sizes[0] : 0);
        well_formed = !(p.reverse && ragged);
    }

    bool well_formed = false; // whether the sizes stay inside of the tensors; if not, nothing may run

    // Packed matrices of the forward pass: a mark of the instruction set, the form's matrices, then the drive's. -1 if there
    // is no memory to measure them.
    int64_t packed_size() {
        int64_t total = packed_mark<T>;
        if (p.sparse) total += form.sparse.measure(entries, scratch) / (int64_t)sizeof(T);
        if (scratch.failed) return -1;
        for (Linear<T>& l : form.linears) total += Packed<T>{nullptr, l.cols, l.rows}.size();
        return total + (p.weight ? Packed<T>{nullptr, D, G}.size() + padded<T>(G) : 0);
    }

    void place_packed(void* packed) {
        T* memory = static_cast<T*>(packed) + packed_mark<T>;
        for (Linear<T>& l : form.linears) {
            l.forward = {memory, l.cols, l.rows};
            memory += l.forward.size();
        }
        if (p.weight) {
            drive = {memory, D, G};
            bias = memory + drive.size();
            memory = bias + padded<T>(G);
        }
        sparse_at = reinterpret_cast<char*>(memory);
        if (p.sparse && p.packed) form.sparse.use(sparse_at);
    }

    void pack_forward(Team team) {
        for (Linear<T>& l : form.linears) share(l.forward, l.matrix, 1, l.cols, team);
        if (p.sparse && team.index == 0) form.sparse.fill(entries, in(p.matrix), sparse_at);
        if (!p.weight) return;
        share(drive, in(p.weight), 1, D, team);
        if (team.index == 0)
            for (int64_t g = 0; g < padded<T>(G); g++) bias[g] = p.bias && g < G ? in(p.bias)[g] : T(0);
    }

    int forward() {
        if (p.packed && !has_mark(p.packed)) return AUTAPSE_REPACK;
        const int64_t threads = smaller(worthwhile(), larger(p.batch, 1));
        if (!p.packed) place_packed(scratch.take<T>(packed_size()));
        else place_packed(const_cast<void*>(p.packed));
        if (p.weight) u = scratch.take<T>(most_rows * padded<T>(G));
        work = scratch.take<T>(most_rows_at_once() * form.work_stride);
        take_across(threads);
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        in_parallel(threads, [&](Team team) {
            if (!p.packed) {
                pack_forward(team);
                team.wait();
            }
            forward_rows(team);
        });
        return AUTAPSE_DONE;
    }

    int backward() {
        for (Linear<T>& l : form.linears) {
            l.backward = {nullptr, l.rows, l.cols};
            l.backward.data = scratch.take<T>(l.backward.size());
        }
        if (p.grad_x && p.weight)
            for (DrivePart<T>& part : form.drives) {
                part.backward = {nullptr, part.rows, D};
                part.backward.data = scratch.take<T>(part.backward.size());
            }
        for (Outer<T>& outer : form.outers)
            outer.sum = outer.has_own_sum() ? scratch.take<T>(outer.cols * padded<T>(outer.rows))
                                            : form.outers[outer.owner].sum;
        for (Total<T>& total : form.totals) total.sum = scratch.take<T>(total.count);
        const int64_t threads = worthwhile();
        if (p.sparse && !transpose_entries()) return AUTAPSE_NO_MEMORY;
        if (p.sparse) sparse_at = scratch.take<char>(form.sparse_back.measure(transposed, scratch));
        take_across(threads);
        dh = scratch.take<T>(p.batch * form.dh_stride);
        dc = p.c0 ? scratch.take<T>(p.batch * form.dc_stride) : nullptr;
        pending = form.delays ? scratch.take<T>(form.reach * p.batch * form.dh_stride) : nullptr;
        grads = scratch.take<T>(most_rows * form.gradient_stride);
        arrived = p.flow ? scratch.take<double>(p.batch) : nullptr;
        moved = p.flow ? scratch.take<T>(most_rows * O) : nullptr;
        scalars = scratch.take<T>(most_rows * form.scalars);
        work = scratch.take<T>(most_rows_at_once() * form.work_stride);
        panels = scratch.take<T>(threads * block_depth * panel_width<T>);
        input_block = scratch.take<T>(p.grad_x && p.weight ? threads * input_rows * padded<T>(D) : 1);
        for (int64_t n = 0; n < (int64_t)Source::earlier + form.delays; n++) source_rows[n] = scratch.take<const T*>(most_rows);
        if (scratch.failed) return AUTAPSE_NO_MEMORY;
        in_parallel(threads, [&](Team team) { backward_rows(team); });
        return AUTAPSE_DONE;
    }

private:
    static constexpr int64_t input_rows = 48;
    static constexpr double faintest = 1e-60; // squared norm below which a gradient has no direction

    const T* in(const void* pointer) const { return static_cast<const T*>(pointer); }
    T* out(void* pointer) const { return static_cast<T*>(pointer); }
    // Copies the sizes, because another thread may write to the caller's, and finds the first row of each step. False if
    // they lead outside of the tensors.
    bool read_sizes() {
        offsets[0] = 0;
        for (int64_t t = 0; t < p.steps; t++) {
            sizes[t] = p.sizes[t];
            if (sizes[t] < 0 || sizes[t] > (t ? sizes[t - 1] : p.batch)) return false;
            offsets[t + 1] = offsets[t] + sizes[t];
            if (offsets[t + 1] > p.rows) return false;
        }
        return offsets[p.steps] == p.rows;
    }

    // Copies the pattern of a sparse matrix. False if it leads outside of the tensors, or is not sorted.
    bool read_pattern() {
        if (!p.sparse || p.packed) return true;
        const int64_t count = p.connections, most = INT32_MAX;
        if (count < 0 || count > most || H > most) return false;
        int64_t* starts = scratch.take<int64_t>(H + 1);
        entry_rows = scratch.take<int32_t>(count);
        int32_t* columns = scratch.take<int32_t>(count);
        if (scratch.failed) return false;
        int64_t row = -1, column = -1; // of the entry before
        for (int64_t n = 0; n < count; n++) {
            const int64_t r = p.pattern[n], c = p.pattern[count + n];
            if (r < 0 || r >= H || c < 0 || c >= H || r < row || (r == row && c <= column)) return false;
            while (row < r) starts[++row] = n;
            column = c;
            entry_rows[n] = (int32_t)r;
            columns[n] = (int32_t)c;
        }
        while (row < H) starts[++row] = count;
        entries = {H, H, starts, columns, nullptr};
        return true;
    }

    // The entries sorted by column and then by row.
    bool transpose_entries() {
        const int64_t count = entries.count();
        int64_t* starts = scratch.take<int64_t>(H + 1);
        int32_t *rows = scratch.take<int32_t>(count), *places = scratch.take<int32_t>(count);
        int64_t* cursor = scratch.take<int64_t>(H);
        if (scratch.failed) return false;
        for (int64_t c = 0; c <= H; c++) starts[c] = 0;
        for (int64_t n = 0; n < count; n++) starts[entries.columns[n] + 1]++;
        for (int64_t c = 0; c < H; c++) {
            starts[c + 1] += starts[c];
            cursor[c] = starts[c];
        }
        for (int64_t n = 0; n < count; n++) {
            const int64_t at = cursor[entries.columns[n]]++;
            rows[at] = entry_rows[n];
            places[at] = (int32_t)n;
        }
        transposed = {H, H, starts, rows, places};
        return true;
    }

    void take_across(int64_t threads) {
        if (!p.sparse) return;
        across_size = Sparse<T>::scratch_size(H, H);
        across = scratch.take<T>(threads * across_size);
    }

    int64_t most_rows_at_once() const { return p.steps ? sizes[0] : 1; }

    int64_t worthwhile() const {
        const double products = p.sparse ? (double)p.connections : (double)O * G;
        return threads_for((double)p.rows * (products + (double)D * G), p.threads);
    }

    // A chunk has as many steps as fit into chunk_rows, and at least one.
    int64_t chunk_end(int64_t begin) const {
        int64_t end = begin + 1;
        while (end < p.steps && offsets[end + 1] - offsets[begin] <= chunk_rows) end++;
        return end;
    }
    int64_t chunk_begin(int64_t end) const {
        int64_t begin = end - 1;
        while (begin > 0 && offsets[end] - offsets[begin - 1] <= chunk_rows) begin--;
        return begin;
    }

    // The first row of a thread in the steps [begin, end): each thread gets about the same number of steps.
    int64_t boundary(int64_t begin, int64_t end, int64_t index, int64_t count) const {
        if (sizes[begin] == sizes[end - 1] || index == 0 || index == count) return sizes[begin] * index / count;
        const int64_t wanted = (offsets[end] - offsets[begin]) * index / count;
        int64_t low = 0, high = sizes[begin];
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            int64_t covered = 0;
            for (int64_t t = begin; t < end; t++) covered += smaller(sizes[t], middle);
            if (covered < wanted) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    // The first row of step t in x, h, c, reserve and their gradients.
    int64_t place(int64_t t) const { return p.reverse ? offsets[p.steps - 1 - t] : offsets[t]; }

    const T* previous(const void* initial, const void* states, int64_t t, int64_t row, int64_t columns) const {
        return t == 0 ? in(initial) + row * columns : in(states) + (place(t - 1) + row) * columns;
    }

    // The state of step t, which may be before the first one.
    const T* state(int64_t t, int64_t row) const {
        return t >= -1 ? previous(p.h0, p.h, t + 1, row, O) : in(p.history) + ((-2 - t) * p.batch + row) * O;
    }

    // Where gradients from later steps wait for the state of step t. A place is used again after `reach` steps.
    T* waiting(int64_t t, int64_t row) const {
        return pending + ((t + form.reach) % form.reach * p.batch + row) * form.dh_stride;
    }

    Step<T> step(int64_t t, int64_t row, int64_t count, Team team) const {
        Step<T> s{};
        const int64_t at = place(t) + row;
        s.across = across + team.index * across_size;
        s.t = t;
        s.count = count;
        s.h_prev = previous(p.h0, p.h, t, row, O);
        s.h = out(p.h) + at * O;
        if (p.c0) {
            s.c_prev = p.c ? previous(p.c0, p.c, t, row, H) : in(p.c_n) + row * H;
            s.c = p.c ? out(p.c) + at * H : out(p.c_n) + row * H;
        }
        s.reserve = p.reserve ? out(p.reserve) + at * form.reserve_columns : nullptr;
        s.work = work + row * form.work_stride;
        for (int64_t d = 0; d < form.delays; d++) s.earlier[d] = state(t - p.delays[d], row);
        return s;
    }

    void forward_rows(Team team) {
        if (p.c0 && !p.c) { // the cells are kept in c_n, one row per sequence
            const int64_t first = team.from(p.batch), last = team.to(p.batch);
            copy_rows(out(p.c_n) + first * H, in(p.c0) + first * H, last - first, H);
            team.wait();
        }
        for (int64_t begin = 0; begin < p.steps;) {
            const int64_t end = chunk_end(begin);
            const int64_t first = boundary(begin, end, team.index, team.count);
            const int64_t last = boundary(begin, end, team.index + 1, team.count);
            drive_chunk(begin, end, first, last);
            for (int64_t t = begin; t < end && sizes[t] > first; t++) {
                Step<T> s = step(t, first, smaller(last, sizes[t]) - first, team);
                s.u = p.weight ? u + (offsets[t] - offsets[begin] + first) * padded<T>(G)
                               : in(p.x) + (place(t) + first) * G;
                s.u_stride = p.weight ? padded<T>(G) : G;
                form.forward(s);
                const int64_t running = t + 1 < p.steps ? sizes[t + 1] : 0;
                finish(t, larger(first, running), smaller(last, sizes[t]));
            }
            if (ragged) team.wait(); // rows are distributed again
            begin = end;
        }
        if (team.index == 0) {
            const int64_t first = p.steps ? sizes[0] : 0; // sequences of length 0 keep their state
            copy_rows(out(p.h_n) + first * O, in(p.h0) + first * O, p.batch - first, O);
            if (p.c) copy_rows(out(p.c_n) + first * H, in(p.c0) + first * H, p.batch - first, H);
        }
    }

    // u = W x + b for this thread's rows of a chunk, not for the whole sequence at once in new memory
    void drive_chunk(int64_t begin, int64_t end, int64_t first, int64_t last) {
        if (!p.weight) return;
        if (first == 0 && last == sizes[begin] && !p.reverse)
            return drive_rows(offsets[begin], offsets[end] - offsets[begin], 0);
        for (int64_t t = begin; t < end && sizes[t] > first; t++)
            drive_rows(place(t) + first, smaller(last, sizes[t]) - first, offsets[t] - offsets[begin] + first);
    }

    void drive_rows(int64_t at, int64_t count, int64_t local) {
        if (count > 0)
            multiply(count, in(p.x) + at * D, D, drive, u + local * padded<T>(G), padded<T>(G), Start::row, (const T*)bias);
    }

    // Sequences [first, last) end with step t.
    void finish(int64_t t, int64_t first, int64_t last) {
        if (first >= last) return;
        copy_rows(out(p.h_n) + first * O, in(p.h) + (place(t) + first) * O, last - first, O);
        if (p.c) copy_rows(out(p.c_n) + first * H, in(p.c) + (place(t) + first) * H, last - first, H);
    }

    void backward_rows(Team team) {
        for (Linear<T>& l : form.linears) share(l.backward, l.matrix, l.cols, 1, team);
        if (p.sparse && team.index == 0) form.sparse_back.fill(transposed, in(p.matrix), sparse_at);
        if (p.sparse && p.grad_matrix)
            clear(out(p.grad_matrix) + team.from(entries.count()), team.to(entries.count()) - team.from(entries.count()));
        if (p.grad_x && p.weight)
            for (DrivePart<T>& part : form.drives) share(part.backward, in(p.weight) + part.first * D, D, 1, team);
        for (Outer<T>& outer : form.outers) {
            const int64_t size = outer.cols * padded<T>(outer.rows);
            if (outer.has_own_sum()) clear(outer.sum + team.from(size), team.to(size) - team.from(size));
        }
        for (Total<T>& total : form.totals) clear(total.sum + team.from(total.count), team.to(total.count) - team.from(total.count));
        for (int64_t row = team.from(p.batch); row < team.to(p.batch); row++) {
            seed(dh + row * form.dh_stride, form.dh_stride, p.grad_h_n, row, O);
            if (dc) seed(dc + row * form.dc_stride, form.dc_stride, p.grad_c_n, row, H);
            for (int64_t t = 0; pending && t < form.reach; t++) clear(waiting(t, row), form.dh_stride);
        }
        team.wait();
        for (int64_t end = p.steps; end > 0;) {
            const int64_t begin = chunk_begin(end);
            back_chunk(begin, end, team);
            team.wait();
            for (const Outer<T>& outer : form.outers) add_outer(outer, offsets[end] - offsets[begin], team);
            for (const SparseOuter& outer : form.sparse_outers) add_sparse(outer, offsets[end] - offsets[begin], team);
            for (const Total<T>& total : form.totals) add_total(total, offsets[end] - offsets[begin], team);
            for (int64_t t = begin + team.index; t < end; t += team.count) add_scalars(t, begin);
            if (p.grad_x) input_gradient(begin, end, team);
            team.wait();
            end = begin;
        }
        finish_gradients(team);
    }

    static void clear(T* memory, int64_t count) { std::memset(memory, 0, count * sizeof(T)); }

    void seed(T* to, int64_t stride, const void* gradient, int64_t row, int64_t columns) {
        clear(to, stride);
        if (gradient) copy_rows(to, in(gradient) + row * columns, 1, columns);
    }

    void back_chunk(int64_t begin, int64_t end, Team team) {
        const int64_t first = boundary(begin, end, team.index, team.count);
        const int64_t last = boundary(begin, end, team.index + 1, team.count);
        for (int64_t t = end - 1; t >= begin; t--) {
            const int64_t count = smaller(last, sizes[t]) - first;
            if (count <= 0) continue;
            const int64_t at = place(t) + first, local = offsets[t] - offsets[begin] + first;
            Step<T> s = step(t, first, count, team);
            s.grad_h = p.grad_h ? in(p.grad_h) + at * O : nullptr;
            s.grad_c = p.grad_c ? in(p.grad_c) + at * H : nullptr;
            s.dh = dh + first * form.dh_stride;
            s.dc = dc ? dc + first * form.dc_stride : nullptr;
            s.grads = grads + local * form.gradient_stride;
            s.scalars = scalars + local * form.scalars;
            if (pending) take_waiting(t, first, count);
            for (int64_t d = 0; d < form.delays; d++) s.pending[d] = waiting(t - p.delays[d], first);
            if (p.flow || p.clip < std::numeric_limits<double>::infinity()) meet(s, first);
            form.backward(s);
            const bool flows = p.flow && t > 0; // the state before the first step is not one of the network's
            if (flows) move(s, first, moved + local * O);
            for (int64_t r = 0; r < count; r++) {
                source_rows[(int)Source::input][local + r] = in(p.x) + (at + r) * D;
                source_rows[(int)Source::previous][local + r] = (flows ? moved + local * O : s.h_prev) + r * O;
                source_rows[(int)Source::reserve][local + r] = row(s.reserve, r, form.reserve_columns);
                source_rows[(int)Source::grads][local + r] = s.grads + r * form.gradient_stride;
                for (int64_t d = 0; d < form.delays; d++)
                    source_rows[(int)Source::earlier + d][local + r] = s.earlier[d] + r * O;
            }
        }
    }

    // Clips the gradient g of this step's states, which is that of the outputs and of later steps together.
    void meet(Step<T>& s, int64_t first) {
        for (int64_t r = 0; r < s.count; r++) {
            T *to_h = s.dh + r * form.dh_stride, *to_c = row(s.dc, r, form.dc_stride);
            add_clipped(to_h, row(s.grad_h, r, O), O);
            if (to_c) add_clipped(to_c, row(s.grad_c, r, H), H);
            if (arrived) arrived[first + r] = square(to_h, O) + (to_c ? square(to_c, H) : 0);
        }
        s.grad_h = s.grad_c = nullptr;
    }

    void add_clipped(T* to, const T* from, int64_t count) const {
        const T bound = (T)p.clip;
        for (int64_t j = 0; j < count; j++) {
            const T sum = from ? to[j] + from[j] : to[j];
            to[j] = sum > bound ? bound : sum < -bound ? -bound : sum; // NaN stays
        }
    }

    // In double, because the gradients of long sequences are small.
    static double square(const T* x, int64_t count) {
        double parts[8] = {}, total = 0;
        int64_t j = 0;
        for (; j + 8 <= count; j += 8)
            for (int64_t k = 0; k < 8; k++) parts[k] += (double)x[j + k] * x[j + k];
        for (; j < count; j++) total += (double)x[j] * x[j];
        for (double part : parts) total += part;
        return total;
    }

    // The regulariser's term (|q| / |g| - 1)^2 with q = g J adds to the gradient of the recurrent matrix M what the loss
    // would if h_(t-1) were moved by a multiple of q: the activations are constants, so q depends on M as M h does.
    void move(const Step<T>& s, int64_t first, T* to) const {
        for (int64_t r = 0; r < s.count; r++) {
            const T *q = s.dh + r * form.dh_stride, *q_c = row(s.dc, r, form.dc_stride);
            const double g2 = arrived[first + r], q2 = square(q, O) + (q_c ? square(q_c, H) : 0);
            const bool faint = !(g2 > faintest && q2 > faintest);
            // In double: the square of a short vector's length is below the smallest float.
            const double scale = faint ? 0 : 2 * p.flow * (1 / std::sqrt(g2) - 1 / std::sqrt(q2)) / std::sqrt(g2);
            for (int64_t j = 0; j < O; j++) to[r * O + j] = s.h_prev[r * O + j] + (T)(scale * q[j]);
        }
    }

    // Adds the gradients that wait for step t to those of its states.
    void take_waiting(int64_t t, int64_t first, int64_t count) {
        T *to = dh + first * form.dh_stride, *from = waiting(t, first);
        for (int64_t n = 0; n < count * form.dh_stride; n++) to[n] += from[n];
        clear(from, count * form.dh_stride);
    }

    // Adds the rows of a chunk; the threads share the tiles of the sum.
    void add_outer(const Outer<T>& outer, int64_t rows, Team team) {
        const int64_t heights = quotient_up(outer.cols, tile_rows), width = padded<T>(outer.rows);
        const int64_t tiles = heights * quotient_up(width, panel_width<T>);
        const T* const* sources = source_rows[(int)outer.source];
        Packed<T> panel{panels + team.index * block_depth * panel_width<T>, 0, 0};
        for (int64_t block = 0; block < rows; block += block_depth) {
            panel.depth = smaller(block_depth, rows - block);
            int64_t packed = -1;
            for (int64_t n = team.from(tiles); n < team.to(tiles); n++) {
                const int64_t column = n / heights * panel_width<T>, height = n % heights;
                if (column != packed) {
                    panel.width = smaller(panel_width<T>, outer.rows - column);
                    pack(panel, grads + block * form.gradient_stride + outer.column + column, form.gradient_stride, 1, 0, 1);
                    packed = column;
                }
                const int64_t top = outer.cols * height / heights, bottom = outer.cols * (height + 1) / heights;
                T* sum = outer.sum + top * width + column;
                tile_of<T, Across<T>, tile_rows>(
                    bottom - top, Across<T>{sources + block, outer.source_column + top}, panel.data, panel.depth,
                    padded<T>(panel.width), sum, width, sum, width);
            }
        }
    }

    // The same for the entries of a sparse matrix, each of which belongs to one thread.
    void add_sparse(const SparseOuter& outer, int64_t rows, Team team) {
        const T* const* sources = source_rows[(int)outer.source];
        T* sum = out(p.grad_matrix);
        for (int64_t r = 0; r < rows; r++) {
            const T *da = grads + r * form.gradient_stride + outer.column, *x = sources[r] + outer.source_column;
            for (int64_t n = team.from(entries.count()); n < team.to(entries.count()); n++)
                sum[n] += da[entry_rows[n]] * x[entries.columns[n]];
        }
    }

    void add_total(const Total<T>& total, int64_t rows, Team team) {
        const int64_t from = team.from(total.count), count = team.to(total.count) - from;
        each<T>(count, [&](auto lane, int64_t j) {
            const T* column = grads + total.column + from + j;
            Vec<T> sum{};
            for (int64_t r = 0; r < rows; r++) sum += lane.load(column + r * form.gradient_stride);
            lane.store(total.sum + from + j, lane.load(total.sum + from + j) + sum);
        });
    }

    void add_scalars(int64_t t, int64_t begin) {
        const int64_t half = form.scalars / 2;
        for (int64_t i = 0; i < form.scalars; i++) {
            void* gradient = i < half ? p.grad_alpha : p.grad_beta;
            if (!gradient) continue;
            T sum = 0;
            for (int64_t r = 0; r < sizes[t]; r++) sum += scalars[(offsets[t] - offsets[begin] + r) * form.scalars + i];
            out(gradient)[t * half + i % half] = sum;
        }
    }

    // dx = W^T du for the rows of a chunk
    void input_gradient(int64_t begin, int64_t end, Team team) {
        if (!p.reverse) {
            const int64_t rows = offsets[end] - offsets[begin], first = team.from(rows);
            return input_gradient_rows(first, offsets[begin] + first, team.to(rows) - first, team);
        }
        for (int64_t t = begin; t < end; t++) {
            const int64_t first = team.from(sizes[t]), count = team.to(sizes[t]) - first;
            input_gradient_rows(offsets[t] - offsets[begin] + first, place(t) + first, count, team);
        }
    }

    void input_gradient_rows(int64_t local, int64_t at, int64_t rows, Team team) {
        T* block = input_block + team.index * input_rows * padded<T>(D);
        for (int64_t row = 0; row < rows; row += input_rows) {
            const int64_t count = smaller(input_rows, rows - row);
            T* to = out(p.grad_x) + (at + row) * D;
            const T* from = grads + (local + row) * form.gradient_stride;
            Start how = Start::zero;
            for (const DrivePart<T>& part : form.drives) {
                const T* du = from + part.column;
                if (p.weight) {
                    multiply(count, du, form.gradient_stride, part.backward, block, padded<T>(D), how);
                    how = Start::add;
                } else {
                    for (int64_t r = 0; r < count; r++)
                        copy_rows(to + r * D + part.first, du + r * form.gradient_stride, 1, part.rows);
                }
            }
            if (p.weight)
                for (int64_t r = 0; r < count; r++) copy_rows(to + r * D, block + r * padded<T>(D), 1, D);
        }
    }

    void finish_gradients(Team team) {
        for (const Outer<T>& outer : form.outers) {
            if (!outer.has_own_sum()) continue;
            const int64_t width = padded<T>(outer.rows);
            // Square blocks: a column at a time would touch a new page with each element.
            for (int64_t first = team.from(outer.rows); first < team.to(outer.rows); first += 16)
                for (int64_t left = 0; left < outer.cols; left += 16)
                    for (int64_t n = first; n < smaller(first + 16, team.to(outer.rows)); n++)
                        for (int64_t m = left; m < smaller(left + 16, outer.cols); m++)
                            outer.gradient[n * outer.cols + m] = outer.sum[m * width + n];
        }
        for (const Total<T>& total : form.totals)
            copy_rows(total.gradient + team.from(total.count), total.sum + team.from(total.count),
                      team.to(total.count) - team.from(total.count), 1);
        for (int64_t row = team.from(p.batch); row < team.to(p.batch); row++) {
            if (pending) take_waiting(-1, row, 1);
            for (int64_t t = -2; p.grad_history && t >= -form.reach; t--)
                copy_rows(out(p.grad_history) + ((-2 - t) * p.batch + row) * O, waiting(t, row), 1, O);
            if (p.grad_h0) copy_rows(out(p.grad_h0) + row * O, dh + row * form.dh_stride, 1, O);
            if (p.grad_c0) copy_rows(out(p.grad_c0) + row * H, dc + row * form.dc_stride, 1, H);
        }
    }

    const autapse_scan& p;
    Form<T>& form;
    Scratch& scratch;
    const int64_t H, O, D, G;
    int64_t* offsets = nullptr; // [T + 1], the first row of each step
    int64_t* sizes = nullptr;   // [T]
    bool ragged = false;
    int64_t most_rows = 0; // of a chunk
    Entries entries, transposed;   // of a sparse matrix
    int32_t* entry_rows = nullptr; // the row of each entry
    char* sparse_at = nullptr;     // where the sparse matrix is packed
    T* across = nullptr;           // scratch of all threads, for products with it
    int64_t across_size = 0;       // of one thread
    Packed<T> drive;
    T *bias = nullptr, *u = nullptr, *work = nullptr;
    T *dh = nullptr, *dc = nullptr, *pending = nullptr, *grads = nullptr, *scalars = nullptr, *panels = nullptr, *input_block = nullptr;
    double* arrived = nullptr; // [B], the squared norm of the gradient at a step
    T* moved = nullptr;        // [rows of a chunk, O], the previous states, moved for the regulariser
    const T** source_rows[(int)Source::earlier + most_delays] = {};
};

} // namespace
