// SPDX-License-Identifier: Apache-2.0
// Reads JSON from outside. Nothing is taken from an answer of which any used part is wrong.
// Stateless.
#include "hub/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "base/secret.h"
#include "hub/name.h"

#define FILES_MAX   20000
#define BYTES_MAX   ((json_int_t)1 << 50)
#define MODEL_LAYER "application/vnd.ollama.image.model"

/* A string without NUL within, NULL: it is none. */
static const char *string_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static bool bytes_of(const json_t *object, uint64_t *out)
{
    const json_t *value = json_object_get(object, "size");
    const json_int_t bytes = json_integer_value(value);
    *out = (uint64_t)bytes;
    return json_is_integer(value) && bytes > 0 && bytes <= BYTES_MAX;
}

static ft_status read_file(const json_t *entry, ft_error *err, ft_hub_files *out)
{
    const char *path = string_of(entry, "rfilename");
    const json_t *lfs = json_object_get(entry, "lfs");
    uint64_t bytes, lfs_bytes;
    if (!path)
        return ft_error_set(err, FT_CORRUPT, "a file without a name");
    if (!ft_hub_path_is_gguf(path))
        return FT_OK;
    if (!ft_hub_path_is_below(path))
        return ft_error_set(err, FT_CORRUPT,
                            "a file's path leads out of the repository, or has odd characters");
    if (!bytes_of(entry, &bytes))
        return ft_error_set(err, FT_CORRUPT, "%.200s has no size", path);
    const char *sha256 = "";
    if (json_is_object(lfs)) {
        sha256 = string_of(lfs, "sha256");
        if (!sha256 || !ft_hex_is(sha256, FT_SHA256_HEX_SIZE - 1) || !bytes_of(lfs, &lfs_bytes) ||
            lfs_bytes != bytes)
            return ft_error_set(err, FT_CORRUPT, "%.200s: its SHA-256 or its size is wrong", path);
    }
    return ft_hub_files_add(out, path, bytes, sha256);
}

static ft_status read_files(const json_t *answer, ft_error *err, ft_hub_files *out)
{
    const char *commit = string_of(answer, "sha");
    const json_t *siblings = json_object_get(answer, "siblings");
    if (!commit || !ft_hex_is(commit, FT_HUB_COMMIT_SIZE - 1))
        return ft_error_set(err, FT_CORRUPT, "no commit");
    if (!json_is_array(siblings) || json_array_size(siblings) > FILES_MAX)
        return ft_error_set(err, FT_CORRUPT, "no list of files, or too long a one");
    snprintf(out->commit, sizeof out->commit, "%s", commit);
    for (size_t i = 0; i < json_array_size(siblings); i++) {
        ft_status status = read_file(json_array_get(siblings, i), err, out);
        if (status != FT_OK)
            return status;
    }
    ft_hub_files_sort(out);
    for (size_t i = 1; i < out->n; i++)
        if (strcmp(out->file[i - 1].path, out->file[i].path) == 0)
            return ft_error_set(err, FT_CORRUPT, "%.200s appears twice", out->file[i].path);
    return FT_OK;
}

/* Reads JSON; FT_INVALID becomes FT_CORRUPT. */
static ft_status read_json(const char *text, size_t n, ft_error *err, json_t **out)
{
    ft_error why = {0};
    ft_status status = ft_json_parse(text, n, &why, out);
    if (status == FT_OK)
        return FT_OK;
    return ft_error_set(err, status == FT_INVALID ? FT_CORRUPT : status, "%s", why.message);
}

ft_status ft_hub_answer_read(const char *text, size_t n, ft_error *err, ft_hub_files *out)
{
    json_t *answer;
    *out = (ft_hub_files){0};
    ft_status status = read_json(text, n, err, &answer);
    if (status == FT_OK)
        status = read_files(answer, err, out);
    json_decref(answer);
    if (status != FT_OK)
        ft_hub_files_deinit(out);
    return status;
}

static ft_status read_layers(const json_t *layers, ft_error *err, ft_ollama_layer *out)
{
    size_t n_models = 0;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = string_of(layer, "mediaType"), *digest = string_of(layer, "digest");
        if (!type || !digest)
            return ft_error_set(err, FT_CORRUPT, "a layer has no type or no digest");
        if (strcmp(type, MODEL_LAYER) != 0)
            continue;
        n_models++;
        if (strncmp(digest, "sha256:", 7) != 0 || !ft_hex_is(digest + 7, FT_SHA256_HEX_SIZE - 1) ||
            !bytes_of(layer, &out->bytes))
            return ft_error_set(err, FT_CORRUPT, "the model's digest or its size is wrong");
        snprintf(out->sha256, sizeof out->sha256, "%s", digest + 7);
    }
    if (n_models == 1)
        return FT_OK;
    return ft_error_set(err, FT_UNSUPPORTED, "it has %zu model files, not one", n_models);
}

ft_status ft_ollama_manifest_read(const char *text, size_t n, ft_error *err, ft_ollama_layer *out)
{
    json_t *manifest;
    *out = (ft_ollama_layer){0};
    ft_status status = read_json(text, n, err, &manifest);
    const json_t *layers = json_object_get(manifest, "layers");
    if (status == FT_OK && !json_is_array(layers))
        status = ft_error_set(err, FT_CORRUPT, "no list of layers");
    if (status == FT_OK)
        status = read_layers(layers, err, out);
    json_decref(manifest);
    return status;
}

bool ft_content_range_is(const char *text, uint64_t first, uint64_t total)
{
    char want[80];
    snprintf(want, sizeof want, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, total - 1, total);
    return strcmp(text, want) == 0;
}
