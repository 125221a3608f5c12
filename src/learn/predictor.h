/* SPDX-License-Identifier: Apache-2.0
 *
 * The rejection predictor (WISP 4.1): from what a draft's logits say of a token to whether the target will
 * take it. A perceptron over normalised features, a threshold, and a small JSON file of both, which
 * `foretoken train predictor` writes. Plain data; a finished one may be used by any thread.
 */
#ifndef FT_LEARN_PREDICTOR_H
#define FT_LEARN_PREDICTOR_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "learn/features.h"
#include "learn/mlp.h"

#define FT_PREDICTOR_KIND       "foretoken predictor"
#define FT_PREDICTOR_VERSION    1
#define FT_PREDICTOR_FILE_MAX   (16u << 20) /* bytes */
#define FT_PREDICTOR_PARAMS_MAX (1u << 20)

/* As in files. */
extern const char *const ft_feature_name[FT_FEATURES];

typedef struct ft_predictor {
    ft_mlp mlp;                                  /* FT_FEATURES inputs, one output: log-odds */
    float mean[FT_FEATURES], scale[FT_FEATURES]; /* input: (feature - mean) * scale */
    float least; /* log-odds: a token is predicted to be accepted from here on */
    /* What it was trained on, 0: not known, or several: the draft's fingerprint (model/model.h), a hash of the
     * target's name. */
    uint64_t draft, target;
} ft_predictor;

/* All-zero is legal. */
void ft_predictor_deinit(ft_predictor *predictor);

/* FT_PRECONDITION: it was trained for the drafts of another model than the one of this fingerprint. What it knows is
 * how that model errs. */
FT_WARN_UNUSED ft_status ft_predictor_check_draft(const ft_predictor *predictor, uint64_t draft,
                                                  ft_error *err);

/* The log-odds that the token is accepted, given that those before it were. A feature that is no number
 * counts as the mean. No allocation. */
float ft_predictor_odds(const ft_predictor *predictor, const float feature[FT_FEATURES]);
bool ft_predictor_accepts(const ft_predictor *predictor, const float feature[FT_FEATURES]);

/* The file's object; the caller adds what people want to know, and owns it. NULL: out of memory. */
json_t *ft_predictor_json(const ft_predictor *predictor);
/* FT_INVALID says which field is missing, of another type or out of range; FT_NOMEM. *out is all-zero on
 * failure, and owes a deinit else. */
FT_WARN_UNUSED ft_status ft_predictor_parse(const json_t *root, ft_error *err, ft_predictor *out);
/* A whole file's text. */
FT_WARN_UNUSED ft_status ft_predictor_read(const char *text, size_t n, ft_error *err,
                                           ft_predictor *out);
/* FT_IO, FT_TOO_LARGE, or as parse; messages name the path. */
FT_WARN_UNUSED ft_status ft_predictor_load(const char *path, ft_error *err, ft_predictor *out);

#endif
