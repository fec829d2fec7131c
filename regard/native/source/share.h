// One thread's share of the work of an operation, and its buffers.

typedef struct {  // begin and end of each range
    int64_t row, rows;     // rows, for operations that are split by rows or by features
    int64_t thread;
    int64_t part, parts;   // number of this part of the features (stripes, heads), and number of parts
    int64_t head, heads;   // heads in the current operation
    int64_t some, somes;   // rows, for operations that cannot be split by features
    Quantized quantized;
    float *energy, *logits, *tops;
} Share;

static Share share_of(const Batch *b, int thread, int threads) {
    Share s;
    if (b->cut) {
        s.row = s.some = b->cut[thread], s.rows = s.somes = b->cut[thread + 1];
        s.part = 0, s.parts = 1;
    } else {
        s.row = 0, s.rows = b->rows, s.part = thread, s.parts = threads;
        s.some = b->rows * thread / threads, s.somes = b->rows * (thread + 1) / threads;
    }
    s.thread = thread;
    char *room = b->scratch + thread * b->scratch_bytes;
    s.quantized = (Quantized){(int8_t *)room, 0, 0, b->stride};
    room += (b->rows + SPARE_ROWS) * b->stride;
    s.quantized.scale = (float *)room, room += 4 * b->rows;
    s.quantized.sum = (int32_t *)room, room += 4 * b->rows;
    s.logits = (float *)room, room += 4 * b->rows * STRIPE;
    s.tops = (float *)room, room += 4 * b->rows;
    s.energy = (float *)room;
    return s;
}

static float *at(const Batch *b, int64_t row, int64_t feature) { return b->record + row * b->stride + feature; }
