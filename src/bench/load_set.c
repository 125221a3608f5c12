// SPDX-License-Identifier: Apache-2.0
// Prompts for the serving comparison: read, put into the model's chat format, as tokens. Long ones
// are left out, not cut: half a question is another task.
#include "bench/load_set.h"
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

/* The category of that name, n_categories: there is none. */
static uint32_t find_category(const ft_bench_load_set *set, const char *name)
{
    uint32_t i = 0;
    while (i < set->n_categories &&
           strncmp(set->category[i], name, sizeof set->category[i] - 1) != 0)
        i++;
    return i;
}

static uint32_t category_of(ft_bench_load_set *set, const char *name)
{
    uint32_t i = find_category(set, name = name[0] ? name : "other");
    if (i == set->n_categories && i >= FT_BENCH_LOAD_CATEGORIES - 1)
        i = find_category(set, name = "other");
    if (i == set->n_categories)
        strncpy(set->category[set->n_categories++], name, sizeof set->category[i] - 1);
    return i;
}

void ft_bench_load_set_deinit(ft_bench_load_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        ft_tokens_deinit(&set->prompts[i].tokens);
        ft_tokens_deinit(&set->prompts[i].text);
    }
    free(set->prompts);
    *set = (ft_bench_load_set){0};
}

/* Appends the prompt if it is short enough. */
static ft_status take(ft_bench_load_set *set, const ft_bench_load_set_opts *o,
                      const ft_bench_prompt *prompt, ft_error *err)
{
    ft_bench_load_prompt *p = &set->prompts[set->n];
    ft_status status = ft_template_ask(o->vocab, prompt->text, err, &p->tokens);
    if (status != FT_OK)
        return status;
    if (p->tokens.n > o->longest || p->tokens.n < o->shortest) {
        ft_tokens_deinit(&p->tokens);
        *p = (ft_bench_load_prompt){0};
        set->skipped++;
        return FT_OK;
    }
    p->category = category_of(set, prompt->category);
    p->number = set->n++;
    return FT_OK;
}

/* Keeps `most` <= n of the n prompts at `from`, evenly spread, and moves them behind those that are
 * kept; frees the tokens of the others. *n_kept <= from. */
static void keep(ft_bench_load_set *set, uint32_t from, uint32_t n, uint32_t most, uint32_t *n_kept)
{
    for (uint32_t i = 0, k = 0; i < n; i++) {
        ft_bench_load_prompt p = set->prompts[from + i];
        set->prompts[from + i] = (ft_bench_load_prompt){0};
        if (k < most && i >= (uint64_t)k * n / most) {
            set->prompts[(*n_kept)++] = p;
            k++;
        } else {
            ft_tokens_deinit(&p.tokens);
        }
    }
}

static int by_category(const void *a, const void *b)
{
    const ft_bench_load_prompt *x = a, *y = b;
    if (x->category != y->category)
        return x->category < y->category ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Keeps so many of each category, in multiples, one category behind the other. */
static void thin_each(ft_bench_load_set *set, const ft_bench_load_set_opts *o)
{
    uint32_t n = 0, end;
    qsort(set->prompts, set->n, sizeof *set->prompts, by_category);
    for (uint32_t at = 0; at < set->n; at = end) {
        for (end = at; end < set->n && set->prompts[end].category == set->prompts[at].category;)
            end++;
        uint32_t most = end - at < o->each ? end - at : o->each;
        keep(set, at, end - at, most - most % o->multiple, &n);
    }
    set->n = n;
}

/* Keeps what is asked for. */
static void thin(ft_bench_load_set *set, const ft_bench_load_set_opts *o)
{
    uint32_t n = 0, most = o->limit && o->limit < set->n ? o->limit : set->n;
    if (o->each) {
        thin_each(set, o);
    } else {
        keep(set, 0, set->n, most - most % o->multiple, &n);
        set->n = n;
    }
}

static void count(ft_bench_load_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t length = (uint32_t)set->prompts[i].tokens.n;
        set->longest = length > set->longest ? length : set->longest;
        set->total += length;
    }
}

ft_status ft_bench_load_set_read(const ft_bench_load_set_opts *o, ft_error *err,
                                 ft_bench_load_set *out)
{
    ft_bench_prompts prompts = {0};
    *out = (ft_bench_load_set){0};
    ft_status status = ft_bench_prompts_load(o->path, 0, err, &prompts);
    if (status != FT_OK)
        return status;
    out->prompts = calloc(prompts.n, sizeof *out->prompts);
    if (!out->prompts)
        status = ft_error_set(err, FT_NOMEM, "out of memory for prompts");
    for (size_t i = 0; i < prompts.n && status == FT_OK; i++)
        status = take(out, o, &prompts.items[i], err);
    ft_bench_prompts_deinit(&prompts);
    if (status == FT_OK) {
        thin(out, o);
        count(out);
        if (out->n == 0)
            status = ft_error_set(err, FT_INVALID,
                                  "%s: fewer than %u prompts of %u to %u tokens: pass more of "
                                  "them, or a smaller --batch",
                                  o->path, o->multiple, o->shortest, o->longest);
    }
    if (status != FT_OK)
        ft_bench_load_set_deinit(out);
    return status;
}

void ft_bench_load_values_add(ft_bench_load_values *values, double v)
{
    if (values->n == values->cap) {
        size_t cap = values->cap ? 2 * values->cap : 64;
        double *grown = realloc(values->v, cap * sizeof *grown);
        if (!grown) {
            values->failed = true;
            return;
        }
        values->v = grown;
        values->cap = cap;
    }
    values->v[values->n++] = v;
}

void ft_bench_load_values_join(ft_bench_load_values *values, const ft_bench_load_values *more)
{
    for (size_t i = 0; i < more->n; i++)
        ft_bench_load_values_add(values, more->v[i]);
    values->failed = values->failed || more->failed;
}

void ft_bench_load_values_deinit(ft_bench_load_values *values)
{
    free(values->v);
    *values = (ft_bench_load_values){0};
}

double ft_bench_load_values_mean(const ft_bench_load_values *values)
{
    double sum = 0;
    for (size_t i = 0; i < values->n; i++)
        sum += values->v[i];
    return values->n ? sum / (double)values->n : 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ft_bench_load_values_quantile(ft_bench_load_values *values, double q)
{
    if (values->n == 0)
        return 0;
    qsort(values->v, values->n, sizeof *values->v, by_value);
    size_t at = (size_t)(q * (double)values->n);
    return values->v[at < values->n ? at : values->n - 1];
}
