/* SPDX-License-Identifier: Apache-2.0
 *
 * Double deep Q-learning (van Hasselt, Guez, Silver, AAAI 2016): a perceptron learns what each
 * action is worth in a state. The world is a simulator, so it says of every action what it would
 * bring, and all actions are compared under the same luck. Pure but for the world: the same seed
 * and world give the same network, bit for bit. Called by one thread. */
#ifndef FT_LEARN_DQN_H
#define FT_LEARN_DQN_H

#include <stdbool.h>

#include "learn/mlp.h"

/* A world goes on for ever; it may begin again behind an action. Its functions are called in turns:
 * see, look, act; see, look, act. */
typedef struct ft_dqn_world {
    void *ctx;
    void (*see)(void *ctx, float *state); /* the present state, [inputs] */
    /* What each action would bring here, and changes nothing. discount[a]: how much of the worth of
     * the state behind it, next[a], counts: 0 to less than 1. Where it is 0, next[a] may be left
     * unwritten. reward, discount [actions], next [actions, inputs]. */
    void (*look)(void *ctx, float *reward, float *discount, float *next);
    void (*act)(void *ctx, uint32_t action);
    /* Looks at the network after `step` steps. Returns false: training ends here. NULL: it goes on
     * to the end. */
    bool (*check)(void *ctx, uint32_t step, const ft_mlp *net);
} ft_dqn_world;

/* All more than 0, but explore_last. */
typedef struct ft_dqn_opts {
    uint32_t steps;        /* of the network */
    uint32_t batch;        /* states a step */
    uint32_t memory;       /* states that are kept, with what was seen; at least a batch */
    uint32_t acts;         /* actions in the world between two steps */
    uint32_t target_every; /* steps after which the target network is renewed */
    uint32_t check_every;  /* steps between checks */
    float rate;            /* learning rate, which falls to a hundredth */
    float explore_last;    /* share of random actions from half of the steps on; at first all */
    uint64_t seed;
} ft_dqn_opts;

/* Trains `net`, whose weights are made anew. mask: ft_mlp_adam_init's. FT_INVALID, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_dqn_train(const ft_dqn_opts *opts, const ft_dqn_world *world,
                                      const uint8_t *mask, ft_error *err, ft_mlp *net);

#endif
