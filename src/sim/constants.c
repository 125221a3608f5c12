// SPDX-License-Identifier: Apache-2.0
// Reads a setting's constants. If one is missing, of another type, out of range or unknown, the
// error names it: a misspelt name must not be ignored silently. Stateless.
#include "sim/constants.h"

#include <math.h>
#include <string.h>

#define WHY_LEAST 4 /* characters of a reason */

bool ft_sim_number(const json_t *value, double least, double most, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out >= least && *out <= most;
}

ft_status ft_sim_reason_parse(const json_t *object, const char *name, ft_error *err, bool *open)
{
    const json_t *is_open = json_object_get(object, "open");
    const char *why = json_string_value(json_object_get(object, "why"));
    if (!why || strlen(why) < WHY_LEAST)
        return ft_error_set(err, FT_INVALID, "%s: say in 'why' where it comes from", name);
    if (is_open && !json_is_boolean(is_open))
        return ft_error_set(err, FT_INVALID, "%s: 'open' is neither true nor false", name);
    *open = json_is_true(is_open);
    return FT_OK;
}

static ft_status read_one(const json_t *constants, const ft_sim_constant *of, ft_error *err,
                          double *value, bool *open)
{
    const json_t *field = json_object_get(constants, of->name);
    char name[96];
    snprintf(name, sizeof name, "constants.%s", of->name);
    if (!ft_sim_number(json_object_get(field, "value"), of->least, of->most, value) ||
        (of->whole && *value != floor(*value)))
        return ft_error_set(err, FT_INVALID, "%s: 'value' is missing or no %snumber from %g to %g",
                            name, of->whole ? "whole " : "", of->least, of->most);
    return ft_sim_reason_parse(field, name, err, open);
}

static bool is_known(const char *name, const ft_sim_constant *table, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, table[i].name) == 0)
            return true;
    return false;
}

ft_status ft_sim_constants_parse(const json_t *root, const ft_sim_constant *table, size_t n,
                                 ft_error *err, double *value, bool *open)
{
    json_t *constants = json_object_get(root, "constants"), *field;
    const char *name;
    if (!json_is_object(constants))
        return ft_error_set(err, FT_INVALID, "'constants' is missing or no object");
    json_object_foreach(constants, name, field) if (!is_known(name, table, n)) return ft_error_set(
        err, FT_INVALID, "constants.%.60s: there is no such constant", name);
    for (size_t i = 0; i < n; i++) {
        ft_status status = read_one(constants, &table[i], err, &value[i], &open[i]);
        if (status != FT_OK)
            return status;
    }
    return FT_OK;
}
