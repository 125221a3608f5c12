// SPDX-License-Identifier: Apache-2.0
// The draft policy and its file. The branches of the network are one layer, in which the weights
// between a branch and the inputs of another are 0. A file may come from anywhere, so its contents
// are checked in full before anything is allocated from them. Stateless.
#include "learn/policy.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_file.h"
#include "learn/fields.h"
#include "learn/mlp_file.h"

#define OUTPUTS_MAX (FT_POLICY_LENGTH_MAX * FT_POLICY_L)
#define L_MAX       65535
/* A rate's input is log10(bits/s) - MIDDLE: about -2 to 2 from 10 kbit/s to 100 Mbit/s. */
#define MIDDLE 6.0
/* Rates beyond are taken for these, bits/s: below, no point pays; above, the bytes of a point take
 * less time than any round trip. A network says nothing of what it was not trained with. */
#define RATE_LEAST 1e4
#define RATE_MOST  1e8

static uint32_t n_choices(const ft_policy *policy)
{
    return policy->n_lengths * policy->n_l;
}

ft_status ft_policy_init(const ft_policy *like, ft_error *err, ft_policy *out)
{
    const ft_mlp_shape shape = {3,
                                {FT_POLICY_INPUTS,
                                 FT_POLICY_BY_TOKEN + FT_POLICY_BY_MEAN + FT_POLICY_BY_RATE,
                                 FT_POLICY_TRUNK, n_choices(like)}};
    ft_mlp net;
    *out = (ft_policy){0};
    ft_status status = ft_mlp_init(&shape, err, &net);
    if (status == FT_OK) {
        *out = *like;
        out->net = net;
    }
    return status;
}

void ft_policy_deinit(ft_policy *policy)
{
    ft_mlp_deinit(&policy->net);
    *policy = (ft_policy){0};
}

/* Which branch an input belongs to, and a unit of the first layer. */
static int branch_of_input(uint32_t i)
{
    return i < FT_POLICY_WINDOW ? 0 : i < FT_POLICY_WINDOW + 2 ? 1 : 2;
}

static int branch_of_unit(uint32_t j)
{
    return j < FT_POLICY_BY_TOKEN ? 0 : j < FT_POLICY_BY_TOKEN + FT_POLICY_BY_MEAN ? 1 : 2;
}

void ft_policy_mask(const ft_policy *policy, uint8_t *mask)
{
    const uint32_t n_units = policy->net.shape.width[1];
    memset(mask, 1, ft_mlp_n_params(&policy->net.shape));
    for (uint32_t i = 0; i < FT_POLICY_INPUTS; i++)
        for (uint32_t j = 0; j < n_units; j++)
            mask[i * n_units + j] = branch_of_input(i) == branch_of_unit(j);
}

/* -1 to 1; 0: unknown. */
static float input_of(double confidence)
{
    return (float)(2 * confidence - 1);
}

void ft_policy_saw(ft_policy_past *past, float confidence)
{
    if (past->n == FT_POLICY_WINDOW)
        memmove(past->confidence, past->confidence + 1, --past->n * sizeof confidence);
    past->confidence[past->n++] = confidence;
}

void ft_policy_state(const ft_policy_past *past, double bits_per_s, float state[FT_POLICY_INPUTS])
{
    const uint32_t first = FT_POLICY_WINDOW - past->n;
    double sum = 0;
    uint32_t known = 0;
    memset(state, 0, FT_POLICY_INPUTS * sizeof *state);
    for (uint32_t i = 0; i < past->n; i++) {
        const double c = (double)past->confidence[i];
        if (!(c >= 0))
            continue;
        state[first + i] = input_of(c);
        sum += c;
        known++;
    }
    if (known > 0)
        state[FT_POLICY_WINDOW] = input_of(sum / known);
    state[FT_POLICY_WINDOW + 1] = state[FT_POLICY_WINDOW - 1];
    state[FT_POLICY_WINDOW + 2] =
        (float)(log10(fmin(fmax(bits_per_s, RATE_LEAST), RATE_MOST)) - MIDDLE);
}

ft_policy_choice ft_policy_choose(const ft_policy *policy, const float state[FT_POLICY_INPUTS])
{
    float value[OUTPUTS_MAX];
    uint32_t best = 0;
    ft_mlp_run(&policy->net, state, 1, value);
    for (uint32_t c = 1; c < n_choices(policy); c++)
        if (value[c] > value[best])
            best = c;
    return (ft_policy_choice){.length = 1 + best / policy->n_l, .i_l = best % policy->n_l};
}

ft_status ft_policy_check_draft(const ft_policy *policy, uint64_t draft, ft_error *err)
{
    if (policy->draft == 0 || policy->draft == draft)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION,
                        "policy: it was trained for the draft model %016" PRIx64
                        ", not for this one (%016" PRIx64
                        "; foretoken info shows it): train one from positions of this draft, or "
                        "leave --policy out",
                        policy->draft, draft);
}

/* ---- the file ---- */

json_t *ft_policy_json(const ft_policy *p)
{
    json_t *out = json_pack(
        "{s:s, s:i, s:I, s:o, s:o, s:o}", "kind", FT_POLICY_KIND, "version", FT_POLICY_VERSION,
        "lengths", (json_int_t)p->n_lengths, "l", ft_field_wholes_json(p->l, p->n_l), "draft",
        ft_field_fingerprint_json(p->draft), "target", ft_field_fingerprint_json(p->target));
    if (ft_mlp_write(&p->net, out))
        return out;
    json_decref(out);
    return NULL;
}

static ft_status bad(ft_error *err, const char *field, const char *what)
{
    return ft_error_set(err, FT_INVALID, "policy: '%s' is missing or is not %s", field, what);
}

static ft_status parse(const json_t *root, ft_error *err, ft_policy *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const json_t *l = json_object_get(root, "l");
    ft_error why = {0};
    if (!kind || strcmp(kind, FT_POLICY_KIND) != 0)
        return bad(err, "kind", "\"" FT_POLICY_KIND "\": write one by foretoken train policy");
    if (json_integer_value(json_object_get(root, "version")) != FT_POLICY_VERSION)
        return bad(err, "version", "a version that this program knows: train another");
    if (!ft_field_whole(json_object_get(root, "lengths"), 1, FT_POLICY_LENGTH_MAX, &out->n_lengths))
        return bad(err, "lengths", "a number of tokens from 1 to 64");
    out->n_l = (uint32_t)json_array_size(l);
    if (out->n_l < 1 || out->n_l > FT_POLICY_L || !ft_field_wholes(l, out->n_l, L_MAX, out->l))
        return bad(err, "l", "a list of 1 to 8 numbers from 1 to 65535");
    if (!ft_field_fingerprint(json_object_get(root, "draft"), &out->draft))
        return bad(err, "draft", "a fingerprint of 16 hexadecimal digits");
    if (!ft_field_fingerprint(json_object_get(root, "target"), &out->target))
        return bad(err, "target", "a fingerprint of 16 hexadecimal digits");
    const ft_mlp_limits limits = {.n_inputs = FT_POLICY_INPUTS,
                                  .n_outputs = n_choices(out),
                                  .params_max = FT_POLICY_PARAMS_MAX};
    ft_status status = ft_mlp_read(root, &limits, &why, &out->net);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "policy: %s", why.message);
}

ft_status ft_policy_parse(const json_t *root, ft_error *err, ft_policy *out)
{
    *out = (ft_policy){0};
    ft_status status = parse(root, err, out);
    if (status != FT_OK)
        ft_policy_deinit(out);
    return status;
}

ft_status ft_policy_load(const char *path, ft_error *err, ft_policy *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_policy){0};
    ft_status status = ft_json_load_most(path, FT_POLICY_FILE_MAX, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "policy: %s", why.message);
    status = ft_policy_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}
