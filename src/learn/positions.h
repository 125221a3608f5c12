/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions: what a draft model and its target said at each position of texts that the target
 * wrote. A simulator of speculative decoding over a thin uplink replays rounds on them
 * (sim/qsv.h), and a policy is trained there. There is no text in them: neither tokens nor hashes.
 *
 * The file is JSON lines: a header, then one line a text (docs/TRACES.md). Plain data: any thread
 * may read positions that nobody changes.
 */
#ifndef FT_LEARN_POSITIONS_H
#define FT_LEARN_POSITIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_POSITIONS_KIND     "foretoken positions"
#define FT_POSITIONS_VERSION  1
#define FT_POSITIONS_FILE_MAX ((size_t)64 << 20) /* bytes */
#define FT_POSITIONS_L        8                  /* lattices of a file at most */
#define FT_POSITIONS_TEMPS    16                 /* temperatures of a file at most */
#define FT_POSITIONS_TEXTS    65536              /* texts of a file at most */
#define FT_POSITIONS_LENGTH   65536              /* positions of a text at most */
#define FT_POSITIONS_RANKS    16                 /* of the draft's children that are told apart */

/* One text. At each position, x is the target's token there, p and q are the models' distributions
 * behind the tokens before it. */
typedef struct ft_positions_text {
    uint32_t temperature; /* index into the file's temperatures */
    uint32_t n;           /* positions */
    float *p, *q;         /* [n] p(x), more than 0, and q(x) */
    float *top;           /* [n] the highest q of any token: known before a token is drawn */
    /* [n_l, n] Count of x in the lattice point that is nearest to q: its probability times l. */
    uint16_t *count;
    uint32_t *adaptive_bits; /* [n_l, n] of that point, by code `adaptive` */
    /* [n_l, n] How often a token that is drawn from q is accepted if it is verified against the
     * point (sample, then quantize): sum of q(y) min(1, p(y) / point(y)) over all tokens y. */
    float *sq_accept;
    /* [n] With shared noise: place of x among the draft's children, 0 the first.
     * FT_POSITIONS_RANKS: it is not among them. */
    uint8_t *rank;
    /* For each l, mean over the text's positions of the total variation between p and the law of
     * the next token: of quantize, then sample; and of sample, then quantize. */
    float qs_tv[FT_POSITIONS_L], sq_tv[FT_POSITIONS_L];
} ft_positions_text;

typedef struct ft_positions {
    uint64_t target, draft; /* fingerprints (model/model.h); 0: unknown */
    uint32_t n_vocab, top_k;
    uint32_t n_temperatures, n_l;
    float temperature[FT_POSITIONS_TEMPS];
    uint32_t l[FT_POSITIONS_L];
    uint32_t index_bits[FT_POSITIONS_L]; /* of any point of this l, by code `index` */
    ft_positions_text *texts;            /* [n_texts] */
    size_t n_texts;
} ft_positions;

/* All-zero is legal. */
void ft_positions_deinit(ft_positions *positions);

/* Adds a text of n positions whose numbers are 0; the caller fills them in. n_l is set before the
 * first. Borrowed until the next is added. FT_TOO_LARGE, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_positions_add(ft_positions *positions, uint32_t n, ft_error *err,
                                          ft_positions_text **out);

/* Index of an l, n_l: there is none. */
uint32_t ft_positions_find_l(const ft_positions *positions, uint32_t l);

/* Parses a file's bytes. FT_INVALID names the line and the field that is missing, of another type
 * or out of range; FT_TOO_LARGE, FT_NOMEM. On failure *out is all-zero; otherwise it needs a
 * deinit. */
FT_WARN_UNUSED ft_status ft_positions_parse(const char *data, size_t n, ft_error *err,
                                            ft_positions *out);
/* FT_IO, FT_TOO_LARGE, or as parse; messages name the path. */
FT_WARN_UNUSED ft_status ft_positions_load(const char *path, ft_error *err, ft_positions *out);

/* Writes a file with three digits a number. FT_IO, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_positions_save(const ft_positions *positions, const char *path,
                                           ft_error *err);

#endif
