/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a draft policy in the simulator (Quantize-Sample-and-Verify, section IV-C): double DQN on
 * rounds that are replayed on positions, at the constant rates and on the changing uplinks of a
 * setting. A fifth of the texts of each temperature is not trained on; the step whose policy does
 * best there is kept. Pure: the same opts give the same policy, bit for bit. One thread. */
#ifndef FT_SIM_QSV_TRAIN_H
#define FT_SIM_QSV_TRAIN_H

#include "base/progress.h"
#include "learn/dqn.h"
#include "sim/qsv.h"

#define FT_QSV_CHECKS 64 /* points of a learning curve at most */

/* X(NAME, "name in flags") */
#define FT_QSV_REWARD_LIST(X)                                \
    X(ROUND, "round") /* the round's throughput, eq. (13) */ \
    X(GAIN, "gain")   /* its tokens, less those of the best fixed pair in the same time */
typedef enum ft_qsv_reward {
#define X(id, text) FT_QSV_REWARD_##id,
    FT_QSV_REWARD_LIST(X)
#undef X
} ft_qsv_reward;

typedef struct ft_qsv_train_opts {
    const ft_qsv_config *config;
    const ft_positions *positions;
    ft_dqn_opts dqn;
    ft_qsv_reward reward;
    double horizon_ms; /* ROUND: over which throughput is looked ahead; 0: the next round alone */
    ft_progress progress; /* in steps */
    bool (*stop)(void);   /* NULL: goes on to the end */
} ft_qsv_train_opts;

/* A policy beside the best fixed pair of each temperature and uplink, tokens/s over tokens/s. */
typedef struct ft_qsv_score {
    double mean, least;
} ft_qsv_score;

typedef struct ft_qsv_training {
    struct {
        uint32_t step;
        ft_qsv_score train, validation;
    } curve[FT_QSV_CHECKS]; /* [n] */
    uint32_t n, best;       /* checks; the one whose policy was kept */
    size_t train_texts, validation_texts;
} ft_qsv_training;

/* FT_INVALID: a temperature has fewer than two texts, or as ft_qsv_setting_init and ft_dqn_train;
 * FT_CANCELLED; FT_NOMEM. On failure *policy is all-zero; otherwise it needs a deinit. */
FT_WARN_UNUSED ft_status ft_qsv_train(const ft_qsv_train_opts *opts, ft_error *err,
                                      ft_policy *policy, ft_qsv_training *out);

#endif
