// Sampling from a row of scores, limited to the most probable types. Thresholds are computed by radix selection: digit by
// digit of an integer key with the order of the floats, from the greatest down. This needs no sorting and always four
// passes over the row.
#define DIGIT 8  // bits
#define DIGITS (1 << DIGIT)

// Returns an integer key with the order of the floats; 0 and -0 have the same key.
INLINE uint32_t key_of(float x) {
    uint32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, 4);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

typedef struct {
    uint32_t key;   // the smallest selected key
    int64_t equal;  // number of selected elements with exactly this key, the first ones
} Threshold;

// Returns the threshold of the greatest numbers whose total weight reaches `wanted`; without weights each counts 1. Selects
// all if the total weight is smaller.
static Threshold threshold(const float *x, const float *weight, int64_t count, double wanted) {
    Threshold found = {0, 0};
    double before = 0;
    for (int shift = 32 - DIGIT; shift >= 0; shift -= DIGIT) {
        double mass[DIGITS] = {0};
        for (int64_t i = 0; i < count; i++) {
            uint32_t key = key_of(x[i]);
            if ((uint64_t)(key ^ found.key) >> (shift + DIGIT)) continue;
            mass[key >> shift & (DIGITS - 1)] += weight ? (double)weight[i] : 1;
        }
        uint32_t bin = DIGITS - 1;
        while (bin && before + mass[bin] < wanted) before += mass[bin--];
        if (before + mass[bin] < wanted) return (Threshold){0, count};
        found.key |= bin << shift;
    }
    for (int64_t i = 0; i < count && before < wanted; i++)
        if (key_of(x[i]) == found.key) found.equal++, before += weight ? (double)weight[i] : 1;
    return found;
}

// Writes e^(x − max) for numbers from `lowest` on, 0 for others; returns the sum.
static double powers_of(const char *x, float *power, int64_t count, float most, float lowest) {
    double total = 0;
    for (int64_t i = 0; i < count; i += LANES) {
        Vector scores = load_filled(x, i, count - i, -INFINITY, FLOAT32);
        Vector e = choose((scores >= lowest) & (scores > -INFINITY), exponential(scores - most), every(0));
        store(power + i, e);
        for (int64_t lane = 0; lane < LANES; lane++) total += (double)e[lane];
    }
    return total;
}

static void keep_likeliest(const float *x, float *power, int64_t count, double wanted) {
    const Threshold least = threshold(x, power, count, wanted);
    for (int64_t i = 0, equal = 0; i < count; i++) {
        uint32_t key = key_of(x[i]);
        if (key < least.key || (key == least.key && equal++ >= least.equal)) power[i] = 0;
    }
}

// y = the type at quantile `other` of softmax(x). Limits, in this order: the `heads` best types (0: all); of these, the most
// probable ones that reach `scale` of the probability (0: all); of these, those within `epsilon` of the highest score.
INLINE void choose_row(const Pass *p, int64_t row, int thread) {
    const int64_t count = p->width;
    const float *x = (const float *)p->x + row * count;
    float *power = p->scratch + thread * p->room, most = -INFINITY, lowest = -INFINITY;
    for (int64_t i = 0; i < count; i++) most = x[i] > most ? x[i] : most;
    if (p->heads && p->heads < count) {
        const uint32_t key = threshold(x, 0, count, (double)p->heads).key, bits = key >> 31 ? key & 0x7fffffffu : ~key;
        memcpy(&lowest, &bits, 4);
    }
    double total = powers_of((const char *)x, power, count, most, lowest);
    if (p->scale > 0) keep_likeliest(x, power, count, (double)p->scale * total);
    if (p->scale > 0 || p->epsilon > -INFINITY) {
        total = 0;
        for (int64_t i = 0; i < count; i++) {
            if (x[i] < most + p->epsilon) power[i] = 0;
            total += (double)power[i];
        }
    }
    const double quantile = ((const double *)p->other)[row] * total;
    double reached = 0;
    int64_t chosen = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!(power[i] > 0)) continue;
        chosen = i, reached += (double)power[i];
        if (reached > quantile) break;
    }
    ((int64_t *)p->y)[row] = chosen;
}
