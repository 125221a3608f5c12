// SPDX-License-Identifier: Apache-2.0
// A blob of the hub's cache, by GET with Range. Stateless.
#include "hub/download.h"

#include <stdlib.h>
#include <string.h>

#include "hub/answer.h"
#include "hub/blob.h"
#include "hub/cache.h"
#include "hub/get.h"

typedef struct job {
    const ft_download *how;
    const ft_hub_file *file;
    ft_blob *blob;
} job;

static ft_status begin(void *ctx, const char *content_range, ft_error *err)
{
    const job *j = ctx;
    const uint64_t at = ft_blob_at(j->blob);
    if (content_range[0] && !ft_content_range_is(content_range, at, j->file->bytes))
        return ft_error_set(err, FT_CORRUPT,
                            "the hub answers with other bytes than were asked for "
                            "(Content-Range: %.100s)",
                            content_range);
    return content_range[0] || at == 0 ? FT_OK : ft_blob_restart(j->blob, err);
}

static ft_status data(void *ctx, const void *bytes, size_t n, ft_error *err)
{
    return ft_blob_take(((job *)ctx)->blob, bytes, n, err);
}

static ft_status transfer(void *ctx, ft_blob *blob, ft_error *err)
{
    job *j = ctx;
    char *path = ft_get_encode(j->file->path), *url = NULL;
    j->blob = blob;
    if (path)
        url = ft_cache_text("%s/%s/resolve/%s/%s", j->how->endpoint, j->how->repo, j->how->commit,
                            path);
    const ft_get get = {.url = url,
                        .endpoint = j->how->endpoint,
                        .token = j->how->token,
                        .from = ft_blob_at(blob),
                        .begin = begin,
                        .data = data,
                        .ctx = j};
    ft_status status = url ? ft_get_run(&get, err) : ft_error_set(err, FT_NOMEM, "out of memory");
    free(url);
    free(path);
    return status;
}

ft_status ft_download_file(const ft_download *how, const ft_hub_file *file, ft_error *err,
                           bool *fetched)
{
    job j = {.how = how, .file = file};
    char *folder = ft_cache_folder(how->root, how->repo);
    char *blobs = folder ? ft_cache_text("%s/blobs", folder) : NULL;
    /* folder is ROOT/models--ORG--REPO */
    char *lock = blobs ? ft_cache_text("%s/.locks%s/%s.lock", how->root, folder + strlen(how->root),
                                       file->sha256)
                       : NULL;
    const ft_blob_opts blob = {.folder = blobs,
                               .lock = lock,
                               .sha256 = file->sha256,
                               .bytes = file->bytes,
                               .transfer = transfer,
                               .ctx = &j,
                               .progress = how->progress,
                               .before = how->before,
                               .of_all = how->of_all};
    ft_status status =
        lock ? ft_blob_ensure(&blob, err, fetched) : ft_error_set(err, FT_NOMEM, "out of memory");
    free(lock);
    free(blobs);
    free(folder);
    return status;
}
