/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a kernel for products with packed weights (model/pack.h), for one instruction
 * set. The processor is asked at run time which kernels it can run. All kernels give the same bits:
 * they round values in the same way, products within a block are exact integers, and blocks are
 * summed by fused multiply-adds in order. So one kernel may read rows that another made, and a
 * row's result does not depend on the machine.
 */
#ifndef FT_ENGINE_GEMM_KERNEL_H
#define FT_ENGINE_GEMM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml.h"
#include "model/pack.h"

#define FT_GEMM_GROUP 12 /* the most rows that a kernel multiplies at a time */

/* 32 values of a row: q * scale, |q| <= 127. Where weights are stored as unsigned numbers, a dot
 * product starts at -offset times the sum of q. */
typedef struct ft_gemm_block {
    int8_t q[32];
    float scale;
    float sum;                /* scale times the sum of q, for weights with a minimum */
    int32_t start8, start128; /* -8 and -128 times the sum of q */
    int32_t start32[2];       /* -32 times the sum of the first and of the last 16 q */
} ft_gemm_block;

/* Tiles of 16 outputs, one behind the other, for a group of rows. Pointers are the first tile's. */
typedef struct ft_gemm_tile {
    const uint8_t *weights; /* packed */
    uint32_t n_tiles;
    size_t tile_bytes;
    uint32_t n_in;     /* inputs */
    uint32_t n_blocks; /* of 32 inputs */
    uint32_t n_rows;   /* 1 <= n_rows <= FT_GEMM_GROUP */
    /* >= n_rows: distance from a row's block to its next block, in blocks */
    uint32_t row_blocks;
    const ft_gemm_block *rows; /* [n_blocks, row_blocks]; NULL for float weights */
    const uint32_t *units;     /* for float weights: [units of a row, row_blocks] (gemm_f.h) */
    /* [n_rows, 16 n_tiles], rows are stride floats apart; NULL: none */
    const float *residual;
    float *out; /* likewise */
    size_t residual_stride, out_stride;
    /* What to prefetch beside the first tile: the second one. May point outside allocated memory.
     * NULL: it was prefetched with another group of rows. */
    const uint8_t *prefetch;
} ft_gemm_tile;

/* The tiles behind the first one. */
static inline void ft_gemm_tile_next(ft_gemm_tile *t)
{
    t->n_tiles--;
    t->weights += t->tile_bytes;
    t->prefetch = t->prefetch ? t->prefetch + t->tile_bytes : NULL;
    t->residual = t->residual ? t->residual + FT_PACK_ROWS : NULL;
    t->out += FT_PACK_ROWS;
}

typedef void ft_gemm_tile_fn(const ft_gemm_tile *tile);

/* Converts values to blocks, which are `stride` blocks apart. */
typedef void ft_gemm_quantize_fn(const float *x, uint32_t n_blocks, ft_gemm_block *out,
                                 size_t stride);

/* Shared by x86's kernels, and by AArch64's; each is defined only in builds for its machine. */
ft_gemm_quantize_fn ft_gemm_quantize_avx2, ft_gemm_quantize_neon;

typedef struct ft_gemm_kernel {
    const char *name;
    /* Rows that it is given at a time, at most: as many as fill the registers with their sums, or
     * twice as many. All kernels that read rows of one type on a machine have the same number. */
    uint32_t group;
    ft_gemm_quantize_fn *quantize;
    /* The product with weights of a type; NULL: this kernel has none for the type. */
    ft_gemm_tile_fn *(*tile)(enum ggml_type type);
} ft_gemm_kernel;

/* Plain C: the reference for the other kernels. It takes every type that can be packed. */
extern const ft_gemm_kernel ft_gemm_kernel_plain;
/* Each is defined only in builds for its machine. */
extern const ft_gemm_kernel ft_gemm_kernel_vnni, ft_gemm_kernel_avx2; /* VNNI: no float weights */
extern const ft_gemm_kernel ft_gemm_kernel_bf16;                      /* BF16 weights only */
extern const ft_gemm_kernel ft_gemm_kernel_avx512;                    /* float weights only */
extern const ft_gemm_kernel ft_gemm_kernel_dotprod, ft_gemm_kernel_neon; /* dotprod: no floats */

/* Writes the kernels that this machine can run, the fastest first, the plain one last. Returns
 * their number. */
#define FT_GEMM_KERNELS 7
size_t ft_gemm_kernels(const ft_gemm_kernel *out[FT_GEMM_KERNELS]);

/* The fastest kernel for weights of a type that can be packed. Any kernel can make the rows for
 * it. */
const ft_gemm_kernel *ft_gemm_kernel_best(enum ggml_type type);

/* The plain products for K-quants and for float weights, in files of their own. NULL for other
 * types. */
ft_gemm_tile_fn *ft_gemm_k_plain(enum ggml_type type);
ft_gemm_tile_fn *ft_gemm_f_plain(enum ggml_type type);

#endif
