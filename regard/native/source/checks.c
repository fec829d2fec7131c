// Range checks of all numbers that kernels use as indices, called by Python before a run.
#include "native.h"

// Returns the index of the first of `count` numbers outside [lowest, end), or -1.
#define OUTSIDE(type)                                                                            \
    static int64_t outside_##type(const type *x, int64_t count, int64_t lowest, int64_t end) {   \
        int64_t wrong = 0;                                                                       \
        for (int64_t i = 0; i < count; i++) wrong |= (x[i] < lowest) | (x[i] >= end);            \
        for (int64_t i = 0; wrong && i < count; i++)                                             \
            if (x[i] < lowest || x[i] >= end) return i;                                          \
        return -1;                                                                               \
    }
OUTSIDE(int16_t)
OUTSIDE(int32_t)

// Returns list * 2^32 + index of the first number that is out of range, or -1. `ends` has the exclusive upper bound of
// each list; -1: unchecked. The lists: token, time, slot, place, begin, end, length, requested, history (with `slots`
// slots), and the lengths of sequences (end - begin).
int64_t regard_wrong(const Batch *b, const int64_t *ends, int64_t slots) {
    const int32_t *const lists[] = {b->token, b->time, b->slot, b->place, b->begin, b->end, b->length, b->requested};
    const int64_t asked = 7, history = 8, sequence = 9;
    for (int64_t i = 0; i < history; i++) {
        int64_t count = i == asked ? b->rows / b->every : b->rows, lowest = i == asked ? -1 : 0;
        int64_t at = ends[i] < 0 ? -1 : outside_int32_t(lists[i], count, lowest, ends[i]);
        if (at >= 0) return i << 32 | at;
    }
    int64_t at = ends[history] < 0 ? -1 : outside_int16_t(b->history, slots * b->places * b->times, 0, ends[history]);
    if (at >= 0) return history << 32 | at;
    for (int64_t r = 0; ends[sequence] >= 0 && r < b->rows; r++)
        if (b->end[r] - b->begin[r] >= ends[sequence]) return sequence << 32 | r;
    return -1;
}
