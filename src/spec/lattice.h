/* SPDX-License-Identifier: Apache-2.0
 *
 * Lattice points: distributions whose probabilities are multiples of 1 / l (Zhang et al.,
 * Quantize-Sample-and-Verify, eq. (5)). A quantizer finds the one that is nearest to a
 * distribution; two codes write a point as bytes and read it.
 *
 * All of it is integer arithmetic, so every machine finds the same point and writes the same bytes.
 * A workspace belongs to one thread at a time; nothing here allocates.
 */
#ifndef FT_SPEC_LATTICE_H
#define FT_SPEC_LATTICE_H

#include <stddef.h>
#include <stdint.h>

#define FT_LATTICE_L_MAX 65535u

/* The token token[i] has the probability count[i] / l; all others have 0. */
typedef struct ft_lattice_point {
    uint32_t l;      /* 1 to FT_LATTICE_L_MAX */
    uint32_t n;      /* tokens with a count, at most l */
    int32_t *token;  /* [n] ascending */
    uint32_t *count; /* [n] at least 1; their sum is l */
} ft_lattice_point;

/* How far rounding moved a token; inside the room. */
typedef struct ft_lattice_error {
    int64_t error;
    uint32_t index;
} ft_lattice_error;

/* Memory for points over one vocabulary, with l up to l_max. */
typedef struct ft_lattice_work {
    uint32_t n_vocab, l_max;
    ft_lattice_point point;   /* the owner's to use; room for min(l_max, n_vocab) tokens */
    ft_lattice_error *errors; /* [n_vocab] of the quantizer */
    uint64_t *number[2];      /* [n_limbs] of the index code */
    uint32_t n_limbs;
} ft_lattice_work;

/* Bytes of memory of a workspace. 0 < n_vocab <= INT32_MAX, 0 < l_max <= FT_LATTICE_L_MAX. */
size_t ft_lattice_work_bytes(uint32_t n_vocab, uint32_t l_max);
/* A workspace in `memory`, which has so many bytes, is aligned as malloc's is, and is borrowed. It
 * need not be cleared. Costs little: it may be made for each use. */
ft_lattice_work ft_lattice_work_in(void *memory, uint32_t n_vocab, uint32_t l_max);

/* The nearest point to the distribution of tokens[n] (ascending), 0 < n <= n_vocab, with
 * probabilities in proportion to weights[n] (at least 1 and at most FT_SAMPLING_WEIGHT_MAX each;
 * their sum is less than 2^62): what ft_sampler_weights gives. l <= l_max. Near-linear in n. */
void ft_lattice_quantize(ft_lattice_work *work, uint32_t l, const int32_t *tokens,
                         const uint64_t *weights, size_t n, ft_lattice_point *out);

/* The count of a token, 0 if it has none. */
uint32_t ft_lattice_count(const ft_lattice_point *point, int32_t token);

/* ---- codes ---- */

#define FT_LATTICE_TOO_LONG UINT64_MAX

typedef struct ft_lattice_code {
    uint32_t id; /* on the wire */
    const char *name;
    /* Bytes of any point at most. */
    size_t (*most_bytes)(uint32_t n_vocab, uint32_t l);
    /* Writes a point into out[most], where `most` is less than 2^32; returns its bits, which begin
     * in out[0]. The bytes are the bits' number / 8, rounded up. FT_LATTICE_TOO_LONG: they may not
     * fit; what out has is undefined. */
    uint64_t (*encode)(ft_lattice_work *work, const ft_lattice_point *point, uint8_t *out,
                       size_t most);
    /* Reads a point of l, 0 < l <= l_max, from in[n], which may be anything. NULL: it is *out, and
     * in[n] is what encode writes for it. Else what is wrong, a static string. */
    const char *(*decode)(ft_lattice_work *work, uint32_t l, const uint8_t *in, size_t n,
                          ft_lattice_point *out);
} ft_lattice_code;

/* The point's number among all points of l and this vocabulary, in as few bits as hold any of them
 * (eq. (6)). */
extern const ft_lattice_code ft_lattice_index;
/* Tokens and counts by a range coder: short for points as draft models have them. */
extern const ft_lattice_code ft_lattice_adaptive;

/* 64-bit words that the index code's numbers need; inside the room. */
uint32_t ft_lattice_index_limbs(uint32_t n_vocab, uint32_t l);

#endif
