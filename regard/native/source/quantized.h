// Rows as 8-bit integers, with one scale per row.

#if defined(__AVX512VNNI__)
#define OFFSET 128  // VNNI needs one unsigned operand, so weights are shifted, and 128 · (sum of a row) is subtracted
#else
#define OFFSET 0
#endif

typedef struct {  // integers from -127 to 127
    int8_t *x;
    float *scale;
    int32_t *sum;
    int64_t stride;
} Quantized;

static void quantize(const float *x, int64_t width, const Quantized *q, int64_t row) {
    // Absolute values of floats have the order of their bits; infinity and NaN are greater than all others.
    Whole most = (Whole){0};
    for (int64_t i = 0; i < width; i += LANES) most = whole_greater((Whole)absolute(load(x + i)), most);
    int32_t greatest_bits = whole_greatest(most);
    float top;
    memcpy(&top, &greatest_bits, sizeof top);
    int bad = !(top <= 3.4e38f);
    top = top > 1e-30f ? top : 1e-30f;
    float inverse = bad ? 0 : 127 / top;
    Whole total = (Whole){0};
    int8_t *out = q->x + row * q->stride;
    for (int64_t i = 0; i < width; i += LANES) {
        Vector a = bad ? every(0) : load(x + i);
        // A separate statement: the product must be rounded in sets with and without fused multiply-add.
        Vector scaled = a * inverse;
        Whole whole = (Whole)(scaled + 12582912.0f) - 0x4B400000;
        total += whole;
        *(LooseBytes *)(out + i) = __builtin_convertvector(whole, Bytes);
    }
    q->scale[row] = bad ? NAN : top / 127;
    q->sum[row] = whole_sum(total);
}
