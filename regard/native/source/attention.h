// Attention of one query to the keys of one head. A "column" is the position of a key in a table.

#define PAIRS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
// Returns one vector with the sums of sixteen vectors.
INLINE Vector sums(Vector *a) {
    for (int i = 0; i < 8; i++)
        a[i] = PAIRS(a[2 * i], a[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
               PAIRS(a[2 * i], a[2 * i + 1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    for (int i = 0; i < 4; i++)
        a[i] = PAIRS(a[2 * i], a[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
               PAIRS(a[2 * i], a[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    for (int i = 0; i < 2; i++)
        a[i] = PAIRS(a[2 * i], a[2 * i + 1], 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +
               PAIRS(a[2 * i], a[2 * i + 1], 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
    return PAIRS(a[0], a[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           PAIRS(a[0], a[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

typedef struct {  // the keys and values of one head, by column
    const char *key, *value;
    int half;                        // whether floats have 16 bits
    int64_t key_step, value_step;    // distance between columns
    int64_t key_place, value_place;  // distance between hypotheses within a column
    const int16_t *history;         // the hypothesis to read, by column; NULL: hypothesis 0
    int64_t ring;
    const float *bias;  // by distance from the last column, starting with distance 0; NULL: none
    int64_t key_next, value_next;  // offset of the data that is needed next, which is prefetched; 0: none
} Columns;

INLINE int64_t cell(const Columns *c, int64_t column) { return c->ring ? column % c->ring : column; }
INLINE int64_t place(const Columns *c, int64_t column) { return c->history ? c->history[column] : 0; }

// Loads sixteen floats of a table from index `i` on, and prefetches those at offset `next` unless it is 0.
INLINE Vector read(const char *table, int64_t i, int64_t next, const int half) {
    if (next && (!half || i % (2 * LANES) == 0)) __builtin_prefetch(table + (half ? 2 : 4) * (i + next));
    return half ? load_half((const uint16_t *)table + i) : load((const float *)table + i);
}

// Writes the energies of columns first, first + 1, … to `energy`, with padding in the last vector; returns the maximum
// per lane.
INLINE Vector energies(const float *query, const Columns *c, int64_t first, int64_t count, const int64_t width,
                       const int half, float *energy) {
    const Whole lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    Vector top = every(-3e38f);
    for (int64_t t = 0; t < count; t += LANES) {
        int64_t most = count - t < LANES ? count - t : LANES;
        Vector part[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            if (i >= most) {
                part[i] = every(0);
                continue;
            }
            int64_t key = cell(c, first + t + i) * c->key_step + place(c, first + t + i) * c->key_place;
            part[i] = load(query) * read(c->key, key, c->key_next, half);
#pragma GCC unroll 8
            for (int64_t j = LANES; j < width; j += LANES)
                part[i] += load(query + j) * read(c->key, key + j, c->key_next, half);
        }
        Vector e = sums(part);
        if (c->bias)
            for (int64_t i = 0; i < most; i++) e[i] += c->bias[count - 1 - t - i];
        if (most < LANES) e = choose(lane < (int32_t)most, e, every(-3e38f));
        store(energy + t, e);
        top = greater(top, e);
    }
    return top;
}

// Writes the weighted sum of the values of `count` columns, `wide` vectors from feature `begin` on.
INLINE void gather(const Columns *c, int64_t first, int64_t count, int64_t begin, const int wide, const int half,
                   const float *weight, float share, float *out) {
    Vector context[4] = {every(0), every(0), every(0), every(0)};
    for (int64_t t = 0; t < count; t++) {
        int64_t value = cell(c, first + t) * c->value_step + place(c, first + t) * c->value_place + begin;
#pragma GCC unroll 4
        for (int i = 0; i < wide; i++) context[i] += read(c->value, value + LANES * i, c->value_next, half) * weight[t];
    }
    for (int i = 0; i < wide; i++) store(out + begin + LANES * i, context[i] * share);
}

// Computes softmax(q · k + bias) v over columns first to last; `energy` has space for them and 16 more. Returns the
// factor that turns `energy` into the weights.
INLINE float attend_as(const float *query, const Columns *c, int64_t first, int64_t last, int64_t width, int64_t value_width,
                      const int half, float *energy, float *out) {
    int64_t count = last - first + 1;
    Vector total = every(0), top;
    switch (width) {  // common widths get loops of constant length
    case 32: top = energies(query, c, first, count, 32, half, energy); break;
    case 64: top = energies(query, c, first, count, 64, half, energy); break;
    default: top = energies(query, c, first, count, width, half, energy);
    }
    float most = greatest(top);
    for (int64_t t = 0; t < count; t += LANES) {
        Vector e = exponential(load(energy + t) - most);
        total += e;
        store(energy + t, e);
    }
    float share = 1 / sum(total);
    for (int64_t begin = 0; begin < value_width; begin += 4 * LANES) {
        int64_t left = value_width - begin;
        if (left >= 4 * LANES)
            gather(c, first, count, begin, 4, half, energy, share, out);
        else if (left == 2 * LANES)
            gather(c, first, count, begin, 2, half, energy, share, out);
        else
            for (int64_t each = begin; each < value_width; each += LANES)
                gather(c, first, count, each, 1, half, energy, share, out);
    }
    return share;
}

static float attend(const float *query, const Columns *c, int64_t first, int64_t last, int64_t width, int64_t value_width,
                   float *energy, float *out) {
    if (last < first) {
        for (int64_t i = 0; i < value_width; i += LANES) store(out + i, every(0));
        return 0;
    }
    return c->half ? attend_as(query, c, first, last, width, value_width, 1, energy, out)
                   : attend_as(query, c, first, last, width, value_width, 0, energy, out);
}
