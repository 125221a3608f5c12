// SPDX-License-Identifier: Apache-2.0
// Which predictor belongs to a draft model's file. No state.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "learn/predictor.h"

#define ENDING "predictor.json"

/* The length of the folder's part of a path, with its last slash; 0: the current folder. */
static int folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

static int is_named_so(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name), tail = strlen(ENDING);
    return n >= tail && strcmp(entry->d_name + n - tail, ENDING) == 0;
}

/* By bytes, so that the order does not depend on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Whether the file is this draft model's predictor, which is in *out then. */
static bool fits(const char *path, uint64_t draft, ft_predictor *out)
{
    ft_error unused = {0};
    if (ft_predictor_load(path, &unused, out) != FT_OK)
        return false;
    if (out->draft == draft && draft != 0)
        return true;
    ft_predictor_deinit(out);
    *out = (ft_predictor){0};
    return false;
}

ft_status ft_predictor_find(const char *draft_file, uint64_t draft, ft_error *err,
                            ft_predictor *out, char **path)
{
    const int n_folder = folder_of(draft_file);
    char folder[PATH_MAX], file[PATH_MAX];
    struct dirent **entry = NULL;
    ft_status status = FT_OK;
    *out = (ft_predictor){0};
    *path = NULL;
    if (n_folder >= PATH_MAX)
        return FT_OK;
    snprintf(folder, sizeof folder, "%.*s", n_folder, draft_file);
    const int n = scandir(n_folder > 0 ? folder : ".", &entry, is_named_so, by_name);
    bool found = false;
    for (int i = 0; i < n; i++) {
        const int length = snprintf(file, sizeof file, "%s%s", folder, entry[i]->d_name);
        free(entry[i]);
        if (found || length >= PATH_MAX || !fits(file, draft, out))
            continue;
        found = true;
        *path = strdup(file);
        if (!*path) {
            ft_predictor_deinit(out);
            *out = (ft_predictor){0};
            status = ft_error_set(err, FT_NOMEM, "predictor: out of memory");
        }
    }
    free(entry);
    return status;
}
