// Operations on the rows of a batch, compiled once for each instruction set.
#include "native.h"
#include "vectors.h"
#include "quantized.h"
#if defined(__AMX_INT8__)
#include "tiles.h"
#endif
#include "products.h"
#include "attention.h"
#include "share.h"
#include "head.h"

static void product(const Operation *o, const Batch *b, Share *s) {
    const Matrix *m = o->matrix;
    int64_t rows = s->rows - s->row, stripes = (m->outputs + STRIPE - 1) / STRIPE;
    s->quantized.stride = m->inputs;
    if (m->format == INT8)
        for (int64_t r = s->row; r < s->rows; r++) quantize(at(b, r, o->in), m->inputs, &s->quantized, r);
    for (int64_t i = stripes * s->part / s->parts; i < stripes * (s->part + 1) / s->parts; i++)
        stripe(at(b, s->row, o->in), b->stride, &s->quantized, s->row, rows, m, i, o->activation, o->add,
               at(b, s->row, o->out) + i * STRIPE, b->stride);
}

static void norm(const Operation *o, const Batch *b, int64_t row) {
    const Whole lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int g = 0; g < o->groups; g++) {
        const float *x = at(b, row, o->in) + g * o->width;
        float *y = at(b, row, o->out) + g * o->width, mean = 0;
        Vector total = every(0), squares = every(0);
        if (o->activation == LAYER) {
            for (int i = 0; i < o->width; i += LANES) total += load(x + i);
            mean = sum(total) / o->real;
        }
        for (int i = 0; i < o->width; i += LANES) {
            Vector d = load(x + i) - mean;
            if (i + LANES > o->real) d = choose(lane < o->real - i, d, every(0));  // exclude padding
            squares += d * d;
        }
        float inverse = 1 / sqrtf(sum(squares) / o->real + o->a);
        for (int i = 0; i < o->width; i += LANES) {
            Vector d = (load(x + i) - mean) * inverse * load(o->first + i);
            store(y + i, o->second ? d + load(o->second + i) : d);
        }
    }
}

// Rotates adjacent pairs by the angles of the row's position; `first` has cos, sin, cos, sin … for each position.
static void turn(const Operation *o, const Batch *b, int64_t row) {
    const float *angle = o->first + (int64_t)b->time[row] * o->real;
    for (int g = 0; g < o->groups; g++) {
        float *x = at(b, row, o->in) + g * o->width;
        for (int i = 0; i < o->real; i += 2) {
            float one = x[i], two = x[i + 1];
            x[i] = one * angle[i] - two * angle[i + 1];
            x[i + 1] = one * angle[i + 1] + two * angle[i];
        }
    }
}

// Writes `width` floats into a table from index `i` on.
static void write(char *table, int64_t i, const float *x, int64_t width, int64_t half) {
    if (!half) memcpy((float *)table + i, x, 4 * (size_t)width);
    for (int64_t j = 0; half && j < width; j += LANES) store_half((uint16_t *)table + i + j, load(x + j));
}

static void keep(const Operation *o, const Batch *b, int64_t row, int64_t head, const Table *table, int64_t column) {
    int64_t slot = (int64_t)b->slot[row] * o->key_groups + head;
    if (table->ring) column %= table->ring;
    int64_t to = (slot * table->columns + column) * table->places + (b->place ? b->place[row] : 0);
    write(table->key, to * o->width, at(b, row, o->in) + head * o->width, o->width, table->half);
    write(table->value, to * o->value_width, at(b, row, o->other) + head * o->value_width, o->value_width, table->half);
}

static void attend_table(const Operation *o, const Batch *b, Share *s, int64_t row, int64_t head) {
    const int own = o->kind == ATTEND_CELLS;
    const Table *t = (own ? b->cells : b->sources) + o->layer;
    int64_t group = o->groups / o->key_groups, key_head = head / group, size = (int64_t)t->columns * t->places;
    int64_t begin = ((int64_t)b->slot[row] * o->key_groups + key_head) * size, next = (head + 1) / group - key_head;
    if (head + 1 == s->heads)  // the next row starts with the first head of this thread
        next = row + 1 < s->rows ? (b->slot[row + 1] - b->slot[row]) * (int64_t)o->key_groups + s->head / group - key_head : 0;
    next *= size;
    int64_t last = own ? b->time[row] : b->length[row] - 1;
    int64_t first = own && t->window >= 0 && last > t->window ? last - t->window : 0;
    int64_t bytes = t->half ? 2 : 4;
    Columns c = {t->key + bytes * begin * o->width, t->value + bytes * begin * o->value_width, (int)t->half,
                 (int64_t)t->places * o->width,
                 (int64_t)t->places * o->value_width, o->width, o->value_width,
                 own && b->history ? b->history + (b->slot[row] * b->places + b->place[row]) * b->times : 0, t->ring,
                 t->bias ? t->bias + head * t->distances : 0, next * o->width, next * o->value_width};
    float share = attend(at(b, row, o->in) + head * o->width, &c, first, last, o->width, o->value_width, s->energy,
                         at(b, row, o->out) + head * o->value_width);
    if (o->kind == ATTEND_SOURCE && b->observed && o->layer == b->observed_layer) {
        float *to = b->observed + (row * b->observed_heads + head) * b->observed_step;
        for (int64_t i = 0; i <= last; i += LANES) store(to + i, load(s->energy + i) * share);
    }
    for (int64_t i = 0; o->kind == POINT && i <= last; i += LANES)
        store(b->pointed + row * b->pointed_step + i, load(s->energy + i) * share);
}

// Computes attention of a row to all rows of its sequence.
static void attend_rows(const Operation *o, const Batch *b, Share *s, int64_t row, int64_t head) {
    int64_t key_head = head / (o->groups / o->key_groups), begin = b->begin[row];
    Columns c = {(char *)(at(b, begin, o->other) + key_head * o->width),
                 (char *)(at(b, begin, o->other) + o->key_groups * o->width + key_head * o->value_width), 0,
                 b->stride, b->stride, 0, 0, 0, 0, 0, 0, 0};
    attend(at(b, row, o->in) + head * o->width, &c, 0, b->end[row] - begin - 1, o->width, o->value_width, s->energy,
           at(b, row, o->out) + head * o->value_width);
}

static void elementwise(const Operation *o, const Batch *b, int64_t row) {
    float *x = at(b, row, o->in), *y = at(b, row, o->out), *z = at(b, row, o->other);
    const float *table = o->first;
    switch (o->kind) {
    case EMBED:
        memcpy(y, table + (int64_t)b->token[row] * o->width, 4 * (size_t)o->width);
        if (b->history)  // the cell that the row will write
            b->history[(b->slot[row] * b->places + b->place[row]) * b->times + b->time[row]] = (int16_t)b->place[row];
        return;
    case POSITION:
        table += (int64_t)b->time[row] * o->width;
        for (int i = 0; i < o->width; i += LANES) store(y + i, load(y + i) + load(table + i));
        return;
    case GLU:
        for (int i = 0; i < o->width; i += LANES) store(y + i, activated(load(x + i), o->activation) * load(z + i));
        return;
    case GATE:
        for (int i = 0; i < o->width; i += LANES) store(y + i, load(y + i) * sigmoid(load(x + i)));
        return;
    case MIX:
        for (int i = 0; i < o->width; i += LANES) store(y + i, load(x + i) * o->a + load(z + i) * o->b);
        return;
    default: memmove(y, x, 4 * (size_t)o->width);
    }
}

static void operate(const Operation *o, const Batch *b, Share *s) {
    int64_t heads = 0;
    switch (o->kind) {
    case PRODUCT: product(o, b, s); return;
    case NORM: for (int64_t r = s->some; r < s->somes; r++) norm(o, b, r); return;
    case TURN: for (int64_t r = s->some; r < s->somes; r++) turn(o, b, r); return;
    case KEEP:
    case KEEP_SOURCE: heads = o->key_groups; break;
    case ATTEND_CELLS:
    case ATTEND_SOURCE:
    case ATTEND_ROWS:
    case POINT: heads = o->groups; break;
    default: for (int64_t r = s->some; r < s->somes; r++) elementwise(o, b, r); return;
    }
    s->head = heads * s->part / s->parts, s->heads = heads * (s->part + 1) / s->parts;
    for (int64_t r = s->row; r < s->rows; r++)
        for (int64_t h = s->head; h < s->heads; h++) switch (o->kind) {
            case KEEP: keep(o, b, r, h, b->cells + o->layer, b->time[r]); break;
            case KEEP_SOURCE: keep(o, b, r, h, b->sources + o->layer, b->time[r]); break;
            case ATTEND_ROWS: attend_rows(o, b, s, r, h); break;
            default: attend_table(o, b, s, r, h);
            }
}

static int by_rows(const Operation *o) {
    switch (o->kind) {
    case PRODUCT: case KEEP: case KEEP_SOURCE: case ATTEND_CELLS: case ATTEND_SOURCE: case ATTEND_ROWS: case POINT: case HEAD:
        return 0;
    default: return 1;
    }
}

// Returns whether threads that share rows need no barrier between two operations, because each thread reads only its own
// results.
static int flows(const Operation *o, const Operation *next) {
    if (o->kind == KEEP && next->kind == ATTEND_CELLS) return o->groups == o->key_groups;
    return by_rows(o) && by_rows(next);
}

static void run(const Operation *program, int64_t count, const Batch *b, int thread, int threads, Pool *pool) {
    Share s = share_of(b, thread, threads);
#if defined(__AMX_INT8__)
    set_tiles();
#endif
    for (int64_t i = 0; i < count; i++) {
        if (program[i].kind == HEAD)
            head(program + i, b, &s, pool);
        else
            operate(program + i, b, &s);
        if (!b->cut && !(i + 1 < count && flows(program + i, program + i + 1))) regard_barrier(pool);
    }
#if defined(__AMX_INT8__)
    _tile_release();
#endif
}

#include "formats.h"
#include "short_attention.h"
#include "training.h"

#define NAME_(set) regard_kernels_##set
#define NAME(set) NAME_(set)
const Kernels NAME(SET) = {run, pack, pass};
