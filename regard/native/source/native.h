// Structures shared by Python (regard/native/library.py) and C. Increase ABI when a layout changes.
#ifndef REGARD_NATIVE_H
#define REGARD_NATIVE_H
#include <stdint.h>

#define ABI 11
#define STRIPE 64  // outputs of a matrix that are stored together
#define LANES 16   // floats per vector; every width is a multiple
#define MAX_BEST 64
#define SPARE_ROWS 32  // after the quantized rows, because tiles read beyond them

enum { FLOAT32, INT8, BRAIN };  // BRAIN: bfloat16, only in training
enum { NONE, RELU, RELU2, GELU, GELU_TANH, SWISH, SIGMOID };
enum { LAYER, ROOT };  // norms
enum { EMBED, POSITION, NORM, PRODUCT, GLU, TURN, KEEP, ATTEND_CELLS, ATTEND_SOURCE, ATTEND_ROWS, GATE, MIX, COPY, HEAD, KEEP_SOURCE, POINT };

// y = x Wᵀ + b, packed: outputs in stripes of 64, the last padded with zeros.
typedef struct {
    int64_t outputs, inputs;  // multiples of 16
    int64_t format;
    const void *weight;
    const float *scale;  // per output, for format INT8
    const float *bias;
} Matrix;

// One operation on the rows of a batch. `in`, `other` and `out` are offsets of features in a row's record.
typedef struct {
    int32_t kind, in, other, out;
    int32_t width, real;         // features of a group, with and without padding
    int32_t groups, key_groups;  // heads
    int32_t value_width, layer, activation, add;
    float a, b;
    const float *first, *second;
    const Matrix *matrix;
} Operation;

// Keys and values of one layer, [slots][heads][columns][places][width]: a column per position, a place per hypothesis.
typedef struct {
    char *key, *value;
    int32_t columns, places;
    int32_t ring;           // number of columns that positions reuse cyclically; 0: each position has its own column
    int32_t window;         // number of columns before its own that a row sees; negative: all
    const float *bias;      // [heads][distances], added to energies by distance; NULL: none
    int64_t distances;
    int64_t half;           // whether floats have 16 bits instead of 32
    const int32_t *token;   // [slots][columns] source token of each column of a pointer; NULL: another table
} Table;

typedef struct {
    int64_t rows, stride;
    float *record;           // [rows][stride]
    const int32_t *token;    // [rows]
    const int32_t *time;     // [rows] position of each row's token
    const int32_t *slot;     // [rows]
    const int32_t *place;    // [rows] hypothesis within the slot
    int16_t *history;        // [slots][places][times] the hypothesis whose cell a row sees; NULL: its own
    int64_t times, places;
    const int32_t *begin;    // [rows] first row of a row's sequence; `end`: the row after its last
    const int32_t *end;
    const int32_t *length;   // [rows] length of the source
    const Table *cells, *sources;
    const int64_t *cut;      // [threads + 1] rows of each thread; NULL: threads share all rows and split features
    char *scratch;           // [threads][scratch_bytes]
    int64_t scratch_bytes;
    // results of the head
    int64_t every;           // only the last of every `every` rows is computed; results contain only these rows
    int64_t best;            // number of most probable types per row; 0: all log-probabilities
    const int32_t *suppressed;
    int64_t suppressed_count;
    const int32_t *requested;  // [rows] a type whose log-probability is returned, or negative; NULL: none
    float *value;            // [rows][best]
    int32_t *best_type;      // [rows][best]
    float *requested_value;  // [rows]
    float *log_p;            // [rows][outputs]
    // of a head that copies source tokens
    float *pointed;          // [rows][pointed_step] the pointer's weight of each source position
    int64_t pointed_step;
    float *logits;           // [rows][outputs] for the best types: logits of all types
    float *copied;           // [threads][outputs] copied probability by type of the current row; zeros between rows
    void *partial;           // [threads][rows] of Best: partial results over each part of the types
    // attention to the source that is returned
    float *observed;         // [rows][observed_heads][observed_step] weights of one layer; NULL: none
    int64_t observed_layer, observed_heads, observed_step;
} Batch;

// Live hypotheses of sentences, one row each; the rows of a sentence are consecutive.
typedef struct {
    int64_t sentences, width;
    double *total;        // [sentences][width] log P, in descending order
    const double *least;  // [sentences] bound that the greatest must exceed; otherwise the sentence may be finished
    int32_t *parent, *chosen;  // [steps][rows] the row that a row extends, and its new token
    float *gain;               // [steps][rows] log-probability of the new token
} Beam;

// Attention in training: softmax(scale Q Kᵀ + added) V of each head of each sentence, and its gradients.
typedef struct {
    int64_t batch, heads, queries, keys, width, value_width;  // widths are multiples of 16
    float scale, dropped;                 // `dropped`: factor of weights that dropout keeps
    int32_t threshold, wide;              // `wide`: whether `added` is float32
    const char *query, *key, *value, *upstream;
    char *context, *to_query, *to_key, *to_value;
    int64_t query_step[3], key_step[3], value_step[3], upstream_step[3], context_step[3];  // batch, head, place
    int64_t to_query_step[3], to_key_step[3], to_value_step[3];
    const char *added;                    // sum of mask and bias; contiguous along keys
    int64_t added_step[3];                // batch, head, query
    const uint8_t *empty;                 // not 0 for a query that sees no key; NULL: all queries see keys
    int64_t empty_step[2];                // batch, query
    const uint8_t *draw;                  // [batch][heads][queries][keys] as in Pass; NULL: no dropout
    char *weights;                        // [batch][heads][queries][keys, padded to a multiple of 16 with zeros]
    float *scratch;                       // [threads][room]
    int64_t room;
} ShortAttention;

enum { TURN_PAIRS, ROOT_FORWARD, ROOT_BACK, DROP, DROP_BACK, ATTEND_SHORT, ATTEND_SHORT_BACK, JOIN, JOIN_BACK, LOSS, ADD, CHOOSE };
// One pass over numbers, mostly in training: over rows of (batch, head, place), or over all numbers if it has no rows.
typedef struct {
    int32_t kind, format, activation, threshold, halves;
    float scale;             // dropout: 1 / P(keep); rotation: direction 1 or -1; root mean square: ε; loss: smoothing
    float epsilon;           // LayerNorm: added to the variance
    int64_t rows, heads, places, width;  // rows: count of numbers for a pass without rows; places: positions
    const char *x, *g;       // input, and gradient of the result; the forward pass has no g
    char *y;
    int64_t x_step[3], g_step[3], y_step[3];  // strides in numbers: of batch, head, place
    char *other;             // second result: a sum before its norm, or the gradient of the added tensor
    const float *first, *second;  // gains, biases; or cosines and sines [batch or 1][places][width / 2]
    int64_t table_batch;
    float *kept, *part;      // statistics of each row; [chunks][width] gradients of gains or biases, initially zeros
    const int64_t *target;   // [rows] the type to predict
    float *scratch;          // [threads][room]
    int64_t room;
    const uint8_t *draw;     // one byte per number, which is dropped below `threshold`; NULL: no dropout
    const ShortAttention *attention;  // its heads are the rows; NULL: another kind of pass
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
