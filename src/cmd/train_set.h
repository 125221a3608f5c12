/* SPDX-License-Identifier: Apache-2.0
 *
 * What a predictor is trained on: judged tokens of a trace store, and their division into parts
 * that share no text. Owned by one thread. */
#ifndef FT_CMD_TRAIN_SET_H
#define FT_CMD_TRAIN_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "learn/features.h"

typedef enum ft_train_part { FT_TRAIN_FIT, FT_TRAIN_VALIDATE, FT_TRAIN_TEST } ft_train_part;
#define FT_TRAIN_PARTS 3

typedef struct ft_train_sample {
    float x[FT_FEATURES];
    int64_t session; /* of the text */
} ft_train_sample;

typedef struct ft_train_set {
    size_t n, cap;
    ft_train_sample *at; /* [n] */
    uint8_t *y;          /* [n] 1: accepted */
} ft_train_set;

/* How texts are divided into parts. What is left is to fit. The part of a text depends on its
 * session and the seed alone. */
typedef struct ft_train_split {
    uint32_t validate, test; /* percent of the texts */
    uint64_t seed;
} ft_train_split;

/* Fingerprints of a trace's models; 0: unknown, or several. */
typedef struct ft_train_models {
    uint64_t draft, target;
} ft_train_models;

/* Appends the samples of a trace, in its order, to the parts of their texts. The trace's errors,
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_train_read(const char *path, const ft_train_split *split, ft_error *err,
                                       ft_train_set part[FT_TRAIN_PARTS], ft_train_models *models);
/* The number of texts that the samples are of; 0 also if memory is short. */
uint64_t ft_train_set_texts(const ft_train_set *set);
/* All-zero is legal. */
void ft_train_set_deinit(ft_train_set *set);

#endif
