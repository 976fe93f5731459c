// Matrix products of the sizes that occur in recurrences: few rows, and a matrix that stays in cache.
//
// Each element of a product is summed in the order of the contraction, in blocks of a fixed size. The order does not depend
// on the tile, the number of rows or the thread, so a row's result does not depend on the other rows.
#pragma once

#include "vector.h"

namespace {

#if AUTAPSE_VECTOR_BYTES == 64
constexpr int tile_rows = 12; // 12 x 2 accumulators of 32 registers
#elif AUTAPSE_VECTOR_BYTES == 32
constexpr int tile_rows = 6; // 6 x 2 of 16
#else
constexpr int tile_rows = 4; // 4 x 2 of 16; without FMA a product needs a register of its own
#endif
constexpr int tile_vectors = 2;
constexpr int64_t block_depth = 256; // of the contraction: one panel of it stays in the first cache

template <class T> constexpr int64_t panel_width = tile_vectors * lanes<T>;

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
template <class T> INLINE int64_t padded(int64_t n) { return quotient_up(n, lanes<T>) * lanes<T>; }

// A matrix [depth, width] in panels of panel_width columns, by blocks of the depth: [block][panel][depth][column]. The
// last panel is one vector wide if that is enough.
template <class T> struct Packed {
    T* data = nullptr;
    int64_t depth = 0, width = 0;

    int64_t size() const { return depth * padded<T>(width); }
    int64_t panels() const { return quotient_up(width, panel_width<T>); }
    const T* panel(int64_t first, int64_t deep, int64_t column) const {
        return data + first * padded<T>(width) + column * deep;
    }
};

// Element (k, n) of the packed matrix is source[k * along + n * across], where one of the two is 1. Packs some panels only,
// so that threads can share the work.
template <class T>
void pack(Packed<T> to, const T* source, int64_t along, int64_t across, int64_t first_panel, int64_t last_panel) {
    for (int64_t first = 0; first < to.depth; first += block_depth) {
        const int64_t deep = smaller(block_depth, to.depth - first);
        for (int64_t panel = first_panel; panel < last_panel; panel++) {
            const int64_t column = panel * panel_width<T>, wide = smaller(panel_width<T>, to.width - column);
            const int64_t line = padded<T>(wide);
            const T* from = source + first * along + column * across;
            T* out = to.data + first * padded<T>(to.width) + column * deep;
            if (along == 1) {
                for (int64_t n = 0; n < wide; n++)
                    for (int64_t k = 0; k < deep; k++) out[k * line + n] = from[n * across + k];
            } else {
                for (int64_t k = 0; k < deep; k++)
                    for (int64_t n = 0; n < wide; n++) out[k * line + n] = from[k * along + n];
            }
            for (int64_t k = 0; k < deep; k++)
                for (int64_t n = wide; n < line; n++) out[k * line + n] = 0;
        }
    }
}

// The left factor of a tile: rows of a matrix ...
template <class T> struct Down {
    const T* base;
    int64_t stride;
    INLINE T at(int row, int64_t k) const { return base[row * stride + k]; }
};
// ... or columns of a matrix whose rows are anywhere in memory, for sums over the rows of a batch.
template <class T> struct Across {
    const T* const* rows;
    int64_t first;
    INLINE T at(int row, int64_t k) const { return rows[k][first + row]; }
};

// c[rows, panels] = start + left * panels; `start` may be c itself (to add), one row for all (step 0), or null for zero.
// It is added last: a sum over many blocks is then a sum of short sums, which loses fewer digits in float.
template <class T, class Left, int rows, int panels, int vectors>
INLINE void tile(
    Left left, const T* right, int64_t panel_stride, int64_t depth, T* c, int64_t stride, const T* start, int64_t step
) {
    constexpr int width = panels * vectors;
    Vec<T> sum[rows][width] = {};
    for (int64_t k = 0; k < depth; k++) {
        Vec<T> b[width];
#pragma GCC unroll 16
        for (int v = 0; v < width; v++)
            b[v] = load(right + (v / vectors) * panel_stride + (k * vectors + v % vectors) * lanes<T>);
#pragma GCC unroll 16
        for (int m = 0; m < rows; m++) {
            Vec<T> a = splat(left.at(m, k));
#pragma GCC unroll 16
            for (int v = 0; v < width; v++) sum[m][v] += a * b[v];
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 16
        for (int v = 0; v < width; v++) {
            if (start) sum[m][v] += load(start + m * step + (int64_t)v * lanes<T>);
            store(c + m * stride + (int64_t)v * lanes<T>, sum[m][v]);
        }
}

// The number of panels per pass: few rows leave registers free, and a single row would wait for its own sums.
constexpr int panels_for(int rows) {
    int fit = tile_rows / rows;
    return fit > 4 ? 4 : fit < 1 ? 1 : fit;
}

template <class T, class Left, int rows>
void tile_row(
    Left left, const T* right, int64_t depth, int64_t width, T* c, int64_t stride, const T* start, int64_t step
) {
    constexpr int together = panels_for(rows);
    int64_t column = 0, panel = depth * panel_width<T>;
    for (; column + together * panel_width<T> <= width; column += together * panel_width<T>)
        tile<T, Left, rows, together, tile_vectors>(
            left, right + column * depth, panel, depth, c + column, stride, start ? start + column : nullptr, step);
    for (; column + panel_width<T> <= width; column += panel_width<T>)
        tile<T, Left, rows, 1, tile_vectors>(
            left, right + column * depth, panel, depth, c + column, stride, start ? start + column : nullptr, step);
    if (column < width)
        tile<T, Left, rows, 1, 1>(
            left, right + column * depth, panel, depth, c + column, stride, start ? start + column : nullptr, step);
}

template <class T, class Left, int rows>
INLINE void tile_of(
    int64_t count, Left left, const T* right, int64_t depth, int64_t width, T* c, int64_t stride, const T* start,
    int64_t step
) {
    if constexpr (rows > 1)
        if (count < rows)
            return tile_of<T, Left, rows - 1>(count, left, right, depth, width, c, stride, start, step);
    tile_row<T, Left, rows>(left, right, depth, width, c, stride, start, step);
}

// Memory with packed matrices begins with the width of the vectors that they were packed for, because another
// instruction set's kernels would read past their end.
template <class T> constexpr int64_t packed_mark = 64 / sizeof(T);
inline void set_mark(void* packed) { *static_cast<int64_t*>(packed) = AUTAPSE_VECTOR_BYTES; }
inline bool has_mark(const void* packed) { return *static_cast<const int64_t*>(packed) == AUTAPSE_VECTOR_BYTES; }

enum class Start { zero, row, add };

// c[rows, padded width] = left[rows, depth] * packed, plus `start`: zero, a row of padded width, or c itself.
template <class T>
void multiply(
    int64_t rows, const T* left, int64_t left_stride, Packed<T> right, T* c, int64_t stride, Start how = Start::zero,
    const T* row = nullptr
) {
    const int64_t tiles = quotient_up(rows, tile_rows), width = padded<T>(right.width);
    for (int64_t first = 0; first < right.depth; first += block_depth) {
        const int64_t deep = smaller(block_depth, right.depth - first);
        const bool add = how == Start::add || first > 0;
        // A panel of this block stays in the first cache while the rows pass by.
        const int64_t pass = tiles > 1 ? panel_width<T> * panels_for((int)quotient_up(rows, tiles)) : width;
        for (int64_t column = 0; column < width; column += pass) {
            const T* panel = right.panel(first, deep, column);
            for (int64_t n = 0; n < tiles; n++) {
                const int64_t top = rows * n / tiles, height = rows * (n + 1) / tiles - top;
                T* to = c + top * stride + column;
                const T* from = add ? to : how == Start::row ? row + column : nullptr;
                tile_of<T, Down<T>, tile_rows>(
                    height, Down<T>{left + top * left_stride + first, left_stride}, panel, deep, smaller(pass, width - column),
                    to, stride, from, add ? stride : 0);
            }
        }
    }
}

} // namespace
