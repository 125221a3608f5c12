// SPDX-License-Identifier: Apache-2.0
// Refused connections, in a ring: all stay open for the same time, so the oldest is due first.
// Invariant: first < max, n <= max.
#include "base/refused.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"

#define MOST  4096
#define SHARE 8 /* one in so many descriptors: two or three ports have such a ring each */

ft_status ft_refused_init(ft_refused *refused, ft_error *err)
{
    struct rlimit limit;
    *refused = (ft_refused){.max = MOST};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / SHARE < MOST)
        refused->max = (uint32_t)(limit.rlim_cur / SHARE);
    refused->at = calloc(refused->max ? refused->max : 1, sizeof *refused->at);
    if (refused->at)
        return FT_OK;
    *refused = (ft_refused){0};
    return ft_error_set(err, FT_NOMEM, "no memory for refused connections");
}

void ft_refused_deinit(ft_refused *refused)
{
    ft_refused_close_all(refused);
    free(refused->at);
    *refused = (ft_refused){0};
}

void ft_refused_add(ft_refused *refused, int fd, int64_t now_us)
{
    if (refused->n == refused->max) {
        close(fd);
        return;
    }
    refused->at[(refused->first + refused->n++) % refused->max] =
        (ft_refused_conn){.fd = fd, .due_us = now_us + FT_REFUSED_US};
}

static void close_first(ft_refused *refused)
{
    close(refused->at[refused->first].fd);
    refused->first = (refused->first + 1) % refused->max;
    refused->n--;
}

int64_t ft_refused_close_due(ft_refused *refused, int64_t now_us)
{
    while (refused->n > 0 && refused->at[refused->first].due_us <= now_us)
        close_first(refused);
    return refused->n > 0 ? refused->at[refused->first].due_us : FT_NO_DEADLINE;
}

uint32_t ft_refused_close_all(ft_refused *refused)
{
    const uint32_t n = refused->n;
    while (refused->n > 0)
        close_first(refused);
    return n;
}
