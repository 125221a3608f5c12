// SPDX-License-Identifier: Apache-2.0
// Recorded drafts for emulated devices. The engine behind the recording is used under the
// recording's lock, by the device that first needs a forward that is not recorded.
#include "bench/load_device.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "spec/draft_engine.h"
#include "spec/tree.h"

static ft_status engine_source(void *ctx, const ft_rule *rule, const ft_sampling *s, ft_error *err,
                               ft_draft_source **out)
{
    ft_bench_load_drafts *drafts = ctx;
    return ft_draft_engine_source(drafts->engine, rule, NULL, s, err, out);
}

ft_status ft_bench_load_drafts_init(ft_bench_load_drafts *out,
                                    const ft_bench_load_drafts_opts *opts, ft_error *err)
{
    const ft_engine_opts engine = {.model = opts->model,
                                   .kv_tok = opts->kv_tok,
                                   .max_batch_tok = FT_TREE_MAX,
                                   .n_threads = opts->n_threads};
    *out = (ft_bench_load_drafts){0};
    ft_status status = ft_engine_create(&engine, err, &out->engine);
    if (status != FT_OK)
        return status;
    out->from_engine = (ft_draft_source_factory){
        .ctx = out, .create = engine_source, .n_ctx = ft_model_hparams(opts->model)->n_ctx_train};
    return ft_recording_create(&out->from_engine, opts->branch, err, &out->recording);
}

void ft_bench_load_drafts_deinit(ft_bench_load_drafts *drafts)
{
    ft_recording_destroy(drafts->recording);
    ft_engine_destroy(drafts->engine);
    *drafts = (ft_bench_load_drafts){0};
}

/* Everything behind the text's end that is among the likeliest: level by level, as wide as it goes,
 * and as many nodes as a tree can have. Drafts ahead of a verdict have as many as its time allows,
 * however small params->budget is. */
static ft_status record_end(ft_drafter *drafter, const ft_draft_params *params, ft_error *err)
{
    ft_tree tree;
    ft_draft_params all = *params;
    all.budget = FT_TREE_MAX;
    all.width = FT_DRAFT_LEAVES;
    all.depth = FT_TREE_MAX;
    return ft_drafter_draft(drafter, &all, err, &tree);
}

static ft_status record_text(ft_bench_load_drafts *drafts, const ft_bench_load_drafts_text *t,
                             const ft_calibration *calibration, ft_error *err)
{
    ft_draft_source *source = NULL;
    ft_drafter *drafter = NULL;
    ft_status status =
        ft_recording_source(drafts->recording, &ft_rule_exact, &t->sampling, err, &source);
    if (status == FT_OK)
        status = ft_drafter_create(source, err, &drafter);
    if (status == FT_OK)
        status = ft_drafter_reset(drafter, t->prompt->id, (uint32_t)t->prompt->n, err);
    for (size_t i = 0; i < t->text->n && status == FT_OK; i++) {
        ft_drafter_calibrate(drafter,
                             calibration); /* it learns: this is the one that is asked for */
        status = record_end(drafter, &t->params, err);
        if (status == FT_OK)
            status = ft_drafter_advance(drafter, NULL, 0, &t->text->id[i], 1, err);
    }
    ft_drafter_destroy(drafter);
    return status;
}

ft_status ft_bench_load_drafts_record(ft_bench_load_drafts *drafts,
                                      const ft_bench_load_drafts_text *text, ft_error *err)
{
    /* What a device comes to trust its draft model by, about: the fits of `bench noise`. */
    static const float sharpness[] = {1, 1.8f};
    ft_status status = FT_OK;
    for (size_t i = 0; i < FT_COUNT(sharpness) && status == FT_OK; i++) {
        const ft_calibration calibration = {.sharpness = sharpness[i]};
        status = record_text(drafts, text, &calibration, err);
    }
    return status;
}

static void sleep_us(void *ctx, int64_t us)
{
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)ctx;
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}

void ft_bench_load_device_init(ft_bench_load_device *device, ft_bench_load_drafts *drafts,
                               int64_t us_per_forward)
{
    *device = (ft_bench_load_device){.drafts = drafts,
                                     .device = {.clock = ft_clock_monotonic(),
                                                .sleep_us = sleep_us,
                                                .us_per_forward = us_per_forward}};
}

static ft_status device_source(void *ctx, const ft_rule *rule, const ft_sampling *s, ft_error *err,
                               ft_draft_source **out)
{
    ft_bench_load_device *device = ctx;
    ft_draft_source *recorded = NULL;
    *out = NULL;
    ft_status status = ft_recording_source(device->drafts->recording, rule, s, err, &recorded);
    if (status != FT_OK)
        return status;
    return ft_draft_source_paced(recorded, &device->device, err, out);
}

ft_draft_source_factory ft_bench_load_device_factory(ft_bench_load_device *device)
{
    return (ft_draft_source_factory){
        .ctx = device, .create = device_source, .n_ctx = device->drafts->from_engine.n_ctx};
}
