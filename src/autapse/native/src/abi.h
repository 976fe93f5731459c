// The C ABI: plain structs that describe a problem, and the few functions that take them.
// Nothing here depends on a framework. Pointers are to dense row-major memory of the problem's element type.
#pragma once

#include <cstdint>

#define AUTAPSE_API __attribute__((visibility("default")))

extern "C" {

enum autapse_form { AUTAPSE_LEAKY, AUTAPSE_CHAIN, AUTAPSE_SHARED_GATE, AUTAPSE_UGRNN, AUTAPSE_GRU, AUTAPSE_LSTM,
                    AUTAPSE_DELAYED, AUTAPSE_PRE_ACTIVATION, AUTAPSE_LINEAR, AUTAPSE_CHAOS_FREE, AUTAPSE_COMPLEX,
                    AUTAPSE_CROSSING };
enum autapse_activation { AUTAPSE_TANH, AUTAPSE_RELU, AUTAPSE_SIGMOID, AUTAPSE_IDENTITY, AUTAPSE_MODRELU };

// What the functions return.
enum autapse_result {
    AUTAPSE_DONE,
    AUTAPSE_NO_MEMORY, // for scratch memory
    AUTAPSE_MALFORMED, // sizes, lengths or indices lead outside of the tensors; nothing was written
    AUTAPSE_REPACK,    // the matrices were packed for another instruction set
};

// The caller guarantees that each pointer has as many elements as the sizes say. The library checks the values of
// `sizes`, `pattern`, lengths, `index` and `drive_rows` before it runs.
//
// N is the sum of sizes, G the width of the drive (a multiple of H), O the width of the state h.
// The rows of x, h, c, reserve and their gradients are in the order of a PackedSequence: the first step of every
// sequence, longest first, then the second step of those that have one, and so on.
struct autapse_scan {
    int32_t form, activation;
    int32_t wide;         // 0: float, 1: double
    int32_t threads;
    int32_t reset_after;  // GRU: the reset gate acts after the product
    int32_t per_step;     // leaky: alpha and beta are [T, K], not [H]
    int32_t reverse;      // the last step comes first; for sequences of one length
    int32_t skip;         // chain: each map but the first adds what it reads
    int32_t sparse;       // leaky: the matrix is sparse and has a pattern
    int64_t steps, rows, batch, inputs, hidden, outputs; // T, N, B, D, H, O
    int64_t inner;        // leaky: K; chain: number of maps; linear: number of products; 1 elsewhere
    int64_t delays[32];   // delayed: each above 1; zero after the last one
    int64_t connections;  // entries of a sparse matrix
    double clip;          // backward: bound of each entry of the gradient at a state; infinity for none
    double flow;          // backward: weight of each term of the regulariser for information flow; 0 for none
    const int64_t* sizes; // [T], number of sequences at each step; never grows, at most B, sums to N

    const void *x;          // [N, D]; the drive itself, [N, G], if weight is null
    const void *weight;     // [G, D]
    const void *bias;       // [G] or null
    const void *matrix;     // leaky, shared gate, pre-activation, complex [H, H]; chain [n, H, H]; delayed [1 + n, H, H];
                            // ugrnn, chaos-free [2H, H]; gru [3H, H]; lstm [4H, O]; linear [n H, H]
    const int64_t* pattern; // sparse: [2, connections], the row and column of each entry of the matrix, [connections]; they are
                            // sorted by row, then by column, and there are no duplicates
    const void *offset;     // leaky, delayed: threshold [H]; chain [n - 1, H]; gru: b [3H], or threshold of modrelu [H];
                            // complex: threshold [H / 2]; lstm: peepholes [4, H]; or null
    const void *projection; // lstm: [O, H] or null
    const void *alpha;      // leaky, delayed: [H] or [T, K], null for 1; pre-activation: [H]; shared gate: p0, p1 of each step, [T, 2]
    const void *beta;       // leaky, delayed: the same, null for 0; pre-activation: [H]; shared gate: q0, q1, [T, 2]
    const void *h0, *c0;    // [B, O], [B, H]
    const void *history;    // delayed: the states before h0, latest first, [longest delay - 1, B, O]
    const void *packed;     // what autapse_pack made, or null to pack at each call

    void *h, *c;            // [N, O]; [N, H] or null if the cells are not wanted
    void *h_n, *c_n;        // [B, O], [B, H]
    void *reserve;          // [N, autapse_reserve()], what the backward pass needs; null to save nothing

    const void *grad_h, *grad_c;     // of h and c, or null for zero
    const void *grad_h_n, *grad_c_n; // of h_n and c_n, or null for zero

    // Written by the backward pass if not null.
    void *grad_x, *grad_weight, *grad_bias, *grad_matrix, *grad_offset, *grad_projection;
    void *grad_alpha, *grad_beta;
    void *grad_h0, *grad_c0, *grad_history;
};

// The implicit GRU's rule at M positions, whose J neighbours each are rows of `table` or, past these, of `edges`.
struct autapse_implicit {
    int32_t wide, threads;
    int64_t rows, hidden, offsets;   // M, H, J; at most 8 offsets
    int64_t table_rows, edge_rows;     // rows of the table, of the edges
    int64_t drive_count;               // rows of u
    int64_t band_stride, slope_stride; // elements between the bands of two offsets; between two parts of the slope
    const void *switches, *gates, *candidate; // [J, H, H], [2H, H], [H, H]; read by autapse_implicit_pack only
    const void *packed;                       // made by autapse_implicit_pack
    const void *u;                            // [drive_count, (J + 3) H]
    const int64_t *drive_rows;                // [M], the row of u that belongs to each position; null for the same
    const void *table, *edges;                // [table_rows, H], [edge_rows, H]
    const int64_t *index[8];                  // [M] for each offset
    void *h;                                  // [M, H]
    void *bands;                              // per offset [M, H]: the part of dh/dh_j that acts channel by channel; or null
    void *slope;                              // [2 J + 7, M, H]: s_j, dm/da_j, z, dh/da_z, r, d(rm)/da_r, dh/da_n, m, rm; or null

    const void *v;   // [M, H]; the slope is read
    void *near;      // [J, M, H], v times the derivative by each neighbour; or null
    void *arguments; // [M, (J + 3) H], v times the derivative by each argument; or null
};

// Ragged sequences, longest first. Rows: first those of even steps, then those of odd steps, step by step.
struct autapse_red_black {
    int64_t count, rows;          // N is the sum of lengths
    const int64_t *lengths;       // [count]; never grow
    int32_t lower;                // which of the two offsets, 0 or 1, is -1; the other one is 1
    int32_t own_edges;            // 1: edges are [2 count, H], before and after; 0: [1, H]
};

// z = F(z) by the tridiagonal iteration; of the rule, `edges`, `u`, `drive_rows` and `packed` are read.
struct autapse_relaxation {
    autapse_red_black layout;
    int64_t max_iterations, window;               // window: at most 8
    double rtol, atol, threshold, guard;
    void *z;                                      // [N, H], the start; overwritten by the best iterate
    double *residual;                             // [count], relative
    int64_t *iterations, *converged;              // [count]
};

// v = g + J^T v by GMRES on the even steps, preconditioned; the slope is read, [2 J + 7, N, H].
struct autapse_adjoint {
    autapse_red_black layout;
    int64_t max_iterations;
    double rtol, atol;
    const void *g;                                // [N, H]
    void *v;                                      // [N, H]
    double *residual;                             // [count], relative
    int64_t *iterations, *converged;              // [count]
};

// One tridiagonal system per sequence and channel; of the layout, `lower` and `own_edges` are not read.
struct autapse_tridiagonal {
    int32_t wide, threads;
    int32_t transposed, factored;  // solve the transposed system; inverse and ahead are from an earlier call
    autapse_red_black layout;
    int64_t channels;
    int64_t right_rows;            // rows of the right side; all further rows are zero
    const void *lower, *upper;     // [N, S]
    void *inverse, *ahead;         // [N, S], the eliminated system
    const void *right;             // [right_rows, S], or null to eliminate alone
    void *y;                       // [N, S]
};

// The heads of an explicit memory in one step, for B sequences; n = reads + writes heads, N slots of W numbers.
// The numbers of a row: keys [n, W] if content, vectors to add [writes, W]; sharpness [n] if content, exponents [n] if
// location; gates [n] if both, vectors to erase [writes, W]; moves [n, 2 shifts + 1] if location. P in all.
struct autapse_heads {
    int32_t wide, threads;
    int32_t content, location, dot;           // how heads choose; dot: similarity without norms
    int64_t batch, slots, width, reads, writes, shifts;
    double shortest, smallest;                // added to squared norms; smallest weight that is sharpened
    const void *number, *memory, *address;    // [B, P], [B, N, W], [B, n, N]
    void *new_memory, *new_address, *read;    // [B, N, W], [B, n, N], [B, reads, W]; the backward pass reads the first two

    const void *grad_new_memory, *grad_new_address, *grad_read; // or null for zero
    void *grad_number, *grad_memory, *grad_address;
};

// The weights of attention for B sequences, T steps of the target and S of the source; zero past the lengths, whose pairs
// cost nothing.
// Additive, with A units: w_ts = softmax over s of sum_a v_a tanh(q_ta + k_sa).
// Monotonic, with A windows: w_ts = sum over a of the softmax over a and s together of height_ta - (root_ta (place_ta - s))^2,
// s = 1 ... S.
struct autapse_attention {
    int32_t wide, threads, monotonic;
    int64_t batch, targets, sources, size;              // B, T, S, A
    const int64_t *target_lengths, *source_lengths;     // [B], at most T, at most S; null: all T, all S
    const void *query, *key, *vector;                   // additive: [B, T, A], [B, S, A], [A]
    const void *height, *root, *place;                  // monotonic: [B, T, A]
    void *weight;                                       // [B, T, S]; the backward pass reads it

    const void *grad_weight;                            // [B, T, S]
    void *grad_query, *grad_key, *grad_vector, *grad_height, *grad_root, *grad_place;
};

AUTAPSE_API int autapse_attention_forward(const autapse_attention*);
AUTAPSE_API int autapse_attention_backward(const autapse_attention*);

AUTAPSE_API int autapse_heads_forward(const autapse_heads*);
AUTAPSE_API int autapse_heads_backward(const autapse_heads*);

AUTAPSE_API int64_t autapse_implicit_bytes(const autapse_implicit*);
AUTAPSE_API void autapse_implicit_pack(const autapse_implicit*, void* packed); // 64-byte aligned
AUTAPSE_API int autapse_implicit_evaluate(const autapse_implicit*);            // an autapse_result, as all below
AUTAPSE_API int autapse_implicit_pull(const autapse_implicit*);
AUTAPSE_API int autapse_implicit_relax(const autapse_implicit*, const autapse_relaxation*);
AUTAPSE_API int autapse_implicit_adjoint(const autapse_implicit*, const autapse_adjoint*);
AUTAPSE_API int autapse_tridiagonal_solve(const autapse_tridiagonal*);

AUTAPSE_API int64_t autapse_reserve(const autapse_scan*);     // columns of the reserve
AUTAPSE_API int64_t autapse_packed_bytes(const autapse_scan*); // -1 if sizes or pattern are malformed
AUTAPSE_API void autapse_pack(const autapse_scan*, void* packed); // the matrices of the forward pass, 64-byte aligned
AUTAPSE_API int autapse_forward(const autapse_scan*);
AUTAPSE_API int autapse_backward(const autapse_scan*);

AUTAPSE_API const char* autapse_instruction_set();          // the one in use
AUTAPSE_API int autapse_use(const char* instruction_set);   // 0, or 1 if this machine or this build does not have it
AUTAPSE_API int autapse_has(const char* instruction_set);   // 1 if this machine and this build have it
AUTAPSE_API const char* autapse_version();             // of the package that it was built with
AUTAPSE_API int autapse_abi();                              // changes with the structs and with these functions
AUTAPSE_API void autapse_huge_pages(void* memory, int64_t bytes); // fewer page faults on new large memory, if Linux allows
}

// One instruction set's kernels.
struct autapse_engine {
    int64_t (*reserve)(const autapse_scan*);
    int64_t (*packed_bytes)(const autapse_scan*);
    void (*pack)(const autapse_scan*, void*);
    int (*forward)(const autapse_scan*);
    int (*backward)(const autapse_scan*);
    int64_t (*implicit_bytes)(const autapse_implicit*);
    void (*implicit_pack)(const autapse_implicit*, void*);
    int (*implicit_evaluate)(const autapse_implicit*);
    int (*implicit_pull)(const autapse_implicit*);
    int (*implicit_relax)(const autapse_implicit*, const autapse_relaxation*);
    int (*implicit_adjoint)(const autapse_implicit*, const autapse_adjoint*);
    int (*tridiagonal)(const autapse_tridiagonal*);
    int (*heads_forward)(const autapse_heads*);
    int (*heads_backward)(const autapse_heads*);
    int (*attention_forward)(const autapse_attention*);
    int (*attention_backward)(const autapse_attention*);
};
