/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of a setting: a JSON object that gives each a value and the reason for it, as in
 * {"rtt_ms": {"value": 20, "why": "...", "open": true}}. People write these files, so each field is
 * checked. Pure; any thread. Inside the room. */
#ifndef FT_SIM_CONSTANTS_H
#define FT_SIM_CONSTANTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct ft_sim_constant {
    const char *name; /* in the file */
    bool whole;       /* a whole number */
    double least, most;
} ft_sim_constant;

/* A number from `least` to `most`; NULL is none. */
bool ft_sim_number(const json_t *value, double least, double most, double *out);

/* Reads "why" and "open" of an object `name`. FT_INVALID: there is no reason. */
FT_WARN_UNUSED ft_status ft_sim_reason_parse(const json_t *object, const char *name, ft_error *err,
                                             bool *open);

/* Reads `constants` of the root: exactly those of table[n]. open[i]: the paper gives no value.
 * FT_INVALID names the constant. */
FT_WARN_UNUSED ft_status ft_sim_constants_parse(const json_t *root, const ft_sim_constant *table,
                                                size_t n, ft_error *err, double *value, bool *open);

#endif
