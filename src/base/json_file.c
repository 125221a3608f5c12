// SPDX-License-Identifier: Apache-2.0
// Reading small JSON files, bounded before anything is parsed. Stateless.
#include "base/json_file.h"

#include <stdbool.h>
#include <stdio.h>

ft_status ft_json_parse(const char *text, size_t n, ft_error *err, json_t **out)
{
    json_error_t at;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    return *out ? FT_OK : ft_error_set(err, FT_INVALID, "line %d: %s", at.line, at.text);
}

ft_status ft_json_load(const char *path, ft_error *err, json_t **out)
{
    char text[FT_JSON_FILE_MAX];
    FILE *file = fopen(path, "rb");
    *out = NULL;
    size_t n = file ? fread(text, 1, sizeof text, file) : 0;
    bool failed = !file || ferror(file);
    if (file)
        (void)fclose(file);
    if (failed)
        return ft_error_set(err, FT_IO, "%s cannot be read", path);
    if (n == sizeof text)
        return ft_error_set(err, FT_TOO_LARGE, "%s has %d bytes or more", path, FT_JSON_FILE_MAX);
    ft_error why = {0};
    ft_status status = ft_json_parse(text, n, &why, out);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}
