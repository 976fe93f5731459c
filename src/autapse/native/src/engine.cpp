// The kernels of one instruction set: compiled once for each, with AUTAPSE_VECTOR_BYTES and AUTAPSE_ENGINE set.
// Everything is in an unnamed namespace, so that the linker cannot replace a function by another instruction set's.
#include "adjoint.h"
#include "attention.h"
#include "implicit.h"
#include "driver.h"
#include "forms/chain.h"
#include "forms/chaos_free.h"
#include "forms/complex.h"
#include "forms/crossing.h"
#include "forms/gru.h"
#include "forms/leaky.h"
#include "forms/linear.h"
#include "forms/lstm.h"
#include "forms/pre_activation.h"
#include "forms/shared_gate.h"
#include "forms/ugrnn.h"
#include "heads.h"
#include "relaxation.h"
#include "tridiagonal.h"

namespace {

template <class F> F* make(const autapse_scan& p, Scratch& scratch) {
    void* memory = scratch.take<char>(sizeof(F));
    return memory ? new (memory) F(p, scratch) : nullptr;
}

template <class T> Form<T>* make_leaky(const autapse_scan& p, Scratch& scratch) {
    switch (p.activation) {
    case AUTAPSE_TANH: return make<Leaky<T, Tanh>>(p, scratch);
    case AUTAPSE_RELU: return make<Leaky<T, Relu>>(p, scratch);
    case AUTAPSE_SIGMOID: return make<Leaky<T, Sigmoid>>(p, scratch);
    case AUTAPSE_IDENTITY: return make<Leaky<T, Identity>>(p, scratch);
    default: return make<Leaky<T, ModRelu>>(p, scratch);
    }
}

template <class T> Form<T>* make_chain(const autapse_scan& p, Scratch& scratch) {
    switch (p.activation) {
    case AUTAPSE_TANH: return make<Chain<T, Tanh>>(p, scratch);
    case AUTAPSE_RELU: return make<Chain<T, Relu>>(p, scratch);
    case AUTAPSE_SIGMOID: return make<Chain<T, Sigmoid>>(p, scratch);
    default: return make<Chain<T, Identity>>(p, scratch);
    }
}

template <class T> Form<T>* make_pre_activation(const autapse_scan& p, Scratch& scratch) {
    switch (p.activation) {
    case AUTAPSE_TANH: return make<PreActivation<T, Tanh>>(p, scratch);
    case AUTAPSE_RELU: return make<PreActivation<T, Relu>>(p, scratch);
    case AUTAPSE_SIGMOID: return make<PreActivation<T, Sigmoid>>(p, scratch);
    default: return make<PreActivation<T, Identity>>(p, scratch);
    }
}

template <class T> Form<T>* make_form(const autapse_scan& p, Scratch& scratch) {
    switch (p.form) {
    case AUTAPSE_LEAKY:
    case AUTAPSE_DELAYED: return make_leaky<T>(p, scratch);
    case AUTAPSE_CHAIN: return make_chain<T>(p, scratch);
    case AUTAPSE_PRE_ACTIVATION: return make_pre_activation<T>(p, scratch);
    case AUTAPSE_SHARED_GATE: return make<SharedGate<T>>(p, scratch);
    case AUTAPSE_LINEAR: return make<LinearRecurrence<T>>(p, scratch);
    case AUTAPSE_CHAOS_FREE: return make<ChaosFree<T>>(p, scratch);
    case AUTAPSE_COMPLEX: return make<ComplexModulus<T>>(p, scratch);
    case AUTAPSE_CROSSING: return make<Crossing<T>>(p, scratch);
    case AUTAPSE_UGRNN: return make<UpdateGate<T>>(p, scratch);
    case AUTAPSE_GRU:
        if (p.activation == AUTAPSE_MODRELU) return make<ResetAfter<T, ModRelu>>(p, scratch);
        if (p.reset_after) return make<ResetAfter<T, Tanh>>(p, scratch);
        return make<ResetBefore<T>>(p, scratch);
    default: return make<LongShortTerm<T>>(p, scratch);
    }
}

// use(form, scan) with all that the problem needs; `failure` if there is no memory
template <class T, class Result, class F> Result with_scan(const autapse_scan& p, Result failure, F&& use) {
    static thread_local Scratch scratch;
    scratch.begin();
    Form<T>* form = make_form<T>(p, scratch);
    if (!form || scratch.failed) return failure;
    Scan<T> scan(p, *form, scratch);
    return scratch.failed ? failure : use(*form, scan);
}

template <class Result, class F> Result with_scan_of(const autapse_scan* p, Result failure, F&& use) {
    return p->wide ? with_scan<double>(*p, failure, use) : with_scan<float>(*p, failure, use);
}

int64_t reserve(const autapse_scan* p) {
    return with_scan_of(p, int64_t(-1), [](auto& form, auto&) { return form.reserve_columns; });
}

int64_t packed_bytes(const autapse_scan* p) {
    return with_scan_of(p, int64_t(-1), [&](auto&, auto& scan) {
        const int64_t size = scan.well_formed ? scan.packed_size() : -1;
        return size < 0 ? int64_t(-1) : size * (p->wide ? 8 : 4);
    });
}

void pack_matrices(const autapse_scan* p, void* packed) {
    with_scan_of(p, 1, [&](auto&, auto& scan) {
        if (!scan.well_formed || scan.packed_size() < 0) return 1; // this also measures a sparse matrix
        set_mark(packed);
        scan.place_packed(packed);
        scan.pack_forward(Team{0, 1});
        return 0;
    });
}

int forward(const autapse_scan* p) {
    return with_scan_of(p, int(AUTAPSE_NO_MEMORY), [](auto&, auto& scan) {
        return scan.well_formed ? scan.forward() : int(AUTAPSE_MALFORMED);
    });
}

int backward(const autapse_scan* p) {
    return with_scan_of(p, int(AUTAPSE_NO_MEMORY), [](auto&, auto& scan) {
        return scan.well_formed ? scan.backward() : int(AUTAPSE_MALFORMED);
    });
}

template <class Result, class F> Result with_rule(const autapse_implicit* p, F&& use) {
    static thread_local Scratch scratch;
    scratch.begin();
    if (p->wide) {
        ImplicitRule<double> rule(*p);
        return use(rule, scratch);
    }
    ImplicitRule<float> rule(*p);
    return use(rule, scratch);
}

int64_t implicit_bytes(const autapse_implicit* p) {
    return with_rule<int64_t>(p, [&](auto& rule, Scratch&) { return rule.packed_size() * (p->wide ? 8 : 4); });
}

void implicit_pack(const autapse_implicit* p, void* packed) {
    autapse_implicit placed = *p;
    placed.packed = packed;
    set_mark(packed);
    with_rule<int>(&placed, [](auto& rule, Scratch&) {
        rule.pack_matrices();
        return 0;
    });
}

int implicit_evaluate(const autapse_implicit* p) {
    if (!has_mark(p->packed)) return AUTAPSE_REPACK;
    return with_rule<int>(p, [](auto& rule, Scratch& scratch) { return rule.evaluate(scratch); });
}

int implicit_pull(const autapse_implicit* p) {
    if (!has_mark(p->packed)) return AUTAPSE_REPACK;
    return with_rule<int>(p, [](auto& rule, Scratch& scratch) { return rule.pull(scratch); });
}

template <template <class> class Solver, class Settings>
int solve_implicit(const autapse_implicit* p, const Settings* settings) {
    if (!has_mark(p->packed)) return AUTAPSE_REPACK;
    static thread_local Scratch scratch;
    scratch.begin();
    return p->wide ? Solver<double>(*p, *settings).run(scratch) : Solver<float>(*p, *settings).run(scratch);
}

int implicit_relax(const autapse_implicit* p, const autapse_relaxation* r) { return solve_implicit<Relaxation>(p, r); }
int implicit_adjoint(const autapse_implicit* p, const autapse_adjoint* a) { return solve_implicit<Adjoint>(p, a); }

int tridiagonal(const autapse_tridiagonal* p) {
    static thread_local Scratch scratch;
    scratch.begin();
    return p->wide ? solve_tridiagonal<double>(*p, scratch) : solve_tridiagonal<float>(*p, scratch);
}

int heads_forward(const autapse_heads* p) {
    return p->wide ? run_heads<double>(*p, false) : run_heads<float>(*p, false);
}

int heads_backward(const autapse_heads* p) {
    return p->wide ? run_heads<double>(*p, true) : run_heads<float>(*p, true);
}

int attention_forward(const autapse_attention* p) {
    return p->wide ? run_attention<double>(*p, false) : run_attention<float>(*p, false);
}

int attention_backward(const autapse_attention* p) {
    return p->wide ? run_attention<double>(*p, true) : run_attention<float>(*p, true);
}

} // namespace

extern const autapse_engine AUTAPSE_ENGINE;
const autapse_engine AUTAPSE_ENGINE = {
    reserve,       packed_bytes, pack_matrices,    forward,      backward,
    implicit_bytes, implicit_pack, implicit_evaluate, implicit_pull, implicit_relax,
    implicit_adjoint, tridiagonal, heads_forward, heads_backward, attention_forward,
    attention_backward,
};
