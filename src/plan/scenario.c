// SPDX-License-Identifier: Apache-2.0
// Reads a scenario. If a field is missing, unknown, of another type or out of range, the error
// names the line and the field, and says what it may be. Stateless.
#include "plan/scenario.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "base/num.h"
#include "base/sort.h"
#include "base/text.h"
#include "plan/memory.h"
#include "plan/where.h"

#define DEPTH 3 /* tasks, number, field */

/* A number of an object. */
typedef struct number {
    const char *name;
    double least, most;
    bool whole;
    double otherwise; /* if it is missing; NAN: it must be there */
} number;

/* An object in the text. */
typedef struct place {
    const char *text;
    ft_plan_step steps[DEPTH];
    size_t n;
} place;

static place inside(const place *outer, const char *key, size_t index)
{
    place in = *outer;
    in.steps[in.n++] = (ft_plan_step){key, index};
    return in;
}

/* "line 7: tasks[2].input: " and what is wrong with it. */
static ft_status bad(const place *object, const char *key, ft_error *err, const char *what)
{
    char name[160] = "";
    size_t n = 0;
    const place at = key ? inside(object, key, 0) : *object;
    for (size_t i = 0; i < at.n; i++) {
        const ft_plan_step *s = &at.steps[i];
        n += (size_t)(s->key ? snprintf(name + n, sizeof name - n, "%s%.60s", i ? "." : "", s->key)
                             : snprintf(name + n, sizeof name - n, "[%zu]", s->index));
    }
    ft_utf8_line(name); /* a key may have control characters */
    return ft_error_set(err, FT_INVALID, "line %zu: %s%s%s", ft_plan_line(at.text, at.steps, at.n),
                        name, n ? ": " : "", what);
}

static ft_status read_number(const place *at, const json_t *object, const number *of, ft_error *err,
                             double *out)
{
    const json_t *value = json_object_get(object, of->name);
    char what[128];
    *out = value ? json_number_value(value) : of->otherwise;
    if (!value && !isnan(of->otherwise))
        return FT_OK;
    if (json_is_number(value) && isfinite(*out) && *out >= of->least && *out <= of->most &&
        (!of->whole || *out == floor(*out)))
        return FT_OK;
    snprintf(what, sizeof what, "is %s a %snumber from %.10g to %.10g",
             value ? "not" : "missing: it must be", of->whole ? "whole " : "", of->least, of->most);
    return bad(at, of->name, err, what);
}

/* The numbers of an object, and its other keys, separated by blanks, with one at both ends. */
typedef struct fields {
    const number *numbers; /* [n] */
    size_t n;
    const char *others;
} fields;
#define FIELDS(table, others)              \
    &(const fields)                        \
    {                                      \
        (table), FT_COUNT(table), (others) \
    }

/* out: [f->n]. */
static ft_status read_object(const place *at, json_t *object, const fields *f, ft_error *err,
                             double *out)
{
    const char *key;
    json_t *value;
    ft_status status = FT_OK;
    if (!json_is_object(object))
        return bad(at, NULL, err, "is missing or not an object");
    json_object_foreach(object, key, value)
    {
        char name[64];
        bool known = false;
        for (size_t i = 0; i < f->n; i++)
            known = known || strcmp(key, f->numbers[i].name) == 0;
        snprintf(name, sizeof name, " %.60s ", key);
        if (!known && (strchr(key, ' ') || !strstr(f->others, name)))
            return bad(at, key, err, "there is no such field");
    }
    for (size_t i = 0; i < f->n && status == FT_OK; i++)
        status = read_number(at, object, &f->numbers[i], err, &out[i]);
    return status;
}

/* ---- stations ---- */

typedef struct station {
    ft_plan_model model;
    double memory_bytes;
    bool timed;
} station;

static ft_status read_station(const place *root, const json_t *scenario, const char *key,
                              ft_error *err, station *out)
{
    static const number table[] = {
        {"layers", 1, 1000, true, NAN}, {"hidden", 1, 1e6, true, NAN},
        {"ffn", 1, 1e7, true, NAN},     {"c1", 0, 1, false, 0},
        {"c2", 0, 1e4, false, 0},       {"memory_gb", 1e-6, 1e9, false, 0}};
    const place at = inside(root, key, 0);
    json_t *object = json_object_get(scenario, key);
    double x[FT_COUNT(table)];
    ft_status status = read_object(&at, object, FIELDS(table, " model "), err, x);
    const bool c1 = json_object_get(object, "c1"), c2 = json_object_get(object, "c2");
    if (status == FT_OK && c1 != c2)
        status = bad(&at, NULL, err, "has only one of c1 and c2");
    if (status == FT_OK)
        *out = (station){{(uint32_t)x[0], x[1], x[2], x[3], x[4]}, x[5] * 1e9, c1};
    return status;
}

static ft_status read_stations(const place *root, const json_t *scenario, ft_error *err,
                               ft_plan_scenario *out)
{
    station draft, verify;
    ft_status status = read_station(root, scenario, "draft", err, &draft);
    if (status == FT_OK)
        status = read_station(root, scenario, "verify", err, &verify);
    if (status != FT_OK)
        return status;
    out->pair = (ft_plan_pair){draft.model, verify.model};
    out->draft_memory_bytes = draft.memory_bytes;
    out->verify_memory_bytes = verify.memory_bytes;
    out->timed[0] = draft.timed;
    out->timed[1] = verify.timed;
    return FT_OK;
}

/* ---- the uplink ---- */

/* How inputs come in: at a rate that all share, or by radio. */
typedef struct uplink {
    ft_plan_radio radio; /* bandwidth_hz 0: none */
    double rate_bits_s;
} uplink;

static ft_status read_uplink(const place *root, json_t *object, ft_error *err,
                             ft_plan_scenario *out, uplink *link)
{
    static const number table[] = {{"rate_mbit_s", 1e-6, 1e9, false, 0},
                                   {"bandwidth_mhz", 1e-3, 1e6, false, 0},
                                   {"power_w", 1e-9, 1e6, false, 0},
                                   {"noise_dbm", -300, 100, false, 1000},
                                   {"payload_bits", 0, 1e9, false, -1}};
    const place at = inside(root, "uplink", 0);
    double x[FT_COUNT(table)];
    ft_status status = read_object(&at, object, FIELDS(table, " "), err, x);
    if (status != FT_OK)
        return status;
    const bool rate = x[0] > 0, radio = x[1] > 0 || x[2] > 0 || x[3] < 1000;
    if (rate == radio || (radio && (x[1] == 0 || x[2] == 0 || x[3] == 1000)))
        return bad(&at, NULL, err,
                   "has neither rate_mbit_s nor bandwidth_mhz with power_w and noise_dbm, or both");
    link->rate_bits_s = x[0] * 1e6;
    link->radio = (ft_plan_radio){x[1] * 1e6, x[2], ft_plan_dbm_w(x[3])};
    out->payload_bits =
        x[4] >= 0 ? x[4] : ft_plan_embedding_bits(out->pair.draft.hidden, out->pair.verify.hidden);
    return FT_OK;
}

/* ---- tasks ---- */

static ft_status read_id(const place *at, const json_t *object, ft_error *err,
                         char out[FT_PLAN_ID_MAX + 1])
{
    const char *id = json_string_value(json_object_get(object, "id"));
    bool good = id && *id && strlen(id) <= FT_PLAN_ID_MAX;
    for (const char *p = id; good && *p; p++)
        good = (unsigned char)*p >= ' ' && *p != 127;
    if (!good)
        return bad(at, "id", err, "is missing or not a text of 1 to 64 bytes without line breaks");
    snprintf(out, FT_PLAN_ID_MAX + 1, "%s", id);
    return FT_OK;
}

/* The rate with the whole uplink. A gain is wanted where there is a radio, and only there. */
static ft_status rate_of(const place *at, const json_t *object, const uplink *link,
                         const double gain_and_power[2], ft_error *err, double *out)
{
    ft_plan_radio radio = link->radio;
    const char *extra = json_object_get(object, "gain") ? "gain" : "power_w";
    *out = link->rate_bits_s;
    if (radio.bandwidth_hz == 0)
        return json_object_get(object, extra)
                   ? bad(at, extra, err, "is for an uplink with bandwidth_mhz")
                   : FT_OK;
    if (gain_and_power[0] == 0)
        return bad(at, "gain", err, "is missing: it must be a number from 1e-30 to 1e+06");
    if (gain_and_power[1] > 0)
        radio.power_w = gain_and_power[1];
    *out = ft_plan_radio_rate(&radio, gain_and_power[0]);
    return *out >= 1e-9 ? FT_OK : bad(at, "gain", err, "is too small: nothing arrives");
}

static ft_status read_task(const place *at, json_t *object, const uplink *link, double context,
                           ft_error *err, ft_plan_task *out)
{
    static const number table[] = {{"input", 1, FT_PLAN_TOK_MAX, true, NAN},
                                   {"output", 1, FT_PLAN_TOK_MAX, true, NAN},
                                   {"release_s", 0, 1e6, false, 0},
                                   {"gain", 1e-30, 1e6, false, 0},
                                   {"power_w", 1e-9, 1e6, false, 0}};
    double x[FT_COUNT(table)];
    char what[96];
    ft_status status = read_object(at, object, FIELDS(table, " id "), err, x);
    if (status == FT_OK && x[0] + x[1] > context) {
        snprintf(what, sizeof what, "with the output it is %.0f tokens: the context has %.0f",
                 x[0] + x[1], context);
        status = bad(at, "input", err, what);
    }
    if (status == FT_OK)
        status = rate_of(at, object, link, x + 3, err, &out->rate_bits_s);
    out->in_tok = (uint32_t)x[0];
    out->out_tok = (uint32_t)x[1];
    out->release_s = x[2];
    return status;
}

static bool id_before(const void *ctx, const void *a, const void *b)
{
    const ft_plan_task *tasks = ctx;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const int order = strcmp(tasks[i].id, tasks[k].id);
    return order != 0 ? order < 0 : i < k;
}

static ft_status check_ids(const place *tasks, const ft_plan_scenario *s, ft_error *err)
{
    uint32_t *by_id = calloc(s->n, sizeof *by_id);
    ft_status status = by_id ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
    for (uint32_t i = 0; i < s->n && by_id; i++)
        by_id[i] = i;
    if (by_id)
        ft_sort(by_id, s->n, sizeof *by_id, id_before, s->tasks);
    for (uint32_t i = 1; i < s->n && status == FT_OK; i++)
        if (strcmp(s->ids[by_id[i - 1]], s->ids[by_id[i]]) == 0) {
            const place at = inside(tasks, NULL, by_id[i]);
            status = bad(&at, "id", err, "another task has the same");
        }
    free(by_id);
    return status;
}

static ft_status read_tasks(const place *root, const json_t *list, const uplink *link,
                            double context, ft_error *err, ft_plan_scenario *out)
{
    const place at = inside(root, "tasks", 0);
    const size_t n = json_array_size(list);
    ft_status status = FT_OK;
    if (n < 1 || n > FT_PLAN_TASKS_MAX)
        return bad(&at, NULL, err, "is missing or not a list of 1 to 16384 tasks");
    out->tasks = calloc(n, sizeof *out->tasks);
    out->ids = calloc(n, sizeof *out->ids);
    if (!out->tasks || !out->ids)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    for (; out->n < n && status == FT_OK; out->n++) {
        const place task = inside(&at, NULL, out->n);
        json_t *object = json_array_get(list, out->n);
        ft_plan_task *t = &out->tasks[out->n];
        status = read_task(&task, object, link, context, err, t);
        if (status == FT_OK)
            status = read_id(&task, object, err, out->ids[out->n]);
        t->id = out->ids[out->n];
        t->payload_bits = out->payload_bits * t->in_tok;
    }
    return status == FT_OK ? check_ids(&at, out, err) : status;
}

/* ---- the whole file ---- */

static ft_status read_lengths(const place *root, const json_t *object, ft_error *err,
                              ft_plan_scenario *out)
{
    const json_t *list = json_object_get(object, "lengths");
    const json_t *least = json_array_get(list, 0), *most = json_array_get(list, 1);
    const json_int_t a = json_integer_value(least), b = json_integer_value(most);
    if (json_array_size(list) != 2 || !json_is_integer(least) || !json_is_integer(most) || a < 0 ||
        a > b || b > FT_PLAN_LENGTH_MAX)
        return bad(root, "lengths", err,
                   "is missing or not two whole numbers from 0 to 64, the least and the most");
    out->length_least = (uint32_t)a;
    out->length_most = (uint32_t)b;
    return FT_OK;
}

static ft_status read_root(const place *root, json_t *object, ft_error *err, ft_plan_scenario *out)
{
    static const number table[] = {{"acceptance", 0, 1, false, NAN},
                                   {"batch_most", 1, FT_PLAN_TASKS_MAX, true, 0},
                                   {"context", 2, 2e6, true, 2e6}};
    const char *kind = json_string_value(json_object_get(object, "kind"));
    double x[FT_COUNT(table)];
    uplink link = {0};
    if (!kind || strcmp(kind, FT_PLAN_SCENARIO_KIND) != 0)
        return bad(root, "kind", err, "is missing or not \"" FT_PLAN_SCENARIO_KIND "\"");
    ft_status status = read_object(
        root, object, FIELDS(table, " kind about lengths draft verify uplink tasks "), err, x);
    if (status == FT_OK)
        status = read_lengths(root, object, err, out);
    if (status == FT_OK)
        status = read_stations(root, object, err, out);
    if (status == FT_OK)
        status = read_uplink(root, json_object_get(object, "uplink"), err, out, &link);
    if (status == FT_OK)
        status = read_tasks(root, json_object_get(object, "tasks"), &link, x[2], err, out);
    out->acceptance = x[0];
    out->batch_most = (uint32_t)x[1];
    return status;
}

ft_status ft_plan_scenario_parse(const char *text, size_t n, ft_error *err, ft_plan_scenario *out)
{
    const place root = {.text = text};
    json_t *object;
    *out = (ft_plan_scenario){0};
    ft_status status = ft_json_parse(text, n, err, &object);
    if (status == FT_OK)
        status = read_root(&root, object, err, out);
    json_decref(object);
    if (status != FT_OK)
        ft_plan_scenario_deinit(out);
    return status;
}

ft_status ft_plan_scenario_load(const char *path, ft_error *err, ft_plan_scenario *out)
{
    char *text;
    size_t n;
    ft_error why = {0};
    *out = (ft_plan_scenario){0};
    ft_status status = ft_file_read(path, FT_PLAN_SCENARIO_MAX, err, &text, &n);
    if (status != FT_OK)
        return status;
    status = ft_plan_scenario_parse(text, n, &why, out);
    free(text);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}

void ft_plan_scenario_deinit(ft_plan_scenario *s)
{
    free(s->tasks);
    free(s->ids);
    *s = (ft_plan_scenario){0};
}

static ft_plan_memory memory_of(const ft_plan_model *m, double most_bytes)
{
    return (ft_plan_memory){.most_bytes = most_bytes,
                            .model_bytes = ft_plan_weight_bytes(m->layers, m->hidden, m->ffn),
                            .token_bytes = ft_plan_token_bytes(m->layers, m->hidden),
                            .padded = true};
}

ft_plan_problem ft_plan_scenario_problem(const ft_plan_scenario *s)
{
    return (ft_plan_problem){.tasks = s->tasks,
                             .n = s->n,
                             .acceptance = s->acceptance,
                             .length_least = s->length_least,
                             .length_most = s->length_most,
                             .batch_most = s->batch_most,
                             .times = ft_plan_pair_times,
                             .times_ctx = &s->pair,
                             .draft = memory_of(&s->pair.draft, s->draft_memory_bytes),
                             .verify = memory_of(&s->pair.verify, s->verify_memory_bytes)};
}
