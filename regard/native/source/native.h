// What Python and C agree on. A change of any structure changes ABI.
#ifndef REGARD_NATIVE_H
#define REGARD_NATIVE_H
#include <stdint.h>

#define ABI 10
#define STRIPE 64  // outputs of a matrix that lie together
#define LANES 16   // floats of a vector; every width is a multiple
#define MOST_BEST 64
#define SPARE_ROWS 32  // room behind the quantized rows, which tiles read in vain

enum { FLOAT32, INT8, BRAIN };  // BRAIN: bfloat16, in training alone
enum { NONE, RELU, RELU2, GELU, GELU_TANH, SWISH, SIGMOID };
enum { LAYER, ROOT };  // norms
enum { EMBED, POSITION, NORM, PRODUCT, GLU, TURN, KEEP, ATTEND_CELLS, ATTEND_SOURCE, ATTEND_ROWS, GATE, MIX, COPY, HEAD, KEEP_SOURCE };

// y = x Wᵀ + b, packed: outputs in stripes of 64, of which the last is filled up with zeros.
typedef struct {
    int64_t outputs, inputs;  // outputs a multiple of 16, inputs of 16
    int64_t format;
    const void *weight;
    const float *scale;  // of each output, where the format is INT8
    const float *bias;
} Matrix;

// One operation on the rows of a batch. Numbers that name features are places in a row's record.
typedef struct {
    int32_t kind, in, other, out;
    int32_t width, real;         // features of a group, and how many of them are not filling
    int32_t groups, key_groups;  // heads
    int32_t value_width, layer, activation, add;
    float a, b;
    const float *first, *second;
    const Matrix *matrix;
} Operation;

// Keys and values of one layer, [slots][heads][columns][places][width].
typedef struct {
    char *key, *value;
    int32_t columns, places;
    int32_t ring;           // columns that are written over and over; 0: each has one of its own
    int32_t window;         // how many columns before its own a row sees; negative: all
    const float *bias;      // [heads][distances], added to energies by distance; or NULL
    int64_t distances;
    int64_t half;           // floats of 16 bits, instead of 32
} Table;

typedef struct {
    int64_t rows, stride;
    float *record;           // [rows][stride]
    const int32_t *token;    // [rows]
    const int32_t *time;     // [rows] column of each row
    const int32_t *slot;     // [rows]
    const int32_t *place;    // [rows] hypothesis within the slot
    int16_t *history;        // [slots][places][times] whose cell a row sees; NULL: its own
    int64_t times, places;
    const int32_t *begin;    // [rows] first row of the sequence that a row belongs to, and the one after its last
    const int32_t *end;
    const int32_t *length;   // [rows] columns of the source
    const Table *cells, *sources;
    const int64_t *cut;      // [threads + 1] rows of each thread; NULL: threads share all rows and split features
    char *scratch;           // [threads][scratch_bytes]
    int64_t scratch_bytes;
    // what is asked of the head
    int64_t every;           // of so many rows the last alone is looked at; results are numbered without the others
    int64_t best;            // most probable types of each row; 0: all log-probabilities
    const int32_t *suppressed;
    int64_t suppressed_count;
    const int32_t *asked;    // [rows] a type whose log-probability is wanted, or negative; NULL: none
    float *value;            // [rows][best]
    int32_t *found;          // [rows][best]
    float *asked_value;      // [rows]
    float *log_p;            // [rows][outputs]
    void *partial;           // [threads][rows] of Best: what each part of the types gave
} Batch;

// Live hypotheses of sentences, a row each, those of a sentence side by side.
typedef struct {
    int64_t sentences, width;
    double *total;        // [sentences][width] log P, the greatest first
    const double *least;  // [sentences] what the greatest has to exceed, or else the sentence may be done
    int32_t *parent, *chosen;  // [steps][rows] the row that a row goes on from, and its new token
    float *gain;               // [steps][rows] log-probability of that
} Beam;

// Attention of training: softmax(scale Q Kᵀ + added) V of each head of each sentence, and its gradients.
typedef struct {
    int64_t batch, heads, queries, keys, width, value_width;  // widths a multiple of 16
    float scale, dropped;                 // `dropped`: what dropout multiplies kept weights by
    int32_t threshold, wide;              // `wide`: whether `added` has 32 bits
    const char *query, *key, *value, *upstream;
    char *context, *to_query, *to_key, *to_value;
    int64_t query_step[3], key_step[3], value_step[3], upstream_step[3], context_step[3];  // batch, head, place
    int64_t to_query_step[3], to_key_step[3], to_value_step[3];
    const char *added;                    // mask and bias in one; its keys lie side by side
    int64_t added_step[3];                // batch, head, query
    const uint8_t *empty;                 // not 0 where a query sees nothing; NULL: all see something
    int64_t empty_step[2];                // batch, query
    const uint8_t *draw;                  // [batch][heads][queries][keys] as in Pass; NULL: no dropout
    char *weights;                        // [batch][heads][queries][keys, filled up to a multiple of 16 with zeros]
    float *scratch;                       // [threads][room]
    int64_t room;
} ShortAttention;

enum { TURN_PAIRS, ROOT_FORWARD, ROOT_BACK, DROP, DROP_BACK, ATTEND_SHORT, ATTEND_SHORT_BACK, JOIN, JOIN_BACK, LOSS, ADD, CHOOSE };
// One pass over numbers, most of them of training: over rows of (batch, head, place), or without rows over all of them.
typedef struct {
    int32_t kind, format, activation, threshold, halves;
    float scale;             // of what is kept; 1 or -1, the direction of a turn; what a norm adds to the mean; smoothing
    float epsilon;           // what LayerNorm adds to the variance
    int64_t rows, heads, places, width;  // rows: numbers, where there are no rows
    const char *x, *g;       // numbers and the gradient of the result; the pass forward has no g
    char *y;
    int64_t x_step[3], g_step[3], y_step[3];  // in numbers: of batch, head, place
    char *other;             // a second result: a sum before its norm; the gradient of what was added
    const float *first, *second;  // gains, biases; or cosines and sines [batch or 1][places][width / 2]
    int64_t table_batch;
    float *kept, *part;      // of each row, such as inverse roots; [chunks][width] gradients of gains or biases, which were zeros
    const int64_t *target;   // [rows] the type that was to be predicted
    float *scratch;          // [threads][room]
    int64_t room;
    const uint8_t *draw;     // a byte a number; below `threshold` it is dropped. NULL: no dropout
    const ShortAttention *attention;  // whose heads are the rows; NULL: another kind of pass
} Pass;

typedef struct Pool Pool;
typedef void Team(void (*work)(void *), void *given, unsigned threads, unsigned flags);

typedef struct {
    void (*run)(const Operation *, int64_t, const Batch *, int, int, Pool *);
    void (*pack)(const float *, int64_t, int64_t, int64_t, int64_t, void *, float *);
    void (*pass)(const Pass *, int, int);
} Kernels;

void regard_barrier(Pool *pool);
int regard_run(const char *set, const Operation *program, int64_t count, const Batch *batch, Pool *pool);
#endif
