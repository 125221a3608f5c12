// SPDX-License-Identifier: Apache-2.0
// Another source's forwards, made to last. Invariant: n_past and n_pending are the inner source's.
// Nothing can interrupt the wait, as nothing can interrupt a forward on a device. The inner
// source's thread calls everything; no allocation after creation.
#include "bench/paced.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct paced {
    ft_draft_source base;
    ft_draft_source *inner;
    ft_draft_device *device;
} paced;

static void follow(ft_draft_source *source)
{
    const ft_draft_source *inner = ((paced *)source)->inner;
    source->n_past = inner->n_past;
    source->n_pending = inner->n_pending;
}

static void wait_rest(ft_draft_device *device, int64_t begun_us)
{
    int64_t rest_us = begun_us + device->us_per_forward - ft_clock_now_us(&device->clock);
    device->forwards++;
    if (rest_us > 0) {
        device->sleep_us(device->sleep_ctx, rest_us);
    } else if (rest_us < 0) {
        device->late++;
        device->late_us -= rest_us;
    }
}

static ft_status forward(ft_draft_request *requests, size_t n, ft_error *err)
{
    ft_draft_request inner[FT_DRAFT_BATCH];
    ft_draft_device *device = ((paced *)requests->source)->device;
    int64_t begun_us = ft_clock_now_us(&device->clock);
    bool any = false;
    assert(n > 0 && n <= FT_DRAFT_BATCH);
    for (size_t i = 0; i < n; i++) {
        inner[i] = requests[i];
        inner[i].source = ((paced *)requests[i].source)->inner;
    }
    ft_status status = inner->source->ops->forward(inner, n, err);
    for (size_t i = 0; i < n; i++) {
        requests[i].status = inner[i].status;
        any |= inner[i].status == FT_OK;
        follow(requests[i].source);
    }
    if (any)
        wait_rest(device, begun_us);
    return status;
}

static ft_status commit(ft_draft_source *source, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    ft_draft_source *inner = ((paced *)source)->inner;
    ft_status status = inner->ops->commit(inner, path, n_path, keep, n_keep, err);
    follow(source);
    return status;
}

static void truncate_to(ft_draft_source *source, uint32_t n_past)
{
    ft_draft_source *inner = ((paced *)source)->inner;
    inner->ops->truncate(inner, n_past);
    follow(source);
}

static uint32_t room_tok(const ft_draft_source *source)
{
    const ft_draft_source *inner = ((const paced *)source)->inner;
    return inner->ops->room_tok(inner);
}

static void destroy(ft_draft_source *source)
{
    ft_draft_source_destroy(((paced *)source)->inner);
    free(source);
}

static const ft_draft_source_ops ops = {.destroy = destroy,
                                        .forward = forward,
                                        .commit = commit,
                                        .truncate = truncate_to,
                                        .room_tok = room_tok};

ft_status ft_draft_source_paced(ft_draft_source *inner, ft_draft_device *device, ft_error *err,
                                ft_draft_source **out)
{
    paced *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) {
        ft_draft_source_destroy(inner);
        return ft_error_set(err, FT_NOMEM, "drafter: out of memory");
    }
    p->base = *inner; /* the limits */
    p->base.ops = &ops;
    p->base.group = device;
    p->inner = inner;
    p->device = device;
    *out = &p->base;
    return FT_OK;
}
