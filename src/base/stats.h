/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics by list. A room writes a list of its metrics, one F(KIND, field, "name", "help") each.
 * The list makes the struct of their values (FT_STAT_FIELD) and a table (FT_STAT_ROW). All else
 * reads the table: the page for Prometheus, its reader, JSON, sums and differences. Pure.
 */
#ifndef FT_BASE_STATS_H
#define FT_BASE_STATS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

typedef enum ft_stat_kind {
    FT_STAT_GAUGE,    /* uint64_t: the present value */
    FT_STAT_RATIO,    /* double: a recent mean */
    FT_STAT_COUNTER,  /* uint64_t: a sum since the start, as all kinds below */
    FT_STAT_SECONDS,  /* uint64_t in microseconds; the page shows seconds */
    FT_STAT_WORK,     /* as SECONDS: time that a thread works... */
    FT_STAT_WAIT,     /* ...or waits; each moment of a thread counts in exactly one of them */
    FT_STAT_SIZES,    /* ft_sizes */
    FT_STAT_SUMMARY,  /* ft_summary */
    FT_STAT_LABELLED, /* uint64_t [n]: a counter with one value for each label */
    FT_STAT_LABELLED_GAUGE
} ft_stat_kind;

#define FT_SIZES           13 /* classes: at most 1, 2, 4, ... 2048, and more */
#define FT_STAT_LABEL_SIZE 64

typedef struct ft_sizes {
    uint64_t by_size[FT_SIZES];
    uint64_t sum, n;
} ft_sizes;

typedef struct ft_summary {
    uint64_t sum_us, n; /* n times; the page shows seconds */
} ft_summary;

typedef struct ft_stat {
    const char *field;       /* of the struct */
    const char *name, *help; /* the name on the page is "foretoken_" and this name */
    ft_stat_kind kind;
    size_t at;      /* offset of the value in the struct, in bytes */
    size_t n_cells; /* 8-byte numbers of the value */
    /* Of metrics with labels: writes the label of value i, such as `cause="other"`; false: value i
     * is not shown. Others: NULL. */
    bool (*label)(const void *values, size_t i, char out[FT_STAT_LABEL_SIZE]);
} ft_stat;

typedef struct ft_stat_list {
    const ft_stat *stat;
    size_t n;
} ft_stat_list;

/* For lists: a field of the struct, and a row of the table. A row needs `#define FT_STAT_TYPE
 * <struct>`. */
#define FT_STAT_FIELD(kind, field, name, help) FT_STAT_FIELD_##kind field;
#define FT_STAT_FIELD_GAUGE                    uint64_t
#define FT_STAT_FIELD_RATIO                    double
#define FT_STAT_FIELD_COUNTER                  uint64_t
#define FT_STAT_FIELD_SECONDS                  uint64_t
#define FT_STAT_FIELD_WORK                     uint64_t
#define FT_STAT_FIELD_WAIT                     uint64_t
#define FT_STAT_FIELD_SIZES                    ft_sizes
#define FT_STAT_FIELD_SUMMARY                  ft_summary
#define FT_STAT_ROW(kind, field, name, help) \
    {#field, name, help, FT_STAT_##kind, offsetof(FT_STAT_TYPE, field), FT_STAT_CELLS(field), NULL},
#define FT_STAT_CELLS(field) (sizeof(((FT_STAT_TYPE *)0)->field) / sizeof(uint64_t))

/* Appends a metric's HELP and TYPE lines in Prometheus' text format. */
void ft_stat_append_head(ft_buf *out, const char *name, const char *help, ft_stat_kind kind);
/* Appends the page. A LABELLED metric without labels gives no line. FT_NOMEM. */
ft_status ft_stats_append(const ft_stat_list *list, const void *values, ft_buf *out);
/* Sets a key of the JSON object for each metric: its field's name; times are in ms, their keys end
 * in "_ms" instead of "_us". LABELLED, LABELLED_GAUGE and SIZES are left out. */
void ft_stats_json(const ft_stat_list *list, const void *values, json_t *object);
/* Reads a page into *values. Values that labels depend on must be set before. FT_NOT_FOUND names
 * the metric that is missing, FT_CORRUPT the one that is not a number. */
FT_WARN_UNUSED ft_status ft_stats_read(const ft_stat_list *list, const char *page, ft_error *err,
                                       void *values);
/* sum += more; value -= before. A gauge or RATIO keeps the later value: that of more, or of
 * value. */
void ft_stats_add(const ft_stat_list *list, void *sum, const void *more);
void ft_stats_subtract(const ft_stat_list *list, void *value, const void *before);
/* The sum of all metrics of one kind; each has one cell. */
uint64_t ft_stats_total(const ft_stat_list *list, const void *values, ft_stat_kind kind);

/* Counts one value of that size. */
void ft_sizes_add(ft_sizes *sizes, uint32_t size);

#endif
