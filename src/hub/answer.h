/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hub answers, and Ollama's manifests: bytes from outside, checked in full. Any thread. */
#ifndef FT_HUB_ANSWER_H
#define FT_HUB_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "hub/files.h"

#define FT_HUB_ANSWER_MAX (16 << 20) /* bytes; the largest repositories' are 2 MB */

/* Reads the answer to /api/models/ORG/REPO/revision/main?blobs=true: its commit and its GGUF files,
 * sorted. The caller deinits *out, which is empty after an error. FT_CORRUPT: the answer is not as
 * the hub's are, a file appears twice, or its path leads out of the repository; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_hub_answer_read(const char *text, size_t n, ft_error *err,
                                            ft_hub_files *out);

typedef struct ft_ollama_layer {
    char sha256[FT_SHA256_HEX_SIZE];
    uint64_t bytes;
} ft_ollama_layer;

/* Reads a manifest: where the model's one GGUF file is. FT_CORRUPT: it is no manifest;
 * FT_UNSUPPORTED: it has no such file, or several; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_ollama_manifest_read(const char *text, size_t n, ft_error *err,
                                                 ft_ollama_layer *out);

/* Reads the header Content-Range: true if it is that of bytes `first` to the last of `total`. */
bool ft_content_range_is(const char *text, uint64_t first, uint64_t total);

#endif
