// The kernels of every set of this processor against plain loops: for machines that are emulated, where Python is not.
// Prints the sets, and ends with 1 at the first difference.
#include "../../regard/native/source/native.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int regard_abi(void);
const char *regard_set(int number);
int regard_run(const char *set, const Operation *program, int64_t count, const Batch *batch, Pool *pool);
int regard_pack(const char *set, const float *w, int64_t outputs, int64_t inputs, int64_t filled, int64_t format, void *to,
                float *scale);
int64_t regard_wrong(const Batch *b, const int64_t *ends, int64_t slots);
Pool *regard_new_pool(int threads);
void regard_free_pool(Pool *pool);

static uint32_t state = 1;
static float drawn(void) {  // evenly from -1 to 1
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}
static float *room(int64_t count) {
    float *made = calloc((size_t)count, sizeof *made);
    if (!made) exit(2);
    return made;
}
static const char *now;
static void differ(const char *what, int64_t at, double found, double wanted) {
    printf("%s: %s differs at %lld: %.9g, not %.9g\n", now, what, (long long)at, found, wanted);
    exit(1);
}
static void near(const char *what, int64_t at, double found, double wanted, double error) {
    if (!(fabs(found - wanted) <= error * (1 + fabs(wanted)))) differ(what, at, found, wanted);
}
static int64_t filled(int64_t width) { return (width + LANES - 1) / LANES * LANES; }

// A batch of rows that are drawn, with room to compute.
static Batch batch_of(int64_t rows, int64_t stride, int64_t longest) {
    Batch b = {.rows = rows, .stride = stride, .record = room(rows * stride)};
    b.scratch_bytes = ((rows + SPARE_ROWS) * stride + rows * (4 * 64 + 12) + 4 * (longest + 32) + 63) / 64 * 64;
    b.scratch = (char *)room(2 * b.scratch_bytes);  // of two threads
    for (int64_t i = 0; i < rows * stride; i++) b.record[i] = drawn();
    return b;
}
static void release(Batch *b) { free(b->record), free(b->scratch); }

// y = x Wᵀ + b, in 8 bits exactly: rounded as the kernels do it, and summed in whole numbers.
static void check_product(int64_t rows, int64_t inputs, int64_t outputs, int format, Pool *pool) {
    int64_t in = filled(inputs), out = filled(outputs), stripes = (outputs + STRIPE - 1) / STRIPE * STRIPE;
    Batch b = batch_of(rows, in + out, 1);
    for (int64_t r = 0; r < rows; r++) memset(b.record + r * b.stride + inputs, 0, 4 * (size_t)(in - inputs));
    float *w = room(outputs * inputs), *bias = room(stripes), *scale = room(stripes), *packed = room(stripes * in);
    for (int64_t i = 0; i < outputs * inputs; i++) w[i] = drawn();
    for (int64_t i = 0; i < outputs; i++) bias[i] = drawn();
    if (!regard_pack(now, w, outputs, inputs, in, format, packed, scale)) differ("packing", 0, 0, 1);
    Matrix m = {out, in, format, packed, scale, bias};
    Operation o = {.kind = PRODUCT, .out = (int32_t)in, .matrix = &m};
    regard_run(now, &o, 1, &b, pool);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < outputs; i++) {
            const float *x = b.record + r * b.stride, *row = w + i * inputs;
            float found = x[in + i], x_most = 1e-30f, w_most = 1e-30f;
            double sum = bias[i];
            int64_t whole = 0;
            for (int64_t k = 0; k < inputs; k++) x_most = fmaxf(x_most, fabsf(x[k])), w_most = fmaxf(w_most, fabsf(row[k]));
            for (int64_t k = 0; k < inputs; k++) {
                volatile float scaled = x[k] * (127 / x_most), weight = row[k] / w_most * 127;
                whole += (int64_t)lrintf(scaled) * lrintf(weight), sum += (double)x[k] * row[k];
            }
            volatile float factor = w_most / 127 * (x_most / 127), product = (float)whole * factor;
            float wanted = product + bias[i];
            if (format == INT8 && found != wanted) differ("a product in 8 bits", r * outputs + i, found, wanted);
            if (format == FLOAT32) near("a product", r * outputs + i, found, sum, 1e-5);
        }
    release(&b), free(w), free(bias), free(scale), free(packed);
}

// The float that these 16 bits are; and the bits of a float near to x, with an exponent from -13 on.
static float of_half(uint16_t h) {
    float size = ldexpf((float)((h & 0x3ff) | 0x400), (h >> 10 & 31) - 25);
    return h & 0x8000 ? -size : size;
}
static uint16_t as_half(float x) {
    int power;
    float size = frexpf(fmaxf(fabsf(x), 0x1p-13f), &power);
    return (uint16_t)((x < 0) << 15 | (power + 14) << 10 | ((int)(size * 32) - 16) << 6);
}

static void check_attention(int64_t width, int64_t value_width, int64_t times, int half) {
    enum { HEADS = 4, KEY_HEADS = 2, SLOTS = 2, PLACES = 2, ROWS = 3 };
    int64_t query = 0, out = HEADS * width;
    Batch b = batch_of(ROWS, out + HEADS * value_width, times);
    int64_t cells = SLOTS * KEY_HEADS * times * PLACES;
    float *key = room(cells * width), *value = room(cells * value_width);
    for (int64_t i = 0; i < cells * width; i++) key[i] = drawn();
    for (int64_t i = 0; i < cells * value_width; i++) value[i] = drawn();
    uint16_t *short_key = calloc((size_t)(cells * width), 2), *short_value = calloc((size_t)(cells * value_width), 2);
    if (!short_key || !short_value) exit(2);
    for (int64_t i = 0; half && i < cells * width; i++) key[i] = of_half(short_key[i] = as_half(key[i]));
    for (int64_t i = 0; half && i < cells * value_width; i++) value[i] = of_half(short_value[i] = as_half(value[i]));
    int16_t *history = calloc(SLOTS * PLACES * (size_t)times, sizeof *history);
    if (!history) exit(2);
    for (int64_t i = 0; i < SLOTS * PLACES * times; i++) history[i] = drawn() > 0;
    int32_t slot[ROWS] = {1, 0, 1}, place[ROWS] = {0, 1, 1}, time[ROWS] = {(int32_t)times - 1, 0, (int32_t)times / 2};
    Table table = {.key = (char *)key, .value = (char *)value, .columns = (int32_t)times, .places = PLACES, .window = -1, .half = half};
    if (half) table.key = (char *)short_key, table.value = (char *)short_value;
    b.slot = slot, b.place = place, b.time = time, b.history = history, b.times = times, b.places = PLACES, b.cells = &table;
    Operation o = {.kind = ATTEND_CELLS, .in = (int32_t)query, .out = (int32_t)out, .width = (int32_t)width, .groups = HEADS,
                   .key_groups = KEY_HEADS, .value_width = (int32_t)value_width};
    regard_run(now, &o, 1, &b, 0);
    double *p = calloc((size_t)times, sizeof *p);
    if (!p) exit(2);
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < HEADS; h++) {
            const float *q = b.record + r * b.stride + h * width, *found = b.record + r * b.stride + out + h * value_width;
            int64_t begin = (slot[r] * KEY_HEADS + h / (HEADS / KEY_HEADS)) * times * PLACES;
            const int16_t *seen = history + (slot[r] * PLACES + place[r]) * times;
            double total = 0;
            for (int64_t t = 0; t <= time[r]; t++) {
                p[t] = 0;
                for (int64_t i = 0; i < width; i++) p[t] += (double)q[i] * key[(begin + t * PLACES + seen[t]) * width + i];
                total += p[t] = exp(p[t]);
            }
            for (int64_t i = 0; i < value_width; i++) {
                double wanted = 0;
                for (int64_t t = 0; t <= time[r]; t++)
                    wanted += p[t] / total * value[(begin + t * PLACES + seen[t]) * value_width + i];
                near("attention", i, found[i], wanted, 1e-5);
            }
        }
    release(&b), free(key), free(value), free(short_key), free(short_value), free(history), free(p);
}

static void check_norm(int64_t width, int root) {
    int64_t wide = filled(width);
    Batch b = batch_of(2, 2 * wide, 1);
    float *gain = room(wide), *bias = room(wide);
    for (int64_t i = 0; i < width; i++) gain[i] = drawn(), bias[i] = drawn();
    for (int64_t r = 0; r < 2; r++) memset(b.record + r * b.stride + width, 0, 4 * (size_t)(wide - width));
    Operation o = {.kind = NORM, .out = (int32_t)wide, .width = (int32_t)wide, .real = (int32_t)width, .groups = 1, .a = 1e-5f,
                   .activation = root ? ROOT : LAYER, .first = gain, .second = root ? 0 : bias};
    regard_run(now, &o, 1, &b, 0);
    for (int64_t r = 0; r < 2; r++) {
        const float *x = b.record + r * b.stride;
        double mean = 0, spread = 0;
        for (int64_t i = 0; i < width && !root; i++) mean += x[i] / (double)width;
        for (int64_t i = 0; i < width; i++) spread += (x[i] - mean) * (x[i] - mean) / (double)width;
        for (int64_t i = 0; i < width; i++)
            near("a norm", i, x[wide + i], (x[i] - mean) / sqrt(spread + 1e-5) * gain[i] + (root ? 0 : bias[i]), 1e-4);
    }
    release(&b), free(gain), free(bias);
}

// P(y) = g softmax(z)_y + (1 - g) Σ α_j over the source positions j with token y: all of them, and the four greatest.
static void check_copying(int length, Pool *pool) {
    enum { ROWS = 3, TYPES = 20, OUTPUTS = 32, COLUMNS = 40, BEST = 4, PARTIAL = 128 + 8 * MAX_BEST };
    Batch b = batch_of(ROWS, 48, COLUMNS);  // query and input of the head, gate, context
    float *w = room(TYPES * 16), *bias = room(STRIPE), *scale = room(STRIPE), *packed = room(STRIPE * 16);
    float *key = room(COLUMNS * 16), *value = room(COLUMNS * 16), found[ROWS * BEST];
    int32_t token[COLUMNS], slot[ROWS] = {0}, lengths[ROWS] = {length, length, length}, type[ROWS * BEST];
    for (int i = 0; i < TYPES * 16; i++) w[i] = 2 * drawn();
    for (int i = 0; i < COLUMNS * 16; i++) key[i] = drawn();
    for (int i = 0; i < COLUMNS; i++) token[i] = (int32_t)((drawn() + 1) * 5);
    for (int i = TYPES; i < STRIPE; i++) bias[i] = -1e30f;
    regard_pack(now, w, TYPES, 16, 16, FLOAT32, packed, scale);
    Matrix m = {OUTPUTS, 16, FLOAT32, packed, scale, bias};
    Table table = {.key = (char *)key, .value = (char *)value, .columns = COLUMNS, .places = 1, .window = -1, .token = token};
    Operation program[] = {{.kind = POINT, .out = 32, .width = 16, .groups = 1, .key_groups = 1, .value_width = 16},
                           {.kind = HEAD, .other = 16, .real = TYPES, .add = 1, .matrix = &m}};
    b.slot = slot, b.length = lengths, b.sources = &table, b.every = 1, b.log_p = room(ROWS * OUTPUTS);
    b.pointed = room(ROWS * 48), b.pointed_step = 48, b.logits = room(ROWS * OUTPUTS), b.copied = room(2 * OUTPUTS);
    b.value = found, b.best_type = type, b.partial = room(2 * ROWS * PARTIAL / 4);
    regard_run(now, program, 2, &b, pool);
    b.best = BEST;
    regard_run(now, program, 2, &b, pool);
    for (int r = 0; r < ROWS; r++) {
        const float *x = b.record + r * b.stride;
        double p[TYPES] = {0}, z[TYPES] = {0}, e[COLUMNS] = {0}, total = 0, all = 0, g = 1 / (1 + exp(-(double)x[16]));
        for (int j = 0; j < length; j++) {
            for (int i = 0; i < 16; i++) e[j] += (double)x[i] * key[j * 16 + i];
            all += e[j] = exp(e[j]);
        }
        for (int y = 0; y < TYPES; y++) {
            for (int i = 0; i < 16; i++) z[y] += (double)x[i] * w[y * 16 + i];
            total += z[y] = exp(z[y]);
        }
        for (int y = 0; y < TYPES; y++) p[y] = g * z[y] / total;
        for (int j = 0; j < length; j++) p[token[j]] += (1 - g) * e[j] / all;
        for (int y = 0; y < TYPES; y++) near("copying", y, b.log_p[r * OUTPUTS + y], log(p[y]), 1e-5);
        for (int i = 0; i < BEST; i++) {
            int best = 0;
            for (int y = 1; y < TYPES; y++) best = p[y] > p[best] ? y : best;
            near("a best type", i, found[r * BEST + i], log(p[best]), 1e-5);
            if (type[r * BEST + i] != best) differ("a best type", i, type[r * BEST + i], best);
            p[best] = 0;
        }
    }
    release(&b), free(w), free(bias), free(scale), free(packed), free(key), free(value), free(b.log_p), free(b.pointed);
    free(b.logits), free(b.copied), free(b.partial);
}

// σ(x) has the exponential in it: y = 1, then y *= σ(x), from -100 to 100.
static void check_exponential(void) {
    Batch b = batch_of(1, 2 * 208, 1);
    for (int i = 0; i < 208; i++) b.record[i] = (float)(i - 104) * 0.96f, b.record[208 + i] = 1;
    Operation o = {.kind = GATE, .out = 208, .width = 208};
    regard_run(now, &o, 1, &b, 0);
    for (int i = 0; i < 208; i++) near("a gate", i, b.record[208 + i], 1 / (1 + exp(-(double)b.record[i])), 1e-6);
    release(&b);
}

static void check_checks(void) {
    int32_t token[3] = {0, 4, 2};
    Batch b = {.rows = 3, .token = token, .every = 1};
    int64_t ends[10] = {5, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (regard_wrong(&b, ends, 0) != -1) differ("a right token", 0, 0, -1);
    ends[0] = 4;
    if (regard_wrong(&b, ends, 0) != 1) differ("a wrong token", 0, 0, 1);
}

int main(void) {
    if (regard_abi() != ABI) return 1;
    check_checks();
    Pool *pool = regard_new_pool(2);
    for (int number = 0; (now = regard_set(number)); number++) {
        for (int format = FLOAT32; format <= INT8; format++)
            for (int64_t rows = 1; rows < 14; rows += 2) {
                check_product(rows, 1 + 37 * rows, 150 - 11 * rows, format, rows > 6 ? pool : 0);
                check_product(rows, 64, 64, format, 0);
            }
        for (int64_t times = 1; times < 40; times += 9)
            for (int half = 0; half < 2; half++) check_attention(16, 32, times, half), check_attention(80, 144, times, half);
        for (int64_t width = 1; width < 70; width += 13) check_norm(width, 0), check_norm(width, 1);
        check_exponential();
        for (int length = 0; length < 40; length += 13) check_copying(length, 0), check_copying(length, pool);
        printf("%s\n", now);
    }
    regard_free_pool(pool);
    return 0;
}
