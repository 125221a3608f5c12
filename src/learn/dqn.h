/* SPDX-License-Identifier: Apache-2.0
 *
 * Double deep Q-learning (van Hasselt, Guez, Silver, AAAI 2016): a perceptron learns what each
 * action is worth in a state, by trying actions in a world. Pure but for the world: the same seed
 * and world give the same network, bit for bit. Called by one thread. */
#ifndef FT_LEARN_DQN_H
#define FT_LEARN_DQN_H

#include <stdbool.h>

#include "learn/mlp.h"

/* A world goes on for ever; it may begin again behind an action. Its functions are called in turns:
 * see, act, see, act. */
typedef struct ft_dqn_world {
    void *ctx;
    void (*see)(void *ctx, float *state); /* the present state, [inputs] */
    /* Takes an action. *discount: how much of the next state's worth counts, 0 to 1 (less than 1 on
     * average, or nothing is learnt). */
    void (*act)(void *ctx, uint32_t action, float *reward, float *discount);
    /* Looks at the network after `step` steps. Returns false: training ends here. NULL: it goes on
     * to the end. */
    bool (*check)(void *ctx, uint32_t step, const ft_mlp *net);
} ft_dqn_world;

/* All more than 0, but explore_last. */
typedef struct ft_dqn_opts {
    uint32_t steps;        /* of the network */
    uint32_t batch;        /* experiences a step */
    uint32_t memory;       /* experiences that are kept; at least a batch */
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
