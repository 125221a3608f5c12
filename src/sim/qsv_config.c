// SPDX-License-Identifier: Apache-2.0
// Reads a setting of Quantize-Sample-and-Verify. If a field is missing, of another type or out of
// range, the error names it. Stateless.
#include "sim/qsv_config.h"

#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "sim/constants.h"

/* Of an uplink, kbit/s. A chain's steps are then never too many for one draft. */
#define RATE_LEAST 1.0
#define RATE_MOST  1e7
#define L_MOST     65535

static const ft_sim_constant range[FT_QSV_CONSTS] = {
#define X(id, text, whole, least, most) [FT_QSV_##id] = {text, whole, least, most},
    FT_QSV_CONST_LIST(X)
#undef X
};

#define X(id, text) [FT_QSV_CODE_##id] = text,
const char *const ft_qsv_code_name[FT_QSV_CODES] = {FT_QSV_CODE_LIST(X)};
#undef X

double ft_qsv_link_kbit_s(const ft_qsv_link *link)
{
    const ft_line_rate *rate = &link->rate;
    return (rate->step_ns > 0 ? (rate->bits_per_s[0] + rate->bits_per_s[1]) / 2
                              : rate->bits_per_s[0]) /
           1000;
}

static ft_status read_code(const json_t *root, ft_error *err, ft_qsv_config *out)
{
    const char *code = json_string_value(json_object_get(root, "code"));
    for (int i = 0; code && i < FT_QSV_CODES; i++)
        if (strcmp(code, ft_qsv_code_name[i]) == 0) {
            out->code = (ft_qsv_code)i;
            return FT_OK;
        }
    return ft_error_set(err, FT_INVALID,
                        "'code' is missing or not \"index\", \"adaptive\" or \"shorter\"");
}

/* An object's "value", 1 to n_max rising numbers, with their reason. */
static ft_status read_list(const json_t *root, const ft_sim_constant *of, uint32_t n_max,
                           ft_error *err, double *out, uint32_t *n)
{
    const json_t *field = json_object_get(root, of->name), *list = json_object_get(field, "value");
    bool open, good = json_array_size(list) >= 1 && json_array_size(list) <= n_max;
    *n = good ? (uint32_t)json_array_size(list) : 0;
    for (uint32_t i = 0; i < *n && good; i++) {
        const json_t *item = json_array_get(list, i);
        good = ft_sim_number(item, of->least, of->most, &out[i]) && (i == 0 || out[i] > out[i - 1]);
        good = good && (!of->whole || json_is_integer(item));
    }
    if (!good)
        return ft_error_set(err, FT_INVALID,
                            "%s: 'value' is missing or not 1 to %u rising %snumbers from %g to %g",
                            of->name, n_max, of->whole ? "whole " : "", of->least, of->most);
    return ft_sim_reason_parse(field, of->name, err, &open);
}

static ft_status read_lattices(const json_t *root, ft_error *err, ft_qsv_config *out)
{
    const ft_sim_constant rule = {.name = "l", .whole = true, .least = 1, .most = L_MOST};
    double l[FT_QSV_L];
    ft_status status = read_list(root, &rule, FT_QSV_L, err, l, &out->n_l);
    for (uint32_t i = 0; i < out->n_l && status == FT_OK; i++)
        out->l[i] = (uint32_t)l[i];
    return status;
}

static ft_status read_constant_links(const json_t *root, ft_error *err, ft_qsv_config *out)
{
    const ft_sim_constant rule = {.name = "uplinks_kbit_s", .least = RATE_LEAST, .most = RATE_MOST};
    double kbit_s[FT_QSV_LINKS];
    ft_status status = read_list(root, &rule, FT_QSV_LINKS, err, kbit_s, &out->n_links);
    for (uint32_t i = 0; i < out->n_links && status == FT_OK; i++)
        out->link[i] = (ft_qsv_link){"constant", {.bits_per_s = {kbit_s[i] * 1000}}};
    return status;
}

/* {"name": "...", "kbit_s": [2000, 6000], "step_ms": 100, "stay": 0.9, "why": "..."} */
static ft_status read_chain(const json_t *chain, ft_error *err, ft_qsv_link *out)
{
    const char *name = json_string_value(json_object_get(chain, "name"));
    const json_t *kbit_s = json_object_get(chain, "kbit_s");
    double low, high, step_ms;
    bool open;
    *out = (ft_qsv_link){0};
    if (!name || !*name || strlen(name) >= sizeof out->name ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789 -") != strlen(name) ||
        strcmp(name, "constant") == 0)
        return ft_error_set(err, FT_INVALID,
                            "markov: 'name' is missing or not 1 to %zu of a to z, 0 to 9, - and "
                            "blanks (and not \"constant\")",
                            sizeof out->name - 1);
    snprintf(out->name, sizeof out->name, "%s", name);
    if (json_array_size(kbit_s) != 2 ||
        !ft_sim_number(json_array_get(kbit_s, 0), RATE_LEAST, RATE_MOST, &low) ||
        !ft_sim_number(json_array_get(kbit_s, 1), low, RATE_MOST, &high))
        return ft_error_set(err, FT_INVALID,
                            "%s: 'kbit_s' is missing or not two rising rates from %g to %g", name,
                            RATE_LEAST, RATE_MOST);
    if (!ft_sim_number(json_object_get(chain, "step_ms"), 10, 1e6, &step_ms))
        return ft_error_set(err, FT_INVALID, "%s: 'step_ms' is missing or no number from 10 to 1e6",
                            name);
    if (!ft_sim_number(json_object_get(chain, "stay"), 0.01, 0.9999, &out->rate.stay))
        return ft_error_set(err, FT_INVALID,
                            "%s: 'stay' is missing or no number from 0.01 to 0.9999", name);
    out->rate.bits_per_s[0] = low * 1000;
    out->rate.bits_per_s[1] = high * 1000;
    out->rate.step_ns = (int64_t)(step_ms * 1e6);
    return ft_sim_reason_parse(chain, name, err, &open);
}

static ft_status read_links(const json_t *root, ft_error *err, ft_qsv_config *out)
{
    const json_t *chains = json_object_get(root, "markov");
    ft_status status = read_constant_links(root, err, out);
    const size_t n = json_array_size(chains);
    if (status == FT_OK && (!json_is_array(chains) || out->n_links + n > FT_QSV_LINKS))
        status = ft_error_set(err, FT_INVALID,
                              "'markov' is missing or no list of changing uplinks (%d uplinks at "
                              "most)",
                              FT_QSV_LINKS);
    for (size_t i = 0; i < n && status == FT_OK; i++)
        status = read_chain(json_array_get(chains, i), err, &out->link[out->n_links++]);
    return status;
}

ft_status ft_qsv_config_parse(const json_t *root, ft_error *err, ft_qsv_config *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    *out = (ft_qsv_config){0};
    if (!kind || strcmp(kind, FT_QSV_CONFIG_KIND) != 0)
        return ft_error_set(err, FT_INVALID, "'kind' is missing or not \"" FT_QSV_CONFIG_KIND "\"");
    ft_status status = read_code(root, err, out);
    if (status == FT_OK)
        status = read_lattices(root, err, out);
    if (status == FT_OK)
        status = read_links(root, err, out);
    if (status == FT_OK)
        status = ft_sim_constants_parse(root, range, FT_QSV_CONSTS, err, out->k, out->open);
    return status;
}

ft_status ft_qsv_config_load(const char *path, ft_error *err, ft_qsv_config *out)
{
    json_t *root;
    ft_error why = {0};
    *out = (ft_qsv_config){0};
    ft_status status = ft_json_load(path, &why, &root);
    if (status != FT_OK)
        return ft_error_set(err, status, "simulate: %s", why.message);
    status = ft_qsv_config_parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK
                           : ft_error_set(err, status, "simulate: %s: %s", path, why.message);
}
