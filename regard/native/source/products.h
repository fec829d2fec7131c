// Products with packed matrices. A row's result does not depend on the other rows, to the bit.

// Separate from the products, to keep their loops small.
static void activate(float *out, int64_t stride, int64_t rows, int count, int kind) {
    for (int64_t r = 0; r < rows; r++)
        for (int c = 0; c < count; c++) store(out + r * stride + LANES * c, activated(load(out + r * stride + LANES * c), kind));
}

#if defined(__AVX512F__)
#define ROWS 6
#define COLUMNS 4
#else
#define ROWS 4
#define COLUMNS 1
#endif

// A tile of float32; weights are [stripes][inputs][64].
INLINE void float_tile(const int rows, const float *x, int64_t stride, const float *w, const float *bias, int64_t inputs,
                       int count, int add, float *out, int64_t out_stride) {
    for (int c = 0; c < count; c += COLUMNS) {
        Vector total[ROWS][COLUMNS];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int i = 0; i < COLUMNS; i++) total[r][i] = every(0);
        const float *p = w + LANES * c;
        for (int64_t k = 0; k < inputs; k++, p += STRIPE) {
            Vector b[COLUMNS];
#pragma GCC unroll 8
            for (int i = 0; i < COLUMNS; i++) b[i] = load(p + LANES * i);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                Vector a = every(x[r * stride + k]);
#pragma GCC unroll 8
                for (int i = 0; i < COLUMNS; i++) total[r][i] += a * b[i];
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < COLUMNS && c + i < count; i++)
                finish(total[r][i] + load(bias + LANES * (c + i)), out + r * out_stride + LANES * (c + i), add);
    }
}

#if defined(__AVX512VNNI__)
#define WHOLE_ROWS 6
// A tile of 8-bit integers; weights are [stripes][inputs / 4][64][4].
INLINE void whole_tile(const int rows, const Quantized *q, int64_t first, const uint8_t *w, const float *scale,
                       const float *bias, int64_t inputs, int count, int add, float *out,
                       int64_t out_stride) {
    __m512i total[WHOLE_ROWS][4];
    const int8_t *x = q->x + first * q->stride, *end = x + inputs;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < 4; c++) total[r][c] = _mm512_set1_epi32(-128 * q->sum[first + r]);
    for (; x < end; x += 4, w += 4 * STRIPE) {
        __m512i b[4];
#pragma GCC unroll 8
        for (int c = 0; c < 4; c++) b[c] = _mm512_loadu_si512(w + STRIPE * c);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, x + r * q->stride, 4);
            __m512i a = _mm512_set1_epi32(four);
#pragma GCC unroll 8
            for (int c = 0; c < 4; c++) total[r][c] = _mm512_dpbusd_epi32(total[r][c], b[c], a);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < 4; c++)
            if (c < count) {
                Vector y = (Vector)_mm512_cvtepi32_ps(total[r][c]) * (load(scale + LANES * c) * q->scale[first + r]);
                finish(y + load(bias + LANES * c), out + r * out_stride + LANES * c, add);
            }
}
#else
#define WHOLE_ROWS 4
#if defined(__AVX2__)
// Computes a₀b₀ + a₁b₁ and so on as |a| · (b with the sign of a): 127 · 127 · 2 fits into 16 bits.
INLINE __m256i pairs(__m256i a, __m256i b) { return _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)); }
#endif
INLINE void whole_tile(const int rows, const Quantized *q, int64_t first, const uint8_t *w, const float *scale,
                       const float *bias, int64_t inputs, int count, int add, float *out,
                       int64_t out_stride) {
    for (int c = 0; c < count; c++) {
        const uint8_t *p = w + STRIPE * c;
#if defined(__AVX2__)
        __m256i total[WHOLE_ROWS][2];
        const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) total[r][0] = total[r][1] = _mm256_setzero_si256();
        for (int64_t k = 0; k < inputs; k += 4, p += 4 * STRIPE) {
            __m256i low = _mm256_loadu_si256((const __m256i *)p), high = _mm256_loadu_si256((const __m256i *)(p + 32));
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, q->x + (first + r) * q->stride + k, 4);
                __m256i a = _mm256_set1_epi32(four);
                // Absolute values are computed once each, for the operand with fewer vectors.
                __m256i one = rows > 2 ? pairs(low, a) : pairs(a, low), two = rows > 2 ? pairs(high, a) : pairs(a, high);
                total[r][0] = _mm256_add_epi32(total[r][0], _mm256_madd_epi16(one, ones));
                total[r][1] = _mm256_add_epi32(total[r][1], _mm256_madd_epi16(two, ones));
            }
        }
#elif defined(__ARM_FEATURE_DOTPROD)
        int32x4_t total[WHOLE_ROWS][4];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) total[r][0] = total[r][1] = total[r][2] = total[r][3] = vdupq_n_s32(0);
        for (int64_t k = 0; k < inputs; k += 4, p += 4 * STRIPE) {
            int8x16_t b[4];
#pragma GCC unroll 8
            for (int i = 0; i < 4; i++) b[i] = vld1q_s8((const int8_t *)p + 16 * i);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                int32_t four;
                memcpy(&four, q->x + (first + r) * q->stride + k, 4);
                int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(four));
#pragma GCC unroll 8
                for (int i = 0; i < 4; i++) total[r][i] = vdotq_s32(total[r][i], b[i], a);
            }
        }
#else
        int32_t total[WHOLE_ROWS][LANES] = {{0}};
        for (int64_t k = 0; k < inputs; k += 4, p += 4 * STRIPE)
            for (int r = 0; r < rows; r++)
                for (int i = 0; i < LANES; i++)
                    for (int j = 0; j < 4; j++)
                        total[r][i] += q->x[(first + r) * q->stride + k + j] * (int32_t)(int8_t)p[4 * i + j];
#endif
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            Whole whole;
            memcpy(&whole, total[r], sizeof whole);
            Vector y = __builtin_convertvector(whole, Vector) * (load(scale + LANES * c) * q->scale[first + r]);
            finish(y + load(bias + LANES * c), out + r * out_stride + LANES * c, add);
        }
    }
}
#endif

// Multiplies rows from `first` on by one stripe of a matrix; `out` belongs to row `first`.
static void stripe(const float *x, int64_t stride, const Quantized *q, int64_t first, int64_t rows, const Matrix *m,
                   int64_t number, int activation, int add, float *out, int64_t out_stride) {
    int64_t left = (m->outputs - number * STRIPE) / LANES;
    int count = left < 4 ? (int)left : 4;
    const float *bias = m->bias + number * STRIPE;
#define TILE(n)                                                                                                          \
    case n:                                                                                                              \
        if (m->format == INT8)                                                                                           \
            whole_tile(n, q, first + from, (const uint8_t *)m->weight + number * STRIPE * m->inputs,                     \
                       m->scale + number * STRIPE, bias, m->inputs, count, add, out + from * out_stride, out_stride);                                                                                      \
        else                                                                                                             \
            float_tile(n, x + from * stride, stride, (const float *)m->weight + number * STRIPE * m->inputs, bias,       \
                       m->inputs, count, add, out + from * out_stride, out_stride);                          \
        break;
    const int64_t most = m->format == INT8 ? WHOLE_ROWS : ROWS;
    int64_t blocks = (rows + most - 1) / most;
#if defined(__AMX_INT8__)
    if (m->format == INT8 && rows >= FEWEST_ROWS && m->inputs % TILE_INPUTS == 0) {
        tiled_stripe(q, first, rows, m, number, add, out, out_stride);
        blocks = 0;
    }
#endif
    for (int64_t block = 0; block < blocks; block++) {
        int64_t from = rows * block / blocks, to = rows * (block + 1) / blocks;
        switch (to - from) {
            TILE(1) TILE(2) TILE(3) TILE(4)
#if ROWS == 6
            TILE(5) TILE(6)
#endif
        }
    }
#undef TILE
    if (activation != NONE) activate(out, out_stride, rows, count, activation);
}

// Packs W (outputs, inputs) into a matrix of zeros; `filled`: inputs with padding.
static void pack(const float *w, int64_t outputs, int64_t inputs, int64_t filled, int64_t format, void *to, float *scale) {
    for (int64_t i = 0; i < outputs; i++) {
        const float *row = w + i * inputs;
        int64_t begin = i / STRIPE * STRIPE * filled, at = i % STRIPE;
        if (format == FLOAT32) {
            for (int64_t k = 0; k < inputs; k++) ((float *)to)[begin + k * STRIPE + at] = row[k];
            continue;
        }
        float most = 1e-30f;
        int bad = 0;
        for (int64_t k = 0; k < inputs; k++) {
            bad |= !(fabsf(row[k]) <= 3.4e38f);
            most = fabsf(row[k]) > most ? fabsf(row[k]) : most;
        }
        scale[i] = bad ? NAN : most / 127;
        for (int64_t k = 0; k < filled; k++)
            ((uint8_t *)to)[begin + k / 4 * 4 * STRIPE + at * 4 + k % 4] =
                (uint8_t)((k < inputs && !bad ? (int)lrintf(row[k] / most * 127) : 0) + OFFSET);
    }
}
