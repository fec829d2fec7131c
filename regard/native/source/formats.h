// Loads and stores of sixteen numbers in training: float32 or bfloat16 in memory, floats in registers.

INLINE Vector load_brain(const uint16_t *p) {
    return (Vector)(__builtin_convertvector(*(const LooseHalves *)p, Whole) << 16);
}
// Rounds to the nearest number of the format, ties to even.
INLINE Vector rounded(Vector x, const int format) {
    if (format == FLOAT32) return x;
    Whole bits = (Whole)x, even = (bits >> 16) & 1;
    Whole none = (bits & 0x7fffffff) > 0x7f800000;
    return choose(none, (Vector)((Whole){0} + 0x7fc00000), (Vector)((bits + 0x7fff + even) & (int32_t)0xffff0000));
}
INLINE Vector load_as(const char *p, int64_t i, const int format) {
    return format == FLOAT32 ? load((const float *)p + i) : load_brain((const uint16_t *)p + i);
}
INLINE void store_as(char *p, int64_t i, Vector x, const int format) {
    if (format == FLOAT32)
        store((float *)p + i, x);
    else
        *(LooseHalves *)((uint16_t *)p + i) = __builtin_convertvector((Whole)rounded(x, format) >> 16, Halves);
}
// Loads the last numbers of a row, which may be fewer than sixteen; zeros for the rest.
INLINE Vector load_some(const char *p, int64_t i, int64_t count, const int format) {
    if (count >= LANES) return load_as(p, i, format);
    char numbers[4 * LANES] = {0};
    const int64_t bytes = format == FLOAT32 ? 4 : 2;
    memcpy(numbers, p + bytes * i, bytes * count);
    return load_as(numbers, 0, format);
}
INLINE void store_some(char *p, int64_t i, int64_t count, Vector x, const int format) {
    if (count >= LANES) {
        store_as(p, i, x, format);
        return;
    }
    char numbers[4 * LANES];
    const int64_t bytes = format == FLOAT32 ? 4 : 2;
    store_as(numbers, 0, x, format);
    memcpy(p + bytes * i, numbers, bytes * count);
}
