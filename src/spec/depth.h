/* SPDX-License-Identifier: Apache-2.0
 *
 * When a draft is deep enough, and which nodes are worth their rows. A round takes the time of its
 * draft, of the network and of the verification. It brings the accepted nodes and the target's own
 * token. The token rate is highest if drafting goes on as long as one more forward brings more
 * tokens per time than rounds do on average (the marginal value theorem: Charnov, Optimal foraging,
 * 1976). What a forward will bring is predicted from the chances of the leaves that it would
 * compute, and from how often the text went through a level of a tree that it came to. In the same
 * way, a node is worth its row if it brings more tokens per time than rounds do on average.
 *
 * Pure: measurements come in, a decision comes out; no clock, no thread. The state is plain data: a
 * new text starts from a copy of what others learnt. It changes no node's order, and text does not
 * depend on it.
 *
 *   [drafter: saw_worth, enough?]* -> sent -> verdict, saw_round -> ...
 */
#ifndef FT_SPEC_DEPTH_H
#define FT_SPEC_DEPTH_H

#include <stdbool.h>
#include <stdint.h>

#define FT_DEPTH_LEVELS 64 /* forwards of a draft that are told apart */

/* All-zero: nothing is known, and every draft goes to its full depth. */
typedef struct ft_depth {
    /* Set by the owner before a draft: for so long drafting costs nothing, because the server is
     * busy anyway. */
    double free_us;
    /* And what a leaf brings that is left out of the tree, over what its forward brings; below
     * 1. */
    double left;
    /* And if not 0, every draft has so many forwards, whatever the next one is worth. */
    uint32_t steady;
    /* Learnt. */
    double forward_us; /* of a draft forward; 0: not known */
    double round_us;   /* of a round, from the begin of its draft to its verdict; 0: not known */
    /* Of past rounds, old ones fading: `reached` levels of trees, of which the text went through
     * `passed`. */
    double tokens, us, reached, passed;
    /* By the number of forwards before it: of past drafts that came so far, old ones fading, what
     * the next forward was worth, and how many drafts there were. */
    double worth[FT_DEPTH_LEVELS], drafts[FT_DEPTH_LEVELS];
} ft_depth;

/* Tokens a microsecond of recent rounds; 0: not known. */
double ft_depth_rate(const ft_depth *depth);
/* Whether enough rounds were seen to size trees by what they are worth alone. */
bool ft_depth_is_sure(const ft_depth *depth);
/* Tokens that a forward brings, over the chance of its leaves; positive. */
double ft_depth_yield(const ft_depth *depth);
/* Whether to send the tree after so many forwards. worth: of the leaves which the next forward
 * would compute, the chance that the text goes through one of them, less what their children's rows
 * cost in tokens, or what nodes would bring that these children displace. Below 0, even a forward
 * that costs nothing is not made. */
bool ft_depth_enough(const ft_depth *depth, uint32_t forwards, double worth);

/* What a leaf that is left out of the tree brings, over what its forward brings. If the target's
 * own token is this leaf, an early draft may fit, and the next round is early_us shorter. A forward
 * puts the leaf into the tree. Then an early draft fits no more often than the target's own token
 * is the leaf's child. At least 0, below 1. */
double ft_depth_left(const ft_depth *depth, double early_us);
/* The best number of forwards if every draft has as many, at least one. Each of them was on average
 * worth its time in past drafts. If no draft came so far, the next draft will, but not further. */
uint32_t ft_depth_steady(const ft_depth *depth);

/* A node is worth its row in a pass if the text goes through it with at least this chance. A row
 * makes the verification longer by row_us, and costs others `price` tokens (sched/price.h). 0: any
 * node is; below 1. */
double ft_depth_least_chance(const ft_depth *depth, double row_us, double price);

/* A text with a promise, where rows have a price. */
typedef struct ft_depth_promise {
    double tokens_per_s; /* promised, > 0 */
    double lacks_tok;    /* of what it should have had by now; < 0: it has more */
    double round_us;     /* of its rounds; 0: not known */
} ft_depth_promise;

/* Tokens that a round should bring, the target's own included: what is promised for the time of a
 * round, with some to spare, and what the text lacks, over some rounds. What a tree would bring
 * beyond that is surplus. 0: the time of a round is not known. */
double ft_depth_promised_tok(const ft_depth_promise *promise);
/* A surplus node is drafted if the text goes through it with at least this chance. `least`: of any
 * node. Surplus is worth less than the tokens that other texts need. But where rows cost little,
 * it is nearly free. */
double ft_depth_surplus_chance(double least);

typedef struct ft_depth_round {
    uint32_t forwards, levels;
    int64_t draft_us, wait_us; /* to draft the tree; from its sending to its verdict */
    uint32_t tokens;           /* of the verdict, the target's own included */
} ft_depth_round;

/* A draft came to so many forwards, and the next one was worth this (ft_depth_enough). */
void ft_depth_saw_worth(ft_depth *depth, uint32_t forwards, double worth);
/* A verdict on a tree came. */
void ft_depth_saw_round(ft_depth *depth, const ft_depth_round *round);

/* What was learnt, as numbers for another process, as in spec/control_kept.h. */
#define FT_DEPTH_KEPT 5
void ft_depth_keep(const ft_depth *depth, double out[FT_DEPTH_KEPT]);
bool ft_depth_take_up(ft_depth *depth, const double in[FT_DEPTH_KEPT]);

#endif
