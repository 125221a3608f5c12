// SPDX-License-Identifier: Apache-2.0
// Reading JSON. The only state is a mark of each thread: whether one of jansson's allocations has
// failed. jansson 2.14 does not look at all of them: a text with a character less would pass.
#include "base/json_file.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/file.h"

static _Thread_local bool out_of_memory;

static void *noting_malloc(size_t n)
{
    void *p = malloc(n);
    if (!p)
        out_of_memory = true;
    return p;
}

/* Before main, because jansson does not lock. */
__attribute__((constructor)) static void set_up(void)
{
    json_set_alloc_funcs(noting_malloc, free);
}

ft_status ft_json_read(const char *text, size_t n, json_error_t *at, json_t **out)
{
    out_of_memory = false;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, at);
    if (!out_of_memory)
        return *out ? FT_OK : FT_INVALID;
    json_decref(*out);
    *out = NULL;
    return FT_NOMEM;
}

ft_status ft_json_parse(const char *text, size_t n, ft_error *err, json_t **out)
{
    json_error_t at;
    ft_status status = ft_json_read(text, n, &at, out);
    if (status == FT_NOMEM)
        return ft_error_set(err, status, "out of memory");
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "line %d: %s", at.line, at.text);
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
