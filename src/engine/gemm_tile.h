/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with packed weights (model/pack.h), written once for all instruction sets on top of
 * gemm_vector.h. Before it includes this, a file defines:
 *
 *   KERNEL, KERNEL_NAME  the ft_gemm_kernel to define, and its name for people
 *   KERNEL_QUANTIZE      its function that makes 8-bit rows
 *   KERNEL_TYPES         the list of its weight types
 *   INT_ROWS             how many rows are multiplied at a time with quantized weights; 0: the
 *                        kernel takes no such weights
 *   FLOAT_ROWS           the same for float weights
 *   PREFETCH             the cache that the next tile is fetched into: 3 (L1) or 2 (L2)
 * For quantized weights:
 *   STEP(type)           how many vectors of a block's weights are multiplied at a time, at most
 *                        STEP_MOST
 *   dot_step(type, dot, w, x)
 *                        adds the products of STEP(type) vectors of weights and the values at x
 *   OFFSET               128 if dot_step takes unsigned weights (to those with a sign 128 is
 *                        added), else 0
 *   lookup(table, i)     for each byte of i: the byte of the table with that number
 *   NARROW(type)         whether dot_step sums a block's products in pairs of 16 bits
 *   widen(dot)           the sums of such pairs
 *   STORED_SUMS(type, n) whether n rows' sums are in memory while a block is multiplied: there are
 *                        too few registers for them and for the block's own sums
 * For BF16 weights:
 *   PAIR_DOT             1 if the file has a pair_dot of its own; 0: the one below is used
 *
 * Weights are unpacked once for all rows that are multiplied at a time. Every row's arithmetic is
 * the same, in the same order, for any number of rows and every instruction set: that of
 * gemm_plain.c, gemm_k_plain.c and gemm_f_plain.c.
 *
 * With few rows, memory is the limit. So weights are read strictly front to back, and while a tile
 * is multiplied, the next one is prefetched. Without that, a pass of one or two rows on two threads
 * takes a tenth longer with AVX-512. With AVX2 (on a Zen) it is L2 that it must be prefetched into:
 * L1 has too few places for lines under way, and a pass of one row takes 7 % longer.
 * (lint: template header)
 */

/* Part p of a row's sums, to its place. */
FT_GEMM_INLINE void put(const ft_gemm_tile *t, size_t row, size_t p, floats sum)
{
    if (t->residual)
        sum += (floats)load(t->residual + row * t->residual_stride + LANES * p);
    memcpy(t->out + row * t->out_stride + LANES * p, &sum, sizeof sum);
}

#define EACH_SUM UNROLL for (uint32_t r = 0; r < n; r++) UNROLL for (int p = 0; p < PARTS; p++)

/* ---- quantized weights ---- */

#if INT_ROWS

/* 6-bit scales and minima of a superblock, [block][row]. */
typedef struct numbers {
    _Alignas(64) int8_t scale[8][16], min[8][16];
} numbers;

#define IQ4_NL_VALUES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
static const int8_t iq4_nl[] = {IQ4_NL_VALUES, IQ4_NL_VALUES, IQ4_NL_VALUES, IQ4_NL_VALUES};

FT_GEMM_INLINE bool is_k(enum ggml_type type)
{
    return type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K || type == GGML_TYPE_Q6_K;
}

/* The bits of `mask` after a shift to the left (a negative number: to the right). None of them
 * comes from another byte. */
FT_GEMM_INLINE bytes bits(bytes b, int shift, uint8_t mask)
{
    shorts s = (shorts)b;
    return (bytes)(shift >= 0 ? s << shift : s >> -shift) & mask;
}

FT_GEMM_INLINE bool has_min(enum ggml_type type)
{
    return ft_pack_has_min(type) || type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K;
}

/* Inputs 4 i .. 4 i + 3 of a block, for LANES output rows. Q8_0 is stored plus 128. */
FT_GEMM_INLINE bytes weights(enum ggml_type type, const uint8_t *quants, int i)
{
    if (type == GGML_TYPE_Q8_0)
        return (bytes)load(quants + 64 * i) ^ (128 ^ OFFSET);
    const uint8_t *nibbles = quants + 64 * (high_bits(type) + i / 2);
    bytes w = bits((bytes)load(nibbles), i % 2 * -4, 15);
    if (type == GGML_TYPE_IQ4_NL)
        return lookup((bytes)load(iq4_nl) ^ OFFSET, w);
    if (high_bits(type) == 1)
        w |= bits((bytes)load(quants), 4 - i, 0x10);
    if (high_bits(type) == 2)
        w |= bits((bytes)load(quants + i / 4 * 64), 4 - i % 4 * 2, 0x30);
    return w;
}

/* The number at which a row's dot product starts, because weights are stored with an offset. */
FT_GEMM_INLINE int32_t start_of(enum ggml_type type, const ft_gemm_block *x, int h)
{
    if (type == GGML_TYPE_Q6_K)
        return x->start32[h];
    if (type == GGML_TYPE_Q4_0)
        return x->start8;
    if (type == GGML_TYPE_Q5_0)
        return 2 * x->start8;
    return is_signed(type) && OFFSET ? x->start128 : 0;
}

/* dot[p][r]: the products of row r with a block's weights (Q6_K: with half h of them). */
FT_GEMM_INLINE void dot_rows(enum ggml_type type, uint32_t n, const uint8_t *quants, int h,
                             const ft_gemm_block *x, ints dot[PARTS][INT_ROWS])
{
    const int begin = 4 * h, end = type == GGML_TYPE_Q6_K ? begin + 4 : 8;
    EACH_SUM dot[p][r] = (ints){0} + (NARROW(type) ? 0 : start_of(type, &x[r], h));
    UNROLL for (int i = begin; i < end; i += STEP(type))
    {
        bytes w[PARTS][STEP_MOST];
        UNROLL for (int p = 0; p < PARTS; p++)
            UNROLL for (int j = 0; j < STEP_MOST; j++) if (j < STEP(type)) w[p][j] =
                weights(type, quants + 4 * LANES * p, i + j);
        EACH_SUM dot[p][r] = dot_step(type, dot[p][r], w[p], x[r].q + 4 * i);
    }
    if (NARROW(type))
        EACH_SUM dot[p][r] = widen(dot[p][r]) + start_of(type, &x[r], h);
}

/* 32 weights of 16 output rows. Numbers are [output row]. */
typedef struct block {
    const uint8_t *quants;
    const uint8_t *d;          /* f16 scales, and behind them minima if the type has them */
    const int8_t *scale, *min; /* K-quants: what d and the minima are multiplied with */
} block;

/* The scales (Q6_K: of half h) of part p; its minima. */
FT_GEMM_INLINE floats scale_of(enum ggml_type type, const block *b, int h, int p)
{
    floats d = halves(b->d + 2 * LANES * p);
    return is_k(type) ? d * floats_of(b->scale + FT_PACK_ROWS * h + LANES * p) : d;
}

FT_GEMM_INLINE floats min_of(enum ggml_type type, const block *b, int p)
{
    floats min = halves(b->d + 2 * FT_PACK_ROWS + 2 * LANES * p);
    return is_k(type) ? min * 0.125f * floats_of(b->min + LANES * p) : min;
}

/* sum[p][r] += the products of row r with a block's weights. */
FT_GEMM_INLINE void multiply(enum ggml_type type, uint32_t n, const block *b,
                             const ft_gemm_block *x, floats sum[PARTS][INT_ROWS])
{
    ints dot[PARTS][INT_ROWS];
    floats half[PARTS][INT_ROWS];
    if (STORED_SUMS(type, n))
        __asm__("" : "+m"(*(floats(*)[PARTS][INT_ROWS])sum));
    dot_rows(type, n, b->quants, 0, x, dot);
    if (type == GGML_TYPE_Q6_K) {
        EACH_SUM half[p][r] = __builtin_convertvector(dot[p][r], floats) * scale_of(type, b, 0, p);
        dot_rows(type, n, b->quants, 1, x, dot);
    }
    floats scale[PARTS], min[PARTS];
    UNROLL for (int p = 0; p < PARTS; p++)
    {
        scale[p] = scale_of(type, b, type == GGML_TYPE_Q6_K, p);
        min[p] = has_min(type) ? min_of(type, b, p) : splat(0);
    }
    EACH_SUM
    {
        floats whole = __builtin_convertvector(dot[p][r], floats), by = splat(x[r].scale);
        floats to = sum[p][r];
        if (type == GGML_TYPE_Q6_K) {
            to = fmadd(fmadd(scale[p], whole, half[p][r]), by, to);
        } else if (is_k(type)) {
            to = fmadd(fmadd(min[p], splat((float)x[r].start8), whole * scale[p]), by, to);
        } else {
            to = fmadd(whole, scale[p] * by, to);
            if (has_min(type))
                to = fmadd(min[p], splat(x[r].sum), to);
        }
        sum[p][r] = to;
    }
}

/* Bytes [begin, end) of the next tile. */
FT_GEMM_INLINE void prefetch(const ft_gemm_tile *t, size_t begin, size_t end)
{
    for (; t->prefetch && begin < end; begin += 64)
        __builtin_prefetch(t->prefetch + begin, 0, PREFETCH);
}

/* Blocks of 32, in pairs. */
FT_GEMM_INLINE void multiply_blocks(enum ggml_type type, uint32_t n, const ft_gemm_tile *t,
                                    const ft_gemm_block *x, floats sum[PARTS][INT_ROWS])
{
    const size_t s = ft_pack_scale_bytes(type), q = ft_pack_quant_bytes(type);
    const uint8_t *w = t->weights;
    for (uint32_t pair = 0; pair < t->n_blocks / 2; pair++) {
        size_t at = (size_t)(w - t->weights);
        prefetch(t, at, at + 2 * (s + q));
        multiply(type, n, &(block){.d = w, .quants = w + 2 * s}, x, sum);
        multiply(type, n, &(block){.d = w + s, .quants = w + 2 * s + q}, x + t->row_blocks, sum);
        w += 2 * (s + q);
        x += 2 * t->row_blocks;
    }
    if (t->n_blocks % 2)
        multiply(type, n, &(block){.d = w, .quants = w + s}, x, sum);
}

/* ---- superblocks of K-quants ---- */

FT_GEMM_INLINE void unpack_numbers(const ft_pack_scales *from, numbers *to)
{
    UNROLL for (int i = 0; i < 4; i += LANES / 4)
    {
        bytes a = (bytes)load(from->low[i]), b = (bytes)load(from->low[4 + i]);
        bytes high = (bytes)load(from->high[i]), six[4];
        six[0] = bits(a, 0, 15) | bits(high, 4, 0x30);
        six[1] = bits(b, 0, 15) | bits(high, 0, 0x30);
        six[2] = bits(a, -4, 15) | bits(high, 2, 0x30);
        six[3] = bits(b, -4, 15) | bits(high, -2, 0x30);
        memcpy(to->scale[i], &six[0], sizeof *six);
        memcpy(to->scale[4 + i], &six[1], sizeof *six);
        memcpy(to->min[i], &six[2], sizeof *six);
        memcpy(to->min[4 + i], &six[3], sizeof *six);
    }
}

/* Superblock s; x: its first block. */
FT_GEMM_INLINE void multiply_super(enum ggml_type type, uint32_t n, const ft_gemm_tile *t, size_t s,
                                   const ft_gemm_block *x, floats sum[PARTS][INT_ROWS])
{
    const bool q6 = type == GGML_TYPE_Q6_K;
    const size_t quants = FT_PACK_SUPER / 8 * FT_PACK_ROWS * (size_t)(4 + high_bits(type)) / 8;
    const size_t head = q6 ? 256 : sizeof(ft_pack_scales), super_bytes = head + 8 * quants;
    const ft_pack_q6_k_place at = q6 ? ft_pack_q6_k_at(s, t->n_blocks / 8)
                                     : (ft_pack_q6_k_place){s * super_bytes, s * super_bytes};
    const uint8_t *super = t->weights + at.super;
    numbers six;
    if (!q6)
        unpack_numbers((const ft_pack_scales *)super, &six);
    for (size_t i = 0; i < 8; i++, x += t->row_blocks) {
        const block b = {.quants = super + head + i * quants,
                         .d = t->weights + at.d,
                         .scale = q6 ? ((const ft_pack_q6_k *)super)->scales[2 * i] : six.scale[i],
                         .min = six.min[i]};
        prefetch(t, at.super + i * super_bytes / 8, at.super + (i + 1) * super_bytes / 8);
        multiply(type, n, &b, x, sum);
    }
}

/* Rows [first, first + n). The first ones prefetch for all. */
FT_GEMM_INLINE void int_rows(enum ggml_type type, uint32_t n, const ft_gemm_tile *all,
                             uint32_t first)
{
    ft_gemm_tile t = *all;
    const ft_gemm_block *x = t.rows + first;
    floats sum[PARTS][INT_ROWS];
    EACH_SUM sum[p][r] = splat(0);
    if (first > 0)
        t.prefetch = NULL;
    if (is_k(type))
        for (size_t s = 0; s < t.n_blocks / 8; s++, x += 8 * (size_t)t.row_blocks)
            multiply_super(type, n, &t, s, x, sum);
    else
        multiply_blocks(type, n, &t, x, sum);
    EACH_SUM put(&t, first + r, (size_t)p, sum[p][r]);
}
#endif

/* ---- float weights ---- */

#if FLOAT_ROWS

/* Adds the products of pairs of bf16 (each the upper half of a float), the second of a pair first.
 * Each addition rounds once. */
#if !PAIR_DOT
FT_GEMM_INLINE floats pair_dot(floats sum, words w, words x)
{
    sum = fmadd((floats)(w & 0xffff0000u), (floats)(x & 0xffff0000u), sum);
    return fmadd((floats)(w << 16), (floats)(x << 16), sum);
}
#endif

/* Adds the products of one step's weights (a value, or a pair of bf16, of each output row) with n
 * rows. Returns the weights of the next step. */
FT_GEMM_INLINE const char *step(enum ggml_type type, uint32_t n, const char *w, const char *x,
                                floats sum[FLOAT_ROWS][PARTS])
{
    const size_t size = type == GGML_TYPE_F16 ? 2 : 4;
    words v[PARTS];
    UNROLL for (size_t p = 0; p < PARTS; p++, w += size * LANES) v[p] =
        type == GGML_TYPE_F16 ? (words)halves(w) : load(w);
    UNROLL for (uint32_t r = 0; r < n; r++)
    {
        const char *unit = x + 4 * (size_t)r;
        UNROLL for (size_t p = 0; p < PARTS; p++) sum[r][p] =
            type == GGML_TYPE_BF16 ? pair_dot(sum[r][p], v[p], splat_pair(unit))
                                   : fmadd((floats)v[p], splat(float_at(unit)), sum[r][p]);
    }
    return w;
}

/* Rows [first, first + n). Even steps go into one partial sum, odd steps into another, and then
 * both are added. With only one partial sum, a single row would wait for each addition to end (4 to
 * 6 cycles), which takes longer than loading the next weights. */
FT_GEMM_INLINE void float_rows(enum ggml_type type, uint32_t n, const ft_gemm_tile *t,
                               uint32_t first)
{
    const char *w = (const char *)t->weights, *x = (const char *)(t->units + first);
    const size_t n_steps = t->n_in / (type == GGML_TYPE_BF16 ? 2 : 1);
    const size_t stride = 4 * (size_t)t->row_blocks;
    floats even[FLOAT_ROWS][PARTS], odd[FLOAT_ROWS][PARTS];
    UNROLL for (uint32_t r = 0; r < n; r++) UNROLL for (size_t p = 0; p < PARTS; p++) even[r][p] =
        odd[r][p] = splat(0);
    for (size_t pair = 0; pair < n_steps / 2; pair++, x += 2 * stride) {
        w = step(type, n, w, x, even);
        w = step(type, n, w, x + stride, odd);
    }
    if (n_steps % 2)
        step(type, n, w, x, even);
    UNROLL for (uint32_t r = 0; r < n; r++) UNROLL for (size_t p = 0; p < PARTS; p++)
        put(t, first + r, p, even[r][p] + odd[r][p]);
}
#endif

/* ---- the kernel ---- */

FT_GEMM_INLINE bool is_float(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

FT_GEMM_INLINE void rows_of(enum ggml_type type, uint32_t n, const ft_gemm_tile *t, uint32_t first)
{
#if FLOAT_ROWS
    if (is_float(type)) {
        if (n <= FLOAT_ROWS)
            float_rows(type, n, t, first);
        return;
    }
#endif
#if INT_ROWS
    if (n <= INT_ROWS)
        int_rows(type, n, t, first);
#endif
}

FT_GEMM_INLINE void tile_of(enum ggml_type type, const ft_gemm_tile *t)
{
    const uint32_t most = is_float(type) ? FLOAT_ROWS : INT_ROWS;
    uint32_t n, n_parts = (t->n_rows + most - 1) / most; /* of about as many rows each */
    for (uint32_t first = 0; first < t->n_rows; first += n, n_parts--)
        switch (n = (t->n_rows - first + n_parts - 1) / n_parts) {
#define ROWS(n)                     \
    case n:                         \
        rows_of(type, n, t, first); \
        break;
            ROWS(1)
            ROWS(2)
            ROWS(3)
            ROWS(4)
            ROWS(5)
            ROWS(6)
            ROWS(7)
            ROWS(8)
            ROWS(9)
            ROWS(10)
            ROWS(11)
            ROWS(12)
#undef ROWS
        default:
            break;
        }
}

KERNEL_TYPES(FT_GEMM_FUNCTION)

static ft_gemm_tile_fn *tile(enum ggml_type type)
{
    switch (type) {
        KERNEL_TYPES(FT_GEMM_CASE)
    default:
        return NULL;
    }
}

/* As many rows as are multiplied at a time, or twice as many. */
#define GROUP (INT_ROWS == 0 ? FLOAT_ROWS : INT_ROWS > 8 ? INT_ROWS : 2 * INT_ROWS)

const ft_gemm_kernel KERNEL = {KERNEL_NAME, GROUP, KERNEL_QUANTIZE, tile};
