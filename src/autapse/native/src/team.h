// Team: the threads of a call; each has its share of the work.
#pragma once

#include <cstdint>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "product.h"

namespace {

constexpr int64_t least_parallel = 1 << 18; // multiply-adds; below this, waking a thread costs more than it saves

// The work is a double because its factors may be large enough to overflow an integer.
inline int64_t threads_for(double multiply_adds, int64_t threads) {
    return multiply_adds < least_parallel || threads < 1 ? 1 : threads;
}

struct Team {
    int64_t index, count;

    void wait() const {
#ifdef _OPENMP
        if (count > 1) {
#pragma omp barrier
        }
#endif
    }
    // this thread's part of n pieces
    int64_t from(int64_t n) const { return n * index / count; }
    int64_t to(int64_t n) const { return n * (index + 1) / count; }
};

template <class F> void in_parallel(int64_t threads, F&& work) {
#ifdef _OPENMP
    if (threads > 1) {
#pragma omp parallel num_threads((int)threads)
        {
            FlushDenormals flush;
            work(Team{omp_get_thread_num(), omp_get_num_threads()});
        }
        return;
    }
#endif
    FlushDenormals flush;
    work(Team{0, 1});
}

// Pack this thread's share of the panels.
template <class T> void share(Packed<T> to, const T* source, int64_t along, int64_t across, Team team) {
    pack(to, source, along, across, team.from(to.panels()), team.to(to.panels()));
}

} // namespace
