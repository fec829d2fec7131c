// The end of a residual branch in training, forward and backward: dropout, sum and LayerNorm in one pass over contiguous
// rows. Results are rounded at the same steps as in torch's operations.

#define CHUNK_ROWS 64  // rows per partial sum of a gradient of gains, independent of the number of threads

INLINE const char *row_of(const char *p, int64_t at, const int format) { return p + (format == FLOAT32 ? 4 : 2) * at; }

// Returns the dropout factors of sixteen draws.
INLINE Vector kept(const Pass *p, int64_t i) {
    if (!p->draw) return every(p->scale);
    typedef uint8_t Draws __attribute__((vector_size(16), aligned(1), may_alias));
    Whole draws = __builtin_convertvector(*(const Draws *)(p->draw + i), Whole);
    return choose(draws >= p->threshold, every(p->scale), every(0));
}

// s = x + m ∘ d, written to `other`; without d, s = x is not written. y = (s − mean) r ∘ g + b, with
// r = 1 / √(variance + ε); without gains y is not written. Mean and r of each row are saved for the backward pass.
INLINE void join_row(const Pass *p, int64_t row, const int format) {
    const int64_t at = row * p->width;
    const char *x = row_of(p->x, at, format), *d = p->g ? row_of(p->g, at, format) : 0;
    char *s = p->other ? (char *)row_of(p->other, at, format) : 0;
    Vector total = every(0);
    for (int64_t i = 0; i < p->width; i += LANES) {
        Vector sum_here = load_as(x, i, format);
        if (d) {
            Vector added = load_as(d, i, format);
            if (p->draw) added = rounded(added * kept(p, at + i), format);
            sum_here = rounded(sum_here + added, format);
            store_as(s, i, sum_here, format);
        }
        total += sum_here;
    }
    if (!p->first) return;
    if (d) x = s;
    float mean = sum(total) / (float)p->width;
    Vector squares = every(0);
    for (int64_t i = 0; i < p->width; i += LANES) {
        Vector from_mean = load_as(x, i, format) - mean;
        squares += from_mean * from_mean;
    }
    float inverse = 1 / sqrtf(sum(squares) / (float)p->width + p->epsilon);
    p->kept[2 * row] = mean, p->kept[2 * row + 1] = inverse;
    char *y = (char *)row_of(p->y, at, format);
    for (int64_t i = 0; i < p->width; i += LANES) {
        Vector normed = (load_as(x, i, format) - mean) * inverse;
        store_as(y, i, normed * load(p->first + i) + load(p->second + i), format);
    }
}

// With h = (s − mean) r and u = g ∘ ∂y: writes ∂s = r (u − mean(u) − h mean(u ∘ h)) to y and m ∘ ∂s to `other`, and adds
// ∂g += ∂y ∘ h and ∂b += ∂y per chunk. Without gains ∂s = ∂y. `x` is s, `g` is ∂y.
INLINE void join_row_back(const Pass *p, int64_t row, const int format) {
    const int64_t at = row * p->width;
    const char *s = p->first ? row_of(p->x, at, format) : 0, *g = row_of(p->g, at, format);
    char *y = p->first ? (char *)row_of(p->y, at, format) : 0, *d = p->other ? (char *)row_of(p->other, at, format) : 0;
    float shift = 0, slope = 0, mean = 0, inverse = 1;
    if (p->first) {
        float *gains = p->part + row / CHUNK_ROWS * 2 * p->width, *biases = gains + p->width;
        mean = p->kept[2 * row], inverse = p->kept[2 * row + 1];
        Vector all = every(0), along = every(0);
        for (int64_t i = 0; i < p->width; i += LANES) {
            Vector h = (load_as(s, i, format) - mean) * inverse, up = load_as(g, i, format), u = up * load(p->first + i);
            all += u, along += u * h;
            store(gains + i, load(gains + i) + up * h);
            store(biases + i, load(biases + i) + up);
        }
        shift = sum(all) / (float)p->width, slope = sum(along) / (float)p->width;
    }
    for (int64_t i = 0; i < p->width; i += LANES) {
        Vector to_sum = load_as(g, i, format);
        if (p->first) {
            Vector h = (load_as(s, i, format) - mean) * inverse;
            to_sum = rounded((to_sum * load(p->first + i) - shift - h * slope) * inverse, format);
            store_as(y, i, to_sum, format);
        }
        if (d) store_as(d, i, to_sum * kept(p, at + i), format);
    }
}
