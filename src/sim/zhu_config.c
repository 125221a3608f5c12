// SPDX-License-Identifier: Apache-2.0
// The setting of Zhu et al.: built in, or from a file. If a field is missing, unknown, of another
// type or out of range, the error names it. Stateless.
#include "sim/zhu_config.h"

#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "base/num.h"
#include "sim/constants.h"

static const ft_sim_constant range[FT_ZHU_CONSTS] = {
#define X(id, text, whole, least, most, value) [FT_ZHU_##id] = {text, whole, least, most},
    FT_ZHU_CONST_LIST(X)
#undef X
};

/* Table I. */
static const ft_zhu_pair paper_pairs[FT_ZHU_PAIRS] = {
    {"LLaMA-68M, LLaMA-7B",
     {{.layers = 2, .hidden = 768, .ffn = 3072}, {.layers = 32, .hidden = 4096, .ffn = 11008}}},
    {"LLaMA-1.1B, LLaMA-7B",
     {{.layers = 22, .hidden = 2048, .ffn = 5632}, {.layers = 32, .hidden = 4096, .ffn = 11008}}},
    {"LLaMA-1.1B, LLaMA-13B",
     {{.layers = 22, .hidden = 2048, .ffn = 5632}, {.layers = 40, .hidden = 5120, .ffn = 13824}}}};

static void set_machines(ft_zhu_config *c)
{
    for (int i = 0; i < FT_ZHU_PAIRS; i++) {
        ft_plan_pair *models = &c->pair[i].models;
        models->draft.c1 = c->k[FT_ZHU_DRAFT_C1];
        models->draft.c2 = c->k[FT_ZHU_DRAFT_C2];
        models->verify.c1 = c->k[FT_ZHU_VERIFY_C1];
        models->verify.c2 = c->k[FT_ZHU_VERIFY_C2];
    }
}

void ft_zhu_config_paper(ft_zhu_config *out)
{
    static const double value[FT_ZHU_CONSTS] = {
#define X(id, text, whole, least, most, value) [FT_ZHU_##id] = value,
        FT_ZHU_CONST_LIST(X)
#undef X
    };
    *out = (ft_zhu_config){0};
    memcpy(out->k, value, sizeof value);
    memcpy(out->pair, paper_pairs, sizeof paper_pairs);
    out->open[FT_ZHU_NEAREST] = out->open[FT_ZHU_G0] = out->open[FT_ZHU_OWN_OUTPUTS] =
        out->open[FT_ZHU_STATIC_SIZE] = out->open[FT_ZHU_SEEDS] = true;
    set_machines(out);
}

/* {"layers": 22, "hidden": 2048, "ffn": 5632} */
static ft_status read_model(const json_t *pair, const char *which, ft_error *err,
                            ft_plan_model *out)
{
    static const ft_sim_constant sizes[] = {
        {"layers", true, 1, 1000}, {"hidden", true, 1, 1e6}, {"ffn", true, 1, 1e7}};
    const json_t *object = json_object_get(pair, which);
    double x[FT_COUNT(sizes)];
    for (size_t i = 0; i < FT_COUNT(sizes); i++) {
        const json_t *value = json_object_get(object, sizes[i].name);
        if (!ft_sim_number(value, sizes[i].least, sizes[i].most, &x[i]) || !json_is_integer(value))
            return ft_error_set(err, FT_INVALID,
                                "pairs: %s: '%s' is missing or no whole number from %g to %g",
                                which, sizes[i].name, sizes[i].least, sizes[i].most);
    }
    if (json_object_size(object) != FT_COUNT(sizes))
        return ft_error_set(err, FT_INVALID, "pairs: %s has a field that is not known", which);
    *out = (ft_plan_model){.layers = (uint32_t)x[0], .hidden = x[1], .ffn = x[2]};
    return FT_OK;
}

static ft_status read_pair(const json_t *pair, ft_error *err, ft_zhu_pair *out)
{
    const char *name = json_string_value(json_object_get(pair, "name"));
    const char *const allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_,./";
    if (!name || !*name || strlen(name) >= FT_ZHU_NAME || strspn(name, allowed) != strlen(name))
        return ft_error_set(err, FT_INVALID,
                            "pairs: 'name' is missing or not 1 to %d letters, digits, blanks and "
                            "-_,./",
                            FT_ZHU_NAME - 1);
    if (json_object_size(pair) != 3)
        return ft_error_set(err, FT_INVALID, "pairs: %s: not name, draft and verify", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    ft_status status = read_model(pair, "draft", err, &out->models.draft);
    return status == FT_OK ? read_model(pair, "verify", err, &out->models.verify) : status;
}

static ft_status check_keys(const json_t *root, ft_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value)
    {
        if (strcmp(key, "kind") != 0 && strcmp(key, "about") != 0 && strcmp(key, "pairs") != 0 &&
            strcmp(key, "constants") != 0)
            return ft_error_set(err, FT_INVALID, "'%.60s' is not known", key);
    }
    return FT_OK;
}

ft_status ft_zhu_config_parse(const json_t *root, ft_error *err, ft_zhu_config *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const json_t *pairs = json_object_get(root, "pairs");
    *out = (ft_zhu_config){0};
    if (!kind || strcmp(kind, FT_ZHU_CONFIG_KIND) != 0)
        return ft_error_set(err, FT_INVALID, "'kind' is missing or not \"" FT_ZHU_CONFIG_KIND "\"");
    ft_status status = check_keys(root, err);
    if (status == FT_OK && json_array_size(pairs) != FT_ZHU_PAIRS)
        status = ft_error_set(err, FT_INVALID, "'pairs' is missing or no list of %d", FT_ZHU_PAIRS);
    for (size_t i = 0; i < FT_ZHU_PAIRS && status == FT_OK; i++)
        status = read_pair(json_array_get(pairs, i), err, &out->pair[i]);
    if (status == FT_OK)
        status = ft_sim_constants_parse(root, range, FT_ZHU_CONSTS, err, out->k, out->open);
    set_machines(out);
    return status;
}

ft_status ft_zhu_config_load(const char *path, ft_error *err, ft_zhu_config *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_zhu_config){0};
    ft_status status = ft_json_load(path, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "simulate: %s", why.message);
    status = ft_zhu_config_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK
                           : ft_error_set(err, status, "simulate: %s: %s", path, why.message);
}
