// SPDX-License-Identifier: Apache-2.0
// The predictor and its file. A file may come from anywhere, so its contents are checked in full
// before anything is allocated from them. A wrong number would only make drafts bad, never the
// text. Stateless.
#include "learn/predictor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_file.h"
#include "learn/fields.h"
#include "learn/mlp_file.h"

const char *const ft_feature_name[FT_FEATURES] = {
    [FT_FEATURE_CONFIDENCE] = "confidence", [FT_FEATURE_ENTROPY] = "entropy",
    [FT_FEATURE_MARGIN] = "margin",         [FT_FEATURE_DEVIATION] = "deviation",
    [FT_FEATURE_POSITION] = "position",
};

void ft_predictor_deinit(ft_predictor *predictor)
{
    ft_mlp_deinit(&predictor->mlp);
    *predictor = (ft_predictor){0};
}

float ft_predictor_odds(const ft_predictor *predictor, const float feature[FT_FEATURES])
{
    float x[FT_FEATURES], odds;
    for (int i = 0; i < FT_FEATURES; i++) {
        x[i] = (feature[i] - predictor->mean[i]) * predictor->scale[i];
        x[i] = isfinite(x[i]) ? x[i] : 0;
    }
    ft_mlp_run(&predictor->mlp, x, 1, &odds);
    return odds;
}

bool ft_predictor_accepts(const ft_predictor *predictor, const float feature[FT_FEATURES])
{
    return ft_predictor_odds(predictor, feature) >= predictor->least;
}

ft_status ft_predictor_check_draft(const ft_predictor *predictor, uint64_t draft, ft_error *err)
{
    if (predictor->draft == 0 || predictor->draft == draft)
        return FT_OK;
    return ft_error_set(err, FT_PRECONDITION,
                        "predictor: it was trained for the draft model %016" PRIx64
                        ", not for this one (%016" PRIx64
                        "; foretoken info shows it): train one from traces of this draft, or leave "
                        "--predictor out",
                        predictor->draft, draft);
}

/* ---- writing ---- */

static json_t *features_json(void)
{
    json_t *names = json_array();
    for (int i = 0; i < FT_FEATURES; i++)
        json_array_append_new(names, json_string(ft_feature_name[i]));
    return names;
}

json_t *ft_predictor_json(const ft_predictor *p)
{
    json_t *out = json_pack("{s:s, s:i, s:o, s:o, s:o, s:f, s:o, s:o}", "kind", FT_PREDICTOR_KIND,
                            "version", FT_PREDICTOR_VERSION, "features", features_json(), "mean",
                            ft_field_floats_json(p->mean, FT_FEATURES), "scale",
                            ft_field_floats_json(p->scale, FT_FEATURES), "least_log_odds",
                            (double)p->least, "draft", ft_field_fingerprint_json(p->draft),
                            "target", ft_field_fingerprint_json(p->target));
    if (ft_mlp_write(&p->mlp, out))
        return out;
    json_decref(out);
    return NULL;
}

/* ---- reading ---- */

static ft_status bad(ft_error *err, const char *field, const char *what)
{
    return ft_error_set(err, FT_INVALID, "predictor: '%s' is missing or is not a %s", field, what);
}

static bool numbers(const json_t *array, float out[FT_FEATURES])
{
    return ft_field_floats(array, FT_FEATURES, -FT_MLP_VALUE_MAX, FT_MLP_VALUE_MAX, out);
}

static bool is_ours(const json_t *root)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    return kind && strcmp(kind, FT_PREDICTOR_KIND) == 0;
}

static bool has_our_features(const json_t *root)
{
    json_t *ours = features_json();
    bool same = json_equal(json_object_get(root, "features"), ours);
    json_decref(ours);
    return same;
}

static ft_status parse_layers(const json_t *root, ft_error *err, ft_mlp *out)
{
    const ft_mlp_limits limits = {
        .n_inputs = FT_FEATURES, .n_outputs = 1, .params_max = FT_PREDICTOR_PARAMS_MAX};
    ft_error why = {0};
    ft_status status = ft_mlp_read(root, &limits, &why, out);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "predictor: %s", why.message);
}

static ft_status parse(const json_t *root, ft_error *err, ft_predictor *out)
{
    double least;
    if (!is_ours(root))
        return bad(err, "kind",
                   "\"" FT_PREDICTOR_KIND "\": write one by foretoken train predictor");
    if (json_integer_value(json_object_get(root, "version")) != FT_PREDICTOR_VERSION)
        return bad(err, "version", "version that this program knows: train another");
    if (!has_our_features(root))
        return bad(err, "features", "list of the features that drafts have: train another");
    if (!numbers(json_object_get(root, "mean"), out->mean))
        return bad(err, "mean", "list of 5 numbers");
    if (!numbers(json_object_get(root, "scale"), out->scale))
        return bad(err, "scale", "list of 5 numbers");
    if (!ft_field_number(json_object_get(root, "least_log_odds"), -FT_MLP_VALUE_MAX,
                         FT_MLP_VALUE_MAX, &least))
        return bad(err, "least_log_odds", "number");
    out->least = (float)least;
    if (!ft_field_fingerprint(json_object_get(root, "draft"), &out->draft))
        return bad(err, "draft", "fingerprint of 16 hexadecimal digits");
    if (!ft_field_fingerprint(json_object_get(root, "target"), &out->target))
        return bad(err, "target", "fingerprint of 16 hexadecimal digits");
    return parse_layers(root, err, &out->mlp);
}

ft_status ft_predictor_parse(const json_t *root, ft_error *err, ft_predictor *out)
{
    *out = (ft_predictor){0};
    ft_status status = parse(root, err, out);
    if (status != FT_OK)
        ft_predictor_deinit(out);
    return status;
}

ft_status ft_predictor_load(const char *path, ft_error *err, ft_predictor *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_predictor){0};
    ft_status status = ft_json_load_most(path, FT_PREDICTOR_FILE_MAX, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "predictor: %s", why.message);
    status = ft_predictor_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}
