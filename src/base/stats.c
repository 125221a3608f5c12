// SPDX-License-Identifier: Apache-2.0
// Works on a struct of values through its table. A metric has one or several cells of 8 bytes; each
// cell is a sample on the page. The cells of ft_sizes are samples in Prometheus' order (buckets,
// sum, count). No state. Does not know what is counted.
#include "base/stats.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 160

/* A present value, no sum. */
static bool is_now(ft_stat_kind kind)
{
    return kind == FT_STAT_GAUGE || kind == FT_STAT_LABELLED_GAUGE || kind == FT_STAT_RATIO;
}

static const char *type_of(ft_stat_kind kind)
{
    if (is_now(kind))
        return "gauge";
    if (kind == FT_STAT_SUMMARY)
        return "summary";
    return kind == FT_STAT_SIZES ? "histogram" : "counter";
}

/* Whether cell i is a time. */
static bool is_time(const ft_stat *stat, size_t i)
{
    return stat->kind == FT_STAT_SECONDS || stat->kind == FT_STAT_WORK ||
           stat->kind == FT_STAT_WAIT || (stat->kind == FT_STAT_SUMMARY && i == 0);
}

static const uint64_t *cells_of(const ft_stat *stat, const void *values)
{
    return (const uint64_t *)((const char *)values + stat->at);
}

/* Writes the name of cell i on the page. False: the cell is not shown. */
static bool name_cell(const ft_stat *stat, const void *values, size_t i, char name[NAME_SIZE])
{
    char label[FT_STAT_LABEL_SIZE] = "";
    const char *suffix = "";
    if (stat->kind == FT_STAT_SIZES) {
        suffix = i < FT_SIZES ? "_bucket" : i == FT_SIZES ? "_sum" : "_count";
        if (i == FT_SIZES - 1)
            snprintf(label, sizeof label, "le=\"+Inf\"");
        else if (i < FT_SIZES)
            snprintf(label, sizeof label, "le=\"%u\"", 1u << i);
    } else if (stat->kind == FT_STAT_SUMMARY) {
        suffix = i == 0 ? "_sum" : "_count";
    } else if (stat->label && !stat->label(values, i, label)) {
        return false;
    }
    snprintf(name, NAME_SIZE, label[0] ? "foretoken_%s%s{%s}" : "foretoken_%s%s%s", stat->name,
             suffix, label);
    return true;
}

/* Buckets are cumulative on the page. */
static bool is_cumulative(const ft_stat *stat, size_t i)
{
    return stat->kind == FT_STAT_SIZES && i > 0 && i < FT_SIZES;
}

/* ---- the page ---- */

void ft_stat_append_head(ft_buf *out, const char *name, const char *help, ft_stat_kind kind)
{
    ft_buf_printf(out, "# HELP foretoken_%s %s\n# TYPE foretoken_%s %s\n", name, help, name,
                  type_of(kind));
}

static void append(ft_buf *out, const ft_stat *stat, const void *values)
{
    char name[NAME_SIZE];
    uint64_t value = 0;
    bool headed = false;
    for (size_t i = 0; i < stat->n_cells; i++) {
        const uint64_t *cell = cells_of(stat, values) + i;
        if (!name_cell(stat, values, i, name))
            continue;
        if (!headed)
            ft_stat_append_head(out, stat->name, stat->help, stat->kind);
        headed = true;
        if (stat->kind == FT_STAT_RATIO) {
            ft_buf_printf(out, "%s %.6f\n", name, *(const double *)cell);
            continue;
        }
        value = is_cumulative(stat, i) ? value + *cell : *cell;
        if (is_time(stat, i))
            ft_buf_printf(out, "%s %" PRIu64 ".%06u\n", name, value / 1000000,
                          (unsigned)(value % 1000000));
        else
            ft_buf_printf(out, "%s %" PRIu64 "\n", name, value);
    }
}

ft_status ft_stats_append(const ft_stat_list *list, const void *values, ft_buf *out)
{
    for (size_t i = 0; i < list->n; i++)
        append(out, &list->stat[i], values);
    return out->failed ? FT_NOMEM : FT_OK;
}

/* The text behind a sample's name; NULL: the page has no such sample. */
static const char *find_sample(const char *page, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = page; (at = strstr(at, name)); at += n)
        if ((at == page || at[-1] == '\n') && at[n] == ' ')
            return at + n + 1;
    return NULL;
}

/* out: of the cell's type. */
static ft_status read_cell(const ft_stat *stat, size_t i, const char *page, const char *name,
                           ft_error *err, void *out)
{
    const char *text = find_sample(page, name);
    char *end = NULL;
    if (!text)
        return ft_error_set(err, FT_NOT_FOUND,
                            "metrics: the page has no %s: is it of another "
                            "version?",
                            name);
    if (stat->kind == FT_STAT_RATIO)
        *(double *)out = strtod(text, &end);
    else if (is_time(stat, i))
        *(uint64_t *)out = (uint64_t)llround(1e6 * strtod(text, &end));
    else
        *(uint64_t *)out = strtoull(text, &end, 10);
    if (end == text || (*end != '\n' && *end != 0))
        return ft_error_set(err, FT_CORRUPT, "metrics: %s is not a number on the page", name);
    return FT_OK;
}

ft_status ft_stats_read(const ft_stat_list *list, const char *page, ft_error *err, void *values)
{
    ft_status status = FT_OK;
    char name[NAME_SIZE];
    for (const ft_stat *stat = list->stat; stat < list->stat + list->n; stat++) {
        uint64_t *cell = (uint64_t *)((char *)values + stat->at), before = 0;
        for (size_t i = 0; i < stat->n_cells && status == FT_OK; i++) {
            if (!name_cell(stat, values, i, name))
                continue;
            status = read_cell(stat, i, page, name, err, &cell[i]);
            if (is_cumulative(stat, i))
                cell[i] -= before;
            if (stat->kind == FT_STAT_SIZES)
                before += cell[i];
        }
    }
    return status;
}

/* ---- JSON ---- */

void ft_stats_json(const ft_stat_list *list, const void *values, json_t *object)
{
    for (const ft_stat *stat = list->stat; stat < list->stat + list->n; stat++) {
        const uint64_t *cell = cells_of(stat, values);
        char key[NAME_SIZE];
        json_t *value;
        if (stat->label || stat->kind == FT_STAT_SIZES)
            continue;
        if (is_time(stat, 0)) {
            const char *unit = strstr(stat->field, "_us");
            snprintf(key, sizeof key, "%.*s_ms",
                     unit ? (int)(unit - stat->field) : (int)strlen(stat->field), stat->field);
            value = json_real((double)*cell / 1e3);
        } else {
            snprintf(key, sizeof key, "%s", stat->field);
            value = stat->kind == FT_STAT_RATIO ? json_real(*(const double *)cell)
                                                : json_integer((json_int_t)*cell);
        }
        json_object_set_new(object, key, value);
    }
}

/* ---- sums ---- */

/* Adds `other`, or takes it away. */
static void combine(const ft_stat_list *list, void *values, const void *other, bool add)
{
    for (const ft_stat *stat = list->stat; stat < list->stat + list->n; stat++) {
        uint64_t *cell = (uint64_t *)((char *)values + stat->at);
        const uint64_t *by = cells_of(stat, other);
        const bool now = is_now(stat->kind);
        for (size_t i = 0; i < stat->n_cells; i++) {
            if (now && add)
                memcpy(&cell[i], &by[i], sizeof *cell);
            else if (!now)
                cell[i] = add ? cell[i] + by[i] : cell[i] - by[i];
        }
    }
}

void ft_stats_add(const ft_stat_list *list, void *sum, const void *more)
{
    combine(list, sum, more, true);
}

void ft_stats_subtract(const ft_stat_list *list, void *value, const void *before)
{
    combine(list, value, before, false);
}

uint64_t ft_stats_total(const ft_stat_list *list, const void *values, ft_stat_kind kind)
{
    uint64_t total = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->stat[i].kind == kind)
            total += *cells_of(&list->stat[i], values);
    return total;
}

void ft_sizes_add(ft_sizes *sizes, uint32_t size)
{
    uint32_t class = 0;
    while (class < FT_SIZES - 1 && size > 1u << class)
        class ++;
    sizes->by_size[class]++;
    sizes->sum += size;
    sizes->n++;
}
