// SPDX-License-Identifier: Apache-2.0
// Offered draft models: hashed before they are served, kept by their hash where they are taken.
// Stateless.
#include "cmd/offer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/models.h"
#include "hub/blob.h"
#include "hub/cache.h"
#include "hub/sha256.h"
#include "wire/offer.h"

#define ANSWER_US 5000000 /* as long as the edge waits for Info */

_Static_assert(FT_OFFER_HEX_SIZE == FT_SHA256_HEX_SIZE, "both are SHA-256 in hexadecimal");

static ft_status check_vocab(const char *path, const ft_vocab *target, ft_error *err)
{
    ft_vocab *vocab;
    ft_status status = ft_vocab_load(path, err, &vocab);
    if (status == FT_OK && ft_vocab_fingerprint(vocab) != ft_vocab_fingerprint(target))
        status = ft_error_set(err, FT_INVALID,
                              "serve: --offer-draft %.200s has another vocabulary than the target",
                              path);
    ft_vocab_destroy(vocab);
    return status;
}

ft_status ft_cmd_offer_open(const char *path, const ft_vocab *target, ft_error *err,
                            ft_server_offer *out)
{
    struct stat info;
    ft_sha256 *hash = NULL;
    *out = (ft_server_offer){.fd = -1};
    ft_status status = check_vocab(path, target, err);
    if (status == FT_OK)
        status = ft_sha256_create(err, &hash);
    if (status != FT_OK)
        return status;
    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (out->fd < 0 || fstat(out->fd, &info) != 0)
        status = ft_error_set(err, FT_IO, "serve: %s: %s", path, strerror(errno));
    else
        status = ft_sha256_add_file(hash, out->fd, (uint64_t)info.st_size, NULL, err);
    if (status == FT_OK) {
        out->what.bytes = (uint64_t)info.st_size;
        ft_sha256_end(hash, out->what.sha256);
        FT_LOGI("serve", "offer draft=%s bytes=%" PRIu64 " sha256=%s", path, out->what.bytes,
                out->what.sha256);
    } else if (out->fd >= 0) {
        close(out->fd);
        out->fd = -1;
    }
    ft_sha256_destroy(hash);
    return status;
}

typedef struct transfer {
    ft_wire_client *client;
    const ft_offer *offer;
} transfer;

static ft_status take(void *ctx, const void *data, size_t n, ft_error *err)
{
    return ft_blob_take(ctx, data, n, err);
}

static ft_status run_transfer(void *ctx, ft_blob *blob, ft_error *err)
{
    const transfer *t = ctx;
    const ft_offer_sink sink = {take, blob};
    return ft_wire_client_fetch(t->client, t->offer, ft_blob_at(blob), &sink, err);
}

/* Into the cache. */
static ft_status fetch(ft_wire_client *client, const ft_offer *offer, ft_error *err, char **path)
{
    transfer t = {client, offer};
    char *folder;
    bool fetched = false;
    const ft_hub_opts opts = ft_models_opts();
    ft_status status = ft_hub_offers_folder(&opts.env, err, &folder);
    if (status != FT_OK)
        return status;
    char *lock = ft_cache_text("%s/%s.lock", folder, offer->sha256);
    const ft_blob_opts blob = {.folder = folder,
                               .lock = lock,
                               .sha256 = offer->sha256,
                               .bytes = offer->bytes,
                               .transfer = run_transfer,
                               .ctx = &t,
                               .progress = opts.progress,
                               .of_all = offer->bytes};
    *path = lock ? ft_cache_text("%s/%s", folder, offer->sha256) : NULL;
    status =
        *path ? ft_blob_ensure(&blob, err, &fetched) : ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK)
        FT_LOGI("edge", "draft server=%s bytes=%" PRIu64 " sha256=%s fetched=%d path=%s",
                ft_wire_client_address(client), offer->bytes, offer->sha256, fetched, *path);
    free(lock);
    free(folder);
    return status;
}

ft_status ft_cmd_offer_fetch(ft_wire_client *const *clients, uint32_t n, uint64_t most_bytes,
                             ft_error *err, char **path)
{
    ft_offer offer;
    ft_error why = {0};
    uint32_t i = 0;
    *path = NULL;
    while (i < n && ft_wire_client_offer(clients[i], ANSWER_US, &why, &offer) != FT_OK)
        if (++i == n || why.code == FT_CANCELLED)
            return ft_error_set(err, why.code,
                                "edge: no draft model from %s: %.200s (-md takes a file)",
                                ft_wire_client_address(clients[i - 1]), why.message);
    if (offer.bytes > most_bytes)
        return ft_error_set(err, FT_TOO_LARGE,
                            "edge: %s offers a draft model of %.1f MB: --fetch-max-mb takes %.0f",
                            ft_wire_client_address(clients[i]), (double)offer.bytes / 1e6,
                            (double)most_bytes / 1e6);
    ft_status status = fetch(clients[i], &offer, &why, path);
    if (status != FT_OK)
        ft_error_set(err, status, "edge: the draft model that %s offers: %.250s",
                     ft_wire_client_address(clients[i]), why.message);
    return status;
}
