/* SPDX-License-Identifier: Apache-2.0
 * `foretoken trace --by`: tables, JSON and plots of learn/trace_by.h. */
#ifndef FT_CMD_TRACE_BY_H
#define FT_CMD_TRACE_BY_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "learn/features.h"

/* The values of --by: none, the features in the order of ft_feature, waste. */
typedef enum ft_trace_key {
    FT_TRACE_KEY_NONE,
    FT_TRACE_KEY_FEATURES,
    FT_TRACE_KEY_WASTE = FT_TRACE_KEY_FEATURES + FT_FEATURES
} ft_trace_key;
extern const char *const ft_trace_key_name[]; /* ends with NULL */

typedef struct ft_trace_by_opts {
    const char *path;
    ft_trace_key by;  /* not NONE */
    const char *plot; /* file; NULL: none */
    bool text;        /* a table on standard output */
} ft_trace_by_opts;

/* *report: the object of --json. Errors as those of learn/trace_by.h and base/plot.h. */
FT_WARN_UNUSED ft_status ft_cmd_trace_by(const ft_trace_by_opts *opts, ft_error *err,
                                         json_t **report);

#endif
