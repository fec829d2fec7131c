// Products of 8-bit integers with the tiles of AMX: registers of 16 rows of 64 bytes, the layout of a packed stripe.

#define TILE_ROWS 16
#define TILE_INPUTS 64
#define FEWEST_ROWS 4  // for fewer rows, vectors are equally fast: both are bound by reading the weights

// Configures eight tiles of full size for the calling thread.
static void set_tiles(void) {
    struct { uint8_t palette, start, unused[14]; uint16_t bytes[16]; uint8_t rows[16]; } __attribute__((aligned(64))) sizes = {0};
    sizes.palette = 1;
    for (int i = 0; i < 8; i++) sizes.bytes[i] = 64, sizes.rows[i] = TILE_ROWS;
    _tile_loadconfig(&sizes);
}

// 32 or 16 rows by 32 outputs: tiles 0 to 3 are sums, 4 and 5 are rows, 6 and 7 are weights.
#define SUMS_OF_TILES(rows)                                                        \
    _tile_zero(0);                                                                 \
    _tile_zero(1);                                                                 \
    if (rows == 2) {                                                               \
        _tile_zero(2);                                                             \
        _tile_zero(3);                                                             \
    }                                                                              \
    for (int64_t k = 0; k < inputs; k += TILE_INPUTS, w += TILE_INPUTS * STRIPE) { \
        _tile_loadd(4, x + k, stride);                                             \
        _tile_loadd(6, w, 4 * STRIPE);                                             \
        _tile_dpbsud(0, 4, 6);                                                     \
        _tile_loadd(7, w + 4 * LANES, 4 * STRIPE);                                 \
        _tile_dpbsud(1, 4, 7);                                                     \
        if (rows == 2) {                                                           \
            _tile_loadd(5, x + TILE_ROWS * stride + k, stride);                    \
            _tile_dpbsud(2, 5, 6);                                                 \
            _tile_dpbsud(3, 5, 7);                                                 \
        }                                                                          \
    }                                                                              \
    _tile_stored(0, to, 4 * STRIPE);                                               \
    _tile_stored(1, to + LANES, 4 * STRIPE);                                       \
    if (rows == 2) {                                                               \
        _tile_stored(2, to + TILE_ROWS * STRIPE, 4 * STRIPE);                      \
        _tile_stored(3, to + TILE_ROWS * STRIPE + LANES, 4 * STRIPE);              \
    }

static void sums_of_tiles(int tiles, const int8_t *x, int64_t stride, const uint8_t *w, int64_t inputs, int32_t *to) {
    if (tiles == 2) {
        SUMS_OF_TILES(2)
    } else {
        SUMS_OF_TILES(1)
    }
}

// Multiplies rows from `first` on by a stripe; up to 31 rows after the last row of `q` are read and ignored.
static void tiled_stripe(const Quantized *q, int64_t first, int64_t rows, const Matrix *m, int64_t number, int add,
                         float *out, int64_t out_stride) {
    int32_t total[2 * TILE_ROWS * STRIPE] __attribute__((aligned(64)));
    int64_t left = (m->outputs - number * STRIPE) / LANES, count = left < 4 ? left : 4;
    const uint8_t *w = (const uint8_t *)m->weight + number * STRIPE * m->inputs;
    const float *scale = m->scale + number * STRIPE, *bias = m->bias + number * STRIPE;
    for (int64_t from = 0; from < rows; from += 2 * TILE_ROWS) {
        const int64_t these = rows - from < 2 * TILE_ROWS ? rows - from : 2 * TILE_ROWS;
        for (int c = 0; c < count; c += 2)
            sums_of_tiles(these > TILE_ROWS ? 2 : 1, q->x + (first + from) * q->stride, q->stride, w + 4 * LANES * c,
                          m->inputs, total + LANES * c);
        for (int64_t r = 0; r < these; r++)
            for (int c = 0; c < count; c++) {
                int64_t row = first + from + r;
                Whole whole = *(Whole *)(total + r * STRIPE + LANES * c) - OFFSET * q->sum[row];
                Vector y = __builtin_convertvector(whole, Vector) * (load(scale + LANES * c) * q->scale[row]);
                finish(y + load(bias + LANES * c), out + (from + r) * out_stride + LANES * c, add);
            }
    }
}
