// SPDX-License-Identifier: Apache-2.0
// Is the text really the target's? For each prompt, greedy and sampled: compares the text by
// speculation over the real wire (gRPC on loopback, server and edge in this process) with the text
// by the target alone in this engine. Compares the greedy one also with libllama's on the same
// file. With a schema, also the texts over the wire without drafts, and those of a server in
// another process that is killed and started again in the middle of each. One thread runs all here;
// the server has its own.
#include "bench/exact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/libllama.h"
#include "bench/load_server.h"
#include "bench/prompts.h"
#include "bench/schema.h"
#include "edge/edge.h"
#include "serve/server.h"
#include "spec/constrained.h"
#include "template/template.h"

/* A text; and at each of its tokens, and at the end token if that ended it, how much smaller the
 * second largest logit was. */
typedef struct text {
    int32_t *token; /* [n flag] */
    float *gap;     /* [n flag] */
    uint32_t n;
} text;

/* How a text comes over the wire. */
typedef enum way {
    DRAFTED,
    UNDRAFTED,
    KILLED, /* with drafts; the server is killed when half of the text is there */
    WAYS
} way;

static const char *const way_name[WAYS] = {"plain", "plain, without drafts", "plain, killed"};

/* The server that is killed. */
typedef struct victim {
    ft_bench_load_server_opts opts;
    ft_bench_load_server server;
    ft_wire_client *client;
    ft_edge *edge;
    uint32_t at;    /* tokens of the present text at which it is killed; 0: not any more */
    uint32_t kills; /* so far */
    uint64_t reconnects;
    ft_error err; /* of a start that failed */
} victim;

typedef struct exact {
    const ft_bench_exact_opts *o;
    ft_model *target, *draft;
    ft_vocab *vocab;
    ft_server *server;
    ft_wire_client *client;
    ft_edge *edge;
    ft_engine *engine; /* the target alone */
    ft_seq *seq;
    ft_sampler *sampler;
    ft_bench_schema schema;
    ft_matcher *matcher; /* with a schema */
    float *room;         /* [n_vocab] */
    victim victim;
    ft_bench_llama libllama; /* open if the flag says so */
    text spec, plain, llama;
    uint64_t tokens, rounds, drafted, accepted, spec_tokens;
    uint32_t prompts, skipped, mismatches_wire[WAYS], mismatches_libllama;
    json_t *mismatches;
} exact;

static ft_status text_init(text *t, size_t n)
{
    t->token = calloc(n, sizeof *t->token);
    t->gap = calloc(n, sizeof *t->gap);
    return t->token && t->gap ? FT_OK : FT_NOMEM;
}

static void text_deinit(text *t)
{
    free(t->token);
    free(t->gap);
}

static ft_status make_edge(exact *x, ft_wire_client *client, ft_error *err, ft_edge **out)
{
    const ft_bench_exact_opts *f = x->o;
    ft_edge_opts edge = {
        .vocab = x->vocab,
        .draft_model = x->draft,
        .source = ft_link_source_wire(client),
        .draft = ft_draft_params_tree((uint32_t)f->budget, (uint32_t)f->depth, (uint32_t)f->width),
        .clock = ft_clock_monotonic(),
        .draft_kv_tok = (uint32_t)f->ctx * 2,
        .n_threads = (int)f->threads,
    };
    return ft_edge_create(&edge, err, out);
}

static ft_status start_victim(exact *x, ft_error *err)
{
    victim *v = &x->victim;
    const ft_bench_exact_opts *f = x->o;
    v->opts = (ft_bench_load_server_opts){.model = f->model,
                                          .device = &f->device,
                                          .ctx = (uint32_t)f->ctx,
                                          .kv_tok = (uint32_t)f->ctx * 2,
                                          .max_sessions = 8,
                                          .threads = (uint32_t)f->threads,
                                          .core = -1,
                                          .stop = f->stop};
    ft_status status = ft_bench_load_server_start(&v->opts, err, &v->server);
    const ft_wire_client_opts client = {.address = v->server.address};
    if (status == FT_OK)
        status = ft_wire_client_create(&client, err, &v->client);
    return status == FT_OK ? make_edge(x, v->client, err, &v->edge) : status;
}

static ft_status start_schema(exact *x, ft_error *err)
{
    const uint32_t n_vocab = ft_model_hparams(x->target)->n_vocab;
    ft_status status = ft_bench_schema_load(x->o->schema, x->vocab, err, &x->schema);
    if (status != FT_OK || !x->schema.grammar)
        return status;
    if (!(x->room = calloc(n_vocab, sizeof *x->room)))
        return ft_error_set(err, FT_NOMEM, "no memory for draws");
    status = ft_matcher_create(x->schema.grammar, err, &x->matcher);
    if (status == FT_OK)
        status = start_victim(x, err);
    if (status == FT_OK)
        status = ft_bench_schema_warm(x->victim.edge, &x->schema.constraint, err);
    return status == FT_OK ? ft_bench_schema_warm(x->edge, &x->schema.constraint, err) : status;
}

static ft_status start_wire(exact *x, ft_error *err)
{
    ft_server_opts server = {
        .verifier = {.model = x->target,
                     .vocab = x->vocab,
                     .clock = ft_clock_monotonic(),
                     .max_context = (uint32_t)x->o->ctx,
                     .kv_tok = (uint32_t)x->o->ctx * 2,
                     .session_ttl_s = 10,
                     .n_threads = (int)x->o->threads},
        .host = "127.0.0.1",
    };
    ft_status status = ft_server_create(&server, err, &x->server);
    if (status != FT_OK)
        return status;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", ft_server_port(x->server));
    ft_wire_client_opts client = {.address = address};
    status = ft_wire_client_create(&client, err, &x->client);
    if (status != FT_OK)
        return status;
    return make_edge(x, x->client, err, &x->edge);
}

/* Whether the greedy texts are compared with libllama's: it has no constraint. */
static bool has_libllama(const exact *x)
{
    return x->o->libllama && !x->o->schema;
}

static ft_status start(exact *x, ft_error *err)
{
    const ft_bench_exact_opts *f = x->o;
    size_t n = (size_t)f->n;
    ft_model_opts target = {
        .path = f->model, .progress = ft_progress_terminal("target"), .vocab = &x->vocab};
    ft_model_opts draft = {.path = f->draft, .progress = ft_progress_terminal("draft")};
    ft_status status = ft_model_load_on(&f->device, &target, err, &x->target);
    if (status == FT_OK)
        status = ft_model_load_on(&f->device_draft, &draft, err, &x->draft);
    if (status == FT_OK)
        status = start_wire(x, err);
    ft_engine_opts engine = {.model = x->target,
                             .kv_tok = (uint32_t)f->ctx + FT_KV_BLOCK_TOK,
                             .max_logits = 1,
                             .n_threads = (int)f->threads};
    if (status == FT_OK)
        status = ft_engine_create(&engine, err, &x->engine);
    if (status == FT_OK)
        status = ft_seq_create(x->engine, err, &x->seq);
    if (status == FT_OK)
        status = ft_sampler_create(ft_model_hparams(x->target)->n_vocab, err, &x->sampler);
    ft_bench_llama_opts llama = {.path = f->model,
                                 .like = x->target,
                                 .n_ctx = (uint32_t)f->ctx,
                                 .n_streams = 1,
                                 .max_batch_tok = 512,
                                 .n_threads = (int)f->threads,
                                 .flash = true};
    if (status == FT_OK)
        status = start_schema(x, err);
    if (status == FT_OK && has_libllama(x))
        status = ft_bench_llama_open(&llama, err, &x->libllama);
    if (status == FT_OK && (text_init(&x->spec, n) != FT_OK || text_init(&x->plain, n) != FT_OK ||
                            text_init(&x->llama, n) != FT_OK))
        status = ft_error_set(err, FT_NOMEM, "no memory for the texts");
    x->mismatches = json_array();
    return status;
}

static void stop(exact *x)
{
    text_deinit(&x->spec);
    text_deinit(&x->plain);
    text_deinit(&x->llama);
    ft_bench_llama_close(&x->libllama);
    ft_sampler_destroy(x->sampler);
    ft_seq_destroy(x->seq);
    ft_engine_destroy(x->engine);
    ft_edge_destroy(x->victim.edge);
    ft_wire_client_destroy(x->victim.client);
    ft_bench_load_server_stop(&x->victim.server);
    ft_matcher_destroy(x->matcher);
    ft_bench_schema_deinit(&x->schema);
    free(x->room);
    ft_edge_destroy(x->edge);
    ft_wire_client_destroy(x->client);
    ft_server_destroy(x->server, 0);
    ft_vocab_destroy(x->vocab);
    ft_model_destroy(x->draft);
    ft_model_destroy(x->target);
    json_decref(x->mismatches);
}

/* Difference of the two largest scores, in logits. */
static float top_gap(exact *x, const ft_sampling *s, const float *logits, uint32_t position)
{
    ft_candidate best[2];
    if (ft_sampler_rank(x->sampler, s, logits, position, best, 2) < 2)
        return INFINITY;
    return (best[0].score - best[1].score) * (s->temperature > 0 ? s->temperature : 1);
}

/* The target's token behind the prompt and the text so far. */
static int32_t draw(exact *x, const ft_sampling *s, const ft_tokens *prompt, const float *logits)
{
    const uint32_t position = (uint32_t)prompt->n + x->plain.n;
    const ft_past past = {.text = prompt->id,
                          .n_text = (uint32_t)prompt->n,
                          .path = x->plain.token,
                          .n_path = x->plain.n};
    if (!s->matcher)
        return ft_sampler_draw(x->sampler, s, logits, position);
    if (!ft_constrained_follow(s, &past))
        return ft_matcher_end(s->matcher);
    return ft_constrained_draw(x->sampler, ft_model_hparams(x->target)->n_vocab, x->room, s, logits,
                               position);
}

/* The target alone: one token a pass, no server, no draft. */
static ft_status run_plain(exact *x, const ft_tokens *prompt, const ft_sampling *s, ft_error *err)
{
    uint32_t n_prompt = (uint32_t)prompt->n, n = (uint32_t)x->o->n;
    ft_seq_truncate(x->seq, 0);
    x->plain.n = 0;
    ft_status status = ft_bench_read(x->engine, x->seq, prompt->id, n_prompt, true, err);
    while (status == FT_OK && x->plain.n < n) {
        const float *logits = ft_engine_logits(x->engine, 0);
        uint32_t position = n_prompt + x->plain.n;
        int32_t token = draw(x, s, prompt, logits);
        x->plain.gap[x->plain.n] = top_gap(x, s, logits, position);
        if (ft_vocab_is_eog(x->vocab, token))
            break;
        x->plain.token[x->plain.n++] = token;
        if (x->plain.n < n)
            status = ft_bench_read(x->engine, x->seq, &token, 1, true, err);
    }
    return status;
}

static bool interrupted(void *ctx)
{
    const exact *x = ctx;
    return x->o->stop && x->o->stop();
}

/* Half of the text is there: the server is killed, and another one started in its place. */
static bool kill_server(exact *x)
{
    victim *v = &x->victim;
    if (v->at == 0 || x->spec.n < v->at)
        return true;
    v->at = 0;
    v->kills++;
    return ft_bench_load_server_kill(&v->opts, &v->err, &v->server) == FT_OK;
}

static bool collect(void *ctx, const char *piece, size_t n_piece, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    exact *x = ctx;
    for (size_t i = 0; i < n_tokens && x->spec.n < (uint32_t)x->o->n; i++)
        x->spec.token[x->spec.n++] = tokens[i].id;
    return kill_server(x) && !interrupted(x);
}

static ft_status run_spec(exact *x, const ft_tokens *prompt, const ft_sampling *s, way how,
                          ft_error *err)
{
    victim *v = &x->victim;
    ft_gen_request request = {.prompt = prompt->id,
                              .n_prompt = (uint32_t)prompt->n,
                              .sampling = *s,
                              .constraint = x->schema.constraint,
                              .no_speculation = how == UNDRAFTED,
                              .max_tokens = (uint32_t)x->o->n};
    ft_gen_sink sink = {.ctx = x, .on_text = collect, .cancelled = interrupted};
    ft_gen_stats stats;
    request.sampling.matcher = NULL; /* the edge makes its own */
    ft_status status = FT_ABORTED;
    for (int i = 0; i < FT_BENCH_SCHEMA_TRIES && status == FT_ABORTED; i++) {
        x->spec.n = 0;
        v->at = how == KILLED ? (x->plain.n + 1) / 2 : 0;
        status = ft_edge_generate(how == KILLED ? v->edge : x->edge, &request, &sink, err, &stats);
    }
    if (status == FT_OK && v->err.code != FT_OK)
        status = ft_error_set(err, v->err.code, "%s", v->err.message);
    if (how == KILLED)
        v->reconnects += stats.reconnects;
    if (how != DRAFTED)
        return status;
    x->rounds += stats.rounds;
    x->drafted += stats.drafted;
    x->accepted += stats.accepted;
    x->spec_tokens += stats.tokens;
    return status;
}

/* Counts a text that leaves the plain text, and records where. */
static void compare(exact *x, const text *other, const char *against, double temperature,
                    const ft_bench_prompt *prompt, uint32_t *count)
{
    const text *plain = &x->plain;
    uint32_t n = plain->n < other->n ? plain->n : other->n, at = 0;
    while (at < n && plain->token[at] == other->token[at])
        at++;
    if (at == n && plain->n == other->n)
        return;
    ++*count;
    float gap = plain->gap[at];
    json_t *gap_json = isfinite(gap) ? json_real(gap) : json_null();
    json_array_append_new(x->mismatches,
                          json_pack("{s:s, s:I, s:f, s:i, s:o}", "against", against, "prompt",
                                    (json_int_t)prompt->question_id, "temperature", temperature,
                                    "at", (int)at, "gap", gap_json));
}

/* The texts over the wire. */
static ft_status run_wire(exact *x, const ft_tokens *tokens, const ft_sampling *s,
                          const ft_bench_prompt *prompt, ft_error *err)
{
    ft_status status = FT_OK;
    for (int w = DRAFTED; w < (s->matcher ? WAYS : UNDRAFTED) && status == FT_OK; w++) {
        status = run_spec(x, tokens, s, (way)w, err);
        if (status == FT_OK)
            compare(x, &x->spec, way_name[w], s->temperature, prompt, &x->mismatches_wire[w]);
    }
    return status;
}

static ft_status run_prompt(exact *x, const ft_bench_prompt *prompt, ft_error *err)
{
    const ft_bench_exact_opts *f = x->o;
    ft_tokens tokens = {0};
    ft_status status = ft_template_ask(x->vocab, prompt->text, err, &tokens);
    if (status == FT_OK && tokens.n + (size_t)f->n + FT_TREE_MAX > (size_t)f->ctx) {
        x->skipped++;
        goto out;
    }
    for (int sampled = 0; sampled < 2 && status == FT_OK; sampled++) {
        ft_sampling s = ft_sampling_default();
        s.seed = (uint64_t)f->seed;
        s.matcher = x->matcher;
        s.answer_at = (uint32_t)tokens.n;
        if (sampled) {
            s.temperature = (float)f->temp;
            s.top_k = (int32_t)f->top_k;
            s.top_p = (float)f->top_p;
            s.min_p = (float)f->min_p;
        }
        status = run_plain(x, &tokens, &s, err);
        if (status == FT_OK)
            status = run_wire(x, &tokens, &s, prompt, err);
        if (status != FT_OK)
            break;
        x->tokens += x->plain.n;
        if (sampled || !has_libllama(x))
            continue;
        x->llama.n = (uint32_t)f->n;
        status = ft_bench_llama_greedy(&x->libllama, &tokens, err, x->llama.token, &x->llama.n);
        if (status == FT_OK)
            compare(x, &x->llama, "libllama", 0, prompt, &x->mismatches_libllama);
    }
    x->prompts += status == FT_OK;
out:
    ft_tokens_deinit(&tokens);
    return status;
}

static json_t *to_json(exact *x)
{
    const ft_bench_exact_opts *f = x->o;
    json_t *out =
        json_pack("{s:s, s:s, s:s, s:i, s:I, s:i, s:o}", "command", "bench exact", "model",
                  ft_model_name(x->target), "type", ft_model_type_name(x->target), "prompts",
                  (int)x->prompts, "tokens", (json_int_t)x->tokens, "mismatches_plain",
                  (int)x->mismatches_wire[DRAFTED], "mismatches_libllama",
                  has_libllama(x) ? json_integer(x->mismatches_libllama) : json_null());
    json_object_set(out, "mismatches", x->mismatches);
    json_object_set_new(out, "skipped_too_long", json_integer(x->skipped));
    json_object_set_new(out, "n", json_integer(f->n));
    json_object_set_new(out, "temperature", json_real(f->temp));
    json_object_set_new(out, "seed", json_integer(f->seed));
    double rounds = x->rounds ? (double)x->rounds : 1,
           drafted = x->drafted ? (double)x->drafted : 1;
    json_object_set_new(out, "tokens_per_round", json_real((double)x->spec_tokens / rounds));
    json_object_set_new(out, "acceptance", json_real((double)x->accepted / drafted));
    if (!f->schema)
        return out;
    json_object_set_new(out, "schema", json_string(f->schema));
    json_object_set_new(out, "mismatches_undrafted", json_integer(x->mismatches_wire[UNDRAFTED]));
    json_object_set_new(out, "mismatches_killed", json_integer(x->mismatches_wire[KILLED]));
    json_object_set_new(out, "killed", json_integer(x->victim.kills));
    json_object_set_new(out, "reconnects", json_integer((json_int_t)x->victim.reconnects));
    return out;
}

static ft_status run(exact *x, const ft_bench_prompts *prompts, ft_error *err)
{
    ft_status status = start(x, err);
    for (size_t i = 0; i < prompts->n && status == FT_OK && !interrupted(x); i++) {
        ft_progress_report(&x->o->progress, i, prompts->n);
        status = run_prompt(x, &prompts->items[i], err);
    }
    ft_progress_report(&x->o->progress, prompts->n, prompts->n);
    return status;
}

ft_status ft_bench_exact(const ft_bench_exact_opts *opts, ft_error *err, json_t **report)
{
    exact x = {.o = opts};
    ft_bench_prompts prompts = {0};
    *report = NULL;
    ft_status status = ft_bench_prompts_load(opts->prompts, (size_t)opts->limit, err, &prompts);
    if (status == FT_OK)
        status = run(&x, &prompts, err);
    if (status == FT_OK)
        *report = to_json(&x);
    stop(&x);
    ft_bench_prompts_deinit(&prompts);
    return status;
}
