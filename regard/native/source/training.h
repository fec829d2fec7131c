// Passes over memory in training, forward and backward: rotations, root-mean-square norms, dropout.
// Results are rounded at the same steps as in torch's operations, hence without fused multiply-add.
#if defined(__clang__)  // gcc does not fuse with -std=c11
#pragma clang fp contract(off)
#endif

#define CHUNK_NUMBERS 8192  // numbers per chunk of a pass without rows

#include "residual.h"
#include "loss.h"
#include "draw.h"

typedef struct {
    const char *x, *g;
    char *y;
    int64_t batch, place;
} Line;

// Returns the addresses of a row; its number has the digits (batch, head, place).
INLINE Line line(const Pass *p, int64_t row, const int format) {
    const int64_t bytes = format == FLOAT32 ? 4 : 2, place = row % p->places, rest = row / p->places;
    const int64_t at[3] = {rest / p->heads, rest % p->heads, place};
    Line found = {p->x, p->g, p->y, at[0], place};
    for (int i = 0; i < 3; i++) {
        found.x += bytes * at[i] * p->x_step[i], found.y += bytes * at[i] * p->y_step[i];
        if (p->g) found.g += bytes * at[i] * p->g_step[i];
    }
    return found;
}

#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

// Rotates pairs by their angles; `scale` is 1 forward and -1 backward.
INLINE void turn_row(const Pass *p, int64_t row, const int format) {
    Line l = line(p, row, format);
    const int64_t half = p->width / 2, from = l.batch * p->table_batch + l.place * half;
    for (int64_t i = 0; i < half; i += LANES) {
        Vector cosine = load(p->first + from + i), sine = load(p->second + from + i) * p->scale, one, two;
        if (p->halves) {
            one = load_as(l.x, i, format), two = load_as(l.x, half + i, format);
        } else {
            Vector a = load_as(l.x, 2 * i, format), b = load_as(l.x, 2 * i + LANES, format);
            one = PAIRS(a, b, EVEN), two = PAIRS(a, b, ODD);
        }
        Vector new_one = one * cosine - two * sine, new_two = one * sine + two * cosine;
        if (p->halves) {
            store_as(l.y, i, new_one, format), store_as(l.y, half + i, new_two, format);
        } else {
            store_as(l.y, 2 * i, PAIRS(new_one, new_two, LOW), format);
            store_as(l.y, 2 * i + LANES, PAIRS(new_one, new_two, HIGH), format);
        }
    }
}

INLINE void root_row(const Pass *p, int64_t row, const int format) {
    Line l = line(p, row, format);
    Vector squares = every(0);
    for (int64_t i = 0; i < p->width; i += LANES) {
        Vector x = load_as(l.x, i, format);
        squares += x * x;
    }
    float inverse = 1 / sqrtf(sum(squares) / (float)p->width + p->scale);
    p->kept[row] = inverse;
    for (int64_t i = 0; i < p->width; i += LANES)
        store_as(l.y, i, load_as(l.x, i, format) * inverse * load(p->first + i), format);
}

// ∂x = r (g ∘ ∂y − x r² mean(g ∘ ∂y ∘ x)), and ∂g += ∂y ∘ x r per chunk.
INLINE void root_row_back(const Pass *p, int64_t row, const int format) {
    Line l = line(p, row, format);
    float inverse = p->kept[row], *gains = p->part + row / CHUNK_ROWS * p->width;
    Vector products = every(0);
    for (int64_t i = 0; i < p->width; i += LANES) {
        Vector x = load_as(l.x, i, format), g = load_as(l.g, i, format);
        products += g * load(p->first + i) * x;
        store(gains + i, load(gains + i) + g * x * inverse);
    }
    float mean = sum(products) / (float)p->width * inverse * inverse;
    for (int64_t i = 0; i < p->width; i += LANES) {
        Vector x = load_as(l.x, i, format), g = load_as(l.g, i, format) * load(p->first + i);
        store_as(l.y, i, (g - x * mean) * inverse, format);
    }
}

INLINE void drop(const Pass *p, int64_t i, const int format) {
    Vector x = load_as(p->x, i, format);
    if (p->activation != NONE) x = greater(every(0), x);
    if (p->activation == RELU2) x = rounded(x * x, format);
    store_as(p->y, i, p->draw ? x * kept(p, i) : x, format);
}

// Without draws, `x` is the forward result, which is 0 where it was dropped. `column`: index of the number in its row.
INLINE void drop_back(const Pass *p, int64_t i, int64_t column, const int format) {
    Vector g = load_as(p->g, i, format);
    if (p->draw || p->scale != 1) g = rounded(g * kept(p, i), format);
    if (p->activation != NONE) {
        Vector x = load_as(p->x, i, format);
        if (p->activation == RELU2) g = rounded(g * (greater(every(0), x) * 2.0f), format);
        g = choose(x > 0, g, every(0));
    }
    store_as(p->y, i, g, format);
    if (p->part) {  // ∂b += ∂x per chunk
        float *biases = p->part + i / (CHUNK_ROWS * p->width) * p->width + column;
        store(biases, load(biases) + g);
    }
}

// Processes rows of `width` numbers, or a single row if there is no width.
INLINE void drop_rows_back(const Pass *p, int64_t from, int64_t to, const int format) {
    const int64_t width = p->width ? p->width : to - from;
    for (int64_t row = from; row < to; row += width)
        for (int64_t i = 0; i < width; i += LANES) drop_back(p, row + i, i, format);
}

// y += x, where y is float32 for every format of x.
INLINE void add(const Pass *p, int64_t i, const int format) {
    float *y = (float *)p->y + i;
    store(y, load(y) + load_as(p->x, i, format));
}

INLINE void pass_as(const Pass *p, int64_t from, int64_t to, int thread, const int format) {
    switch (p->kind) {
    case ATTEND_SHORT: for (int64_t r = from; r < to; r++) attend_short(p->attention, r, thread, format); return;
    case ATTEND_SHORT_BACK: for (int64_t r = from; r < to; r++) attend_short_back(p->attention, r, thread, format); return;
    case JOIN: for (int64_t r = from; r < to; r++) join_row(p, r, format); return;
    case JOIN_BACK: for (int64_t r = from; r < to; r++) join_row_back(p, r, format); return;
    case LOSS: for (int64_t r = from; r < to; r++) loss_row(p, r, thread, format); return;
    case CHOOSE: for (int64_t r = from; r < to; r++) choose_row(p, r, thread); return;
    case TURN_PAIRS: for (int64_t r = from; r < to; r++) turn_row(p, r, format); return;
    case ROOT_FORWARD: for (int64_t r = from; r < to; r++) root_row(p, r, format); return;
    case ROOT_BACK: for (int64_t r = from; r < to; r++) root_row_back(p, r, format); return;
    case DROP: for (int64_t i = from; i < to; i += LANES) drop(p, i, format); return;
    case DROP_BACK: drop_rows_back(p, from, to, format); return;
    case ADD: for (int64_t i = from; i < to; i += LANES) add(p, i, format); return;
    }
}

// Runs one thread's chunks; the count of numbers of a pass without rows is a multiple of 16.
static void pass(const Pass *p, int thread, int threads) {
    const int flat = p->kind == DROP || p->kind == DROP_BACK || p->kind == ADD;
    int64_t chunk = flat ? p->width ? CHUNK_ROWS * p->width : CHUNK_NUMBERS : p->attention || p->kind == CHOOSE ? 1 : CHUNK_ROWS;
    int64_t chunks = (p->rows + chunk - 1) / chunk, from = chunks * thread / threads * chunk;
    int64_t to = chunks * (thread + 1) / threads * chunk;
    to = to < p->rows ? to : p->rows;
    if (p->format == FLOAT32)
        pass_as(p, from, to, thread, FLOAT32);
    else
        pass_as(p, from, to, thread, BRAIN);
}
