// Form: one recurrence, as the driver sees it: its products, the widths of its buffers, and one step of each pass.
#pragma once

#include "abi.h"
#include "memory.h"
#include "product.h"
#include "sparse.h"

namespace {

constexpr int64_t most_delays = sizeof(autapse_scan::delays) / sizeof(int64_t);

// The rows of one step that one thread works on. Each pointer is to the first of them.
template <class T> struct Step {
    int64_t t, count;
    const T* u;                  // the drive, [count, u_stride]
    int64_t u_stride;
    const T *h_prev, *c_prev;    // [count, O], [count, H]
    T *h, *c;                    // [count, O], [count, H]
    T* reserve;                  // [count, reserve_columns]; null if nothing is saved
    T* work;                     // scratch, [count, work_stride]
    T* across;                   // scratch of the thread, for products with a sparse matrix
    const T* earlier[most_delays]; // the state of each delay, [count, O]

    const T *grad_h, *grad_c;    // gradients of the outputs, [count, O], [count, H]; null for zero
    T *dh, *dc;                  // in: gradient of this step's states; out: of the previous step's. Padded strides
    T* grads;                    // gradients of the products and of the drive, [count, gradient_stride]
    T* pending[most_delays]; // where the gradient of the state of each delay is added, strides of dh
    T* scalars;                  // gradients of per-step coefficients, [count, scalars]
};

// y = M x, M [rows, cols]
template <class T> struct Linear {
    const T* matrix;
    int64_t rows, cols;
    Packed<T> forward, backward;

    void apply(int64_t count, const T* x, int64_t x_stride, T* y, int64_t y_stride) const {
        multiply(count, x, x_stride, forward, y, y_stride);
    }
    // dx = M^T dy, or dx += M^T dy
    void back(int64_t count, const T* dy, int64_t dy_stride, T* dx, int64_t dx_stride, Start how) const {
        multiply(count, dy, dy_stride, backward, dx, dx_stride, how);
    }
};

enum class Source { input, previous, reserve, grads, earlier }; // earlier: the state of the first delay, then others

// gradient[rows, cols] = the sum over the batch of (rows columns of grads) x (cols columns of a source)
template <class T> struct Outer {
    T* gradient;
    int64_t column, rows;
    Source source;
    int64_t source_column, cols;
    int64_t owner = -1; // index of the entry whose sum this one adds to, if a matrix is used several times in a step
    T* sum = nullptr;   // [cols, padded rows], set by the driver

    bool has_own_sum() const { return owner < 0; }
};

// The same for the entries of a sparse matrix.
struct SparseOuter {
    int64_t column;
    Source source;
    int64_t source_column;
};

// Rows [first, first + rows) of the drive u = W x + b, and where their gradient is.
template <class T> struct DrivePart {
    int64_t first, rows;
    int64_t column;     // of grads
    Packed<T> backward; // the rows of W for the gradient of x, set by the driver
};

// gradient[count] = the sum over the batch of `count` columns of grads
template <class T> struct Total {
    T* gradient;
    int64_t column, count;
    T* sum = nullptr;
};

template <class E> class List {
public:
    void reserve(Scratch& scratch, int64_t capacity) { entries = scratch.take<E>(capacity); }
    E& add(E entry) { return entries[count++] = entry; }
    E* begin() const { return entries; }
    E* end() const { return entries + count; }
    E& operator[](int64_t n) const { return entries[n]; }
    int64_t size() const { return count; }

private:
    E* entries = nullptr;
    int64_t count = 0;
};

template <class T> struct Form {
    int64_t H, O;
    int64_t drive_columns = 0, work_columns = 0, reserve_columns = 0, gradient_columns = 0, scalars = 0;
    int64_t delays = 0, reach = 1; // number of delays, and the longest one
    int64_t work_stride = 0, gradient_stride = 0, dh_stride = 0, dc_stride = 0;
    const autapse_scan& p;
    List<Linear<T>> linears;
    List<Outer<T>> outers;
    List<SparseOuter> sparse_outers;
    List<Total<T>> totals;
    List<DrivePart<T>> drives;
    Sparse<T> sparse, sparse_back; // a sparse matrix and its transpose, set by the driver

    Form(const autapse_scan& problem, Scratch& scratch) : H(problem.hidden), O(problem.outputs), p(problem) {
        if (problem.form == AUTAPSE_DELAYED)
            for (; delays < most_delays && problem.delays[delays]; delays++)
                reach = larger(reach, problem.delays[delays]);
        linears.reserve(scratch, problem.inner + 2 + delays);
        outers.reserve(scratch, problem.inner + 4 + delays);
        sparse_outers.reserve(scratch, problem.inner);
        totals.reserve(scratch, problem.inner + 6);
        drives.reserve(scratch, 2);
    }

    virtual void forward(const Step<T>& s) const = 0;
    virtual void backward(const Step<T>& s) const = 0;

    const T* in(const void* pointer) const { return static_cast<const T*>(pointer); }
    T* out(void* pointer) const { return static_cast<T*>(pointer); }

protected:
    // Each form declares these in its constructor.

    Linear<T>& linear(const T* matrix, int64_t rows, int64_t cols) { return linears.add({matrix, rows, cols, {}, {}}); }

    // Rows [first, first + rows) of the drive have their gradient at `column` of grads.
    void drive(int64_t first, int64_t rows, int64_t column) {
        drive_columns += rows;
        if (p.grad_weight)
            outers.add({out(p.grad_weight) + first * p.inputs, column, rows, Source::input, 0, p.inputs});
        if (p.grad_bias) totals.add({out(p.grad_bias) + first, column, rows});
        drives.add({first, rows, column, {}});
    }

    // With `again`, the same matrix as in the last call.
    void matrix_gradient(int64_t first, int64_t column, int64_t rows, Source source, int64_t source_column, int64_t cols,
                         bool again = false) {
        if (!p.grad_matrix) return;
        if (p.sparse) {
            sparse_outers.add({column, source, source_column});
            return;
        }
        if (!again) matrix_owner = outers.size();
        outers.add({out(p.grad_matrix) + first, column, rows, source, source_column, cols, again ? matrix_owner : -1});
    }

    void widths(int64_t work, int64_t reserve, int64_t gradient, int64_t row_scalars = 0) {
        work_columns = work;
        reserve_columns = reserve;
        gradient_columns = gradient;
        scalars = row_scalars;
        work_stride = padded<T>(work);
        gradient_stride = quotient_up(gradient, lanes<T>) * lanes<T>;
        dh_stride = padded<T>(O);
        dc_stride = padded<T>(H);
    }

private:
    int64_t matrix_owner = -1; // the entry of the last matrix in `outers`
};

template <class T, class Lane> INLINE Vec<T> total_gradient(Lane lane, const T* dh, const T* from_output, int64_t j) {
    Vec<T> d = lane.load(dh + j);
    return from_output ? d + lane.load(from_output + j) : d;
}

template <class T> INLINE T* row(T* rows, int64_t n, int64_t stride) { return rows ? rows + n * stride : nullptr; }

} // namespace
