// SPDX-License-Identifier: Apache-2.0
// Reads what a simulation of a fleet assumes: one table of constants, those of `simulate wisp` that
// a fleet needs and its own. Stateless.
#include "sim/fleet_config.h"

#include <string.h>

#include "base/json_file.h"
#include "sim/constants.h"

static const ft_sim_constant own[FT_FLEET_CONSTS] = {
#define X(id, text, whole, least, most) [FT_FLEET_##id] = {text, whole, least, most},
    FT_FLEET_CONST_LIST(X)
#undef X
};

/* What only other modes, or only the search of `simulate wisp`, read. */
static bool is_needed(ft_sim_const id)
{
    return id != FT_SIM_DRAFT_FIXED && id != FT_SIM_RAMP_TEXTS && id != FT_SIM_MEASURE_TEXTS &&
           id != FT_SIM_SEEDS;
}

static ft_status read_constants(const json_t *root, ft_error *err, ft_fleet_config *out)
{
    ft_sim_constant table[FT_SIM_CONSTS + FT_FLEET_CONSTS];
    double value[FT_SIM_CONSTS + FT_FLEET_CONSTS];
    bool open[FT_SIM_CONSTS + FT_FLEET_CONSTS];
    size_t n = 0;
    for (int i = 0; i < FT_SIM_CONSTS; i++)
        if (is_needed((ft_sim_const)i))
            table[n++] = ft_sim_const_range[i];
    memcpy(table + n, own, sizeof own);
    ft_status status = ft_sim_constants_parse(root, table, n + FT_FLEET_CONSTS, err, value, open);
    if (status != FT_OK)
        return status;
    n = 0;
    for (int i = 0; i < FT_SIM_CONSTS; i++)
        if (is_needed((ft_sim_const)i))
            out->server.k[i] = value[n++];
    memcpy(out->k, value + n, sizeof out->k);
    return FT_OK;
}

ft_status ft_fleet_config_parse(const json_t *root, ft_error *err, ft_fleet_config *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    *out = (ft_fleet_config){0};
    if (!kind || strcmp(kind, FT_FLEET_CONFIG_KIND) != 0)
        return ft_error_set(err, FT_INVALID,
                            "'kind' is missing or not \"" FT_FLEET_CONFIG_KIND "\"");
    ft_status status = ft_sim_config_parse_server(root, err, &out->server);
    if (status == FT_OK)
        status = read_constants(root, err, out);
    if (status == FT_OK && (out->k[FT_FLEET_ADDED_S] <= out->k[FT_FLEET_LOST_S] ||
                            out->k[FT_FLEET_ADDED_S] >= out->k[FT_FLEET_MEASURE_S]))
        status = ft_error_set(
            err, FT_INVALID, "constants: not lost_s < added_s < measure_s (%g, %g, %g)",
            out->k[FT_FLEET_LOST_S], out->k[FT_FLEET_ADDED_S], out->k[FT_FLEET_MEASURE_S]);
    return status;
}

ft_status ft_fleet_config_load(const char *path, ft_error *err, ft_fleet_config *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_fleet_config){0};
    ft_status status = ft_json_load(path, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "simulate: %s", why.message);
    status = ft_fleet_config_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK
                           : ft_error_set(err, status, "simulate: %s: %s", path, why.message);
}
