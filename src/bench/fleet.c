// SPDX-License-Identifier: Apache-2.0
// Users who chat with fleets. A server of this program tells all texts once and is ended; its
// drafts are recorded. Then the same devices use each fleet in turn. Every round has its own part
// of the chats, so that no server knows a chat of an earlier round.
#include "bench/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/load_crowd.h"
#include "edge/edge.h"

#define LEARNERS      8
#define RECONNECT_MS  120000 /* foretoken edge's default */
#define UNPROMISED    0.001f /* tokens/s of users who ask for no speed: no text is slower */
#define ADDRESS_BYTES 256

typedef struct fleet {
    const ft_bench_fleet_opts *o;
    uint32_t n_fleets;
    char address[FT_BENCH_FLEETS_MAX][ADDRESS_BYTES];
    double tokens_per_s[FT_BENCH_FLEETS_MAX][FT_BENCH_ROUNDS_MAX];
    ft_vocab *vocab;
    ft_model *draft;
    ft_bench_load_chats chats;
    ft_bench_load_drafts drafts;
    ft_bench_load_server teacher;
    json_t *rows;
} fleet;

/* ---- what is needed ---- */

static ft_status parse_servers(fleet *x, ft_error *err)
{
    for (const char *at = x->o->servers; x->n_fleets < FT_BENCH_FLEETS_MAX; at++) {
        const size_t n = strcspn(at, ",");
        if (n == 0 || n >= ADDRESS_BYTES)
            break;
        memcpy(x->address[x->n_fleets++], at, n);
        at += n;
        if (!*at)
            return FT_OK;
    }
    return ft_error_set(err, FT_INVALID, "--server %s: not 1 to %d addresses HOST:PORT",
                        x->o->servers, FT_BENCH_FLEETS_MAX);
}

static ft_status load(fleet *x, ft_error *err)
{
    const ft_bench_fleet_opts *f = x->o;
    const ft_model_opts draft = {.path = f->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = ft_vocab_load(f->model, err, &x->vocab);
    if (status != FT_OK)
        return status;
    const ft_bench_load_chats_opts chats = {.path = f->prompts,
                                            .vocab = x->vocab,
                                            .n = (uint32_t)f->chats,
                                            .turns = (uint32_t)f->turns,
                                            .seed = f->sampling.seed};
    status = ft_bench_load_chats_read(&chats, err, &x->chats);
    if (status == FT_OK)
        status = ft_model_load(&draft, err, &x->draft);
    if (status != FT_OK)
        return status;
    const ft_bench_load_drafts_opts drafts = {.model = x->draft,
                                              .kv_tok = 2 * LEARNERS * (uint32_t)f->ctx,
                                              .branch = ft_draft_params_chain(1).branch,
                                              .n_threads = 1};
    return ft_bench_load_drafts_init(&x->drafts, &drafts, err);
}

static ft_bench_crowd_opts crowd_of(const fleet *x, const ft_bench_crowd_chats *chats,
                                    const ft_bench_crowd_class *class)
{
    const ft_bench_fleet_opts *f = x->o;
    return (ft_bench_crowd_opts){.chats = chats,
                                 .vocab = x->vocab,
                                 .sampling = f->sampling,
                                 .drafts = (ft_bench_load_drafts *)&x->drafts,
                                 .draft = ft_draft_params_chain((uint32_t)f->draft_tok),
                                 .ask = f->speed > 0,
                                 .rtt_us = (int64_t)(f->rtt_ms * 1e3),
                                 .forward_us = (int64_t)(f->draft_ms * 1e3),
                                 .n_devices = (uint32_t)f->devices,
                                 .classes = class,
                                 .n_classes = 1,
                                 .warm_s = f->warm_s,
                                 .measure_s = f->measure_s,
                                 .stop = f->stop};
}

static ft_bench_crowd_class class_of(const fleet *x)
{
    return (ft_bench_crowd_class){x->o->speed > 0 ? (float)x->o->speed : UNPROMISED,
                                  (uint32_t)x->o->n};
}

/* The texts of all chats, with their drafts. */
static ft_status learn(fleet *x, ft_error *err)
{
    const ft_bench_load_server_opts opts = {.model = x->o->model,
                                            .ctx = (uint32_t)x->o->ctx,
                                            .kv_tok = 2 * LEARNERS * (uint32_t)x->o->ctx,
                                            .max_sessions = 2 * LEARNERS,
                                            .core = -1,
                                            .stop = x->o->stop};
    const ft_bench_crowd_chats chats = {.all = &x->chats};
    const ft_bench_crowd_class class = class_of(x);
    ft_bench_crowd_opts o = crowd_of(x, &chats, &class);
    ft_bench_crowd_result r;
    ft_status status = ft_bench_load_server_start(&opts, err, &x->teacher);
    o.server = &x->teacher;
    o.n_devices = LEARNERS;
    if (status == FT_OK)
        status = ft_bench_crowd_learn(&o, err, &r);
    if (status == FT_OK)
        fprintf(x->o->log, "%u chats: %llu tokens in %.0f s\n", x->chats.n,
                (unsigned long long)r.tokens, r.seconds);
    ft_bench_load_server_stop(&x->teacher);
    return status;
}

/* ---- rounds ---- */

static uint32_t chats_a_round(const fleet *x)
{
    return x->chats.n / (uint32_t)x->o->rounds;
}

static json_t *row_of(const fleet *x, uint32_t i, uint32_t round, const ft_bench_crowd_result *r)
{
    const uint32_t share = chats_a_round(x);
    json_t *row = json_pack(
        "{s:s, s:i, s:f, s:f, s:f, s:I, s:I, s:I, s:b}", "server", x->address[i], "round",
        (int)round, "tokens_per_s", (double)r->tokens / r->seconds, "from_s",
        (double)r->from_us / 1e6, "seconds", r->seconds, "texts", (json_int_t)r->texts[0], "late",
        (json_int_t)r->slow[0], "refused", (json_int_t)r->refused, "identical", r->mismatches == 0);
    json_object_update_new(
        row, json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:f, s:I, s:I}", "before_tokens",
                       (json_int_t)r->before_tok, "found_tokens", (json_int_t)r->found_tok,
                       "verdicts", (json_int_t)r->verdicts, "drafted", (json_int_t)r->drafted,
                       "accepted", (json_int_t)r->accepted, "chats_repeated",
                       r->chats > share ? (int)(r->chats - share) : 0, "edges_cpu_s",
                       r->driver_cpu_s, "late_forwards", (json_int_t)r->device_late,
                       "replay_misses", (json_int_t)r->misses));
    return row;
}

static ft_status run_round(fleet *x, uint32_t i, uint32_t round, ft_error *err)
{
    const ft_bench_crowd_chats chats = {.all = &x->chats,
                                        .first = round * chats_a_round(x),
                                        .think_s = x->o->think_s,
                                        .seed = x->o->sampling.seed + round,
                                        .reconnect_ms = RECONNECT_MS};
    const ft_bench_crowd_class class = class_of(x);
    ft_wire_client_opts wire = x->o->wire;
    ft_bench_crowd_opts o = crowd_of(x, &chats, &class);
    ft_bench_crowd_result r;
    wire.address = x->address[i];
    o.wire = &wire;
    ft_status status = ft_bench_crowd_run(&o, err, &r);
    if (status != FT_OK)
        return status;
    x->tokens_per_s[i][round] = (double)r.tokens / r.seconds;
    json_array_append_new(x->rows, row_of(x, i, round, &r));
    fprintf(x->o->log,
            "round %u, %s: %.1f tokens/s, %llu of %llu texts late, %llu refused, %llu other than "
            "they were told before\n",
            round + 1, x->address[i], x->tokens_per_s[i][round], (unsigned long long)r.slow[0],
            (unsigned long long)r.texts[0], (unsigned long long)r.refused,
            (unsigned long long)r.mismatches);
    return FT_OK;
}

static ft_status measure(fleet *x, ft_error *err)
{
    ft_status status = parse_servers(x, err);
    if (status == FT_OK)
        status = load(x, err);
    if (status == FT_OK)
        status = learn(x, err);
    if (status == FT_OK) /* what drafts costs no time from here on */
        ft_recording_drop_model(x->drafts.recording);
    for (uint32_t round = 0; round < x->o->rounds && status == FT_OK; round++)
        for (uint32_t i = 0; i < x->n_fleets && status == FT_OK; i++)
            status = run_round(x, i, round, err);
    return status;
}

/* ---- what comes out ---- */

static json_t *to_json(fleet *x)
{
    const ft_bench_fleet_opts *f = x->o;
    const ft_bench_load_chats_shape shape = ft_bench_load_chats_shape_of(&x->chats);
    json_t *fleets = json_array();
    double first = 0;
    for (uint32_t i = 0; i < x->n_fleets; i++) {
        const double median = ft_bench_median(x->tokens_per_s[i], (uint32_t)f->rounds);
        first = i == 0 ? median : first;
        json_array_append_new(fleets,
                              json_pack("{s:s, s:f, s:f}", "server", x->address[i], "tokens_per_s",
                                        median, "ratio", first > 0 ? median / first : 0));
    }
    json_t *out =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "command",
                  "bench fleet", "model", f->model, "draft_model", f->draft, "prompts", f->prompts,
                  "devices", f->devices, "chats", f->chats, "turns", f->turns, "draft_tokens",
                  f->draft_tok, "slo_tokens_per_s", f->speed, "think_s", f->think_s, "rtt_ms",
                  f->rtt_ms, "draft_ms", f->draft_ms, "warm_s", f->warm_s);
    json_object_update_new(out, json_pack("{s:f, s:I, s:f, s:f, s:f, s:i, s:o, s:O}", "measure_s",
                                          f->measure_s, "rounds", f->rounds, "first_prompt_tokens",
                                          shape.first, "turn_tokens", shape.more, "text_tokens",
                                          shape.text, "interleaved", 1, "fleets", fleets, "rows",
                                          x->rows));
    return out;
}

static void print_text(const fleet *x, const json_t *report)
{
    const json_t *fleets = json_object_get(report, "fleets"), *one;
    size_t i;
    fprintf(x->o->text, "%lld devices, %.0f tokens a text, %g s of pauses, %lld rounds of %g s\n",
            (long long)x->o->devices, json_real_value(json_object_get(report, "text_tokens")),
            x->o->think_s, (long long)x->o->rounds, x->o->measure_s);
    json_array_foreach((json_t *)fleets, i, one)
        fprintf(x->o->text, "%-24s %8.1f tokens/s %7.3f times the first\n", x->address[i],
                json_real_value(json_object_get(one, "tokens_per_s")),
                json_real_value(json_object_get(one, "ratio")));
}

ft_status ft_bench_fleet(const ft_bench_fleet_opts *opts, ft_error *err, json_t **report)
{
    fleet *x = calloc(1, sizeof *x);
    *report = NULL;
    if (!x)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    x->o = opts;
    x->rows = json_array();
    prctl(PR_SET_TIMERSLACK, 1); /* of links and devices, whose threads inherit it: 50 us else */
    ft_status status = measure(x, err);
    if (status == FT_OK) {
        *report = to_json(x);
        if (opts->text)
            print_text(x, *report);
    }
    json_decref(x->rows);
    ft_bench_load_chats_deinit(&x->chats);
    ft_bench_load_drafts_deinit(&x->drafts);
    ft_model_destroy(x->draft);
    ft_vocab_destroy(x->vocab);
    free(x);
    return status;
}
