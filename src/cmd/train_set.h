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

typedef struct ft_train_set {
    size_t n, cap;
    float *x;               /* [n, FT_FEATURES] */
    uint8_t *y;             /* [n] 1: accepted */
    int64_t *session;       /* [n] */
    uint64_t draft, target; /* fingerprints; 0: not known, or several */
} ft_train_set;

/* All samples of a trace. The trace's errors, FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_train_set_read(const char *path, ft_error *err, ft_train_set *out);
/* How many texts the samples are of; 0 also where memory is short. */
uint64_t ft_train_set_texts(const ft_train_set *set);
/* All-zero is legal. */
void ft_train_set_deinit(ft_train_set *set);

typedef struct ft_train_split {
    uint32_t validate, test; /* percent of the texts */
    uint64_t seed;
} ft_train_split;

/* The samples whose text belongs to a part, appended to *out in their order. Which part that is
 * depends on the text's session and the seed alone. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_train_set_part(const ft_train_set *set, const ft_train_split *split,
                                           ft_train_part part, ft_error *err, ft_train_set *out);

#endif
