// SPDX-License-Identifier: Apache-2.0
// Idle sessions: a real server in a child process, this process's streams to it, and the child's
// resident memory after half of the sessions and after all of them. The difference leaves out what
// does not grow with sessions. A bare gRPC server (bare_server.h) is measured in the same way and
// run. Rounds of a few active sessions are timed before the idle ones open and beside them.
#include "bench/sessions.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "base/rng.h"
#include "bench/bare_server.h"
#include "bench/load_server.h"
#include "engine/attn_layout.h"
#include "model/gguf_file.h"
#include "model/hparams.h"
#include "wire/call.h"

#define WAVE       64   /* sessions that have their first round at the same time */
#define CHAIN      4    /* drafted tokens a round */
#define CTX        1024 /* tokens of a text; an active session that comes near opens a new one */
#define WAIT_US    60000000
#define ACTIVE_MAX 256

typedef struct bench {
    const ft_bench_sessions_opts *o;
    uint32_t n_vocab;
    double kv_block_bytes;
    ft_bench_load_server server;
    ft_bench_bare_server bare;
    ft_wire_client *client, *bare_client;
    ft_call **calls; /* [idle], of the server */
    ft_call **bare_calls;
    uint32_t n_calls, n_bare_calls;
    double *round_ms; /* [active * rounds] */
} bench;

/* ---- streams ---- */

static ft_status send_open(const bench *b, ft_call *call, uint64_t seed, ft_error *err)
{
    int32_t prompt[CTX];
    ft_rng rng;
    ft_rng_init(&rng, seed);
    for (int64_t i = 0; i < b->o->prompt_tok; i++)
        prompt[i] = (int32_t)ft_rng_below(&rng, b->n_vocab);
    const ft_client_msg msg = {.kind = FT_CLIENT_OPEN,
                               .open = {.protocol = FT_PROTOCOL,
                                        .sampling = {.seed = seed},
                                        .n_prompt = (uint32_t)b->o->prompt_tok,
                                        .prompt = prompt}};
    return ft_call_send(call, &msg, err);
}

static ft_status send_draft(const bench *b, ft_call *call, uint32_t round, uint32_t base,
                            ft_error *err)
{
    ft_client_msg msg = {.kind = FT_CLIENT_DRAFT,
                         .draft = {.round = round, .base = base, .n = CHAIN}};
    for (int32_t i = 0; i < CHAIN; i++) {
        msg.draft.token[i] = (int32_t)((base * 31 + (uint32_t)i * 7) % b->n_vocab);
        msg.draft.parent[i] = i - 1;
    }
    return ft_call_send(call, &msg, err);
}

/* The next message; a text of the server's. */
static ft_status receive(ft_call *call, ft_error *err, uint32_t *length, bool *ended)
{
    ft_server_msg *msg = NULL;
    ft_status status = ft_call_recv(call, WAIT_US, err, &msg);
    if (status != FT_OK)
        return status;
    const bool verdict = msg->kind == FT_SERVER_VERDICT;
    *length = verdict ? msg->verdict.length : msg->opened.length;
    *ended = verdict && msg->verdict.finish != FT_FINISH_NONE;
    ft_server_msg_free(msg);
    return FT_OK;
}

static ft_status receive_bytes(ft_call *call, ft_error *err)
{
    uint8_t *data = NULL;
    size_t n;
    ft_status status = ft_call_recv_bytes(call, WAIT_US, err, &data, &n);
    free(data);
    return status;
}

/* Opens `n` more sessions, and lets each have one round. */
static ft_status open_wave(bench *b, uint32_t n, ft_error *err)
{
    ft_status status = FT_OK;
    ft_call **call = b->calls + b->n_calls;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        status = ft_call_create(b->client, err, &call[i]);
        if (status == FT_OK)
            status = send_open(b, call[i], ++b->n_calls, err);
    }
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        uint32_t length = 0;
        bool ended;
        status = receive(call[i], err, &length, &ended);
        if (status == FT_OK)
            status = send_draft(b, call[i], 1, length, err);
    }
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        uint32_t length;
        bool ended;
        status = receive(call[i], err, &length, &ended);
    }
    return status;
}

/* The same messages to the bare server. */
static ft_status open_bare_wave(bench *b, uint32_t n, ft_error *err)
{
    ft_status status = FT_OK;
    ft_call **call = b->bare_calls + b->n_bare_calls;
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        status = ft_call_create(b->bare_client, err, &call[i]);
        if (status == FT_OK)
            status = send_open(b, call[i], ++b->n_bare_calls, err);
    }
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        status = receive_bytes(call[i], err);
        if (status == FT_OK)
            status = send_draft(b, call[i], 1, 1, err);
    }
    for (uint32_t i = 0; i < n && status == FT_OK; i++)
        status = receive_bytes(call[i], err);
    return status;
}

static ft_status open_until(bench *b, uint32_t n, bool bare, ft_error *err)
{
    ft_status status = FT_OK;
    const uint32_t *have = bare ? &b->n_bare_calls : &b->n_calls;
    while (status == FT_OK && *have < n) {
        const uint32_t wave = ft_min_u32(n - *have, WAVE);
        if (b->o->stop && b->o->stop())
            return ft_error_set(err, FT_CANCELLED, "bench sessions: stopped");
        status = bare ? open_bare_wave(b, wave, err) : open_wave(b, wave, err);
    }
    return status;
}

/* ---- active sessions ---- */

typedef struct worker {
    const bench *b;
    pthread_t thread;
    uint64_t seed;
    double *round_ms; /* [rounds] */
    ft_status status;
    ft_error err;
} worker;

static ft_status run_text(worker *a, int64_t *done)
{
    ft_call *call = NULL;
    uint32_t length = 0;
    bool ended = false;
    ft_status status = ft_call_create(a->b->client, &a->err, &call);
    if (status == FT_OK)
        status = send_open(a->b, call, a->seed++, &a->err);
    if (status == FT_OK)
        status = receive(call, &a->err, &length, &ended);
    for (uint32_t round = 1; status == FT_OK && !ended && *done < a->b->o->rounds; round++) {
        const int64_t from_us = ft_bench_now_us();
        status = send_draft(a->b, call, round, length, &a->err);
        if (status == FT_OK)
            status = receive(call, &a->err, &length, &ended);
        a->round_ms[(*done)++] = (double)(ft_bench_now_us() - from_us) / 1e3;
        ended = ended || length + 2 * CHAIN > CTX;
    }
    ft_call_destroy(call);
    return status;
}

static void *be_active(void *arg)
{
    worker *a = arg;
    int64_t done = 0;
    while (a->status == FT_OK && done < a->b->o->rounds)
        a->status = run_text(a, &done);
    return NULL;
}

typedef struct round_times {
    double p50, p99; /* ms */
} round_times;

/* `format` has the number of active sessions in it. */
static bool add_time(json_t *report, const char *format, int n, double ms)
{
    char key[64];
    snprintf(key, sizeof key, format, n);
    return json_object_set_new(report, key, json_real(ms)) == 0;
}

static ft_status time_rounds(bench *b, uint64_t seed, ft_error *err, round_times *out)
{
    const uint32_t n = (uint32_t)b->o->active;
    worker all[ACTIVE_MAX] = {0};
    uint32_t started = 0;
    ft_status status = FT_OK;
    for (; started < n && status == FT_OK; started++) {
        worker *a = &all[started];
        *a = (worker){.b = b,
                      .seed = (seed + started) << 32,
                      .round_ms = b->round_ms + started * (size_t)b->o->rounds};
        if (pthread_create(&a->thread, NULL, be_active, a) != 0) {
            status = ft_error_set(err, FT_NOMEM, "bench sessions: no thread for a session");
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(all[i].thread, NULL);
        if (status == FT_OK && all[i].status != FT_OK) {
            status = all[i].status;
            *err = all[i].err;
        }
    }
    const uint32_t rounds = n * (uint32_t)b->o->rounds;
    if (status != FT_OK)
        return status;
    out->p50 = ft_bench_median(b->round_ms, rounds); /* sorts */
    out->p99 = b->round_ms[(rounds - 1) * 99 / 100];
    return FT_OK;
}

/* ---- memory ---- */

static ft_status resident(pid_t pid, ft_error *err, double *bytes)
{
    char path[40];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *in = fopen(path, "r");
    const bool ok = in && fscanf(in, "%*u %lu", &pages) == 1;
    if (in)
        fclose(in);
    *bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
    return ok ? FT_OK : ft_error_set(err, FT_IO, "%s: cannot be read", path);
}

static ft_status measure(const bench *b, ft_error *err, ft_bench_sessions_point *out)
{
    ft_bench_load_counters now;
    ft_status status = ft_bench_load_server_count(&b->server, err, &now);
    if (status == FT_OK)
        status = resident(b->server.pid, err, &out->rss);
    if (status == FT_OK)
        out->kv_bytes =
            (double)(now.stats.kv_blocks - now.stats.kv_blocks_free) * b->kv_block_bytes;
    out->n = b->n_calls;
    return status;
}

/* ---- all of it ---- */

static ft_status start(bench *b, ft_error *err)
{
    const ft_bench_sessions_opts *o = b->o;
    const uint32_t sessions = (uint32_t)(o->idle + o->active) + WAVE;
    /* An idle text needs one block, and the server lets texts in that could grow by a whole
     * tree. */
    ft_bench_load_server_opts server = {.model = o->model,
                                        .ctx = CTX,
                                        .kv_tok = 32 * sessions + (uint32_t)o->active * 2 * CTX,
                                        .max_sessions = sessions,
                                        .threads = (uint32_t)o->threads,
                                        .core = -1,
                                        .stop = o->stop};
    ft_status status = ft_bench_bare_server_start(sessions, err, &b->bare);
    if (status == FT_OK)
        status = ft_bench_load_server_start(&server, err, &b->server);
    if (status == FT_OK)
        status = ft_wire_client_create(&(ft_wire_client_opts){.address = b->server.address}, err,
                                       &b->client);
    if (status == FT_OK)
        status = ft_wire_client_create(&(ft_wire_client_opts){.address = b->bare.address}, err,
                                       &b->bare_client);
    return status;
}

static ft_status read_model(bench *b, ft_error *err)
{
    ft_gguf gguf;
    ft_hparams hp;
    ft_status status = ft_gguf_open(b->o->model, err, &gguf);
    if (status != FT_OK)
        return status;
    status = ft_hparams_read(&gguf, &hp);
    ft_gguf_close(&gguf);
    if (status != FT_OK)
        return status;
    b->n_vocab = hp.n_vocab;
    b->kv_block_bytes = (double)FT_KV_BLOCK_TOK * hp.n_layer * hp.n_head_kv * 2 *
                        (double)ft_attn_token_bytes(FT_KV_F16, hp.head_dim);
    return FT_OK;
}

static void clean_up(bench *b)
{
    for (uint32_t i = 0; i < b->n_calls; i++)
        ft_call_destroy(b->calls[i]);
    for (uint32_t i = 0; i < b->n_bare_calls; i++)
        ft_call_destroy(b->bare_calls[i]);
    ft_wire_client_destroy(b->client);
    ft_wire_client_destroy(b->bare_client);
    ft_bench_load_server_stop(&b->server);
    ft_bench_bare_server_stop(&b->bare);
    free(b->calls);
    free(b->bare_calls);
    free(b->round_ms);
}

/* Opens idle sessions until there are n, then bare streams, and measures both. */
static ft_status grow(bench *b, uint32_t n, ft_error *err, ft_bench_sessions_point *out)
{
    ft_status status = open_until(b, n, false, err);
    if (status == FT_OK)
        status = measure(b, err, out);
    if (status == FT_OK)
        status = open_until(b, n, true, err);
    if (status == FT_OK)
        status = resident(b->bare.pid, err, &out->bare_rss);
    return status;
}

json_t *ft_bench_sessions_per_session(const ft_bench_sessions_point *fewer,
                                      const ft_bench_sessions_point *all)
{
    const double more = (double)all->n - fewer->n;
    const double rss = (all->rss - fewer->rss) / more,
                 kv = (all->kv_bytes - fewer->kv_bytes) / more;
    const double grpc = (all->bare_rss - fewer->bare_rss) / more;
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "sessions", (json_int_t)all->n,
                     "rss_bytes_per_session", rss, "kv_bytes_per_session", kv,
                     "grpc_bytes_per_stream", grpc, "ours_bytes_per_session", rss - kv - grpc);
}

static ft_status run(bench *b, ft_error *err, json_t **report)
{
    const uint32_t n = (uint32_t)b->o->idle;
    ft_bench_sessions_point half, all;
    round_times alone, beside;
    ft_status status = time_rounds(b, 1, err, &alone);
    if (status == FT_OK)
        status = grow(b, n / 2, err, &half);
    if (status == FT_OK)
        status = grow(b, n, err, &all);
    if (status == FT_OK)
        status = time_rounds(b, 1001, err, &beside);
    if (status != FT_OK)
        return status;
    *report = ft_bench_sessions_per_session(&half, &all);
    const int active = (int)b->o->active;
    if (*report && add_time(*report, "round_ms_p50_of_%d_active_alone", active, alone.p50) &&
        add_time(*report, "round_ms_p99_of_%d_active_alone", active, alone.p99) &&
        add_time(*report, "round_ms_p50_beside_%d_active", active, beside.p50) &&
        add_time(*report, "round_ms_p99_beside_%d_active", active, beside.p99))
        return FT_OK;
    json_decref(*report);
    *report = NULL;
    return ft_error_set(err, FT_NOMEM, "bench sessions: out of memory");
}

ft_status ft_bench_sessions(const ft_bench_sessions_opts *opts, ft_error *err, json_t **report)
{
    bench b = {.o = opts};
    *report = NULL;
    b.calls = calloc((size_t)opts->idle, sizeof *b.calls);
    b.bare_calls = calloc((size_t)opts->idle, sizeof *b.bare_calls);
    b.round_ms = calloc((size_t)(opts->active * opts->rounds), sizeof *b.round_ms);
    ft_status status = FT_OK;
    if (!b.calls || !b.bare_calls || !b.round_ms)
        status = ft_error_set(err, FT_NOMEM, "bench sessions: out of memory");
    if (status == FT_OK)
        status = read_model(&b, err);
    if (status == FT_OK)
        status = start(&b, err);
    if (status == FT_OK)
        status = run(&b, err, report);
    clean_up(&b);
    return status;
}
