/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up texts, and a made-up draft model that drafts them, for a simulation of EdgeLLM.
 *
 * A *context* is a number that stands for all tokens so far. It decides, with the text's law, what
 * the draft says of the next token, and which token is the target's. So every branch of a tree has
 * a draft and a target of its own, and all methods meet the same text.
 *
 * The law. The draft gives its best token the chance p, which is Beta distributed. Each further
 * token gets next_share of what is left, and not more than the one before it. The target's token is
 * drawn by these same chances: the draft is calibrated. So the mean of p is the share of tokens for
 * which the draft's best one is right, which table I of the paper calls correctness. The mean of p
 * differs from text to text: it is Beta distributed, too.
 *
 * Plain data, except for the source. Pure: the same on every machine.
 */
#ifndef FT_SIM_EDGELLM_WORLD_H
#define FT_SIM_EDGELLM_WORLD_H

#include <stdint.h>

#include "base/status.h"
#include "spec/draft_source.h"

/* Tokens are the draft's by rank, one for any other, and one for the prompt. */
#define FT_EDGELLM_PROMPT (FT_DRAFT_RANKED + 1)
#define FT_EDGELLM_VOCAB  (FT_DRAFT_RANKED + 2)

typedef struct ft_edgellm_law {
    double correctness; /* the mean of p */
    /* Beta(mean * c, (1 - mean) * c), where c is a concentration: p about the text's mean, and the
     * text's mean about `correctness`. The larger c is, the closer they are to the mean. */
    double top_concentration, text_concentration;
    double next_share;
} ft_edgellm_law;

typedef struct ft_edgellm_text {
    ft_edgellm_law law; /* its correctness is the text's own mean */
    uint64_t root;      /* the context before the first token */
} ft_edgellm_text;

/* Text number `index`, with a mean of its own. */
ft_edgellm_text ft_edgellm_text_make(const ft_edgellm_law *law, uint64_t seed, uint32_t index);
/* The context behind a token. */
uint64_t ft_edgellm_behind(uint64_t context, int32_t token);
/* What the draft says in a context; returns the target's token. children: NULL: not wanted. */
int32_t ft_edgellm_look(const ft_edgellm_text *text, uint64_t context, ft_draft_children *children);

/* A virtual clock, on which a source's forwards take time. */
typedef struct ft_edgellm_clock {
    double now_s;
    double row_s;     /* of a forward with one row; the owner sets it */
    double row_share; /* a further row takes this share of row_s */
    uint64_t rows;    /* computed so far */
} ft_edgellm_clock;

/* The draft model as a source. Borrows clock and text; the owner may change the text before a
 * drafter's reset. FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_edgellm_source_create(const ft_edgellm_text *text,
                                                  ft_edgellm_clock *clock, ft_error *err,
                                                  ft_draft_source **out);

#endif
