// SPDX-License-Identifier: Apache-2.0
// Runs that do not count. Settings draft from the same texts: so the forwards of one setting with
// the deepest drafts, the most sessions, the fastest devices and the slowest links have nearly all
// that others ask for. State is the caller's.
#include "bench/serving_record.h"

#define RECORDINGS_MAX 4    /* of a mode */
#define MISSED_MOST    0.01 /* nodes a forward that a recording may lack */

typedef struct trial {
    double verify_ms;
    double missed; /* nodes that the recording lacked, a draft forward */
} trial;

ft_status ft_serving_learn(ft_serving *x, ft_error *err)
{
    ft_bench_load_sample sample;
    ft_bench_load_drive_opts o = ft_serving_drive_opts(x, 0, FT_BENCH_LOAD_PLAIN);
    o.n_slots = 2 * ft_bench_serving_most_batch(&x->o->sweep);
    o.learn = true;
    o.progress = ft_progress_terminal("texts");
    ft_status status = ft_bench_load_drive(&o, err, &sample);
    ft_bench_load_sample_deinit(&sample);
    return status;
}

static ft_status try_mode(ft_serving *x, ft_bench_load_drive_opts *o, trial *out, ft_error *err)
{
    ft_bench_load_sample sample;
    o->progress = ft_progress_terminal("drafts");
    ft_status status = ft_bench_load_drive(o, err, &sample);
    out->verify_ms = ft_bench_load_values_quantile(&sample.verify_ms, 0.5);
    out->missed = (double)sample.misses / (double)(sample.device_forwards + 1);
    ft_bench_load_sample_deinit(&sample);
    return status;
}

/* The setting's drafts, as far ahead as any setting drafts. */
static ft_bench_load_drive_opts deepest(ft_serving *x, uint32_t setting, ft_bench_load_mode mode)
{
    ft_bench_load_drive_opts o = ft_serving_drive_opts(x, setting, mode);
    const uint32_t batch = ft_bench_serving_most_batch(&x->o->sweep);
    uint32_t longest = 0; /* more time to draft ahead */
    for (uint32_t i = 0; i < x->o->n_rtt; i++)
        longest = x->o->rtt_us[i] > longest ? x->o->rtt_us[i] : longest;
    for (uint32_t i = 0; i < x->n; i++) {
        const int64_t us = (int64_t)(x->report[i]->forward_ms * 1e3);
        o.forward_us = us < o.forward_us ? us : o.forward_us;
    }
    o.n_slots = mode == FT_BENCH_LOAD_PIPELINE ? 2 * batch : batch;
    ft_serving_slow_down(x, longest, &o);
    return o;
}

/* Until hardly anything is missing. */
static ft_status record_mode(ft_serving *x, uint32_t setting, ft_bench_load_mode mode,
                             ft_error *err)
{
    trial t = {.missed = 1};
    ft_status status = FT_OK;
    for (int i = 0; i < RECORDINGS_MAX && t.missed > MISSED_MOST && status == FT_OK; i++) {
        ft_bench_load_drive_opts o = deepest(x, setting, mode);
        status = try_mode(x, &o, &t, err);
    }
    return status;
}

/* Records the draft model's forwards wherever drafts of these texts may begin. */
static ft_status record_texts(ft_serving *x, uint32_t setting, ft_error *err)
{
    const ft_progress progress = ft_progress_terminal("drafts");
    const ft_bench_load_drive_opts o = ft_serving_drive_opts(x, setting, FT_BENCH_LOAD_PIPELINE);
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < x->set.n && status == FT_OK; i++) {
        const ft_bench_load_drafts_text text = {.prompt = &x->set.prompts[i].tokens,
                                                .text = &x->set.prompts[i].text,
                                                .sampling = x->o->sampling,
                                                .params = o.edge.draft};
        ft_progress_report(&progress, i, x->set.n);
        status = ft_bench_load_drafts_record(&x->drafts, &text, err);
        if (status == FT_OK && x->o->stop && x->o->stop())
            status = ft_error_set(err, FT_CANCELLED, "stopped");
    }
    ft_progress_report(&progress, x->set.n, x->set.n);
    return status;
}

/* The first setting of its shape: no other drafts deeper. */
static bool is_first(const ft_serving *x, uint32_t setting)
{
    for (uint32_t i = 0; i < setting; i++)
        if (x->setting[i].shape == x->setting[setting].shape)
            return false;
    return true;
}

/* Whether devices have a draft model in this mode, where it is asked for. */
static bool has_model(const ft_serving *x, ft_bench_load_mode mode)
{
    return x->o->mode[mode] && !ft_serving_is_server_mode(mode) && !ft_serving_looks_up(mode);
}

static bool drafts_on_edges(const ft_serving *x)
{
    bool any = false;
    for (int m = 0; m < FT_BENCH_LOAD_MODES; m++)
        any = any || has_model(x, (ft_bench_load_mode)m);
    return any;
}

ft_status ft_serving_record(ft_serving *x, ft_error *err)
{
    trial fast = {0};
    if (!drafts_on_edges(x))
        return FT_OK;
    ft_status status = record_texts(x, 0, err);
    if (status == FT_OK) {
        ft_bench_load_drive_opts o = ft_serving_drive_opts(x, 0, FT_BENCH_LOAD_EDGE);
        o.forward_us = 0;
        status = try_mode(x, &o, &fast, err);
    }
    ft_serving_saw_verify(x, fast.verify_ms);
    for (uint32_t i = 0; i < x->n && status == FT_OK; i++) {
        if (!is_first(x, i))
            continue;
        if (i > 0)
            status = record_texts(x, i, err);
        for (int m = FT_BENCH_LOAD_EDGE; m < FT_BENCH_LOAD_MODES && status == FT_OK; m++)
            if (has_model(x, (ft_bench_load_mode)m))
                status = record_mode(x, i, (ft_bench_load_mode)m, err);
    }
    return status;
}
