/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forward pass costs, learnt from the passes that were run: microseconds as a function of its
 * rows, of those with logits, and of its attention work. Pure: observations in, predictions out; no
 * clock. The server asks two questions: how long will this batch take, and how many rows of a prompt
 * may join it for so much time.
 */
#ifndef FT_SCHED_COST_H
#define FT_SCHED_COST_H

#include <stdint.h>

/* The shape of a pass. All-zero: no pass at all, which costs nothing. */
typedef struct ft_pass {
    uint32_t rows;
    uint32_t out; /* of them with logits */
    uint64_t ctx; /* attention work: sum over rows of the tokens that a row attends to */
} ft_pass;

/* `pass` with n more rows behind n_past tokens of a sequence, n_out of them with logits. Of a tree this
 * counts the work of a chain, which is no less. */
ft_pass ft_pass_plus(ft_pass pass, uint32_t n_past, uint32_t n, uint32_t n_out);

#define FT_COST_SIZES   17 /* classes of pass sizes: 1, 2-3, 4-7, ... rows */
#define FT_COST_KEPT    6  /* recent passes of each class, prompts' and others' apart */
#define FT_COST_FACTORS 4  /* a pass, a row, a row with logits, a token attended to */

typedef struct ft_cost_seen {
    ft_pass pass;
    float us; /* 0: none */
    uint64_t at;
} ft_cost_seen;

typedef struct ft_cost {
    ft_cost_seen seen[2][FT_COST_SIZES][FT_COST_KEPT];
    uint64_t n_seen;
    uint32_t most_rows;         /* of a pass seen */
    double us[FT_COST_FACTORS]; /* what one of each costs, >= 0 */
    double error;               /* recent mean of |predicted - measured| / measured, at most 1 */
} ft_cost;

/* Nothing is known. */
void ft_cost_init(ft_cost *cost);

/* A pass took `us`; ignored unless both are positive. */
void ft_cost_observe(ft_cost *cost, const ft_pass *pass, int64_t us);

/* Microseconds of a pass; 0 while nothing is known. Does not fall when a pass grows. */
int64_t ft_cost_predict(const ft_cost *cost, const ft_pass *pass);

/* Rows of a prompt, n_past of whose tokens are in KV, that may join `pass` for at most budget_us more
 * than it costs without them, the recent error added; at most `most`. 0: not even one may. At most
 * twice the rows of the largest pass seen (FT_COST_FIRST_ROWS before there was one), so that a wrong
 * guess is found out at small cost. */
uint32_t ft_cost_rows(const ft_cost *cost, const ft_pass *pass, uint32_t n_past, uint32_t most,
                      int64_t budget_us);

#define FT_COST_FIRST_ROWS 16

#endif
