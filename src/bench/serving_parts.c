// SPDX-License-Identifier: Apache-2.0
// Servers and drives of the serving comparison. State is the caller's.
#include "bench/serving_parts.h"

#define CONTEXT_MARGIN 64 /* beyond prompt, text and tree */
#define SPLIT_SHARE    4  /* one layer of so many is the edge's (SpecEdge 5.3) */

bool ft_serving_is_server_mode(ft_bench_load_mode mode)
{
    return mode < FT_BENCH_LOAD_EDGE;
}

bool ft_serving_looks_up(ft_bench_load_mode mode)
{
    return mode == FT_BENCH_LOAD_LOOKUP || mode == FT_BENCH_LOAD_MISLED;
}

/* A server that does not draft. */
static ft_bench_load_server_opts server_opts(const ft_serving *x, uint32_t tree)
{
    const ft_bench_serving_opts *f = x->o;
    const uint32_t batch = ft_bench_serving_most_batch(&f->sweep);
    ft_bench_load_server_opts opts = {.model = f->model,
                                      .max_sessions = 8 * batch + 8,
                                      .threads = 1,
                                      .memory = f->memory,
                                      .core = x->core,
                                      .timeline_mb = x->timeline.to ? FT_BENCH_TIMELINE_MB : 0,
                                      .stop = f->stop};
    ft_bench_load_server_fit(&opts, &x->set, (uint32_t)f->n + tree + CONTEXT_MARGIN, 2 * batch);
    return opts;
}

ft_status ft_serving_start(const ft_serving *x, const ft_serving_spec *spec, ft_error *err,
                           ft_bench_load_server *out)
{
    const ft_bench_serving_opts *f = x->o;
    ft_bench_load_server_opts opts =
        server_opts(x, spec ? spec->budget : (uint32_t)f->drafts.budget);
    if (spec) {
        opts.draft = f->server_draft ? f->server_draft : f->draft;
        opts.depth = spec->depth;
        opts.budget = spec->budget;
        opts.width = spec->width;
        opts.draft_always = f->drafts.rule == FT_BENCH_DEPTH_FIXED;
    }
    return ft_bench_load_server_start(&opts, err, out);
}

ft_status ft_serving_start_split(ft_serving *x, ft_error *err)
{
    const ft_model_opts target = {.path = x->o->model};
    ft_model_info info;
    ft_status status = ft_model_inspect(&target, err, &info);
    if (status == FT_OK)
        status = ft_bench_load_split_start(x->o->stop, err, &x->split);
    if (status != FT_OK)
        return status;
    ft_bench_load_server_opts opts = server_opts(x, 0);
    opts.rpc = x->split.endpoint;
    opts.offload = info.hp.n_layer > SPLIT_SHARE ? info.hp.n_layer / SPLIT_SHARE : 1;
    return ft_bench_load_server_start(&opts, err, &x->split_server);
}

static const ft_bench_load_server *server_of(const ft_serving *x, const ft_bench_serving_setting *s,
                                             ft_bench_load_mode mode)
{
    return mode == FT_BENCH_LOAD_SERVER_SPEC   ? &x->spec[s->leader]
           : mode == FT_BENCH_LOAD_LAYER_SPLIT ? &x->split_server
                                               : &x->plain;
}

static ft_draft_params params_of(const ft_serving *x, const ft_bench_serving_setting *s,
                                 ft_bench_load_mode mode)
{
    const ft_bench_serving_drafts *d = &x->o->drafts;
    ft_draft_params params =
        s->shape == FT_BENCH_SHAPE_CHAIN
            ? ft_draft_params_chain(s->depth)
            : ft_draft_params_tree((uint32_t)d->budget, s->depth, (uint32_t)d->width);
    if (mode == FT_BENCH_LOAD_MISLED)
        params.depth = params.budget; /* what `foretoken edge` chooses within */
    params.proactive = d->proactive;
    params.weigh_rows = d->rule == FT_BENCH_DEPTH_LATENCY;
    params.predictor = mode == FT_BENCH_LOAD_PREDICTOR ? d->predictor : NULL;
    return params;
}

static ft_depth_rule depth_rule(const ft_serving *x, const ft_bench_serving_setting *s,
                                ft_bench_load_mode mode)
{
    if (mode == FT_BENCH_LOAD_MISLED)
        return FT_DEPTH_AUTO;
    if (mode == FT_BENCH_LOAD_PIPELINE)
        return s->fixed ? FT_DEPTH_AUTO : FT_DEPTH_PIPELINE;
    return x->o->drafts.rule == FT_BENCH_DEPTH_LATENCY ? FT_DEPTH_LATENCY : FT_DEPTH_AUTO;
}

static ft_draft_by draft_by(ft_bench_load_mode mode)
{
    return mode == FT_BENCH_LOAD_BOTH  ? FT_DRAFT_BY_BOTH
           : ft_serving_looks_up(mode) ? FT_DRAFT_BY_LOOKUP
                                       : FT_DRAFT_BY_MODEL;
}

static double forward_ms(const ft_serving *x, const ft_bench_serving_setting *s)
{
    return s->draft_ms > 0 ? s->draft_ms : x->o->ratio * x->verify_ms;
}

ft_bench_load_drive_opts ft_serving_drive_opts(ft_serving *x, uint32_t i, ft_bench_load_mode mode)
{
    const ft_bench_serving_setting *s = &x->setting[i];
    const bool drafts = !ft_serving_is_server_mode(mode);
    return (ft_bench_load_drive_opts){
        .server = server_of(x, s, mode),
        .set = &x->set,
        .vocab = x->vocab,
        .sampling = x->o->sampling,
        .n_tokens = (uint32_t)x->o->n,
        .n_slots = mode == FT_BENCH_LOAD_PIPELINE ? 2 * s->batch : s->batch,
        .edge = {.draft_by = draft_by(mode),
                 .draft = drafts ? params_of(x, s, mode) : (ft_draft_params){0},
                 .automatic = mode == FT_BENCH_LOAD_MISLED,
                 .depth_rule = depth_rule(x, s, mode),
                 .proactive = mode >= FT_BENCH_LOAD_PROACTIVE,
                 .early = mode >= FT_BENCH_LOAD_EARLY},
        .misled = mode == FT_BENCH_LOAD_MISLED,
        .drafts = drafts ? &x->drafts : NULL,
        .forward_us = (int64_t)(forward_ms(x, s) * 1e3),
        .stop = x->o->stop};
}

void ft_serving_slow_down(const ft_serving *x, uint32_t rtt_us, ft_bench_load_drive_opts *o)
{
    o->rtt_us = rtt_us;
    o->up = x->o->up;
    o->down = x->o->down;
}

void ft_serving_saw_verify(ft_serving *x, double verify_ms)
{
    x->verify_ms = verify_ms > 0 ? verify_ms : x->verify_ms;
    for (uint32_t i = 0; i < x->n; i++) {
        ft_bench_load_report *r = x->report[i];
        r->ratio = x->setting[i].draft_ms > 0 ? 0 : x->o->ratio;
        r->verify_ms = r->ratio > 0 ? x->verify_ms : 0;
        r->forward_ms = forward_ms(x, &x->setting[i]);
    }
}
