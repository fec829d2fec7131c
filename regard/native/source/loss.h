// Softmax and cross-entropy with label smoothing; the gradient overwrites the logits, row by row.

// Loads numbers of a row, with `filling` after the last.
INLINE Vector load_filled(const char *p, int64_t i, int64_t count, float filling, const int format) {
    const Whole order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    Vector found = load_some(p, i, count, format);
    return count >= LANES ? found : choose(order < (int32_t)count, found, every(filling));
}

// kept = −log p_t, part = Σ −log p_v, and x_v becomes p_v − ε/V − (1 − ε) [v = t]: `scale` is ε.
INLINE void loss_row(const Pass *p, int64_t row, int thread, const int format) {
    char *x = (char *)row_of(p->x, row * p->width, format);
    float *power = p->scratch + thread * p->room;
    const int64_t target = p->target[row], width = p->width;
    Vector highest = every(-INFINITY), logits = every(0), powers = every(0);
    for (int64_t i = 0; i < width; i += LANES) {
        highest = greater(load_filled(x, i, width - i, -INFINITY, format), highest);
        logits += load_some(x, i, width - i, format);
    }
    const float most = greatest(highest);
    for (int64_t i = 0; i < width; i += LANES) {
        Vector e = exponential(load_filled(x, i, width - i, -INFINITY, format) - most);
        store(power + i, e);
        powers += e;
    }
    const float total = sum(powers), log_total = logf(total) + most, even = p->scale / (float)width;
    const float chosen = load_some(x, target, 1, format)[0];
    p->kept[row] = log_total - chosen;
    p->part[row] = (float)width * log_total - sum(logits);
    for (int64_t i = 0; i < width; i += LANES) store_some(x, i, width - i, load(power + i) / total - even, format);
    store_some(x, target, 1, every(power[target] / total - even - (1 - p->scale)), format);
}
