// SPDX-License-Identifier: Apache-2.0
// Fields of JSON files. A list's length is checked before its items. Stateless.
#include "learn/fields.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/secret.h"

bool ft_field_fingerprint(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    if (!text || !ft_hex_is(text, 16))
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

json_t *ft_field_fingerprint_json(uint64_t fingerprint)
{
    return json_sprintf("%016" PRIx64, fingerprint);
}

bool ft_field_number(const json_t *value, double least, double most, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value) && *out >= least && *out <= most;
}

bool ft_field_whole(const json_t *value, uint32_t least, uint32_t most, uint32_t *out)
{
    const json_int_t x = json_integer_value(value);
    *out = 0;
    if (!json_is_integer(value) || x < least || x > most)
        return false;
    *out = (uint32_t)x;
    return true;
}

bool ft_field_floats(const json_t *array, size_t n, double least, double most, float *out)
{
    if (!json_is_array(array) || json_array_size(array) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        double x;
        if (!ft_field_number(json_array_get(array, i), least, most, &x))
            return false;
        out[i] = (float)x;
    }
    return true;
}

json_t *ft_field_floats_json(const float *x, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n && array; i++)
        json_array_append_new(array, json_real((double)x[i]));
    return array;
}

bool ft_field_wholes(const json_t *array, size_t n, uint32_t most, uint32_t *out)
{
    if (!json_is_array(array) || json_array_size(array) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!ft_field_whole(json_array_get(array, i), 1, most, &out[i]))
            return false;
    return true;
}

json_t *ft_field_wholes_json(const uint32_t *x, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n && array; i++)
        json_array_append_new(array, json_integer(x[i]));
    return array;
}
