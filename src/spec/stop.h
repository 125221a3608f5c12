/* SPDX-License-Identifier: Apache-2.0
 *
 * When a draft is deep enough. A round takes the time of its draft and that of network and
 * verification, and brings the tokens of the tree's path and the target's own. Most tokens per time
 * come of going on while a further draft forward brings more a microsecond than rounds do on the
 * whole (the marginal value theorem: Charnov, Optimal foraging, 1976), and then sending. What a
 * forward will bring is foretold by the chances of the leaves that it would compute; the drafter
 * learns by how much.
 *
 * Pure: what was measured comes in, a decision comes out; no clock, no thread. The state is plain
 * data: copy it to begin a text with what others learnt. It orders nothing and changes no tree:
 * text never depends on it.
 *
 *   [drafter: enough? saw_forward]* -> sent -> verdict, saw_round -> ...
 */
#ifndef FT_SPEC_STOP_H
#define FT_SPEC_STOP_H

#include <stdbool.h>
#include <stdint.h>

#define FT_STOP_LEVELS \
    8 /* forwards of a draft that are told apart; further ones are like the last */

/* A ratio of what came to what was expected; old counts fade. */
typedef struct ft_stop_ratio {
    double came, expected;
} ft_stop_ratio;

/* All-zero: nothing is known, and every draft goes on to its depth. */
typedef struct ft_stop {
    /* The owner's to say before a draft. */
    bool ahead;     /* drafting goes on while a verdict is awaited */
    double free_us; /* of drafting that costs nothing, as the server takes no tree sooner */
    /* Learnt. */
    double forward_us;                   /* a draft forward; 0: not known */
    double rest_us;                      /* from sending a tree to its verdict; 0: not known */
    double tokens, us;                   /* of rounds so far */
    ft_stop_ratio yield[FT_STOP_LEVELS]; /* tokens more after a forward : chance of its leaves */
    ft_stop_ratio trust;                 /* accepted nodes : the sum of their chances */
} ft_stop;

/* A draft under way. */
typedef struct ft_stop_view {
    uint32_t forwards; /* so far */
    double tokens;     /* that the tree as it stands should bring, the target's own included */
    double chance;     /* that the text goes through one of the leaves which a further forward would
                          compute */
} ft_stop_view;

/* Tokens a microsecond that rounds bring lately; 0: not known. */
double ft_stop_rate(const ft_stop *stop);
/* Whether sending is better than a further forward. */
bool ft_stop_enough(const ft_stop *stop, const ft_stop_view *view);
/* After the forward that was in view the tree should bring so many tokens. */
void ft_stop_saw_forward(ft_stop *stop, const ft_stop_view *before, double tokens);

typedef struct ft_stop_round {
    uint32_t forwards; /* of its draft */
    int64_t draft_us;
    int64_t wait_us; /* from sending to the verdict */
    double expected; /* tokens, as the tree's chances said */
    uint32_t tokens; /* that came, the target's own included */
} ft_stop_round;

/* A verdict on a tree. */
void ft_stop_saw_round(ft_stop *stop, const ft_stop_round *round);

#endif
