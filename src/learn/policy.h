/* SPDX-License-Identifier: Apache-2.0
 *
 * The draft policy of Quantize-Sample-and-Verify (section IV): how many tokens the next draft has,
 * and how finely their distributions are quantized, from how sure the draft model was of the last
 * tokens and from the uplink's rate. It is a perceptron that gives each choice a value. `foretoken
 * train policy` writes it into a JSON file. Plain data; any thread may use a finished one.
 */
#ifndef FT_LEARN_POLICY_H
#define FT_LEARN_POLICY_H

#include <jansson.h>

#include "base/status.h"
#include "learn/mlp.h"

#define FT_POLICY_KIND       "foretoken policy"
#define FT_POLICY_VERSION    1
#define FT_POLICY_FILE_MAX   (16u << 20) /* bytes */
#define FT_POLICY_PARAMS_MAX (1u << 20)
#define FT_POLICY_L          8  /* lattices to choose from at most */
#define FT_POLICY_LENGTH_MAX 64 /* tokens of a draft at most */
#define FT_POLICY_WINDOW     64 /* tokens whose confidences are looked at */
#define FT_POLICY_INPUTS     (FT_POLICY_WINDOW + 3)
/* Units of the first layer, by what they look at: each token; mean and last token; the rate. And
 * of the layer that joins them. */
#define FT_POLICY_BY_TOKEN 128
#define FT_POLICY_BY_MEAN  32
#define FT_POLICY_BY_RATE  16
#define FT_POLICY_TRUNK    128

typedef struct ft_policy {
    ft_mlp net;         /* FT_POLICY_INPUTS inputs; an output for each choice */
    uint32_t n_lengths; /* drafts of 1 to n_lengths tokens */
    uint32_t n_l;
    uint32_t l[FT_POLICY_L]; /* [n_l] */
    uint64_t draft, target;  /* fingerprints of what it was trained on; 0: unknown */
} ft_policy;

/* Choice c has 1 + c / n_l tokens and l[c % n_l]. */
typedef struct ft_policy_choice {
    uint32_t length;
    uint32_t i_l; /* index into l */
} ft_policy_choice;

/* A policy with all weights 0. Takes lengths, lattices and fingerprints from `like`. FT_INVALID,
 * FT_NOMEM: *out is all-zero. */
FT_WARN_UNUSED ft_status ft_policy_init(const ft_policy *like, ft_error *err, ft_policy *out);
/* All-zero is legal. */
void ft_policy_deinit(ft_policy *policy);

/* mask[i] = 1: weight or bias i of the network of a new policy is used. The others are 0: they
 * would join the branches of the first layer. */
void ft_policy_mask(const ft_policy *policy, uint8_t *mask);

/* What is known of the text's last generated tokens. All-zero: there are none. */
typedef struct ft_policy_past {
    float confidence[FT_POLICY_WINDOW]; /* [n] the last token's at n - 1; below 0: unknown */
    uint32_t n;
} ft_policy_past;

/* The text has grown by a token. confidence: how probable the draft model held it, as the point
 * says that the edge sent for its place; below 0: unknown. It is unknown for the target's own token
 * behind a chain that was accepted as a whole, and for tokens of runs, as no point was made there.
 * Nothing else may be told here: not a token that is drafted and not yet judged (spec/rule.h). */
void ft_policy_saw(ft_policy_past *past, float confidence);

/* The inputs. Of places before the first token nothing is known. The uplink has bits_per_s > 0; a
 * rate below 10 kbit/s or above 100 Mbit/s counts as the nearer of these. */
void ft_policy_state(const ft_policy_past *past, double bits_per_s, float state[FT_POLICY_INPUTS]);

/* The choice of the highest value; of equal ones the first. No allocation. */
ft_policy_choice ft_policy_choose(const ft_policy *policy, const float state[FT_POLICY_INPUTS]);

/* FT_PRECONDITION: it was trained for a draft model with another fingerprint, whose confidences
 * mean something else. */
FT_WARN_UNUSED ft_status ft_policy_check_draft(const ft_policy *policy, uint64_t draft,
                                               ft_error *err);

/* The policy as the file's JSON object, owned by the caller. NULL: out of memory. */
json_t *ft_policy_json(const ft_policy *policy);
/* FT_INVALID names the field that is missing, of another type or out of range. FT_NOMEM. On failure
 * *out is all-zero; otherwise it needs a deinit. */
FT_WARN_UNUSED ft_status ft_policy_parse(const json_t *root, ft_error *err, ft_policy *out);
/* FT_IO, FT_TOO_LARGE, or as parse; messages name the path. */
FT_WARN_UNUSED ft_status ft_policy_load(const char *path, ft_error *err, ft_policy *out);

#endif
