/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP GET by libcurl. Redirects are followed here, not by libcurl, because each step has
 * rules: five steps at most; https, or http between programs of one machine; never from https to
 * http; the token goes to the endpoint alone. Any thread. */
#ifndef FT_HUB_GET_H
#define FT_HUB_GET_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_get {
    const char *url;
    const char *endpoint; /* whose scheme, host and port may see the token */
    const char *token;    /* NULL: none */
    uint64_t from; /* the first byte that is wanted; the answer may begin at 0 all the same */
    /* Called before the first byte of the body. content_range: "" if the answer has the whole. */
    ft_status (*begin)(void *ctx, const char *content_range, ft_error *err);
    /* Called for each piece of the body. An error of either ends the transfer, and is ft_get_run's
     * status. */
    ft_status (*data)(void *ctx, const void *data, size_t n, ft_error *err);
    void *ctx;
} ft_get;

/* FT_OK: the body is complete. FT_INVALID: the URL, or one that the answer leads to, is against the
 * rules. By the HTTP code: FT_UNAUTHENTICATED (401, 403), FT_NOT_FOUND (404), FT_EXHAUSTED (429);
 * other codes, and what goes wrong on the way: FT_UNAVAILABLE. */
FT_WARN_UNUSED ft_status ft_get_run(const ft_get *get, ft_error *err);

/* A path in percent-encoding; slashes stay. The caller frees it. NULL: no memory. */
char *ft_get_encode(const char *path);

#endif
