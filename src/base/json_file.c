// SPDX-License-Identifier: Apache-2.0
// Reading small JSON files, bounded before anything is parsed. Stateless.
#include "base/json_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

ft_status ft_json_parse(const char *text, size_t n, ft_error *err, json_t **out)
{
    json_error_t at;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    return *out ? FT_OK : ft_error_set(err, FT_INVALID, "line %d: %s", at.line, at.text);
}

ft_status ft_json_load_most(const char *path, size_t most, ft_error *err, json_t **out)
{
    char *text = malloc(most);
    FILE *file = fopen(path, "rb");
    ft_error why = {0};
    *out = NULL;
    size_t n = file && text ? fread(text, 1, most, file) : 0;
    const bool failed = !file || ferror(file);
    ft_status status = FT_OK;
    if (failed)
        status = ft_error_set(err, FT_IO, "%s cannot be read", path);
    else if (!text)
        status = ft_error_set(err, FT_NOMEM, "%s: out of memory", path);
    else if (n == most)
        status = ft_error_set(err, FT_TOO_LARGE, "%s has %zu bytes or more", path, most);
    else if (ft_json_parse(text, n, &why, out) != FT_OK)
        status = ft_error_set(err, why.code, "%s: %s", path, why.message);
    if (file)
        (void)fclose(file);
    free(text);
    return status;
}

ft_status ft_json_load(const char *path, ft_error *err, json_t **out)
{
    return ft_json_load_most(path, FT_JSON_FILE_MAX, err, out);
}
