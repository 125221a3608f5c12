// SPDX-License-Identifier: Apache-2.0
// FOLDER/KIND-NN.json. Written beside it and moved over it, so that a reader sees one file or the
// other. Stateless.
#include "base/kept_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_file.h"

#define SLOTS 64

/* The caller frees it; NULL: no memory. */
static char *path_of(const ft_kept_place *place, const char *kind, uint64_t subject,
                     const char *end)
{
    const size_t room = strlen(place->folder) + strlen(kind) + strlen(end) + 16;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s/%s-%02d.json%s", place->folder, kind, (int)(subject % SLOTS), end);
    return path;
}

ft_status ft_kept_file_read(const ft_kept_place *place, const char *kind, uint64_t subject,
                            ft_error *err, char **text, size_t *n)
{
    char *path = path_of(place, kind, subject, "");
    ft_status status = FT_OK;
    *text = NULL;
    if (!path)
        status = ft_error_set(err, FT_NOMEM, "out of memory");
    else if (access(path, F_OK) != 0)
        status = ft_error_set(err, FT_NOT_FOUND, "%s: there is none", path);
    else
        status = ft_file_read(path, FT_JSON_FILE_MAX, err, text, n);
    free(path);
    return status;
}

static ft_status replace(const char *path, const char *part, const char *text, size_t n,
                         ft_error *err)
{
    FILE *file = fopen(part, "wx");
    if (!file)
        return ft_error_set(err, FT_IO, "cannot write %s: %m", part);
    bool ok = fwrite(text, 1, n, file) == n;
    ok = fclose(file) == 0 && ok && rename(part, path) == 0;
    if (ok)
        return FT_OK;
    (void)ft_error_set(err, FT_IO, "cannot write %s: %m", path);
    (void)unlink(part);
    return FT_IO;
}

ft_status ft_kept_file_write(const ft_kept_place *place, const char *kind, uint64_t subject,
                             const char *text, size_t n, ft_error *err)
{
    char end[32];
    snprintf(end, sizeof end, ".%ld", (long)getpid());
    char *path = path_of(place, kind, subject, ""), *part = path_of(place, kind, subject, end);
    const ft_status status = path && part ? replace(path, part, text, n, err)
                                          : ft_error_set(err, FT_NOMEM, "out of memory");
    free(path);
    free(part);
    return status;
}

ft_status ft_kept_file_check_version(const json_t *file, int version, ft_error *err)
{
    const json_int_t says = json_integer_value(json_object_get(file, "version"));
    if (says == version)
        return FT_OK;
    return ft_error_set(err, says >= 1 && says < version ? FT_NOT_FOUND : FT_INVALID,
                        "not a file of version %d", version);
}
