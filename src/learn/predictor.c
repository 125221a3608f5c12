// SPDX-License-Identifier: Apache-2.0
// The predictor and its file. A file may come from anywhere, so its contents are checked in full
// before anything is allocated from them. A wrong number would only make drafts bad, never the
// text. Stateless.
#include "learn/predictor.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"

#define VALUE_MAX 1e9 /* of any number in a file */

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

static json_t *numbers_json(const float *x, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n && array; i++)
        json_array_append_new(array, json_real((double)x[i]));
    return array;
}

static json_t *features_json(void)
{
    json_t *names = json_array();
    for (int i = 0; i < FT_FEATURES; i++)
        json_array_append_new(names, json_string(ft_feature_name[i]));
    return names;
}

static json_t *fingerprint_json(uint64_t fingerprint)
{
    return json_sprintf("%016" PRIx64, fingerprint);
}

json_t *ft_predictor_json(const ft_predictor *p)
{
    json_t *layers = json_array(), *weights = json_array(), *biases = json_array();
    for (uint32_t i = 0; i <= p->mlp.shape.n_layers; i++)
        json_array_append_new(layers, json_integer(p->mlp.shape.width[i]));
    for (uint32_t i = 0; i < p->mlp.shape.n_layers; i++) {
        const size_t n_in = p->mlp.shape.width[i], n_out = p->mlp.shape.width[i + 1];
        json_array_append_new(weights, numbers_json(p->mlp.weight[i], n_in * n_out));
        json_array_append_new(biases, numbers_json(p->mlp.bias[i], n_out));
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o}", "kind",
                     FT_PREDICTOR_KIND, "version", FT_PREDICTOR_VERSION, "features",
                     features_json(), "mean", numbers_json(p->mean, FT_FEATURES), "scale",
                     numbers_json(p->scale, FT_FEATURES), "least_log_odds", (double)p->least,
                     "draft", fingerprint_json(p->draft), "target", fingerprint_json(p->target),
                     "layers", layers, "biases", biases, "weights", weights);
}

/* ---- reading ---- */

static ft_status bad(ft_error *err, const char *field, const char *what)
{
    return ft_error_set(err, FT_INVALID, "predictor: '%s' is missing or is not a %s", field, what);
}

static bool number(const json_t *value, float *out)
{
    const double x = json_number_value(value);
    *out = (float)x;
    return json_is_number(value) && fabs(x) <= VALUE_MAX;
}

static bool numbers(const json_t *array, size_t n, float *out)
{
    if (!json_is_array(array) || json_array_size(array) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!number(json_array_get(array, i), &out[i]))
            return false;
    return true;
}

static bool fingerprint(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(text, &end, 16);
    return *end == 0;
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

static bool shape_of(const json_t *layers, ft_mlp_shape *out)
{
    const size_t n = json_array_size(layers); /* 0 where it is no array */
    *out = (ft_mlp_shape){0};
    if (n < 2 || n > FT_MLP_LAYERS + 1)
        return false;
    out->n_layers = (uint32_t)n - 1;
    for (size_t i = 0; i < n; i++) {
        const json_int_t width = json_integer_value(json_array_get(layers, i));
        if (width < 1 || width > FT_MLP_WIDTH)
            return false;
        out->width[i] = (uint32_t)width;
    }
    return out->width[0] == FT_FEATURES && out->width[n - 1] == 1 &&
           ft_mlp_n_params(out) <= FT_PREDICTOR_PARAMS_MAX;
}

static ft_status parse_layers(const json_t *root, ft_error *err, ft_mlp *out)
{
    const json_t *weights = json_object_get(root, "weights");
    const json_t *biases = json_object_get(root, "biases");
    ft_mlp_shape shape;
    if (!shape_of(json_object_get(root, "layers"), &shape))
        return bad(err, "layers", "list of layers' widths, from 5 features to 1 output");
    /* Checks the number of weights before memory is allocated for them. */
    for (uint32_t i = 0; i < shape.n_layers; i++)
        if (json_array_size(json_array_get(weights, i)) !=
            (size_t)shape.width[i] * shape.width[i + 1])
            return bad(err, "weights", "list of lists that fit 'layers'");
    ft_status status = ft_mlp_init(&shape, err, out);
    for (uint32_t i = 0; i < shape.n_layers && status == FT_OK; i++) {
        const size_t n = (size_t)shape.width[i] * shape.width[i + 1];
        if (!numbers(json_array_get(weights, i), n, out->weight[i]))
            status = bad(err, "weights", "list of lists of numbers");
        else if (!numbers(json_array_get(biases, i), shape.width[i + 1], out->bias[i]))
            status = bad(err, "biases", "list of lists of numbers that fit 'layers'");
    }
    return status;
}

static ft_status parse(const json_t *root, ft_error *err, ft_predictor *out)
{
    if (!is_ours(root))
        return bad(err, "kind",
                   "\"" FT_PREDICTOR_KIND "\": write one by foretoken train predictor");
    if (json_integer_value(json_object_get(root, "version")) != FT_PREDICTOR_VERSION)
        return bad(err, "version", "version that this program knows: train another");
    if (!has_our_features(root))
        return bad(err, "features", "list of the features that drafts have: train another");
    if (!numbers(json_object_get(root, "mean"), FT_FEATURES, out->mean))
        return bad(err, "mean", "list of 5 numbers");
    if (!numbers(json_object_get(root, "scale"), FT_FEATURES, out->scale))
        return bad(err, "scale", "list of 5 numbers");
    if (!number(json_object_get(root, "least_log_odds"), &out->least))
        return bad(err, "least_log_odds", "number");
    if (!fingerprint(json_object_get(root, "draft"), &out->draft))
        return bad(err, "draft", "fingerprint of 16 hexadecimal digits");
    if (!fingerprint(json_object_get(root, "target"), &out->target))
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
