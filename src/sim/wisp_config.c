// SPDX-License-Identifier: Apache-2.0
// Reads what a simulation assumes. If a field is missing, of another type or out of range, the
// error names it. Stateless.
#include "sim/wisp_config.h"

#include <math.h>
#include <string.h>

#include "base/json_file.h"

#define SPEED_MAX    1000. /* tokens/s of a class */
#define CAPACITY_MAX 1e9

#define X(id, text, whole, least, most) [FT_SIM_##id] = text,
const char *const ft_sim_const_name[FT_SIM_CONSTS] = {FT_SIM_CONST_LIST(X)};
#undef X
#define X(id, text) [FT_SIM_MODE_##id] = text,
const char *const ft_sim_mode_name[FT_SIM_MODES] = {FT_SIM_MODE_LIST(X)};
#undef X

const ft_sim_constant ft_sim_const_range[FT_SIM_CONSTS] = {
#define X(id, text, whole, least, most) [FT_SIM_##id] = {text, whole, least, most},
    FT_SIM_CONST_LIST(X)
#undef X
};

double ft_sim_const_scaled(ft_sim_const which, double value, double factor)
{
    double out = value * factor;
    if (ft_sim_const_range[which].most == 1 && factor > 1)
        out = 1 - (1 - value) / factor;
    if (ft_sim_const_range[which].whole)
        out = round(out);
    return fmin(fmax(out, ft_sim_const_range[which].least), ft_sim_const_range[which].most);
}

static ft_status read_classes(const json_t *root, ft_error *err, ft_sim_config *out)
{
    const json_t *classes = json_object_get(root, "classes_tokens_per_s");
    out->n_classes = json_array_size(classes);
    bool good = out->n_classes >= 1 && out->n_classes <= FT_SIM_CLASSES;
    for (size_t i = 0; i < out->n_classes && good; i++) {
        good = ft_sim_number(json_array_get(classes, i), 0.01, SPEED_MAX, &out->tokens_per_s[i]);
        good = good && (i == 0 || out->tokens_per_s[i] > out->tokens_per_s[i - 1]);
    }
    return good
               ? FT_OK
               : ft_error_set(err, FT_INVALID,
                              "'classes_tokens_per_s' is missing or not 1 to %d rising speeds from "
                              "0.01 to %g",
                              FT_SIM_CLASSES, SPEED_MAX);
}

/* What the paper reports, if anything. */
static ft_status read_paper(const json_t *root, ft_error *err, ft_sim_config *out)
{
    const json_t *paper = json_object_get(root, "paper");
    if (!paper)
        return FT_OK;
    for (int mode = 0; mode < FT_SIM_MODES; mode++) {
        const char *name = ft_sim_mode_name[mode];
        const json_t *row = json_object_get(json_object_get(paper, "capacity"), name);
        const json_t *goodput = json_object_get(json_object_get(paper, "goodput"), name);
        bool good = !row || json_array_size(row) == out->n_classes;
        for (size_t i = 0; i < out->n_classes && row && good; i++)
            good = ft_sim_number(json_array_get(row, i), 1, CAPACITY_MAX,
                                 &out->paper_capacity[mode][i]);
        if (!good)
            return ft_error_set(err, FT_INVALID,
                                "paper.capacity.%s: not a number of devices for each class", name);
        if (goodput && !ft_sim_number(goodput, 1e-3, CAPACITY_MAX, &out->paper_goodput[mode]))
            return ft_error_set(err, FT_INVALID, "paper.goodput.%s: no number of tokens/s", name);
    }
    return FT_OK;
}

ft_status ft_sim_config_parse_server(const json_t *root, ft_error *err, ft_sim_config *out)
{
    const json_t *costs = json_object_get(root, "costs");
    ft_status status = ft_costs_parse(costs, err, &out->costs);
    out->open_pass = json_is_true(json_object_get(costs, "open_pass"));
    if (status == FT_OK && out->costs.us[FT_COST_PASS] + out->costs.us[FT_COST_ROW] < 1)
        status = ft_error_set(err, FT_INVALID, "costs: a pass of one row takes no time");
    return status == FT_OK ? read_classes(root, err, out) : status;
}

ft_status ft_sim_config_parse(json_t *root, ft_error *err, ft_sim_config *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    *out = (ft_sim_config){0};
    if (!kind || strcmp(kind, FT_SIM_CONFIG_KIND) != 0)
        return ft_error_set(err, FT_INVALID, "'kind' is missing or not \"" FT_SIM_CONFIG_KIND "\"");
    ft_status status = ft_sim_config_parse_server(root, err, out);
    if (status == FT_OK)
        status =
            ft_sim_constants_parse(root, ft_sim_const_range, FT_SIM_CONSTS, err, out->k, out->open);
    return status == FT_OK ? read_paper(root, err, out) : status;
}

ft_status ft_sim_config_load(const char *path, ft_error *err, ft_sim_config *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_sim_config){0};
    ft_status status = ft_json_load(path, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "simulate: %s", why.message);
    status = ft_sim_config_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK
                           : ft_error_set(err, status, "simulate: %s: %s", path, why.message);
}
