// SPDX-License-Identifier: Apache-2.0
// Ollama's manifests and blobs. Nothing is written. Stateless.
#include "hub/ollama.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/cache.h"
#include "hub/sha256.h"

#define MANIFEST_MAX 262144 /* bytes; real ones have about 1000 */

static ft_status check_size(const char *path, const ft_ollama_layer *layer, ft_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return ft_error_set(err, FT_CORRUPT, "Ollama's file %s: %s", path, strerror(errno));
    if ((uint64_t)info.st_size != layer->bytes)
        return ft_error_set(err, FT_CORRUPT,
                            "Ollama's file %s has %jd bytes, and its manifest says %" PRIu64, path,
                            (intmax_t)info.st_size, layer->bytes);
    return FT_OK;
}

ft_status ft_ollama_find(const char *root, const char *repo, const char *tag, ft_error *err,
                         ft_ollama_layer *layer, char **path)
{
    size_t n;
    ft_error why = {0};
    char *manifest = ft_cache_text("%s/manifests/%s/%s", root, repo, tag), *text = NULL;
    ft_status status = manifest ? ft_file_read(manifest, MANIFEST_MAX, &why, &text, &n) : FT_NOMEM;
    *path = NULL;
    if (status == FT_IO)
        ft_error_set(&why, status = FT_NOT_FOUND,
                     "Ollama has no such model: there is no %.250s (OLLAMA_MODELS says where its "
                     "models are)",
                     manifest);
    else if (status == FT_OK)
        status = ft_ollama_manifest_read(text, n, &why, layer);
    if (status == FT_OK) {
        *path = ft_cache_text("%s/blobs/sha256-%s", root, layer->sha256);
        status = *path ? check_size(*path, layer, &why) : FT_NOMEM;
    }
    if (status != FT_OK) {
        ft_error_set(err, status, "%s", why.message);
        free(*path);
        *path = NULL;
    }
    free(text);
    free(manifest);
    return status;
}

ft_status ft_ollama_check(const char *path, const ft_ollama_layer *layer,
                          const ft_progress *progress, ft_error *err)
{
    ft_sha256 *hash;
    char got[FT_SHA256_HEX_SIZE];
    ft_status status = ft_sha256_create(err, &hash);
    if (status != FT_OK)
        return status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    status = fd < 0 ? ft_error_set(err, FT_IO, "%s: %s", path, strerror(errno))
                    : ft_sha256_add_file(hash, fd, layer->bytes, progress, err);
    ft_sha256_end(hash, got);
    if (status == FT_OK && strcmp(got, layer->sha256) != 0)
        status = ft_error_set(err, FT_CORRUPT,
                              "Ollama's file %s has the SHA-256 %.12s...: let "
                              "Ollama pull the model again",
                              path, got);
    if (fd >= 0)
        close(fd);
    ft_sha256_destroy(hash);
    return status;
}

typedef struct walk {
    const char *root;
    ft_status (*each)(void *ctx, const char *repo, const char *tag);
    void *ctx;
} walk;

/* below: what was found so far, with `depth` parts of HOST/NAMESPACE/MODEL. */
static ft_status walk_folder(const walk *w, const char *below, int depth)
{
    char *folder = ft_cache_text("%s/manifests/%s", w->root, below);
    DIR *dir = folder ? opendir(folder) : NULL;
    ft_status status = folder ? FT_OK : FT_NOMEM;
    free(folder);
    for (struct dirent *entry; status == FT_OK && dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        if (depth == 3) {
            status = w->each(w->ctx, below, entry->d_name);
            continue;
        }
        char *next = ft_cache_text("%s%s%s", below, depth ? "/" : "", entry->d_name);
        status = next ? walk_folder(w, next, depth + 1) : FT_NOMEM;
        free(next);
    }
    if (dir)
        closedir(dir);
    return status;
}

ft_status ft_ollama_each(const char *root,
                         ft_status (*each)(void *ctx, const char *repo, const char *tag), void *ctx)
{
    const walk w = {.root = root, .each = each, .ctx = ctx};
    return walk_folder(&w, "", 0);
}
