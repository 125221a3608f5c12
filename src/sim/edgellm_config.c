// SPDX-License-Identifier: Apache-2.0
// Reads a setting of EdgeLLM. If a field is missing, unknown, of another type or out of range, the
// error names it. Stateless.
#include "sim/edgellm_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "base/num.h"
#include "sim/constants.h"

static const ft_sim_constant range[FT_EDGELLM_CONSTS] = {
#define X(id, text, whole, least, most) [FT_EDGELLM_##id] = {text, whole, least, most},
    FT_EDGELLM_CONST_LIST(X)
#undef X
};

static const ft_sim_constant time_range[FT_EDGELLM_TIMES] = {
#define X(id, text, whole, least, most) [FT_EDGELLM_##id] = {text, whole, least, most},
    FT_EDGELLM_TIME_LIST(X)
#undef X
};

static const ft_sim_constant correctness_range = {"correctness", false, 0.01, 0.99};

#define X(id, text, title) [FT_EDGELLM_##id] = text,
static const char *const class_name[FT_EDGELLM_CLASSES] = {FT_EDGELLM_CLASS_LIST(X)};
#undef X
#define X(id, text, title) [FT_EDGELLM_##id] = title,
const char *const ft_edgellm_class_title[FT_EDGELLM_CLASSES] = {FT_EDGELLM_CLASS_LIST(X)};
#undef X

#define GB_LEAST 1e-3
#define GB_MOST  1e6

/* An object with these keys only. known: separated by blanks, with one at both ends. */
static ft_status check_keys(json_t *object, const char *where, const char *known, ft_error *err)
{
    const char *key;
    json_t *value;
    char name[64];
    if (!json_is_object(object))
        return ft_error_set(err, FT_INVALID, "%s is missing or no object", where);
    json_object_foreach(object, key, value)
    {
        snprintf(name, sizeof name, " %.60s ", key);
        if (strchr(key, ' ') || !strstr(known, name))
            return ft_error_set(err, FT_INVALID, "%s: '%.60s' is not known", where, key);
    }
    return FT_OK;
}

static ft_status read_name(const json_t *object, const char *where, ft_error *err, char *out)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *const allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_,./";
    if (!name || !*name || strlen(name) >= FT_EDGELLM_NAME || strspn(name, allowed) != strlen(name))
        return ft_error_set(err, FT_INVALID,
                            "%s: 'name' is missing or not 1 to %d letters, digits, blanks and "
                            "-_,./",
                            where, FT_EDGELLM_NAME - 1);
    snprintf(out, FT_EDGELLM_NAME, "%s", name);
    return FT_OK;
}

/* A list `of->name` of an object, 1 to FT_EDGELLM_LIST rising numbers. */
static ft_status read_numbers(const json_t *list, const ft_sim_constant *of, ft_error *err,
                              double *out, uint32_t *n)
{
    bool good = json_array_size(list) >= 1 && json_array_size(list) <= FT_EDGELLM_LIST;
    *n = good ? (uint32_t)json_array_size(list) : 0;
    for (uint32_t i = 0; i < *n && good; i++) {
        const json_t *item = json_array_get(list, i);
        good = ft_sim_number(item, of->least, of->most, &out[i]) && (i == 0 || out[i] > out[i - 1]);
        good = good && (!of->whole || json_is_integer(item));
    }
    return good ? FT_OK
                : ft_error_set(err, FT_INVALID,
                               "%s: the list is missing or not 1 to %d rising %snumbers from %g "
                               "to %g",
                               of->name, FT_EDGELLM_LIST, of->whole ? "whole " : "", of->least,
                               of->most);
}

/* The same with its reason: {"value": [...], "why": "..."}. */
static ft_status read_list(const json_t *root, const ft_sim_constant *of, ft_error *err,
                           double *out, uint32_t *n)
{
    bool open;
    json_t *field = json_object_get(root, of->name);
    ft_status status = check_keys(field, of->name, " value why open ", err);
    if (status == FT_OK)
        status = read_numbers(json_object_get(field, "value"), of, err, out, n);
    return status == FT_OK ? ft_sim_reason_parse(field, of->name, err, &open) : status;
}

/* ---- pairs ---- */

static ft_status read_dataset(json_t *object, ft_error *err, ft_edgellm_dataset *out)
{
    ft_status status = check_keys(object, "datasets", " name correctness why open ", err);
    if (status == FT_OK)
        status = read_name(object, "datasets", err, out->name);
    if (status != FT_OK)
        return status;
    if (!ft_sim_number(json_object_get(object, "correctness"), correctness_range.least,
                       correctness_range.most, &out->correctness))
        return ft_error_set(err, FT_INVALID,
                            "%s: 'correctness' is missing or no number from %g to %g", out->name,
                            correctness_range.least, correctness_range.most);
    return ft_sim_reason_parse(object, out->name, err, &out->open);
}

static ft_status read_memory(json_t *object, ft_error *err, ft_edgellm_memory *out)
{
    const struct {
        const char *name;
        double *value;
    } fields[] = {{"draft_gb", &out->draft_gb},
                  {"target_gb", &out->target_gb},
                  {"budget_gb", &out->budget_gb}};
    const ft_sim_constant budgets = {
        .name = "memory.budgets_gb", .least = GB_LEAST, .most = GB_MOST};
    bool open;
    ft_status status =
        check_keys(object, "memory", " draft_gb target_gb budget_gb budgets_gb why open ", err);
    for (size_t i = 0; i < FT_COUNT(fields) && status == FT_OK; i++)
        if (!ft_sim_number(json_object_get(object, fields[i].name), GB_LEAST, GB_MOST,
                           fields[i].value))
            status =
                ft_error_set(err, FT_INVALID, "memory: '%s' is missing or no number from %g to %g",
                             fields[i].name, GB_LEAST, GB_MOST);
    if (status == FT_OK)
        status = read_numbers(json_object_get(object, "budgets_gb"), &budgets, err, out->budgets_gb,
                              &out->n);
    if (status == FT_OK && (out->budget_gb < out->draft_gb || out->budgets_gb[0] < out->draft_gb ||
                            out->budget_gb >= out->draft_gb + out->target_gb))
        status = ft_error_set(err, FT_INVALID,
                              "memory: a budget is less than draft_gb, or both models fit into "
                              "budget_gb, so nothing is read");
    return status == FT_OK ? ft_sim_reason_parse(object, "memory", err, &open) : status;
}

static ft_status read_class(const json_t *object, ft_error *err, ft_edgellm_class *out)
{
    const char *name = json_string_value(json_object_get(object, "class"));
    for (int i = 0; name && i < FT_EDGELLM_CLASSES; i++)
        if (strcmp(name, class_name[i]) == 0) {
            *out = (ft_edgellm_class)i;
            return FT_OK;
        }
    return ft_error_set(err, FT_INVALID,
                        "pairs: 'class' is missing or not \"iot\" or \"smartphone\"");
}

static ft_status read_pair(json_t *object, ft_error *err, ft_edgellm_pair *out)
{
    const json_t *datasets = json_object_get(object, "datasets");
    json_t *memory = json_object_get(object, "memory");
    const size_t n = json_array_size(datasets);
    ft_status status =
        check_keys(object, "pairs", " name device class constants memory datasets ", err);
    if (status == FT_OK)
        status = read_name(object, "pairs", err, out->name);
    if (status == FT_OK)
        status = read_class(object, err, &out->class);
    if (status == FT_OK)
        status =
            ft_sim_constants_parse(object, time_range, FT_EDGELLM_TIMES, err, out->s, out->open);
    if (status == FT_OK && memory)
        status = read_memory(memory, err, &out->memory);
    if (status == FT_OK && (n < 1 || n > FT_EDGELLM_DATASETS))
        status = ft_error_set(err, FT_INVALID, "%s: 'datasets' is missing or no list of 1 to %d",
                              out->name, FT_EDGELLM_DATASETS);
    for (size_t i = 0; i < n && status == FT_OK; i++)
        status = read_dataset(json_array_get(datasets, i), err, &out->dataset[out->n_datasets++]);
    return status;
}

static ft_status read_pairs(const json_t *root, ft_error *err, ft_edgellm_config *out)
{
    const json_t *pairs = json_object_get(root, "pairs");
    const size_t n = json_array_size(pairs);
    ft_status status = FT_OK;
    if (n < 1 || n > FT_EDGELLM_PAIRS)
        return ft_error_set(err, FT_INVALID, "'pairs' is missing or no list of 1 to %d",
                            FT_EDGELLM_PAIRS);
    for (size_t i = 0; i < n && status == FT_OK; i++)
        status = read_pair(json_array_get(pairs, i), err, &out->pair[out->n_pairs++]);
    return status;
}

/* ---- what methods choose from ---- */

/* Rows of 1 to FT_GROW_LEVELS widths, FT_TREE_MAX nodes at most. */
static bool read_row(const json_t *row, ft_edgellm_widths *out)
{
    const size_t n = json_array_size(row);
    double level = 1, nodes = 0;
    bool good = n >= 1 && n <= FT_GROW_LEVELS;
    for (size_t i = 0; i < n && good; i++) {
        const json_t *item = json_array_get(row, i);
        const json_int_t width = json_integer_value(item);
        good = json_is_integer(item) && width >= 1 && width <= FT_DRAFT_RANKED;
        if (good)
            out->children[i] = (uint8_t)width;
        level *= (double)width;
        nodes += level;
    }
    return good && nodes <= FT_TREE_MAX;
}

static ft_status read_widths(const json_t *root, ft_error *err, ft_edgellm_config *out)
{
    json_t *field = json_object_get(root, "widths");
    const json_t *list = json_object_get(field, "value");
    const size_t n = json_array_size(list);
    bool open, good = n >= 1 && n <= FT_EDGELLM_LIST;
    ft_status status = check_keys(field, "widths", " value why open ", err);
    if (status != FT_OK)
        return status;
    for (size_t i = 0; i < n && good; i++)
        good = read_row(json_array_get(list, i), &out->widths[out->n_widths++]);
    if (!good)
        return ft_error_set(err, FT_INVALID,
                            "widths: 'value' is missing or not 1 to %d lists, each of 1 to %d "
                            "widths from 1 to %d, which make %d nodes at most",
                            FT_EDGELLM_LIST, FT_GROW_LEVELS, FT_DRAFT_RANKED, FT_TREE_MAX);
    return ft_sim_reason_parse(field, "widths", err, &open);
}

static ft_status read_choices(const json_t *root, ft_error *err, ft_edgellm_config *out)
{
    const ft_sim_constant lengths = {"lengths", true, 1, 64},
                          trees = {"trees", true, 1, FT_TREE_MAX},
                          alphas = {"alphas", false, (double)FT_FALLBACK_LEAST * 2,
                                    (double)FT_FALLBACK_MOST};
    ft_status status = read_list(root, &lengths, err, out->lengths, &out->n_lengths);
    if (status == FT_OK)
        status = read_list(root, &trees, err, out->trees, &out->n_trees);
    if (status == FT_OK)
        status = read_list(root, &alphas, err, out->alphas, &out->n_alphas);
    return status == FT_OK ? read_widths(root, err, out) : status;
}

/* ---- the whole file ---- */

ft_status ft_edgellm_config_parse(const json_t *root, ft_error *err, ft_edgellm_config *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    *out = (ft_edgellm_config){0};
    if (!kind || strcmp(kind, FT_EDGELLM_CONFIG_KIND) != 0)
        return ft_error_set(err, FT_INVALID,
                            "'kind' is missing or not \"" FT_EDGELLM_CONFIG_KIND "\"");
    ft_status status = check_keys((json_t *)root, "the setting",
                                  " kind about pairs lengths trees alphas widths constants ", err);
    if (status == FT_OK)
        status = read_pairs(root, err, out);
    if (status == FT_OK)
        status = read_choices(root, err, out);
    if (status == FT_OK)
        status = ft_sim_constants_parse(root, range, FT_EDGELLM_CONSTS, err, out->k, out->open);
    return status;
}

ft_status ft_edgellm_config_load(const char *path, ft_error *err, ft_edgellm_config *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_edgellm_config){0};
    ft_status status = ft_json_load(path, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "simulate: %s", why.message);
    status = ft_edgellm_config_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK
                           : ft_error_set(err, status, "simulate: %s: %s", path, why.message);
}

/* ---- what follows from it ---- */

static double streamed_gb(const ft_edgellm_memory *m, double budget_gb)
{
    return fmin(fmax(m->draft_gb + m->target_gb - budget_gb, 0), m->target_gb);
}

double ft_edgellm_verify_s(const ft_edgellm_config *config, const ft_edgellm_pair *pair,
                           double budget_gb)
{
    const ft_edgellm_memory *m = &pair->memory;
    const double io = config->k[FT_EDGELLM_IO_SHARE];
    const double share = streamed_gb(m, budget_gb) / streamed_gb(m, m->budget_gb);
    return pair->s[FT_EDGELLM_VERIFY_S] * (io * share + (1 - io));
}

static ft_edgellm_knob *add_knob(ft_edgellm_knob *knobs, uint32_t *n, const ft_sim_constant *of,
                                 double *value)
{
    ft_edgellm_knob *knob = &knobs[(*n)++];
    *knob = (ft_edgellm_knob){.value = value,
                              .whole = of->whole,
                              .share = of->most <= 1,
                              .least = of->least,
                              .most = of->most};
    snprintf(knob->name, sizeof knob->name, "%s", of->name);
    return knob;
}

uint32_t ft_edgellm_knobs(ft_edgellm_config *config, ft_edgellm_knob *knobs)
{
    uint32_t n = 0;
    for (int i = 0; i < FT_EDGELLM_CONSTS; i++)
        if (config->open[i] && i != FT_EDGELLM_TEXTS && i != FT_EDGELLM_TEXT_TOK)
            add_knob(knobs, &n, &range[i], &config->k[i]);
    for (uint32_t i = 0; i < config->n_pairs; i++) {
        ft_edgellm_pair *pair = &config->pair[i];
        for (int k = 0; k < FT_EDGELLM_TIMES; k++)
            if (pair->open[k]) {
                ft_edgellm_knob *knob = add_knob(knobs, &n, &time_range[k], &pair->s[k]);
                snprintf(knob->name, sizeof knob->name, "%s of %s", time_range[k].name, pair->name);
            }
        for (uint32_t k = 0; k < pair->n_datasets; k++)
            if (pair->dataset[k].open) {
                ft_edgellm_knob *knob =
                    add_knob(knobs, &n, &correctness_range, &pair->dataset[k].correctness);
                snprintf(knob->name, sizeof knob->name, "correctness of %s", pair->dataset[k].name);
            }
    }
    return n;
}

void ft_edgellm_knob_turn(const ft_edgellm_knob *knob, double factor)
{
    double value = *knob->value * factor;
    if (knob->share && factor > 1)
        value = 1 - (1 - *knob->value) / factor;
    if (knob->whole)
        value = round(value);
    *knob->value = fmin(fmax(value, knob->least), knob->most);
}
