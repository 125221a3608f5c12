/* SPDX-License-Identifier: Apache-2.0
 *
 * When a draft is deep enough. A round takes the time of its draft, of the network and of the
 * verification. It brings the accepted nodes and the target's own token. The token rate is highest
 * if drafting goes on as long as one more forward brings more tokens per time than rounds do on
 * average (the marginal value theorem: Charnov, Optimal foraging, 1976). What a forward will bring
 * is predicted from the chances of the leaves that it would compute, corrected by what earlier
 * forwards brought.
 *
 * Pure: measurements come in, a decision comes out; no clock, no thread. The state is plain data: a
 * new text starts from a copy of what others learnt. It changes no node's order, and text does not
 * depend on it.
 *
 *   [drafter: enough? saw_forward]* -> sent -> verdict, saw_round -> ...
 */
#ifndef FT_SPEC_DEPTH_H
#define FT_SPEC_DEPTH_H

#include <stdbool.h>
#include <stdint.h>

#define FT_DEPTH_FORWARDS 8 /* of a draft that are told apart; later ones count as the last */

/* What came over what was expected; old counts fade. */
typedef struct ft_depth_ratio {
    double came, expected;
} ft_depth_ratio;

/* All-zero: nothing is known, and every draft goes to its full depth. */
typedef struct ft_depth {
    /* Set by the owner before a draft. */
    bool proactive; /* drafting goes on while a verdict is awaited */
    double free_us; /* for so long drafting costs nothing, because the server is busy anyway */
    /* Learnt. */
    double forward_us;                       /* of a draft forward; 0: not known */
    double rest_us;                          /* from sending a tree to its verdict; 0: not known */
    double tokens, us;                       /* of past rounds */
    ft_depth_ratio yield[FT_DEPTH_FORWARDS]; /* expected tokens gained : chance of the leaves */
    ft_depth_ratio trust;                    /* accepted nodes : the sum of their chances */
} ft_depth;

/* A draft before its next forward. */
typedef struct ft_depth_view {
    uint32_t forwards; /* so far */
    double tokens;     /* expected of the tree as it is, the target's own included */
    double chance;     /* that the text goes through one of the leaves that come next */
} ft_depth_view;

/* Tokens a microsecond of recent rounds; 0: not known. */
double ft_depth_rate(const ft_depth *depth);
/* Whether sending the tree is better than one more forward. */
bool ft_depth_enough(const ft_depth *depth, const ft_depth_view *view);
/* The forward was made, and the tree is now expected to bring so many tokens. */
void ft_depth_saw_forward(ft_depth *depth, const ft_depth_view *before, double tokens);

typedef struct ft_depth_round {
    uint32_t forwards; /* of its draft */
    int64_t draft_us;
    int64_t wait_us; /* from sending to the verdict */
    double expected; /* tokens, by the chances of the tree's nodes */
    uint32_t tokens; /* that came, the target's own included */
} ft_depth_round;

/* A verdict on a tree came. */
void ft_depth_saw_round(ft_depth *depth, const ft_depth_round *round);

#endif
