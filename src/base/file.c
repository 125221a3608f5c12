// SPDX-License-Identifier: Apache-2.0
// Reading small files, bounded before anything is done with them. Stateless.
#include "base/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEM_MAX_BYTES (1 << 20)

ft_status ft_file_read(const char *path, size_t most, ft_error *err, char **out, size_t *n)
{
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(most) : NULL;
    *out = NULL;
    *n = text ? fread(text, 1, most, file) : 0;
    ft_status status = FT_OK;
    if (!file || ferror(file))
        status = ft_error_set(err, FT_IO, "cannot read %s: %m", path);
    else if (!text)
        status = ft_error_set(err, FT_NOMEM, "%s: out of memory", path);
    else if (*n == most)
        status = ft_error_set(err, FT_TOO_LARGE, "%s has %zu bytes or more", path, most);
    if (file)
        (void)fclose(file);
    if (status != FT_OK) {
        free(text);
        return status;
    }
    text[*n] = 0;
    *out = text;
    return FT_OK;
}

ft_status ft_file_read_pem(const char *path, ft_error *err, char **out)
{
    size_t n;
    ft_error why = {0};
    if (ft_file_read(path, PEM_MAX_BYTES, &why, out, &n) != FT_OK)
        return ft_error_set(err, FT_INVALID, "%s", why.message);
    if (strstr(*out, "-----BEGIN"))
        return FT_OK;
    free(*out);
    *out = NULL;
    return ft_error_set(err, FT_INVALID, "%s: not a PEM file", path);
}
