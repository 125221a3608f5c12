// SPDX-License-Identifier: Apache-2.0
// Files of costs. Each field is checked, because people may edit the file. Stateless.
#include "sched/cost_file.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/json_file.h"

#define US_MAX 1e9 /* of one of anything */

json_t *ft_costs_json(const ft_costs *costs)
{
    json_t *us = json_object();
    for (int i = 0; i < FT_COST_FACTORS && us; i++)
        json_object_set_new(us, ft_cost_factor_name[i], json_real(costs->us[i]));
    return json_pack("{s:s, s:s, s:f, s:o}", "kind", FT_COST_FILE_KIND, "model", costs->model,
                     "error", costs->error, "us", us);
}

static ft_status bad(ft_error *err, const char *field, const char *what)
{
    return ft_error_set(err, FT_INVALID, "costs: '%s' is missing or no %s", field, what);
}

static bool number(const json_t *object, const char *name, double max, double *out)
{
    const json_t *value = json_object_get(object, name);
    *out = json_number_value(value);
    return json_is_number(value) && isfinite(*out) && *out >= 0 && *out <= max;
}

ft_status ft_costs_parse(const json_t *root, ft_error *err, ft_costs *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const char *model = json_string_value(json_object_get(root, "model"));
    const json_t *us = json_object_get(root, "us");
    *out = (ft_costs){0};
    if (!kind || strcmp(kind, FT_COST_FILE_KIND) != 0)
        return bad(err, "kind",
                   "\"" FT_COST_FILE_KIND "\": write one by foretoken fit verify-time");
    if (!model || strlen(model) >= sizeof out->model)
        return bad(err, "model", "name of a model");
    if (!number(root, "error", 1, &out->error))
        return bad(err, "error", "share of 1");
    for (int i = 0; i < FT_COST_FACTORS; i++)
        if (!number(us, ft_cost_factor_name[i], US_MAX, &out->us[i]))
            return bad(
                err, ft_cost_factor_name[i],
                "number of microseconds in 'us': if an older foretoken wrote the file, write it "
                "again by fit verify-time");
    memcpy(out->model, model, strlen(model) + 1);
    return FT_OK;
}

ft_status ft_costs_load(const char *path, ft_error *err, ft_costs *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_costs){0};
    ft_status status = ft_json_load(path, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "costs: %s", why.message);
    status = ft_costs_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}
