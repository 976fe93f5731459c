// Vectors of the width that this translation unit is compiled for, by the compilers' vector extension: the same source
// serves AVX-512, AVX2 and the baseline, in float and double. NaN passes through every function here.
#pragma once

#include <cstdint>
#include <type_traits>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace {

#define INLINE inline __attribute__((always_inline))

constexpr int vector_bytes = AUTAPSE_VECTOR_BYTES;

template <class T> constexpr int lanes = vector_bytes / sizeof(T);
template <class T> using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <class T> struct VectorOf {
    typedef T type __attribute__((vector_size(vector_bytes)));
    typedef Bits<T> bits __attribute__((vector_size(vector_bytes)));
};
template <class T> using Vec = typename VectorOf<T>::type;
template <class T> using IntVec = typename VectorOf<T>::bits;

template <class T> INLINE Vec<T> load(const T* p) {
    Vec<T> v;
    __builtin_memcpy(&v, p, vector_bytes);
    return v;
}

template <class T> INLINE void store(T* p, Vec<T> v) { __builtin_memcpy(p, &v, vector_bytes); }

template <class T> INLINE Vec<T> splat(T x) { return x - Vec<T>{}; } // x - 0 is x for every x; x + 0 is not for -0

// n elements in whole vectors
template <class T> constexpr int64_t whole(int64_t n) { return (n + lanes<T> - 1) / lanes<T> * lanes<T>; }

// Lanes: the number of elements of a vector that are in memory. A row ends with Part if its size is not a multiple.
template <class T> struct Full {
    INLINE Vec<T> load(const T* p) const { return ::load(p); }
    INLINE void store(T* p, Vec<T> v) const { ::store(p, v); }
    INLINE Vec<T> keep(Vec<T> v) const { return v; }
};

template <class T> struct Part {
    int64_t count;

#if defined(__AVX512F__) && AUTAPSE_VECTOR_BYTES == 64
    // Elements beyond the count are neither read nor written.
    INLINE auto mask() const {
        return (std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8>)((1u << count) - 1);
    }
    INLINE Vec<T> load(const T* p) const {
        if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_loadu_ps(mask(), p);
        else return (Vec<T>)_mm512_maskz_loadu_pd(mask(), p);
    }
    INLINE void store(T* p, Vec<T> v) const {
        if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, mask(), (__m512)v);
        else _mm512_mask_storeu_pd(p, mask(), (__m512d)v);
    }
    INLINE Vec<T> keep(Vec<T> v) const {
        if constexpr (sizeof(T) == 4) return (Vec<T>)_mm512_maskz_mov_ps(mask(), (__m512)v);
        else return (Vec<T>)_mm512_maskz_mov_pd(mask(), (__m512d)v);
    }
#else
    INLINE Vec<T> load(const T* p) const {
        Vec<T> v{};
        for (int64_t i = 0; i < count; i++) v[i] = p[i];
        return v;
    }
    INLINE void store(T* p, Vec<T> v) const {
        for (int64_t i = 0; i < count; i++) p[i] = v[i];
    }
    // Zero for lanes without an element, for sums over lanes.
    INLINE Vec<T> keep(Vec<T> v) const {
        for (int64_t i = count; i < lanes<T>; i++) v[i] = 0;
        return v;
    }
#endif
};

// f(lane, j) for each vector of n elements.
template <class T, class F> INLINE void each(int64_t n, F&& f) {
    int64_t j = 0;
    for (; j + lanes<T> <= n; j += lanes<T>) f(Full<T>{}, j);
    if (j < n) f(Part<T>{n - j}, j);
}

template <class T> INLINE T sum(Vec<T> v) {
    T total = 0;
    for (int i = 0; i < lanes<T>; i++) total += v[i];
    return total;
}

// Element n of the result is element index[n] of the two vectors in a row.
template <class T> INLINE Vec<T> pick(Vec<T> low, Vec<T> high, const uint8_t* index) {
#if defined(__AVX512F__) && AUTAPSE_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(index));
        return (Vec<T>)_mm512_permutex2var_ps((__m512)low, _mm512_maskz_cvtepu8_epi32(0xffff, bytes), (__m512)high);
    }
#endif
    Vec<T> picked{};
    for (int n = 0; n < lanes<T>; n++) picked[n] = index[n] < lanes<T> ? low[index[n]] : high[index[n] - lanes<T>];
    return picked;
}

template <class T> INLINE Vec<T> clamp(Vec<T> x, T low, T high) {
    x = x < low ? splat(low) : x;
    return x > high ? splat(high) : x;
}

// exp(x) = 2^n * (1 + p): n the nearest integer to x / ln 2, p = exp(r) - 1 by its Taylor series, |r| <= ln 2 / 2.
template <class T> struct Exponential {
    Vec<T> scale, p;
};

INLINE Exponential<float> exponential(Vec<float> x) {
    const float round = 12582912.0f; // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    Vec<float> shifted = x * 1.44269504f + round;
    Vec<float> n = shifted - round;
    Vec<float> r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    Vec<float> q = r * (1.0f / 5040) + (1.0f / 720);
    q = q * r + (1.0f / 120);
    q = q * r + (1.0f / 24);
    q = q * r + (1.0f / 6);
    q = q * r + 0.5f;
    return {(Vec<float>)((((IntVec<float>)shifted) << 23) + 0x3f800000), q * (r * r) + r};
}

INLINE Exponential<double> exponential(Vec<double> x) {
    const double round = 6755399441055744.0; // 1.5 * 2^52
    Vec<double> shifted = x * 1.4426950408889634 + round;
    Vec<double> n = shifted - round;
    Vec<double> r = x - n * 0.6931471803691238;
    r = r - n * 1.9082149292705877e-10;
    Vec<double> q = r * (1.0 / 6227020800) + (1.0 / 479001600);
    q = q * r + (1.0 / 39916800);
    q = q * r + (1.0 / 3628800);
    q = q * r + (1.0 / 362880);
    q = q * r + (1.0 / 40320);
    q = q * r + (1.0 / 5040);
    q = q * r + (1.0 / 720);
    q = q * r + (1.0 / 120);
    q = q * r + (1.0 / 24);
    q = q * r + (1.0 / 6);
    q = q * r + 0.5;
    return {(Vec<double>)((((IntVec<double>)shifted) << 52) + 0x3ff0000000000000), q * (r * r) + r};
}

template <class T> INLINE Vec<T> tanh(Vec<T> x) {
    const T limit = sizeof(T) == 4 ? T(9.02) : T(19.1); // beyond it tanh rounds to 1
    auto [scale, p] = exponential(clamp<T>(x, -limit, limit) * T(2));
    Vec<T> e = scale * p + (scale - T(1)); // exp(2x) - 1, exact to the last bits also near 0
    return e / (e + T(2));
}

template <class T> INLINE Vec<T> sigmoid(Vec<T> x) {
    const T limit = sizeof(T) == 4 ? T(87) : T(707);
    auto [scale, p] = exponential(clamp<T>(-x, -limit, limit));
    return T(1) / (scale * p + (scale + T(1)));
}

// The pointwise nonlinearities: y = value(a), dy/da = slope(y).
struct Tanh {
    template <class T> static INLINE Vec<T> value(Vec<T> a) { return tanh<T>(a); }
    template <class T> static INLINE Vec<T> slope(Vec<T> y) { return T(1) - y * y; }
};
struct Relu {
    template <class T> static INLINE Vec<T> value(Vec<T> a) { return a < T(0) ? Vec<T>{} : a; }
    template <class T> static INLINE Vec<T> slope(Vec<T> y) { return y > T(0) ? splat(T(1)) : Vec<T>{}; }
};
struct Sigmoid {
    template <class T> static INLINE Vec<T> value(Vec<T> a) { return sigmoid<T>(a); }
    template <class T> static INLINE Vec<T> slope(Vec<T> y) { return y * (T(1) - y); }
};
struct Identity {
    template <class T> static INLINE Vec<T> value(Vec<T> a) { return a; }
    template <class T> static INLINE Vec<T> slope(Vec<T>) { return splat(T(1)); }
};
// sign(a) * max(0, |a| + threshold): its value also takes the threshold.
struct ModRelu {
    template <class T> static INLINE Vec<T> value(Vec<T> a, Vec<T> threshold) {
        Vec<T> modulus = (a < T(0) ? -a : a) + threshold;
        modulus = modulus < T(0) ? Vec<T>{} : modulus;
        return a == T(0) ? Vec<T>{} : (a < T(0) ? -modulus : modulus);
    }
    template <class T> static INLINE Vec<T> slope(Vec<T> y) { return y != T(0) ? splat(T(1)) : Vec<T>{}; }
};

template <class T> INLINE Vec<T> sign(Vec<T> y) {
    return y > T(0) ? splat(T(1)) : (y < T(0) ? splat(T(-1)) : Vec<T>{});
}

// Vanishing gradients become denormal numbers, which are many times slower. They are flushed to zero inside, and the
// caller's mode is restored at the end.
struct FlushDenormals {
#if defined(__SSE2__)
    unsigned before = _mm_getcsr();
    FlushDenormals() { _mm_setcsr(before | 0x8040); }
    ~FlushDenormals() { _mm_setcsr(before); }
#elif defined(__aarch64__)
    uint64_t before;
    FlushDenormals() {
        __asm__ volatile("mrs %0, fpcr" : "=r"(before));
        __asm__ volatile("msr fpcr, %0" : : "r"(before | (1u << 24)));
    }
    ~FlushDenormals() { __asm__ volatile("msr fpcr, %0" : : "r"(before)); }
#endif
};

} // namespace
