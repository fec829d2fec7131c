// Several steps of a search in one call, as long as they need no decision by Python.
#include "native.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Makes the requested types of a step the results of their rows, and moves on to those of the next step.
static void force(Batch *batch) {
    for (int64_t row = 0; row < batch->rows; row++) {
        if (batch->requested[row] < 0) continue;
        batch->best_type[row] = batch->requested[row];
        batch->value[row] = batch->requested_value[row] < -FLT_MAX ? -FLT_MAX : batch->requested_value[row];
    }
    batch->requested += batch->rows;
    batch->requested_value += batch->rows;
}

// Runs up to `steps` steps, each row fed with its best type, or with the one that is requested for it at that step, until
// a type is `end`. Advances `token` and `time` of the batch; `value` and `best_type` have one row of results per step, as
// `requested` and `requested_value`. Returns the number of steps done; 0 as regard_run.
int regard_run_ahead(const char *set, const Operation *program, int64_t count, Batch *batch, Pool *pool, int32_t *token,
                     int32_t *time, int steps, int32_t end) {
    for (int step = 1; step <= steps; step++) {
        if (!regard_run(set, program, count, batch, pool)) return 0;
        int ended = 0;
        if (batch->requested) force(batch);
        for (int64_t row = 0; row < batch->rows; row++) {
            token[row] = batch->best_type[row];
            time[row]++;
            ended |= token[row] == end;
        }
        if (ended) return step;
        batch->value += batch->rows;
        batch->best_type += batch->rows;
        if (batch->observed) batch->observed += batch->rows * batch->observed_heads * batch->observed_step;
    }
    return steps;
}

// Selects the `width` best unfinished extensions of a sentence's hypotheses, among the 2 · `width` best. Returns 0 if one
// of the first `width` is finished, if the sentence may be finished, or if there are too few.
static int extend(const Batch *b, const Beam *beam, int64_t sentence, int32_t end, int32_t *parent, int32_t *chosen,
                  float *gain, double *total) {
    int64_t width = beam->width, first = sentence * width, next[MAX_BEST] = {0}, live = 0;
    for (int64_t taken = 0; taken < 2 * width && live < width; taken++) {
        int64_t from = -1;
        double top = -INFINITY;
        for (int64_t w = 0; w < width; w++) {
            if (next[w] == b->best) continue;
            double sum = beam->total[first + w] + (double)b->value[(first + w) * b->best + next[w]];
            if (sum != sum) return 0;
            if (sum > top) top = sum, from = w;
        }
        if (from < 0) return 0;
        int64_t at = (first + from) * b->best + next[from]++;
        if (b->best_type[at] != end)
            parent[live] = (int32_t)(first + from), chosen[live] = b->best_type[at], gain[live] = b->value[at], total[live++] = top;
        else if (taken < width)
            return 0;
    }
    return live == width && total[0] > beam->least[sentence];
}

// Copies the history of each row from the row that it extends.
static void reorder(const Batch *b, const int32_t *parent, int64_t first, int64_t width, int16_t *room) {
    for (int64_t w = 0; w < width; w++) {
        int64_t from = parent[w];
        memcpy(room + w * b->times, b->history + (b->slot[from] * b->places + b->place[from]) * b->times,
               2 * (size_t)(b->time[from] + 1));
    }
    for (int64_t w = 0; w < width; w++) {
        int64_t to = first + w;
        memcpy(b->history + (b->slot[to] * b->places + b->place[to]) * b->times, room + w * b->times,
               2 * (size_t)(b->time[to] + 1));
    }
}

// Runs up to `steps` steps, each of which extends the best hypotheses, until `extend` returns 0 for a sentence. `value` and
// `best_type` are then the results of the last step, which was not extended. Returns the number of steps done; 0 as
// regard_run, or without memory.
int regard_run_beam(const char *set, const Operation *program, int64_t count, const Batch *b, Pool *pool, int32_t *token,
                    int32_t *time, int steps, int32_t end, const Beam *beam) {
    int64_t width = beam->width, rows = beam->sentences * width;
    double *total = malloc(sizeof *total * (size_t)rows);
    int16_t *room = malloc(sizeof *room * (size_t)(width * b->times));
    int done = 0, quiet = total && room;
    while (quiet) {
        quiet = regard_run(set, program, count, b, pool);
        if (!quiet) {
            done = 0;
            break;
        }
        int64_t at = done * rows;
        quiet = ++done < steps;
        for (int64_t s = 0; quiet && s < beam->sentences; s++) {
            int64_t first = at + s * width;
            quiet = extend(b, beam, s, end, beam->parent + first, beam->chosen + first, beam->gain + first, total + s * width);
        }
        for (int64_t first = 0; quiet && first < rows; first += width) reorder(b, beam->parent + at + first, first, width, room);
        if (quiet) {
            memcpy(beam->total, total, sizeof *total * (size_t)rows);
            memcpy(token, beam->chosen + at, sizeof *token * (size_t)rows);
        }
        for (int64_t row = 0; row < rows; row++) time[row]++;
    }
    free(total), free(room);
    return done;
}
