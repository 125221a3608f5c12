/* SPDX-License-Identifier: Apache-2.0
 *
 * Models that Ollama has on this disk: ROOT/manifests/HOST/NAMESPACE/MODEL/TAG names the blob
 * ROOT/blobs/sha256-HEX. They are only read. Any thread. */
#ifndef FT_HUB_OLLAMA_H
#define FT_HUB_OLLAMA_H

#include "base/progress.h"
#include "base/status.h"
#include "hub/answer.h"

/* The blob of repo "HOST/NAMESPACE/MODEL" with this tag. *path: the caller frees it. FT_NOT_FOUND:
 * Ollama has no such model; FT_CORRUPT: the blob is missing or has another size; as
 * ft_ollama_manifest_read. */
FT_WARN_UNUSED ft_status ft_ollama_find(const char *root, const char *repo, const char *tag,
                                        ft_error *err, ft_ollama_layer *layer, char **path);

/* Reads the whole blob. FT_CORRUPT: it has another hash; FT_IO. */
FT_WARN_UNUSED ft_status ft_ollama_check(const char *path, const ft_ollama_layer *layer,
                                         const ft_progress *progress, ft_error *err);

/* Calls `each` with repo and tag of every manifest. An error of it ends the walk, and is returned.
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_ollama_each(
    const char *root, ft_status (*each)(void *ctx, const char *repo, const char *tag), void *ctx);

#endif
