// SPDX-License-Identifier: Apache-2.0
// `bench ablate`: which changes are made, and what they change. The same lives are lived with a
// change and without it: same texts, same network, same load. So the difference within a pair is
// the change's, and the interval is Student's over pairs. A change is tried in a condition until
// its effect is known well enough, or until it has been lived as often as is allowed.
//
// Invariant: outside live() the program's constants are its own. One thread.
#include "bench/ablate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/ablate_cases.h"
#include "bench/ablate_regret.h"
#include "bench/ablate_texts.h"
#include "edge/tuning.h"
#include "sched/tuning.h"
#include "sim/wisp.h"
#include "spec/tuning.h"

#define LIVES          FT_BENCH_ABLATE_LIVES
#define FIRST          4     /* lives before it may end */
#define ENOUGH         0.004 /* half of an interval that is narrow enough */
#define WORTH          0.01  /* what changes less than this everywhere earns no place */
#define CONDITIONS_MAX 128
#define FIGURES_MAX    2

/* ---- rooms ---- */

typedef struct room {
    const ft_tuning_table *table;
    void (*use)(const void *values);
    bool server; /* servers' conditions can tell something of it */
} room;

static void use_spec(const void *values)
{
    ft_spec_tune = values;
}

static void use_sched(const void *values)
{
    ft_sched_tune = values;
}

static void use_edge(const void *values)
{
    ft_edge_tune = values;
}

static const room rooms[] = {{&ft_spec_tuning_table, use_spec, false},
                             {&ft_edge_tuning_table, use_edge, false},
                             {&ft_sched_tuning_table, use_sched, true}};

static double value_of(const void *values, const ft_tuning_item *item)
{
    const char *at = (const char *)values + item->offset;
    return item->type == FT_TUNING_REAL     ? *(const double *)(const void *)at
           : item->type == FT_TUNING_SINGLE ? (double)*(const float *)(const void *)at
                                            : *(const uint32_t *)(const void *)at;
}

static void set_value(void *values, const ft_tuning_item *item, double value)
{
    char *at = (char *)values + item->offset;
    if (item->type == FT_TUNING_REAL)
        *(double *)(void *)at = value;
    else if (item->type == FT_TUNING_SINGLE)
        *(float *)(void *)at = (float)value;
    else
        *(uint32_t *)(void *)at = (uint32_t)(value + 0.5);
}

static double scaled(const ft_tuning_item *item, double value, double times)
{
    return item->way == FT_TUNING_FROM_ONE ? 1 + (value - 1) * times : value * times;
}

/* ---- conditions ---- */

/* An edge's, a server's, or one of a server's part. */
typedef struct condition {
    const char *name, *what;
    const ft_ablate_case *edge; /* of these three, two are NULL */
    const ft_ablate_crowd *crowd;
    const ft_ablate_part *part;
    uint32_t n_figures;
} condition;

static const char *const edge_figures[] = {"tokens_per_s"};
static const char *const crowd_figures[] = {"tokens_per_s", "texts_on_time"};
/* With admission. The first one counts whole texts that kept their promise. */
static const char *const admit_figures[] = {"kept_tokens_per_s", "texts_on_time"};

static bool admits(const ft_ablate_crowd *crowd)
{
    bool is = false;
    for (size_t i = 0; i < FT_COUNT(crowd->change); i++)
        is = is || (crowd->change[i].which == FT_SIM_ADMISSION_MS && crowd->change[i].value > 0);
    return is;
}

/* Of one life. */
typedef struct figures {
    double of[FIGURES_MAX];
} figures;

typedef struct ablate {
    const ft_bench_ablate_opts *opts;
    ft_ablate_texts texts;
    ft_sim_config config;
    condition condition[CONDITIONS_MAX];
    uint32_t n_conditions;
    figures base[CONDITIONS_MAX][LIVES];
    uint32_t n_base[CONDITIONS_MAX];
    json_t *rows;
} ablate;

static bool is_wanted(const ablate *a, const char *name)
{
    const size_t n = strlen(name);
    const char *at = a->opts->conditions;
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == 0 || at[n] == ','))
            return true;
    return !a->opts->conditions;
}

static void add_condition(ablate *a, condition c)
{
    if (is_wanted(a, c.name))
        a->condition[a->n_conditions++] = c;
}

static void find_conditions(ablate *a)
{
    for (size_t i = 0; a->opts->target && i < ft_ablate_n_cases; i++) {
        const ft_ablate_case *edge = &ft_ablate_cases[i];
        add_condition(
            a, (condition){.name = edge->name, .what = edge->what, .edge = edge, .n_figures = 1});
    }
    for (size_t i = 0; a->opts->config && i < ft_ablate_n_crowds; i++) {
        const ft_ablate_crowd *crowd = &ft_ablate_crowds[i];
        add_condition(
            a,
            (condition){.name = crowd->name, .what = crowd->what, .crowd = crowd, .n_figures = 2});
    }
    for (size_t i = 0; i < ft_ablate_n_parts; i++) {
        const ft_ablate_part *part = &ft_ablate_parts[i];
        add_condition(
            a, (condition){.name = part->name, .what = part->what, .part = part, .n_figures = 1});
    }
}

static ft_status live_edge(ablate *a, const ft_ablate_case *how, uint64_t seed, ft_error *err,
                           figures *out)
{
    const ft_ablate_world_opts world = ft_ablate_texts_world(&a->texts, how);
    ft_ablate_life life;
    ft_status status = ft_ablate_live(&world, how, seed, err, &life);
    out->of[0] = life.us > 0 ? life.tokens / life.us * 1e6 : 0;
    return status;
}

static ft_status live_crowd(ablate *a, const ft_ablate_crowd *how, uint64_t seed, ft_error *err,
                            figures *out)
{
    ft_sim_config config = a->config;
    ft_sim_result result;
    for (size_t i = 0; i < FT_COUNT(how->change); i++)
        if (how->change[i].value > 0)
            config.k[how->change[i].which] = how->change[i].value;
    ft_sim_opts opts = {.config = &config,
                        .mode = FT_SIM_MODE_WISP,
                        .n_devices = how->devices,
                        .class = how->class,
                        .seed = seed};
    ft_sim_wisp_times(&opts);
    if (how->cost_us)
        memcpy(config.costs.us, how->cost_us, sizeof config.costs.us);
    if (how->rises)
        opts.from_us = 0;
    ft_status status = ft_sim_wisp_run(&opts, err, &result);
    if (status != FT_OK)
        return status;
    double texts = 1, slow = 0;
    for (size_t i = 0; i < config.n_classes; i++) {
        texts += (double)result.texts[i];
        slow += (double)result.slow[i];
    }
    out->of[0] = (double)(admits(how) ? result.kept_tokens : result.tokens) /
                 (double)result.counted_us * 1e6;
    out->of[1] = (texts - slow) / texts;
    return FT_OK;
}

static ft_status live(ablate *a, uint32_t which, uint64_t seed, ft_error *err, figures *out)
{
    const condition *c = &a->condition[which];
    if (a->opts->stop && a->opts->stop())
        return ft_error_set(err, FT_CANCELLED, "bench ablate: stopped");
    if (c->part)
        return c->part->live(c->part->how, seed, err, &out->of[0]);
    return c->edge ? live_edge(a, c->edge, seed, err, out)
                   : live_crowd(a, c->crowd, seed, err, out);
}

/* ---- effects ---- */

/* Of a change on a figure: relative, as logarithms. */
typedef struct effect {
    uint32_t n;                        /* lives */
    double sum, square, with, without; /* the last two: the figure, summed over lives */
    double mean, half;                 /* half of the 95 % interval */
} effect;

/* Student's t, two-sided 95 %, for n - 1 degrees of freedom. */
static double student(uint32_t n)
{
    static const double t[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
    return n - 2 < FT_COUNT(t) ? t[n - 2] : 1.96 + 2.6 / (n - 1);
}

static void add(effect *e, double with, double without)
{
    const uint32_t n = ++e->n;
    double off = log(fmax(with, 1e-6) / fmax(without, 1e-6));
    e->with += with;
    e->without += without;
    e->sum += off;
    e->square += off * off;
    e->mean = e->sum / n;
    e->half =
        n < 2 ? INFINITY : student(n) * sqrt(fmax(e->square - e->sum * e->mean, 0) / (n - 1) / n);
}

/* Nothing more is to be learnt: the effect is known, or is surely worth a place. */
static bool is_known(const effect *e)
{
    return e->half < ENOUGH || fabs(e->mean) - e->half > WORTH || fabs(e->mean) + e->half < WORTH;
}

/* The constants in use are the changed ones of that room. */
static ft_status measure(ablate *a, uint32_t which, const room *r, const void *changed,
                         ft_error *err, effect out[FIGURES_MAX])
{
    const condition *c = &a->condition[which];
    ft_status status = FT_OK;
    bool known = false;
    memset(out, 0, FIGURES_MAX * sizeof *out);
    for (uint32_t n = 0; n < (uint32_t)a->opts->lives && !(known && n >= FIRST); n++) {
        figures with;
        if (a->n_base[which] == n) {
            status = live(a, which, n, err, &a->base[which][n]);
            a->n_base[which]++;
        }
        r->use(changed);
        if (status == FT_OK)
            status = live(a, which, n, err, &with);
        r->use(r->table->values);
        if (status != FT_OK)
            break;
        known = true;
        for (uint32_t i = 0; i < c->n_figures; i++) {
            add(&out[i], with.of[i], a->base[which][n].of[i]);
            known &= is_known(&out[i]);
        }
    }
    return status;
}

/* ---- rows ---- */

/* What is changed, and how it is called. */
typedef struct ablation {
    const room *room;
    const char *name, *how; /* "group.name" */
    const void *values;
} ablation;

static void report(ablate *a, const ablation *b, const condition *c, const effect *e,
                   const char *figure)
{
    const uint32_t n = e->n;
    const char *dot = strchr(b->name, '.');
    bool keep = fabs(e->mean) + e->half >= WORTH;
    json_t *row =
        json_pack("{s:s, s:s%, s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:i, s:b}", "room",
                  b->room->table->room, "group", b->name, (size_t)(dot - b->name), "name", dot + 1,
                  "change", b->how, "condition", c->name, "figure", figure, "changed", e->with / n,
                  "baseline", e->without / n, "effect_percent", 100 * expm1(e->mean), "low",
                  100 * expm1(e->mean - e->half), "high", 100 * expm1(e->mean + e->half), "lives",
                  (int)n, "keep", keep);
    if (row && a->opts->on_row)
        a->opts->on_row(a->opts->ctx, row);
    json_array_append_new(a->rows, row);
}

/* Whether the condition can tell something of what is changed. */
static bool matters(const ablation *b, const condition *c)
{
    const size_t n = strcspn(b->name, ".");
    if (c->edge)
        return true;
    if (c->crowd)
        return b->room->server;
    return b->room->server && strlen(c->part->group) == n && !strncmp(b->name, c->part->group, n);
}

static ft_status try_ablation(ablate *a, const ablation *b, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < a->n_conditions && status == FT_OK; i++) {
        const condition *c = &a->condition[i];
        effect e[FIGURES_MAX];
        if (!matters(b, c))
            continue;
        status = measure(a, i, b->room, b->values, err, e);
        for (uint32_t k = 0; status == FT_OK && k < c->n_figures; k++)
            report(a, b, c, &e[k],
                   c->part            ? c->part->figure
                   : c->edge          ? edge_figures[k]
                   : admits(c->crowd) ? admit_figures[k]
                                      : crowd_figures[k]);
    }
    return status;
}

static const ft_tuning_item *item_of(const ft_tuning_table *t, const char *name, size_t n)
{
    for (size_t i = 0; i < t->n; i++)
        if (strlen(t->items[i].name) == n && strncmp(t->items[i].name, name, n) == 0)
            return &t->items[i];
    return NULL;
}

static void *copy_of(const ft_tuning_table *t)
{
    void *values = malloc(t->bytes);
    return values ? memcpy(values, t->values, t->bytes) : NULL;
}

static ft_status halve_and_double(ablate *a, const room *r, const ft_tuning_item *item,
                                  ft_error *err)
{
    void *changed = copy_of(r->table);
    const double value = value_of(r->table->values, item);
    ft_status status = changed ? FT_OK : ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    for (int i = 0; i < 2 && status == FT_OK; i++) {
        const ablation b = {r, item->name, i ? "double" : "half", changed};
        set_value(changed, item, scaled(item, value, i ? 2 : 0.5));
        status = try_ablation(a, &b, err);
    }
    free(changed);
    return status;
}

static ft_status switch_off(ablate *a, const room *r, const ft_ablate_mechanism *m, ft_error *err)
{
    char name[64];
    void *changed = copy_of(r->table);
    ft_status status = changed ? FT_OK : ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    for (const char *at = m->off; at && status == FT_OK;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t n = strcspn(at, "=");
        const ft_tuning_item *item = item_of(r->table, at, n);
        if (item)
            set_value(changed, item, strtod(at + n + 1, NULL));
        else
            status = ft_error_set(err, FT_INTERNAL, "bench ablate: no constant %s", at);
    }
    snprintf(name, sizeof name, "%s.%s", m->group, m->name);
    const ablation b = {r, name, "off", changed};
    if (status == FT_OK)
        status = try_ablation(a, &b, err);
    free(changed);
    return status;
}

/* ---- all ---- */

static bool is_asked_for(const ablate *a, const char *in, const char *group, const char *name)
{
    char full[128];
    const char *at = a->opts->only;
    snprintf(full, sizeof full, "%s.%s.%s", in, group, name);
    for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char part[64];
        snprintf(part, sizeof part, "%.*s", (int)strcspn(at, ","), at);
        if (strstr(full, part))
            return true;
    }
    return !a->opts->only;
}

static ft_status all_of(ablate *a, const room *r, ft_error *err)
{
    const ft_tuning_table *t = r->table;
    ft_status status = FT_OK;
    for (size_t i = 0; i < ft_ablate_n_mechanisms && status == FT_OK; i++) {
        const ft_ablate_mechanism *m = &ft_ablate_mechanisms[i];
        if (strcmp(m->room, t->room) == 0 && is_asked_for(a, m->room, m->group, m->name))
            status = switch_off(a, r, m, err);
    }
    for (size_t i = 0; i < t->n && status == FT_OK; i++) {
        const char *dot = strchr(t->items[i].name, '.');
        char group[32];
        snprintf(group, sizeof group, "%.*s", (int)(dot - t->items[i].name), t->items[i].name);
        if (is_asked_for(a, t->room, group, dot + 1))
            status = halve_and_double(a, r, &t->items[i], err);
    }
    return status;
}

static ft_status regrets(ablate *a, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < a->n_conditions && status == FT_OK; i++) {
        const ft_ablate_case *edge = a->condition[i].edge;
        json_t *row = NULL;
        if (!edge)
            continue;
        status = ft_ablate_regret(&a->texts, edge, a->opts->lives, a->opts->stop, err, &row);
        if (row && a->opts->on_row)
            a->opts->on_row(a->opts->ctx, row);
        if (row)
            json_array_append_new(a->rows, row);
    }
    if (status == FT_OK && json_array_size(a->rows) == 0)
        return ft_error_set(err, FT_INVALID,
                            "bench ablate: --regret is about edges' conditions: name one of them");
    return status;
}

static json_t *conditions_json(const ablate *a)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->n_conditions; i++) {
        const condition *c = &a->condition[i];
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", c->name, "what", c->what));
    }
    return list;
}

static ft_status run(ablate *a, ft_error *err)
{
    const ft_bench_ablate_opts *o = a->opts;
    ft_status status = FT_OK;
    find_conditions(a);
    if (a->n_conditions == 0)
        return ft_error_set(err, FT_INVALID,
                            "bench ablate: no such conditions: pass -m, -md and --prompts for "
                            "edges', --config for servers', none for those of a server's parts");
    if (o->target)
        status = ft_ablate_texts_make(o, err, &a->texts);
    if (status == FT_OK && o->config)
        status = ft_sim_config_load(o->config, err, &a->config);
    if (status == FT_OK && o->regret)
        return regrets(a, err);
    for (size_t i = 0; i < FT_COUNT(rooms) && status == FT_OK; i++)
        status = all_of(a, &rooms[i], err);
    if (status == FT_OK && json_array_size(a->rows) == 0)
        status = ft_error_set(err, FT_INVALID,
                              "bench ablate: no constant or mechanism is called "
                              "%s: pass --only a room, a group or a part of a name",
                              o->only);
    return status;
}

ft_status ft_bench_ablate(const ft_bench_ablate_opts *opts, ft_error *err, json_t **out)
{
    ablate *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a)
        return ft_error_set(err, FT_NOMEM, "bench ablate: out of memory");
    a->opts = opts;
    a->rows = json_array();
    ft_status status = run(a, err);
    if (status == FT_OK)
        *out = json_pack("{s:o, s:O}", "conditions", conditions_json(a), "rows", a->rows);
    json_decref(a->rows);
    if (opts->target)
        ft_ablate_texts_deinit(&a->texts);
    free(a);
    return status;
}
