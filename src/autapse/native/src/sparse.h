// Products with a sparse matrix: y = M x, where a row of M has few entries.
//
// The rows of M are cut into slices of a few rows, whose sums are formed side by side. Slot k of a slice has the k-th
// entry of each of its rows, and a zero for a row that has fewer entries. There are three ways to compute a product:
//  - one row x at a time, whose elements are loaded one by one (wide blocks of columns);
//  - one row x at a time, whose elements are picked from two vectors (narrow blocks), where the vectors are large;
//  - many rows x at once, one in each lane of a vector.
// In all of them the entries of a row are added one after the other, in the order of their columns. So all give the same
// bits, and a sequence has the same bits alone and in a batch.
#pragma once

#include <algorithm>
#include <utility>

#include "memory.h"
#include "product.h"

namespace {

// The entries of a sparse matrix, sorted by row and then by column.
struct Entries {
    int64_t rows = 0, cols = 0;
    const int64_t* starts = nullptr;  // [rows + 1], the first entry of each row
    const int32_t* columns = nullptr; // [count]
    const int32_t* places = nullptr;  // [count], where its value is; null if it is at the same place

    int64_t count() const { return starts[rows]; }
    int64_t place(int64_t n) const { return places ? places[n] : n; }
};

// A slice of some rows in a block of columns, with its number of slots.
struct Run {
    int32_t block, slice;
    int64_t slots;
};

template <class E> int64_t bytes_of(int64_t count) { return quotient_up(count * (int64_t)sizeof(E), 64) * 64; }

template <class E> E* placed(char*& memory, int64_t count) {
    E* at = reinterpret_cast<E*>(memory);
    memory += bytes_of<E>(count);
    return at;
}

// The entries in slices of `height` rows and blocks of `width` columns: block by block, and there by the number of slots.
// Then successive runs mostly have the same number, which a processor predicts.
template <class T, int height_, int64_t width_, class Index, int unit> struct Slices {
    static constexpr int64_t height = height_, width = width_;

    int64_t run_count = 0, slots = 0;
    Run* runs = nullptr;
    T* values = nullptr;    // [slots, height]
    Index* index = nullptr; // [slots, height], the column within the block, times `unit`
    int64_t* plan = nullptr; // [blocks, slices], the slots of each run, then its first slot

    static int64_t blocks(const Entries& e) { return quotient_up(e.cols, width); }
    static int64_t slices(const Entries& e) { return quotient_up(e.rows, height); }

    // Calls f(n, row, run, k): entry n of a row is number k in its run.
    template <class F> static void each_entry(const Entries& e, F&& f) {
        for (int64_t row = 0; row < e.rows; row++) {
            int64_t last = -1, k = 0;
            for (int64_t n = e.starts[row]; n < e.starts[row + 1]; n++) {
                const int64_t block = e.columns[n] / width;
                k = block == last ? k + 1 : 0;
                last = block;
                f(n, row, block * slices(e) + row / height, k);
            }
        }
    }

    void measure(const Entries& e, Scratch& scratch) {
        const int64_t count = blocks(e) * slices(e);
        run_count = slots = 0;
        plan = scratch.take<int64_t>(count);
        if (scratch.failed) return;
        for (int64_t n = 0; n < count; n++) plan[n] = 0;
        each_entry(e, [&](int64_t, int64_t, int64_t run, int64_t k) { plan[run] = larger(plan[run], k + 1); });
        for (int64_t n = 0; n < count; n++) {
            run_count += plan[n] > 0;
            slots += plan[n];
        }
    }

    int64_t bytes() const {
        return bytes_of<Run>(run_count) + bytes_of<T>(slots * height) + bytes_of<Index>(slots * height);
    }

    void place(char*& memory) {
        runs = placed<Run>(memory, run_count);
        values = placed<T>(memory, slots * height);
        index = placed<Index>(memory, slots * height);
    }

    void fill(const Entries& e, const T* from) {
        order(e);
        for (int64_t n = 0; n < slots * height; n++) values[n] = 0;
        for (int64_t n = 0; n < slots * height; n++) index[n] = 0;
        each_entry(e, [&](int64_t n, int64_t row, int64_t run, int64_t k) {
            const int64_t at = (plan[run] + k) * height + row % height;
            values[at] = from[e.place(n)];
            index[at] = (Index)(e.columns[n] % width * unit);
        });
    }

private:
    void order(const Entries& e) {
        Run* run = runs;
        int64_t slot = 0;
        for (int64_t block = 0; block < blocks(e); block++) {
            int64_t* own = plan + block * slices(e);
            Run* first = run;
            for (int64_t slice = 0; slice < slices(e); slice++)
                if (own[slice]) *run++ = {(int32_t)block, (int32_t)slice, own[slice]};
            std::sort(first, run, [](const Run& a, const Run& b) {
                return a.slots != b.slots ? a.slots < b.slots : a.slice < b.slice;
            });
            for (; first < run; first++) {
                own[first->slice] = slot;
                slot += first->slots;
            }
        }
    }
};

// The sums of a slice side by side in a vector; of 32 bytes at most, since its elements are loaded one by one.
template <class T> constexpr int slice_height = (vector_bytes > 32 ? 32 : vector_bytes) / (int)sizeof(T);
template <class T> struct SliceOf {
    typedef T type __attribute__((vector_size(slice_height<T> * sizeof(T))));
};

// The elements of x whose places in bytes are the indices of a slot. Two indices are read as one word, which needs the
// fewest instructions, and a list of values compiles to better code than a loop.
template <class T, int... i>
typename SliceOf<T>::type picked(const T* x, const uint16_t* index, std::integer_sequence<int, i...>) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first index is in the lowest bits of a word");
    uint32_t words[quotient_up(sizeof...(i), 2)] = {};
    __builtin_memcpy(words, index, sizeof...(i) * sizeof(uint16_t));
    const auto at = [x](uint32_t place) { return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(x) + place); };
    return typename SliceOf<T>::type{at(i % 2 ? words[i / 2] >> 16 : (uint16_t)words[i / 2])...};
}

template <class T> class Sparse {
public:
    int64_t rows = 0, cols = 0;

    // Bytes of the packed matrix. Until `fill`, nothing may change.
    int64_t measure(const Entries& e, Scratch& scratch) {
        wide.measure(e, scratch);
        narrow = {};
        if (has_tables && 2 * e.count() >= e.rows * quotient_up(e.cols, narrow.width)) narrow.measure(e, scratch);
        return 64 + wide.bytes() + narrow.bytes();
    }
    void fill(const Entries& e, const T* values, char* memory) {
        int64_t* sizes = placed<int64_t>(memory, 4);
        sizes[0] = wide.run_count, sizes[1] = wide.slots, sizes[2] = narrow.run_count, sizes[3] = narrow.slots;
        wide.place(memory);
        narrow.place(memory);
        wide.fill(e, values);
        if (narrow.run_count) narrow.fill(e, values);
    }
    // Use what `fill` wrote.
    void use(char* memory) {
        const int64_t* sizes = placed<int64_t>(memory, 4);
        wide.run_count = sizes[0], wide.slots = sizes[1], narrow.run_count = sizes[2], narrow.slots = sizes[3];
        wide.place(memory);
        narrow.place(memory);
    }

    // Elements of scratch memory that a thread needs for `multiply`.
    static int64_t scratch_size(int64_t rows, int64_t cols) {
        return (quotient_up(rows, slice_height<T>) * slice_height<T> + quotient_up(cols, table_width) * table_width) * lanes<T>;
    }

    // y[count, padded rows] = M x for each row x, added to y with `add`; beyond the rows of M, y is not defined.
    __attribute__((noinline)) void multiply(
        int64_t count, const T* x, int64_t x_stride, T* y, int64_t y_stride, bool add, T* scratch) const {
        // A single row in a vector of many lanes would waste the others.
        const int64_t least = narrow.run_count ? 3 : 2;
        int64_t done = 0;
        for (; count - done >= least; done += smaller(lanes<T>, count - done))
            many(smaller(lanes<T>, count - done), x + done * x_stride, x_stride, y + done * y_stride, y_stride, add, scratch);
        for (; done < count; done++)
            single(x + done * x_stride, y + done * y_stride, add, scratch);
    }

private:
    static constexpr bool has_tables = vector_bytes == 64 && sizeof(T) == 4; // elsewhere it is not faster
    static constexpr int64_t table_width = 2 * lanes<T>;
    using Slice = typename SliceOf<T>::type;

    Slices<T, slice_height<T>, 65536 / sizeof(T), uint16_t, sizeof(T)> wide;
    Slices<T, lanes<T>, table_width, uint8_t, 1> narrow;

    // The same for one row x.
    void single(const T* x, T* y, bool add, T* scratch) const {
        if (!add)
            for (int64_t i = 0; i < padded<T>(rows); i++) y[i] = 0;
        if (narrow.run_count) by_tables(x, y, scratch);
        else one(x, y);
    }

    // f(count, run) for one run, or for two of the same block and number of slots: a single one would wait for its own
    // sums. `count` is a constant.
    template <class S, class F> static INLINE void each_pair(const S& slices, F&& f) {
        for (const Run *run = slices.runs, *end = run + slices.run_count; run != end;)
            if (run + 1 != end && run[1].block == run->block && run[1].slots == run->slots) {
                f(std::integral_constant<int, 2>(), run);
                run += 2;
            } else {
                f(std::integral_constant<int, 1>(), run++);
            }
    }

    void one(const T* x, T* y) const {
        const T* value = wide.values;
        const uint16_t* index = wide.index;
        each_pair(wide, [&](auto count, const Run* run) {
            const T* from = x + run->block * wide.width;
            const int64_t size = run->slots * wide.height;
            Slice sum[count], weight;
            for (int c = 0; c < count; c++) __builtin_memcpy(&sum[c], y + run[c].slice * wide.height, sizeof(Slice));
            for (int64_t k = 0; k < size; k += wide.height)
                for (int c = 0; c < count; c++) {
                    __builtin_memcpy(&weight, value + c * size + k, sizeof(weight));
                    sum[c] += weight * picked<T>(from, index + c * size + k, std::make_integer_sequence<int, slice_height<T>>());
                }
            for (int c = 0; c < count; c++) __builtin_memcpy(y + run[c].slice * wide.height, &sum[c], sizeof(Slice));
            value += count * size;
            index += count * size;
        });
    }

    void by_tables(const T* x, T* y, T* scratch) const {
        for (int64_t j = 0; j < cols; j++) scratch[j] = x[j];
        for (int64_t j = cols; j < quotient_up(cols, table_width) * table_width; j++) scratch[j] = 0;
        const T* value = narrow.values;
        const uint8_t* index = narrow.index;
        each_pair(narrow, [&](auto count, const Run* run) {
            const T* table = scratch + run->block * table_width;
            const Vec<T> low = load(table), high = load(table + lanes<T>);
            const int64_t size = run->slots * narrow.height;
            Vec<T> sum[count];
            for (int c = 0; c < count; c++) sum[c] = load((const T*)y + run[c].slice * narrow.height);
            for (int64_t k = 0; k < size; k += narrow.height)
                for (int c = 0; c < count; c++) sum[c] += load(value + c * size + k) * pick<T>(low, high, index + c * size + k);
            for (int c = 0; c < count; c++) store(y + run[c].slice * narrow.height, sum[c]);
            value += count * size;
            index += count * size;
        });
    }

    void many(int64_t count, const T* x, int64_t x_stride, T* y, int64_t y_stride, bool add, T* scratch) const {
        T *across = scratch, *sums = scratch + cols * lanes<T>; // [cols, lanes], [rows, lanes]
        const int64_t height = wide.height, rows_in_slices = quotient_up(rows, height) * height;
        for (int64_t j = 0; j < cols; j++)
            for (int64_t r = 0; r < lanes<T>; r++) across[j * lanes<T> + r] = r < count ? x[r * x_stride + j] : T(0);
        for (int64_t i = 0; i < rows_in_slices; i++)
            for (int64_t r = 0; r < lanes<T>; r++)
                sums[i * lanes<T> + r] = add && r < count && i < rows ? y[r * y_stride + i] : T(0);
        const T* value = wide.values;
        const uint16_t* index = wide.index;
        for (const Run* run = wide.runs; run != wide.runs + wide.run_count; run++) {
            const T* from = across + run->block * wide.width * lanes<T>;
            T* to = sums + run->slice * height * lanes<T>;
            Vec<T> sum[slice_height<T>];
            for (int i = 0; i < slice_height<T>; i++) sum[i] = load(to + i * lanes<T>);
            for (int64_t k = 0; k < run->slots; k++, value += height, index += height)
#pragma GCC unroll 8
                for (int i = 0; i < slice_height<T>; i++) sum[i] += splat(value[i]) * load(from + index[i] / sizeof(T) * lanes<T>);
            for (int i = 0; i < slice_height<T>; i++) store(to + i * lanes<T>, sum[i]);
        }
        for (int64_t r = 0; r < count; r++)
            for (int64_t i = 0; i < rows; i++) y[r * y_stride + i] = sums[i * lanes<T> + r];
    }
};

} // namespace
