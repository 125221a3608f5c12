/* SPDX-License-Identifier: Apache-2.0
 * Lists in flags, as in "2,4,6,8". No item may be empty. */
#ifndef FT_CMD_LISTS_H
#define FT_CMD_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "spec/rule.h"

typedef struct ft_list_rule {
    const char *flag; /* "serve: --slo" */
    const char *what; /* "token speeds" */
    const char *like; /* an example */
    double most;      /* of a number; the least is 0 */
    bool positive;    /* 0 is refused, too */
    uint32_t n_max;   /* numbers */
} ft_list_rule;

/* Parses decimal numbers, one at least, into out[rule->n_max]. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_list_numbers(const ft_list_rule *rule, const char *text, ft_error *err,
                                         double *out, uint32_t *n);

/* Parses names of verification rules, each once, into out[FT_RULES_MAX + 1], which then ends with
 * NULL. `exact` must be among them, because every edge falls back to it. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_list_rules(const char *flag, const char *text, ft_error *err,
                                       const ft_rule **out);

/* Parses token speeds for promises into out[FT_SLO_CLASSES]. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_list_speeds(const char *flag, const char *text, ft_error *err,
                                        float *out, uint32_t *n);

/* Parses temperatures above 0, where there is something to draw, into out[n_max]. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_list_temperatures(const char *flag, const char *text, uint32_t n_max,
                                              ft_error *err, double *out, uint32_t *n);

#endif
