// SPDX-License-Identifier: Apache-2.0
// Recorded drafts for emulated devices. The engine behind the recording is used under the recording's lock
// alone, by whichever device misses something first.
#include "cmd/bench_load_device.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "spec/draft_engine.h"
#include "spec/tree.h"

static ft_status engine_source(void *ctx, const ft_sampling *s, ft_error *err,
                               ft_draft_source **out)
{
    ft_load_drafts *drafts = ctx;
    return ft_draft_engine_source(drafts->engine, NULL, s, err, out);
}

ft_status ft_load_drafts_init(ft_load_drafts *out, const ft_load_drafts_opts *opts, ft_error *err)
{
    const ft_engine_opts engine = {.model = opts->model,
                                   .kv_tok = opts->kv_tok,
                                   .max_batch_tok = FT_TREE_MAX,
                                   .n_threads = opts->n_threads};
    *out = (ft_load_drafts){0};
    ft_status status = ft_engine_create(&engine, err, &out->engine);
    if (status != FT_OK)
        return status;
    out->from_engine = (ft_draft_source_factory){
        .ctx = out, .create = engine_source, .n_ctx = ft_model_hparams(opts->model)->n_ctx_train};
    return ft_recording_create(&out->from_engine, opts->branch, err, &out->recording);
}

void ft_load_drafts_deinit(ft_load_drafts *drafts)
{
    ft_recording_destroy(drafts->recording);
    ft_engine_destroy(drafts->engine);
    *drafts = (ft_load_drafts){0};
}

static void sleep_us(void *ctx, int64_t us)
{
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)ctx;
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

void ft_load_device_init(ft_load_device *device, ft_load_drafts *drafts, int64_t us_per_forward)
{
    *device = (ft_load_device){.drafts = drafts,
                               .device = {.clock = ft_clock_monotonic(),
                                          .sleep_us = sleep_us,
                                          .us_per_forward = us_per_forward}};
}

static ft_status device_source(void *ctx, const ft_sampling *s, ft_error *err,
                               ft_draft_source **out)
{
    ft_load_device *device = ctx;
    ft_draft_source *recorded = NULL;
    *out = NULL;
    ft_status status = ft_recording_source(device->drafts->recording, s, err, &recorded);
    if (status != FT_OK)
        return status;
    return ft_draft_source_paced(recorded, &device->device, err, out);
}

ft_draft_source_factory ft_load_device_factory(ft_load_device *device)
{
    return (ft_draft_source_factory){
        .ctx = device, .create = device_source, .n_ctx = device->drafts->from_engine.n_ctx};
}
