// Vectors of sixteen floats, with the vector extensions of clang and gcc.
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Whole __attribute__((vector_size(64)));
typedef int8_t Bytes __attribute__((vector_size(16)));
typedef float LooseVector __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(32)));  // 16-bit floats
typedef uint16_t LooseHalves __attribute__((vector_size(32), aligned(2), may_alias));
typedef int8_t LooseBytes __attribute__((vector_size(16), aligned(1), may_alias));

INLINE Vector load(const float *p) { return *(const LooseVector *)p; }
INLINE void store(float *p, Vector x) { *(LooseVector *)p = x; }
INLINE Vector every(float x) { return x - (Vector){0}; }
INLINE Vector choose(Whole which, Vector one, Vector other) {
    return (Vector)(((Whole)one & which) | ((Whole)other & ~which));
}
// Returns the maximum; b if either is NaN.
INLINE Vector greater(Vector a, Vector b) {
#if defined(__AVX512F__)
    return (Vector)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return choose(a > b, a, b);
#endif
}
INLINE float greatest(Vector a) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)a);
#else
    float m = a[0];
    for (int i = 1; i < LANES; i++) m = a[i] > m ? a[i] : m;
    return m;
#endif
}
INLINE float sum(Vector a) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)a);
#else
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) a[i] += a[i + half];
    return a[0];
#endif
}
INLINE Whole whole_greater(Whole a, Whole b) {
#if defined(__AVX512F__)
    return (Whole)_mm512_max_epi32((__m512i)a, (__m512i)b);
#else
    Whole which = a > b;
    return (a & which) | (b & ~which);
#endif
}
INLINE int32_t whole_greatest(Whole a) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_epi32((__m512i)a);
#else
    int32_t m = a[0];
    for (int i = 1; i < LANES; i++) m = a[i] > m ? a[i] : m;
    return m;
#endif
}
INLINE int32_t whole_sum(Whole a) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_epi32((__m512i)a);
#else
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) a[i] += a[i + half];
    return a[0];
#endif
}
INLINE Vector absolute(Vector x) { return (Vector)((Whole)x & 0x7fffffff); }

// Loads and stores sixteen 16-bit floats (IEEE 754) as float32.
#if defined(__AVX512F__)
INLINE Vector load_half(const uint16_t *p) { return (Vector)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
INLINE void store_half(uint16_t *p, Vector x) {
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
INLINE Vector load_half(const uint16_t *p) {
    union { Vector all; __m256 part[2]; } x;
    for (int i = 0; i < 2; i++) x.part[i] = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8 * i)));
    return x.all;
}
INLINE void store_half(uint16_t *p, Vector a) {
    union { Vector all; __m256 part[2]; } x = {a};
    for (int i = 0; i < 2; i++)
        _mm_storeu_si128((void *)(p + 8 * i), _mm256_cvtps_ph(x.part[i], _MM_FROUND_TO_NEAREST_INT));
}
#else
INLINE Vector load_half(const uint16_t *p) {
    Whole half = __builtin_convertvector(*(const LooseHalves *)p, Whole), size = half & 0x7fff;
    Whole x = (Whole)((Vector)(size << 13) * 0x1p112f);
    x |= (size >= 0x7c00) & 0x7f800000;  // infinity or NaN
    return (Vector)(x | (half & 0x8000) << 16);
}
INLINE void store_half(uint16_t *p, Vector x) {
    Whole bits = (Whole)x & 0x7fffffff, scaled = (Whole)((Vector)bits * 0x1p-112f);
    Whole half = (scaled + 0xfff + (scaled >> 13 & 1)) >> 13;
    Whole beyond = half > 0x7c00;
    half = (beyond & 0x7c00) | (~beyond & half);
    half |= (bits > 0x7f800000) & 0x7e00;
    *(LooseHalves *)p = __builtin_convertvector(half | ((Whole)x >> 16 & 0x8000), Halves);
}
#endif

// e^x for x <= 0 with a relative error of about 2e-7; 0 below -87; NaN stays NaN.
INLINE Vector exponential(Vector x) {
    const Vector lowest = every(-87.0f);
    Vector bounded = greater(lowest, x);
#if defined(__AVX512F__)
    Vector n = (Vector)_mm512_roundscale_ps((__m512)(bounded * 1.44269504f), _MM_FROUND_TO_NEAREST_INT);
#else
    Vector n = bounded * 1.44269504f + 12582912.0f;
    Whole power = (Whole)n;
    n -= 12582912.0f;
#endif
    Vector f = bounded - n * 0.693359375f;
    f = f + n * 2.12194440e-4f;
    Vector p = f * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    p = p * (f * f) + (f + 1.0f);
#if defined(__AVX512F__)
    const __mmask16 seen = _mm512_cmp_ps_mask((__m512)x, (__m512)lowest, _CMP_NLT_UQ);
    return (Vector)_mm512_maskz_scalef_ps(seen, (__m512)p, (__m512)n);
#else
    p = p * (Vector)((power + 127) << 23);
    return choose(x < lowest, every(0), p);
#endif
}
// 2^x for x <= 0 with a relative error of about 3e-7; 0 or nearly 0 below -126; NaN stays NaN.
INLINE Vector power_of_two(Vector x) {
    Vector bounded = greater(every(-200.0f), x);
#if defined(__AVX512F__)
    Vector n = (Vector)_mm512_roundscale_ps((__m512)bounded, _MM_FROUND_TO_NEAREST_INT);
#else
    Vector n = bounded + 12582912.0f;
    Whole power = (Whole)n;
    n -= 12582912.0f;
#endif
    Vector f = bounded - n;  // from -1/2 to 1/2; the polynomial interpolates 2^f at the six Chebyshev nodes
    Vector p = f * 1.33909e-3f + 9.67603e-3f;
    p = p * f + 5.550357e-2f;
    p = p * f + 2.4022107e-1f;
    p = p * f + 6.9314719e-1f;
    p = p * f + 1.00000008f;
#if defined(__AVX512F__)
    return (Vector)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return choose(x < -126.0f, every(0), p * (Vector)((power + 127) << 23));
#endif
}
INLINE Vector sigmoid(Vector x) {
    Vector e = exponential(-absolute(x));
    return choose(x < 0, e, every(1)) / (e + 1.0f);
}
INLINE Vector hyperbolic(Vector x) {
    Vector e = exponential(absolute(x) * -2.0f), t = (1.0f - e) / (1.0f + e);
    return choose(x < 0, -t, t);
}
// The error function with an absolute error of 1.5e-7 (Abramowitz and Stegun, 7.1.26).
INLINE Vector error_function(Vector x) {
    Vector a = absolute(x), t = 1.0f / (1.0f + a * 0.3275911f);
    Vector p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    Vector y = 1.0f - p * t * exponential(-a * a);
    return choose(x < 0, -y, y);
}
INLINE Vector activated(Vector x, int kind) {
    switch (kind) {
    case RELU: return greater(every(0), x);
    case RELU2: { Vector y = greater(every(0), x); return y * y; }
    case GELU: return x * 0.5f * (1.0f + error_function(x * 0.70710678f));
    case GELU_TANH: return x * 0.5f * (1.0f + hyperbolic((x + x * x * x * 0.044715f) * 0.79788456f));
    case SWISH: return x * sigmoid(x);
    case SIGMOID: return sigmoid(x);
    default: return x;
    }
}

// Stores a result, or adds it to the stored one.
INLINE void finish(Vector y, float *out, int add) { store(out, add ? y + load(out) : y); }
