/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench law draws from: behind a text, the logits of target and draft at the next position and
 * at the one after it, for each token that the target may choose in between. Computed once; tokens
 * are renumbered to those that may be drawn at all. Used by one thread. */
#ifndef FT_BENCH_LAW_PREFIX_H
#define FT_BENCH_LAW_PREFIX_H

#include "bench/prompts.h"
#include "bench/reader.h"
#include "model/vocab.h"

#define FT_LAW_TOP_K_MAX 256

/* The two models and the prompts. */
typedef struct ft_law_models {
    ft_bench_reader target, draft;
    ft_vocab *vocab;
    ft_bench_prompts prompts;
    size_t next; /* prompt */
} ft_law_models;

/* Logits behind one text. Row 0 is of the next position; row 1 + i of the one behind it, if
 * first[i] stands there. Only the top_k largest logits of a row matter, and they are all there. */
typedef struct ft_law_prefix {
    uint32_t position;     /* the text's length */
    uint32_t n_vocab;      /* renumbered: in ascending order of their tokens */
    uint32_t n_first;      /* tokens that the target may choose at the next position */
    int32_t *first;        /* [n_first] renumbered, ascending */
    float *target, *draft; /* [1 + n_first, n_vocab] */
} ft_law_prefix;

/* Text number `index` is the next prompt that is not too long, and at most `index` tokens that the
 * target writes behind it. FT_NOT_FOUND: no prompt is left; FT_NOMEM; errors of the engine. The
 * caller deinits *out in any case. */
FT_WARN_UNUSED ft_status ft_law_prefix_init(ft_law_models *models, uint32_t index, int32_t top_k,
                                            ft_error *err, ft_law_prefix *out);
/* All-zero is legal. */
void ft_law_prefix_deinit(ft_law_prefix *prefix);

#endif
