// The output projection: log-probabilities of all types, or the best types, selected during the computation.

#define LOG2_E 1.44269504f

// Turns the logits of a row into log-probabilities plus `generated`.
static void normalize(float *x, int64_t count, float generated) {
    float most = -3e38f, total = 0;
    for (int64_t i = 0; i < count; i++) most = x[i] > most ? x[i] : most;
    Vector all = every(0);
    int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) all += exponential(load(x + i) - most);
    for (int64_t i = whole; i < count; i++) total += expf(x[i] - most);
    float shift = most + logf(total + sum(all)) - generated;
    for (int64_t i = 0; i < count; i++) x[i] -= shift;
}

static int is_suppressed(const Batch *b, int32_t type) {
    for (int64_t i = 0; i < b->suppressed_count; i++)
        if (b->suppressed[i] == type) return 1;
    return 0;
}

typedef struct {  // partial result of a row over some of the types
    float most[LANES], total[LANES];  // by lane: the maximum of x, and the sum of exp(x - maximum)
    float value[MAX_BEST];
    int32_t type[MAX_BEST];
} Best;

static void forget(Best *best, int64_t count) {
    store(best->most, every(-3e38f));
    store(best->total, every(0));
    for (int64_t i = 0; i < count; i++) best->value[i] = -3e38f, best->type[i] = 0;
}

static void take(Best *best, const Batch *b, float value, int32_t type) {
    if (is_suppressed(b, type)) return;
    int64_t i = b->best - 1;
    for (; i > 0 && value > best->value[i - 1]; i--) best->value[i] = best->value[i - 1], best->type[i] = best->type[i - 1];
    best->value[i] = value, best->type[i] = type;
}

static int anywhere(Whole which) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)which, (__m512i)which) != 0;
#else
    int32_t any = 0;
    for (int i = 0; i < LANES; i++) any |= which[i];
    return any;
#endif
}

static void read_stripe(const Batch *b, Best *best, int64_t row, const float *x, int64_t count, int64_t first) {
    Vector before = load(best->most), own = load(x), all = every(0);
    for (int64_t i = LANES; i < count; i += LANES) own = greater(own, load(x + i));
    Vector most = greater(before, own);
    for (int64_t i = 0; i < count; i += LANES) all += power_of_two((load(x + i) - most) * LOG2_E);
    Vector total = load(best->total);
    if (anywhere(~(most <= before))) total *= exponential(before - most);
    store(best->total, total + all);
    store(best->most, most);
    if (b->requested && b->requested[row] >= first && b->requested[row] < first + count) b->requested_value[row] = x[b->requested[row] - first];
    if (anywhere(own > best->value[b->best - 1]))
        for (int64_t i = 0; i < count; i++)
            if (x[i] > best->value[b->best - 1]) take(best, b, x[i], (int32_t)(first + i));
}

static Best *partial(const Batch *b, int64_t part, int64_t row) { return (Best *)b->partial + part * b->rows + row; }

// Merges the partial results of a row: its best types, their log-probabilities, and that of the requested type, all plus
// `generated`. Returns the number to subtract from logits.
static float merge(const Batch *b, int64_t parts, int64_t row, float generated) {
    Vector most = every(-3e38f), total = every(0);
    int64_t next[64] = {0};  // of each thread
    for (int64_t p = 0; p < parts; p++) most = greater(most, load(partial(b, p, row)->most));
    float top = greatest(most);
    for (int64_t p = 0; p < parts; p++)
        total += load(partial(b, p, row)->total) * exponential(load(partial(b, p, row)->most) - top);
    float shift = top + logf(sum(total)) - generated;
    for (int64_t i = 0; i < b->best; i++) {
        int64_t from = 0;
        for (int64_t p = 1; p < parts; p++)
            if (partial(b, p, row)->value[next[p]] > partial(b, from, row)->value[next[from]]) from = p;
        Best *best = partial(b, from, row);
        float value = best->value[next[from]];
        b->value[row * b->best + i] = value <= -1e30f ? -INFINITY : value - shift;
        if (shift != shift) b->value[row * b->best + i] = NAN;
        int32_t type = best->type[next[from]++];
        b->best_type[row * b->best + i] = value <= -1e30f ? 0 : type;  // a padding output is not a type
    }
    if (b->requested && b->requested[row] >= 0) b->requested_value[row] -= shift;
    return shift;
}

static float log_sigmoid(float x) { return x < 0 ? x - log1pf(expf(x)) : -log1pf(expf(-x)); }

// Inserts a copied type into the best types of a row, in place of its own entry or of the last.
static void insert(const Batch *b, int64_t row, float x, int32_t y) {
    float *value = b->value + row * b->best;
    int32_t *type = b->best_type + row * b->best;
    int64_t i = 0;
    while (i < b->best - 1 && type[i] != y) i++;
    if (is_suppressed(b, y) || !(x > value[i] || (x == value[i] && y < type[i]))) return;
    for (; i > 0 && (x > value[i - 1] || (x == value[i - 1] && y < type[i - 1])); i--)
        value[i] = value[i - 1], type[i] = type[i - 1];
    value[i] = x, type[i] = y;
}

// Adds the copied tokens to the results of a row: log P(y) = log(g softmax(z)_y + (1 - g) Σ α_j) over the source positions
// j with token y. `shift` turns logits into the log of the first summand. Copying never lowers a probability, so the best
// types are among the best generated and the copied ones.
static void copy_source(const Operation *o, const Batch *b, const Share *s, int64_t row, int64_t record, float shift) {
    const Table *t = b->sources + o->layer;
    const int32_t *token = t->token + (int64_t)b->slot[record] * t->columns;
    const float *weight = b->pointed + record * b->pointed_step;
    int64_t length = b->length[record], outputs = o->matrix->outputs;
    float *x = (b->best ? b->logits : b->log_p) + row * outputs, *copied = b->copied + s->thread * outputs;
    float share = 1 / (1 + expf(*at(b, record, o->other)));  // 1 - g
    for (int64_t j = 0; j < length; j++) copied[token[j]] += share * weight[j];
    for (int64_t j = 0; j < length; j++) {
        int32_t y = token[j];
        float generated = x[y] - shift, p = copied[y];
        copied[y] = 0;  // a token that occurs again is already counted
        if (!(p > 0)) continue;
        float log_p = logf(expf(generated) + (p < 1.17549435e-38f ? 1.17549435e-38f : p));
        if (log_p < generated) log_p = generated;  // by rounding
        if (!b->best)
            x[y] = log_p;
        else
            insert(b, row, log_p, y);
        if (b->best && b->requested && b->requested[row] == y) b->requested_value[row] = log_p;
    }
}

static void head(const Operation *o, const Batch *b, Share *s, Pool *pool) {
    const Matrix *m = o->matrix;
    int64_t every = b->every, begin = s->row / every, rows = s->rows / every - begin;
    int64_t stripes = (m->outputs + STRIPE - 1) / STRIPE;
    int64_t first = stripes * s->part / s->parts, last = stripes * (s->part + 1) / s->parts;
    const float *x = at(b, begin * every + every - 1, o->in);
    s->quantized.stride = m->inputs;
    for (int64_t r = 0; r < rows; r++) {
        if (m->format == INT8) quantize(x + r * every * b->stride, m->inputs, &s->quantized, r);
        if (!b->best) continue;
        forget(partial(b, s->part, begin + r), b->best);
    }
    for (int64_t i = first; i < last; i++) {
        float *to = b->best ? s->logits : b->log_p + begin * m->outputs + i * STRIPE;
        stripe(x, every * b->stride, &s->quantized, 0, rows, m, i, NONE, 0, to, b->best ? STRIPE : m->outputs);
        if (!b->best) continue;
        int64_t left = m->outputs - i * STRIPE;
        for (int64_t r = 0; r < rows; r++)
            read_stripe(b, partial(b, s->part, begin + r), begin + r, s->logits + r * STRIPE, left < STRIPE ? left : STRIPE, i * STRIPE);
        for (int64_t r = 0; o->add && r < rows; r++)
            memcpy(b->logits + (begin + r) * m->outputs + i * STRIPE, s->logits + r * STRIPE, 4 * (size_t)(left < STRIPE ? left : STRIPE));
    }
    if (!b->cut) regard_barrier(pool);
    for (int64_t r = s->some / every; r < s->somes / every; r++) {
        int64_t record = r * every + every - 1;
        float generated = o->add ? log_sigmoid(*at(b, record, o->other)) : 0, shift = 0;
        if (b->best)
            shift = merge(b, s->parts, r, generated);
        else
            normalize(b->log_p + r * m->outputs, o->real, generated);
        if (o->add) copy_source(o, b, s, r, record, shift);
    }
}
