// Rows as whole numbers of 8 bits, with a scale for each row.

#if defined(__AVX512VNNI__)
#define OFFSET 128  // packed weights are unsigned there, so 128 times the sum of a row is subtracted from its products
#else
#define OFFSET 0
#endif

typedef struct {  // whole numbers from -127 to 127
    int8_t *x;
    float *scale;
    int32_t *sum;
    int64_t stride;
} Quantized;

static void quantize(const float *x, int64_t width, const Quantized *q, int64_t row) {
    // Sizes of floats stand in the order of their bits, those of what is no number or infinite behind all others.
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
        Vector scaled = a * inverse;  // rounded, whether or not the set fuses products and sums
        Whole whole = (Whole)(scaled + 12582912.0f) - 0x4B400000;
        total += whole;
        *(LooseBytes *)(out + i) = __builtin_convertvector(whole, Bytes);
    }
    q->scale[row] = bad ? NAN : top / 127;
    q->sum[row] = whole_sum(total);
}
