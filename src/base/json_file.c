// SPDX-License-Identifier: Apache-2.0
// Small JSON files. Stateless.
#include "base/json_file.h"

#include <stdlib.h>

#include "base/file.h"

ft_status ft_json_parse(const char *text, size_t n, ft_error *err, json_t **out)
{
    json_error_t at;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    return *out ? FT_OK : ft_error_set(err, FT_INVALID, "line %d: %s", at.line, at.text);
}

ft_status ft_json_load_most(const char *path, size_t most, ft_error *err, json_t **out)
{
    char *text;
    size_t n;
    ft_error why = {0};
    *out = NULL;
    ft_status status = ft_file_read(path, most, err, &text, &n);
    if (status != FT_OK)
        return status;
    if (ft_json_parse(text, n, &why, out) != FT_OK)
        status = ft_error_set(err, why.code, "%s: %s", path, why.message);
    free(text);
    return status;
}

ft_status ft_json_load(const char *path, ft_error *err, json_t **out)
{
    return ft_json_load_most(path, FT_JSON_FILE_MAX, err, out);
}
