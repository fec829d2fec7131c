// Attention over short sequences in training, forward and backward: one head of a sentence at a time, in float32.

#if defined(__AVX512F__)
#define WIDE_ROWS 4  // rows and vectors of a block of a product
#define WIDE 4
#define NARROW_ROWS 8
#else
#define WIDE_ROWS 3
#define WIDE 1
#define NARROW_ROWS 3
#endif

// out = a b for a block of `rows` rows and `vectors` vectors. Element k of row r of a is at offset r row + k step.
INLINE void small_block(const int rows, const int vectors, const float *a, int64_t row, int64_t step, int64_t inner,
                        const float *b, int64_t b_row, float *out, int64_t out_row) {
    Vector total[NARROW_ROWS][WIDE];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) total[r][v] = every(0);
    for (int64_t k = 0; k < inner; k++, a += step, b += b_row) {
        Vector other[WIDE];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) other[v] = load(b + LANES * v);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            Vector one = every(a[r * row]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) total[r][v] += one * other[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) store(out + r * out_row + LANES * v, total[r][v]);
}

INLINE void small_columns(const int most, const int vectors, const float *a, int64_t row, int64_t step, int64_t rows,
                          int64_t inner, const float *b, int64_t b_row, float *out, int64_t out_row) {
    int64_t r = 0;
    for (; r + most <= rows; r += most)
        small_block(most, vectors, a + r * row, row, step, inner, b, b_row, out + r * out_row, out_row);
    for (; r + 2 <= rows; r += 2)
        small_block(2, vectors, a + r * row, row, step, inner, b, b_row, out + r * out_row, out_row);
    if (r < rows) small_block(1, vectors, a + r * row, row, step, inner, b, b_row, out + r * out_row, out_row);
}

// Multiplies [rows][inner] by [inner][columns] into [rows][columns]; columns are a multiple of 16.
static void small_product(const float *a, int64_t row, int64_t step, int64_t rows, int64_t inner, const float *b,
                          int64_t columns, float *out) {
    int64_t c = 0;
    for (; c + LANES * WIDE <= columns; c += LANES * WIDE)
        small_columns(WIDE_ROWS, WIDE, a, row, step, rows, inner, b + c, columns, out + c, columns);
#if WIDE > 1
    for (; c + 2 * LANES <= columns; c += 2 * LANES)
        small_columns(NARROW_ROWS, 2, a, row, step, rows, inner, b + c, columns, out + c, columns);
    for (; c < columns; c += LANES)
        small_columns(NARROW_ROWS, 1, a, row, step, rows, inner, b + c, columns, out + c, columns);
#endif
}

// Copies rows of `width` contiguous numbers to float32 or back; `step`: distance between rows, in numbers.
INLINE void read_rows(const char *from, int64_t step, int64_t rows, int64_t width, float *to, const int format) {
    const int64_t bytes = format == FLOAT32 ? 4 : 2;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i += LANES) store(to + r * width + i, load_as(from + bytes * r * step, i, format));
}
INLINE void write_rows(const float *from, int64_t rows, int64_t width, char *to, int64_t step, const int format) {
    const int64_t bytes = format == FLOAT32 ? 4 : 2;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i += LANES) store_as(to + bytes * r * step, i, load(from + r * width + i), format);
}

// Transposes sixteen vectors in place.
INLINE void turn_over(Vector *x) {
    Vector y[LANES];
#define CROSSED(from, to, s, low, high)                                    \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) if (!(i & s)) {\
        to[i] = low(from[i], from[i + s]), to[i + s] = high(from[i], from[i + s]); \
    }
#define LOW_8(a, b) PAIRS(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define HIGH_8(a, b) PAIRS(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define LOW_4(a, b) PAIRS(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define HIGH_4(a, b) PAIRS(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define LOW_2(a, b) PAIRS(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH_2(a, b) PAIRS(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define LOW_1(a, b) PAIRS(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
#define HIGH_1(a, b) PAIRS(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
    CROSSED(x, y, 8, LOW_8, HIGH_8)
    CROSSED(y, x, 4, LOW_4, HIGH_4)
    CROSSED(x, y, 2, LOW_2, HIGH_2)
    CROSSED(y, x, 1, LOW_1, HIGH_1)
}
// Like read_rows, but transposed: [width][filled], `filled` a multiple of 16, with zeros after the rows.
INLINE void read_across(const char *from, int64_t step, int64_t rows, int64_t filled, int64_t width, float *to,
                          const int format) {
    const int64_t bytes = format == FLOAT32 ? 4 : 2;
    for (int64_t first = 0; first < filled; first += LANES)
        for (int64_t i = 0; i < width; i += LANES) {
            Vector block[LANES];
            for (int r = 0; r < LANES; r++)
                block[r] = first + r < rows ? load_as(from + bytes * (first + r) * step, i, format) : every(0);
            turn_over(block);
            for (int r = 0; r < LANES; r++) store(to + (i + r) * filled + first, block[r]);
        }
}

// Returns the dropout factors of sixteen weights.
INLINE Vector kept_weights(const ShortAttention *a, const uint8_t *draw, int64_t count) {
    typedef uint8_t Draws __attribute__((vector_size(16), aligned(1), may_alias));
    Draws draws = {0};
    if (count >= LANES)
        draws = *(const Draws *)draw;
    else
        memcpy(&draws, draw, count);
    return choose(__builtin_convertvector(draws, Whole) >= a->threshold, every(a->dropped), every(0));
}

typedef struct {  // one head of one sentence
    int64_t batch, head, number, filled;
    float *room;
} Head;

INLINE const char *part(const char *p, const int64_t *step, const Head *h, const int format) {
    return p + (format == FLOAT32 ? 4 : 2) * (h->batch * step[0] + h->head * step[1]);
}
INLINE char *part_of(char *p, const int64_t *step, const Head *h, const int format) {
    return p + (format == FLOAT32 ? 4 : 2) * (h->batch * step[0] + h->head * step[1]);
}
static float *room_for(Head *h, int64_t numbers) {
    float *found = h->room;
    h->room += numbers;
    return found;
}
static Head head_of(const ShortAttention *a, int64_t number, int thread) {
    return (Head){number / a->heads, number % a->heads, number, (a->keys + LANES - 1) / LANES * LANES,
                  a->scratch + thread * a->room};
}

// Turns the energies of a query into its weights.
INLINE void weigh_row(const ShortAttention *a, const Head *h, int64_t t, float *energy, const int wide) {
    const Whole lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const char *added = part(a->added, a->added_step, h, wide) + (wide == FLOAT32 ? 4 : 2) * t * a->added_step[2];
    Vector top = every(-INFINITY), total = every(0);
    for (int64_t i = 0; i < h->filled; i += LANES) {
        Vector e = load(energy + i) * a->scale + load_some(added, i, a->keys - i, wide);
        e = choose(lane < (int32_t)(a->keys - i), e, every(-INFINITY));
        top = greater(e, top);
        store(energy + i, e);
    }
    Vector most = every(greatest(top));
    for (int64_t i = 0; i < h->filled; i += LANES) {
        Vector e = exponential(load(energy + i) - most);
        total += e;
        store(energy + i, e);
    }
    int none = a->empty && a->empty[h->batch * a->empty_step[0] + t * a->empty_step[1]];
    float share = 1 / sum(total);
    for (int64_t i = 0; i < h->filled; i += LANES) store(energy + i, none ? every(0) : load(energy + i) * share);
}

INLINE void attend_short(const ShortAttention *a, int64_t number, int thread, const int format) {
    Head h = head_of(a, number, thread);
    const int64_t bytes = format == FLOAT32 ? 4 : 2;
    float *query = room_for(&h, a->queries * a->width), *across = room_for(&h, a->width * h.filled);
    float *value = room_for(&h, a->keys * a->value_width), *weights = room_for(&h, a->queries * h.filled);
    float *context = room_for(&h, a->queries * a->value_width);
    read_rows(part(a->query, a->query_step, &h, format), a->query_step[2], a->queries, a->width, query, format);
    read_across(part(a->key, a->key_step, &h, format), a->key_step[2], a->keys, h.filled, a->width, across, format);
    read_rows(part(a->value, a->value_step, &h, format), a->value_step[2], a->keys, a->value_width, value, format);
    small_product(query, a->width, 1, a->queries, a->width, across, h.filled, weights);
    for (int64_t t = 0; t < a->queries; t++) {
        float *row = weights + t * h.filled;
        char *saved = a->weights + bytes * (number * a->queries + t) * h.filled;
        if (a->wide)
            weigh_row(a, &h, t, row, FLOAT32);
        else
            weigh_row(a, &h, t, row, BRAIN);
        for (int64_t i = 0; i < h.filled; i += LANES) {
            Vector p = rounded(load(row + i), format);
            store_as(saved, i, p, format);
            if (a->draw) p *= kept_weights(a, a->draw + (number * a->queries + t) * a->keys + i, a->keys - i);
            store(row + i, p);
        }
    }
    small_product(weights, h.filled, 1, a->queries, a->keys, value, a->value_width, context);
    write_rows(context, a->queries, a->value_width, part_of(a->context, a->context_step, &h, format), a->context_step[2], format);
}

// Overwrites ∂P with ∂A = s P ∘ (M ∘ ∂P − each row's Σ P ∘ M ∘ ∂P), and P with M ∘ P.
INLINE void weigh_row_back(const ShortAttention *a, const Head *h, int64_t t, float *weights, float *slopes) {
    const uint8_t *draw = a->draw ? a->draw + (h->number * a->queries + t) * a->keys : 0;
    Vector products = every(0);
    for (int64_t i = 0; i < h->filled; i += LANES) {
        if (draw) store(slopes + i, load(slopes + i) * kept_weights(a, draw + i, a->keys - i));
        products += load(weights + i) * load(slopes + i);
    }
    float mean = sum(products);
    for (int64_t i = 0; i < h->filled; i += LANES) {
        Vector p = load(weights + i);
        store(slopes + i, p * (load(slopes + i) - mean) * a->scale);
        if (draw) store(weights + i, p * kept_weights(a, draw + i, a->keys - i));
    }
}

INLINE void attend_short_back(const ShortAttention *a, int64_t number, int thread, const int format) {
    Head h = head_of(a, number, thread);
    const int64_t bytes = format == FLOAT32 ? 4 : 2, most = a->queries > a->keys ? a->queries : a->keys;
    float *query = room_for(&h, a->queries * a->width), *key = room_for(&h, a->keys * a->width);
    float *upstream = room_for(&h, a->queries * a->value_width), *across = room_for(&h, a->value_width * h.filled);
    float *weights = room_for(&h, a->queries * h.filled), *slopes = room_for(&h, a->queries * h.filled);
    float *found = room_for(&h, most * (a->width > a->value_width ? a->width : a->value_width));
    read_rows(part(a->query, a->query_step, &h, format), a->query_step[2], a->queries, a->width, query, format);
    read_rows(part(a->key, a->key_step, &h, format), a->key_step[2], a->keys, a->width, key, format);
    read_rows(part(a->upstream, a->upstream_step, &h, format), a->upstream_step[2], a->queries, a->value_width, upstream, format);
    read_across(part(a->value, a->value_step, &h, format), a->value_step[2], a->keys, h.filled, a->value_width, across, format);
    read_rows(a->weights + bytes * number * a->queries * h.filled, h.filled, a->queries, h.filled, weights, format);
    small_product(upstream, a->value_width, 1, a->queries, a->value_width, across, h.filled, slopes);
    for (int64_t t = 0; t < a->queries; t++) weigh_row_back(a, &h, t, weights + t * h.filled, slopes + t * h.filled);
    small_product(slopes, h.filled, 1, a->queries, a->keys, key, a->width, found);
    write_rows(found, a->queries, a->width, part_of(a->to_query, a->to_query_step, &h, format), a->to_query_step[2], format);
    small_product(slopes, 1, h.filled, a->keys, a->queries, query, a->width, found);
    write_rows(found, a->keys, a->width, part_of(a->to_key, a->to_key_step, &h, format), a->to_key_step[2], format);
    small_product(weights, 1, h.filled, a->keys, a->queries, upstream, a->value_width, found);
    write_rows(found, a->keys, a->value_width, part_of(a->to_value, a->to_value_step, &h, format), a->to_value_step[2], format);
}
