/* SPDX-License-Identifier: Apache-2.0
 *
 * The expected tokens of a round: WISP eq. (5). The paper multiplies acceptance rate and drafted
 * tokens. Here it is the mean over the session's recent rounds, because most nodes of a tree are
 * rejected anyway. Pure; the server and the simulator call the same functions.
 */
#ifndef FT_SCHED_GAIN_H
#define FT_SCHED_GAIN_H

#include <stdint.h>

#include "base/known.h"

typedef enum ft_gain_kind {
    FT_GAIN_TREE, /* a round with an edge's tree */
    FT_GAIN_RUN   /* a pass of a run: the server decodes without an edge's tree */
} ft_gain_kind;
#define FT_GAIN_KINDS 2

/* A verified round. */
typedef struct ft_gain_round {
    ft_gain_kind kind;
    uint32_t rows; /* of the pass: the root and the tree */
    uint32_t tok;  /* tokens that it brought */
} ft_gain_round;

/* Means over recent rounds, of one session or of all. All-zero: no round was seen. */
typedef struct ft_gain {
    ft_mean kind_tok[FT_GAIN_KINDS]; /* tokens of a round of that kind */
    ft_mean rows, tok;               /* of a round of any kind */
} ft_gain;

/* A new session starts with the usual gain. usual: NULL or all-zero if there was no round yet. */
void ft_gain_init(ft_gain *gain, const ft_gain *usual);
/* One more round of the session. */
void ft_gain_saw(ft_gain *gain, const ft_gain_round *round);
/* One more round of any session: `usual` is what ft_gain_init takes. */
void ft_gain_saw_usual(ft_gain *usual, const ft_gain_round *round);
/* Expected tokens of the session's next round of that kind, > 0. */
double ft_gain_expected(const ft_gain *gain, ft_gain_kind kind);

#endif
