// The C ABI: picks the instruction set and hands over.
#include "abi.h"

#include <atomic>
#include <cstring>
#if defined(__linux__)
#include <sys/mman.h>
#endif

extern const autapse_engine autapse_baseline;
#ifdef AUTAPSE_X86
extern const autapse_engine autapse_avx2, autapse_avx512;
#endif

namespace {

struct Entry {
    const char* name;
    const autapse_engine* engine;
    bool here;
};

// Best first.
const Entry* entries() {
    static const Entry all[] = {
#ifdef AUTAPSE_X86
#ifdef AUTAPSE_EMULATE_WIDE
        {"avx512", &autapse_avx512, true},
#else
        {"avx512", &autapse_avx512,
         __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")},
#endif
        {"avx2", &autapse_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
#endif
        {"baseline", &autapse_baseline, true},
        {nullptr, nullptr, false},
    };
    return all;
}

const Entry* find(const char* name) {
    for (const Entry* e = entries(); e->name; e++)
        if (e->here && (!name || std::strcmp(e->name, name) == 0)) return e;
    return nullptr;
}

std::atomic<const Entry*> chosen{nullptr};

const Entry* current() {
    const Entry* entry = chosen.load(std::memory_order_relaxed);
    if (!entry) chosen.store(entry = find(nullptr), std::memory_order_relaxed);
    return entry;
}

} // namespace

extern "C" {

int64_t autapse_reserve(const autapse_scan* p) { return current()->engine->reserve(p); }
int64_t autapse_packed_bytes(const autapse_scan* p) { return current()->engine->packed_bytes(p); }
void autapse_pack(const autapse_scan* p, void* packed) { current()->engine->pack(p, packed); }
int autapse_forward(const autapse_scan* p) { return current()->engine->forward(p); }
int autapse_backward(const autapse_scan* p) { return current()->engine->backward(p); }

int64_t autapse_implicit_bytes(const autapse_implicit* p) { return current()->engine->implicit_bytes(p); }
void autapse_implicit_pack(const autapse_implicit* p, void* packed) { current()->engine->implicit_pack(p, packed); }
int autapse_implicit_evaluate(const autapse_implicit* p) { return current()->engine->implicit_evaluate(p); }
int autapse_implicit_pull(const autapse_implicit* p) { return current()->engine->implicit_pull(p); }
int autapse_implicit_relax(const autapse_implicit* p, const autapse_relaxation* r) {
    return current()->engine->implicit_relax(p, r);
}
int autapse_implicit_adjoint(const autapse_implicit* p, const autapse_adjoint* a) {
    return current()->engine->implicit_adjoint(p, a);
}
int autapse_tridiagonal_solve(const autapse_tridiagonal* p) { return current()->engine->tridiagonal(p); }

int autapse_heads_forward(const autapse_heads* p) { return current()->engine->heads_forward(p); }
int autapse_heads_backward(const autapse_heads* p) { return current()->engine->heads_backward(p); }

int autapse_attention_forward(const autapse_attention* p) { return current()->engine->attention_forward(p); }
int autapse_attention_backward(const autapse_attention* p) { return current()->engine->attention_backward(p); }

const char* autapse_instruction_set() { return current()->name; }
int autapse_has(const char* name) { return find(name) != nullptr; }
int autapse_use(const char* name) {
    const Entry* entry = find(name);
    if (!entry) return 1;
    chosen.store(entry, std::memory_order_relaxed);
    return 0;
}
const char* autapse_version() { return AUTAPSE_VERSION; }
int autapse_abi() { return 17; }

void autapse_huge_pages(void* memory, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = 4096, first = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
    const uintptr_t last = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
    if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}
}
