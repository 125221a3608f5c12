/* SPDX-License-Identifier: Apache-2.0
 *
 * The rejection predictor (WISP 4.1): predicts from the draft's logits whether the target will
 * accept a token. It is a perceptron over normalised features and a threshold. `foretoken train
 * predictor` writes both into a small JSON file. Plain data; any thread may use a finished one.
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

/* The features' names in files. */
extern const char *const ft_feature_name[FT_FEATURES];

typedef struct ft_predictor {
    ft_mlp mlp;                                  /* FT_FEATURES inputs, one output: log-odds */
    float mean[FT_FEATURES], scale[FT_FEATURES]; /* input: (feature - mean) * scale */
    float least; /* log-odds from which a token is predicted to be accepted */
    /* What it was trained on; 0: unknown, or several. The draft model's fingerprint
     * (model/model.h), and a hash of the target's name. */
    uint64_t draft, target;
} ft_predictor;

/* All-zero is legal. */
void ft_predictor_deinit(ft_predictor *predictor);

/* FT_PRECONDITION: it was trained on the drafts of a model with another fingerprint. It has learnt
 * that model's errors. */
FT_WARN_UNUSED ft_status ft_predictor_check_draft(const ft_predictor *predictor, uint64_t draft,
                                                  ft_error *err);

/* The log-odds that the token is accepted if the tokens before it are. A feature that is NaN counts
 * as the mean. No allocation. */
float ft_predictor_odds(const ft_predictor *predictor, const float feature[FT_FEATURES]);
bool ft_predictor_accepts(const ft_predictor *predictor, const float feature[FT_FEATURES]);

/* The predictor as the file's JSON object, owned by the caller, who may add fields. NULL: out of
 * memory. */
json_t *ft_predictor_json(const ft_predictor *predictor);
/* FT_INVALID names the field that is missing, of another type or out of range. FT_NOMEM. On failure
 * *out is all-zero; otherwise it needs a deinit. */
FT_WARN_UNUSED ft_status ft_predictor_parse(const json_t *root, ft_error *err, ft_predictor *out);
/* FT_IO, FT_TOO_LARGE, or as parse; messages name the path. */
FT_WARN_UNUSED ft_status ft_predictor_load(const char *path, ft_error *err, ft_predictor *out);

/* Finds the predictor of a draft model: of the files in the draft file's own folder whose names end
 * in "predictor.json", the first by name that was trained on this draft model. Files that cannot be
 * read, and others' predictors, are passed over. *path: its path, which the caller frees; NULL:
 * there is none, and *out is all-zero. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_predictor_find(const char *draft_file, uint64_t draft, ft_error *err,
                                           ft_predictor *out, char **path);

#endif
