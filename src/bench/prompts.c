// SPDX-License-Identifier: Apache-2.0
// Reads prompt files, through jansson. A line without a prompt is an error and is not skipped: a
// benchmark over fewer prompts than its user thinks gives a wrong figure. No state.
#include "bench/prompts.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (1 << 20)

static void deinit_prompt(ft_bench_prompt *p)
{
    free(p->category);
    free(p->text);
}

void ft_bench_prompts_deinit(ft_bench_prompts *prompts)
{
    for (size_t i = 0; i < prompts->n; i++)
        deinit_prompt(&prompts->items[i]);
    free(prompts->items);
    *prompts = (ft_bench_prompts){0};
}

/* Appends the prompt of one parsed line. where: "FILE:LINE". */
static ft_status add(ft_bench_prompts *prompts, const json_t *line, const char *where,
                     size_t number, ft_error *err)
{
    const json_t *turns = json_object_get(line, "turns");
    const char *text = turns ? json_string_value(json_array_get(turns, 0))
                             : json_string_value(json_object_get(line, "prompt"));
    const char *category = json_string_value(json_object_get(line, "category"));
    const json_t *id = json_object_get(line, "question_id");
    if (!text)
        return ft_error_set(
            err, FT_INVALID,
            "%s: no prompt: a line needs \"turns\": [text, ...] or \"prompt\": text", where);
    if (prompts->n % 64 == 0) {
        ft_bench_prompt *items = realloc(prompts->items, (prompts->n + 64) * sizeof *items);
        if (!items)
            return ft_error_set(err, FT_NOMEM, "%s: out of memory", where);
        prompts->items = items;
    }
    ft_bench_prompt *p = &prompts->items[prompts->n++];
    p->question_id = json_is_integer(id) ? (int64_t)json_integer_value(id) : (int64_t)number;
    p->category = strdup(category ? category : "");
    p->text = strdup(text);
    if (!p->category || !p->text)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", where);
    return FT_OK;
}

/* Keeps `most` prompts, evenly spread. */
static void thin(ft_bench_prompts *prompts, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < prompts->n; i++) {
        if (n < most && i >= n * prompts->n / most)
            prompts->items[n++] = prompts->items[i];
        else
            deinit_prompt(&prompts->items[i]);
    }
    prompts->n = n;
}

static ft_status read_lines(FILE *file, const char *path, ft_error *err, ft_bench_prompts *out)
{
    char *line = NULL;
    char where[256];
    size_t cap = 0, number = 0;
    ssize_t n;
    ft_status status = FT_OK;
    while (status == FT_OK && (n = getline(&line, &cap, file)) >= 0) {
        json_error_t why;
        snprintf(where, sizeof where, "%s:%zu", path, ++number);
        if (line[strspn(line, " \t\r\n")] == 0)
            continue;
        json_t *object = n <= LINE_MAX_BYTES ? json_loadb(line, (size_t)n, 0, &why) : NULL;
        if (n > LINE_MAX_BYTES)
            status = ft_error_set(err, FT_TOO_LARGE, "%s: a line of more than 1 MB", where);
        else if (!object)
            status = ft_error_set(err, FT_INVALID, "%s: not JSON: %s", where, why.text);
        else
            status = add(out, object, where, number, err);
        json_decref(object);
    }
    if (status == FT_OK && ferror(file))
        status = ft_error_set(err, FT_IO, "%s: %s", path, strerror(errno));
    free(line);
    return status;
}

ft_status ft_bench_prompts_load(const char *path, size_t most, ft_error *err, ft_bench_prompts *out)
{
    *out = (ft_bench_prompts){0};
    FILE *file = fopen(path, "r");
    if (!file)
        return ft_error_set(err, FT_IO, "%s: %s", path, strerror(errno));
    ft_status status = read_lines(file, path, err, out);
    fclose(file);
    if (status == FT_OK && out->n == 0)
        status = ft_error_set(err, FT_INVALID, "%s: no prompts in it", path);
    if (status != FT_OK)
        ft_bench_prompts_deinit(out);
    else if (most > 0 && out->n > most)
        thin(out, most);
    return status;
}

/* ---- choosing ---- */

static bool listed(const char *list, const char *category)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        const size_t n = strcspn(at, ",");
        if (strlen(category) == n && strncmp(at, category, n) == 0)
            return true;
    }
    return false;
}

static ft_status check_categories(const ft_bench_prompts *prompts, const char *list, ft_error *err)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        const size_t n = strcspn(at, ",");
        bool found = false;
        for (size_t i = 0; i < prompts->n && !found; i++)
            found = strlen(prompts->items[i].category) == n &&
                    strncmp(prompts->items[i].category, at, n) == 0;
        if (!found)
            return ft_error_set(err, FT_INVALID, "no prompt has the category '%.*s'", (int)n, at);
    }
    return FT_OK;
}

typedef struct ranked {
    size_t rank, at; /* how many of its category are before it; its place in the file */
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

ft_status ft_bench_prompts_keep(ft_bench_prompts *prompts, const char *categories, size_t most,
                                ft_error *err)
{
    ft_status status = check_categories(prompts, categories, err);
    if (status != FT_OK)
        return status;
    ranked *order = calloc(prompts->n, sizeof *order);
    ft_bench_prompt *all = malloc(prompts->n * sizeof *all);
    size_t n = 0;
    if (!order || !all) {
        free(order);
        free(all);
        return ft_error_set(err, FT_NOMEM, "out of memory");
    }
    memcpy(all, prompts->items, prompts->n * sizeof *all);
    for (size_t i = 0; i < prompts->n; i++) {
        order[i].at = i;
        for (size_t k = 0; k < i; k++)
            order[i].rank += strcmp(all[k].category, all[i].category) == 0;
    }
    qsort(order, prompts->n, sizeof *order, by_rank);
    for (size_t i = 0; i < prompts->n; i++) {
        ft_bench_prompt *p = &all[order[i].at];
        if ((!categories || listed(categories, p->category)) && (most == 0 || n < most))
            prompts->items[n++] = *p;
        else
            deinit_prompt(p);
    }
    prompts->n = n;
    free(order);
    free(all);
    return FT_OK;
}
