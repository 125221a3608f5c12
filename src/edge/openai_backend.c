// SPDX-License-Identifier: Apache-2.0
// Turns an OpenAI request into an edge's generation, and its result into an answer. Each call has
// its own state on its own thread. `mutex` guards the counters of /metrics, and the edge until it
// is set; it never changes after that. Does not know HTTP, and does not make edges.
#include "edge/openai_backend.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef struct counters {
    uint64_t generations, failed, cancelled, prompt_tokens;
    uint64_t tokens, rounds, drafted, accepted, runs, run_tokens, reconnects;
    ft_gen_stats sums; /* sums of its 64-bit fields, without times */
    uint64_t ttft_count;
    double ttft_s, total_s, draft_s, wait_s;
} counters;

struct ft_openai {
    const ft_vocab *vocab;
    char *model_id; /* NULL: the server's model name */
    bool no_speculation;
    pthread_mutex_t mutex; /* guards what follows */
    ft_edge *edge;         /* NULL: not set yet, for the reason in `absent` */
    char absent[384];      /* as long as an error's message */
    counters count;
    uint32_t running;
};

/* One request's output path. */
typedef struct reply {
    const ft_openai *openai;
    const ft_http_sink *sink;
    bool logprobs;
    ft_buf bytes;          /* pieces of one on_text call */
    ft_http_token *tokens; /* [cap], of that call */
    size_t cap;
} reply;

/* The edge, once it is set; else NULL, and the error says why. */
static ft_edge *edge_of(ft_openai *o, ft_error *err)
{
    pthread_mutex_lock(&o->mutex);
    ft_edge *edge = o->edge;
    if (!edge)
        ft_error_set(err, FT_UNAVAILABLE, "%s", o->absent);
    pthread_mutex_unlock(&o->mutex);
    return edge;
}

/* ---- tokens with their own bytes ---- */

/* Appends a token's bytes and returns their number. Pointers are set later, as the buffer moves. */
static ft_status add_piece(reply *r, int32_t token, size_t *n)
{
    size_t before = r->bytes.len;
    ft_status status = ft_vocab_piece(r->openai->vocab, token, true, &r->bytes);
    *n = r->bytes.len - before;
    return status;
}

static ft_status reserve(reply *r, size_t n)
{
    if (n <= r->cap)
        return FT_OK;
    ft_http_token *grown = realloc(r->tokens, n * sizeof *grown);
    if (!grown)
        return FT_NOMEM;
    r->tokens = grown;
    r->cap = n;
    return FT_OK;
}

/* Walks the pieces in the order in which they were added and points the tokens at them. */
static void point_at_pieces(reply *r, size_t n_tokens)
{
    const char *base = ft_buf_str(&r->bytes);
    for (size_t i = 0; i < n_tokens; i++) {
        ft_http_token *t = &r->tokens[i];
        t->text = base;
        base += t->n;
        for (size_t k = 0; k < t->n_top; k++) {
            t->top[k].text = base;
            base += t->top[k].n;
        }
    }
}

static ft_status map_tokens(reply *r, const ft_gen_token *tokens, size_t n)
{
    ft_status status = reserve(r, n);
    ft_buf_clear(&r->bytes);
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        const ft_token_logprob *lp = &tokens[i].logprob;
        ft_http_token *t = &r->tokens[i];
        t->logprob = lp->logprob;
        t->n_top = lp->n_top < FT_HTTP_TOP_MAX ? lp->n_top : FT_HTTP_TOP_MAX;
        status = add_piece(r, tokens[i].id, &t->n);
        for (size_t k = 0; k < t->n_top && status == FT_OK; k++) {
            t->top[k].logprob = lp->top[k].logprob;
            status = add_piece(r, lp->top[k].token, &t->top[k].n);
        }
    }
    if (status == FT_OK)
        point_at_pieces(r, n);
    return status;
}

static bool reply_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                       size_t n_tokens)
{
    reply *r = ctx;
    if (!r->logprobs)
        return r->sink->on_text(r->sink->ctx, text, n, NULL, 0);
    if (map_tokens(r, tokens, n_tokens) != FT_OK)
        return false;
    return r->sink->on_text(r->sink->ctx, text, n, r->tokens, n_tokens);
}

static bool reply_cancelled(void *ctx)
{
    const reply *r = ctx;
    return r->sink->cancelled && r->sink->cancelled(r->sink->ctx);
}

/* ---- the prompt ---- */

static ft_status chat_prompt(const ft_vocab *vocab, const ft_http_request *q, ft_error *err,
                             ft_tokens *out)
{
    ft_chat_message *messages = calloc(q->n_messages, sizeof *messages);
    if (!messages)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory for %zu messages", q->n_messages);
    for (size_t i = 0; i < q->n_messages; i++)
        messages[i] =
            (ft_chat_message){.role = q->messages[i].role, .content = q->messages[i].content};
    ft_status status = ft_vocab_chat(vocab, messages, q->n_messages, err, out);
    free(messages);
    return status;
}

static ft_status make_prompt(const ft_vocab *vocab, const ft_http_request *q, ft_error *err,
                             ft_tokens *out)
{
    if (q->chat)
        return chat_prompt(vocab, q, err, out);
    if (q->prompt)
        return ft_vocab_tokenize(vocab, q->prompt, strlen(q->prompt), FT_TOKENIZE_BOS, err, out);
    for (size_t i = 0; i < q->n_prompt_tokens; i++)
        if (q->prompt_tokens[i] < 0 || q->prompt_tokens[i] >= ft_vocab_size(vocab))
            return ft_error_set(err, FT_INVALID, "prompt token %zu is %d, outside [0, %d)", i,
                                q->prompt_tokens[i], ft_vocab_size(vocab));
    return ft_tokens_append(out, q->prompt_tokens, q->n_prompt_tokens);
}

static ft_status check_lengths(const ft_edge *edge, const ft_http_request *q, size_t n_prompt,
                               ft_error *err)
{
    const uint32_t context = ft_edge_server_info(edge)->limits.max_context;
    if (n_prompt == 0)
        return ft_error_set(err, FT_INVALID, "the prompt is empty");
    if (n_prompt >= context)
        return ft_error_set(err, FT_INVALID, "the prompt has %zu tokens, the context holds %u",
                            n_prompt, context);
    if (q->max_tokens > context - n_prompt)
        return ft_error_set(err, FT_INVALID,
                            "the prompt has %zu tokens and max_tokens is %u, the context holds %u: "
                            "ask for at most %zu",
                            n_prompt, q->max_tokens, context, context - n_prompt);
    return FT_OK;
}

/* ---- backend functions ---- */

static void add_sums(ft_gen_stats *sums, const ft_gen_stats *s)
{
    sums->depth_sum += s->depth_sum;
    sums->bytes_sent += s->bytes_sent;
    sums->bytes_received += s->bytes_received;
    sums->forwards += s->forwards;
    sums->proactive_forwards += s->proactive_forwards;
    sums->leaves += s->leaves;
    sums->aligned += s->aligned;
    sums->matched += s->matched;
    sums->proactive_nodes += s->proactive_nodes;
    sums->proactive_kept += s->proactive_kept;
    sums->early_sent += s->early_sent;
    sums->early_taken += s->early_taken;
}

static void count_one(ft_openai *o, ft_status status, size_t n_prompt, const ft_gen_stats *s)
{
    counters *c = &o->count;
    pthread_mutex_lock(&o->mutex);
    o->running--;
    c->generations++;
    c->cancelled += status == FT_CANCELLED;
    c->failed += status != FT_OK && status != FT_CANCELLED;
    c->prompt_tokens += n_prompt;
    c->tokens += s->tokens;
    c->rounds += s->rounds;
    c->drafted += s->drafted;
    c->accepted += s->accepted;
    c->runs += s->runs;
    c->run_tokens += s->run_tokens;
    c->reconnects += s->reconnects;
    add_sums(&c->sums, s);
    if (s->ttft_us > 0) {
        c->ttft_count++;
        c->ttft_s += (double)s->ttft_us / 1e6;
    }
    c->total_s += (double)s->total_us / 1e6;
    c->draft_s += (double)s->draft_us / 1e6;
    c->wait_s += (double)s->wait_us / 1e6;
    pthread_mutex_unlock(&o->mutex);
}

static ft_status run(ft_openai *o, const ft_http_request *q, const ft_tokens *prompt,
                     const ft_http_sink *sink, ft_error *err, ft_gen_stats *stats)
{
    reply r = {.openai = o, .sink = sink, .logprobs = q->logprobs};
    const ft_gen_sink gen_sink = {.ctx = &r, .on_text = reply_text, .cancelled = reply_cancelled};
    ft_gen_request request = {.prompt = prompt->id,
                              .n_prompt = (uint32_t)prompt->n,
                              .sampling = {.temperature = q->temperature,
                                           .top_k = q->top_k,
                                           .top_p = q->top_p,
                                           .min_p = q->min_p,
                                           .seed = q->seed},
                              .max_tokens = q->max_tokens,
                              .stops = q->stops,
                              .n_stops = q->n_stops,
                              .logprobs = q->logprobs,
                              .top_logprobs = q->top_logprobs,
                              .no_speculation = o->no_speculation,
                              .slo_tokens_per_s = q->slo_tokens_per_s,
                              .key_name = q->key_name};
    if (!q->has_seed && ft_random_bytes(&request.sampling.seed, sizeof request.sampling.seed))
        return ft_error_set(err, FT_IO, "edge: the operating system gave no random bytes");
    pthread_mutex_lock(&o->mutex);
    o->running++;
    pthread_mutex_unlock(&o->mutex);
    ft_status status = ft_edge_generate(o->edge, &request, &gen_sink, err, stats);
    count_one(o, status, prompt->n, stats);
    ft_buf_deinit(&r.bytes);
    free(r.tokens);
    return status;
}

static ft_status backend_generate(void *ctx, const ft_http_request *q, const ft_http_sink *sink,
                                  ft_error *err, ft_http_result *result)
{
    ft_openai *o = ctx;
    ft_tokens prompt = {0};
    ft_gen_stats s = {0};
    ft_edge *edge = edge_of(o, err);
    ft_status status = edge ? make_prompt(o->vocab, q, err, &prompt) : FT_UNAVAILABLE;
    if (status == FT_OK)
        status = check_lengths(edge, q, prompt.n, err);
    if (status == FT_OK)
        status = run(o, q, &prompt, sink, err, &s);
    *result = (ft_http_result){.length = s.finish == FT_FINISH_LENGTH,
                               .prompt_tokens = (uint32_t)prompt.n,
                               .completion_tokens = s.tokens,
                               .rounds = s.rounds,
                               .drafted = s.drafted,
                               .accepted = s.accepted,
                               .runs = s.runs,
                               .run_tokens = s.run_tokens,
                               .bytes_sent = s.bytes_sent,
                               .bytes_received = s.bytes_received,
                               .ttft_us = s.ttft_us,
                               .total_us = s.total_us,
                               .retry_after_ms = s.retry_after_ms};
    ft_tokens_deinit(&prompt);
    return status;
}

static ft_status backend_health(void *ctx, ft_error *err)
{
    ft_edge *edge = edge_of(ctx, err);
    return edge ? ft_edge_health(edge, err) : FT_UNAVAILABLE;
}

static ft_status backend_model(void *ctx, ft_error *err, const char **id)
{
    ft_openai *o = ctx;
    ft_edge *edge = edge_of(o, err);
    if (!edge)
        return FT_UNAVAILABLE;
    *id = o->model_id ? o->model_id : ft_edge_server_info(edge)->model;
    return FT_OK;
}

typedef struct metric {
    const char *name, *kind, *help;
    double value;
} metric;

static void put_metrics(ft_buf *out, const metric *rows, size_t n)
{
    for (const metric *m = rows; m < rows + n; m++) {
        ft_buf_printf(out, "# HELP foretoken_edge_%s %s\n# TYPE foretoken_edge_%s %s\n", m->name,
                      m->help, m->name, m->kind);
        ft_buf_printf(out, "foretoken_edge_%s %.17g\n", m->name, m->value);
    }
}

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static void put_generations(ft_buf *out, const counters *c, uint32_t running)
{
    const metric rows[] = {
        {"running", "gauge", "Generations running now.", running},
        {"generations_total", "counter", "Generations that ended.", (double)c->generations},
        {"failed_total", "counter", "Generations that failed.", (double)c->failed},
        {"cancelled_total", "counter", "Generations that were cancelled.", (double)c->cancelled},
        {"prompt_tokens_total", "counter", "Prompt tokens.", (double)c->prompt_tokens},
        {"tokens_total", "counter", "Generated tokens.", (double)c->tokens},
        {"rounds_total", "counter", "Drafts that were verified.", (double)c->rounds},
        {"drafted_total", "counter", "Drafted tokens sent.", (double)c->drafted},
        {"accepted_total", "counter", "Drafted tokens accepted.", (double)c->accepted},
        {"runs_total", "counter", "Runs of tokens that the server made by itself.",
         (double)c->runs},
        {"run_tokens_total", "counter", "Their tokens.", (double)c->run_tokens},
        {"reconnects_total", "counter", "Streams opened again.", (double)c->reconnects},
        {"sent_bytes_total", "counter", "Bytes to the server.", (double)c->sums.bytes_sent},
        {"received_bytes_total", "counter", "Bytes from the server.",
         (double)c->sums.bytes_received},
        {"generation_seconds_total", "counter", "Time spent in generations.", c->total_s},
        {"draft_seconds_total", "counter", "Of it time spent drafting before drafts were sent.",
         c->draft_s},
        {"wait_seconds_total", "counter",
         "Of it time spent waiting for verdicts, proactive drafting included.", c->wait_s},
    };
    put_metrics(out, rows, COUNT(rows));
}

/* Proactive drafting: the terms of SpecEdge eq. (1), since the edge was created. */
static void put_drafting(ft_buf *out, const ft_gen_stats *s)
{
    const metric rows[] = {
        {"draft_levels_total", "counter", "Sum over drafts of their levels.", (double)s->depth_sum},
        {"draft_forwards_total", "counter", "Passes of the draft model.", (double)s->forwards},
        {"ahead_forwards_total", "counter", "Of them those of proactive drafting.",
         (double)s->proactive_forwards},
        {"ahead_nodes_total", "counter", "Tokens computed by them.", (double)s->proactive_nodes},
        {"ahead_kept_total", "counter", "Of these tokens those kept after the verdict.",
         (double)s->proactive_kept},
        {"ahead_heads_total", "counter", "Verdicts on drafts with an expansion leaf.",
         (double)s->leaves},
        {"ahead_aligned_total", "counter", "Of them those whose accepted path ended in it.",
         (double)s->aligned},
        {"ahead_matched_total", "counter", "Of these those whose next token was drafted below it.",
         (double)s->matched},
        {"ahead_align_ratio", "gauge", "P_align: aligned / expansion leaves.",
         s->leaves ? (double)s->aligned / (double)s->leaves : 0},
        {"ahead_match_ratio", "gauge", "P_match|align: matched / aligned.",
         s->aligned ? (double)s->matched / (double)s->aligned : 0},
        {"early_sent_total", "counter", "Drafts sent before the verdict that they depend on.",
         (double)s->early_sent},
        {"early_taken_total", "counter", "Of them those that fitted the verdict.",
         (double)s->early_taken},
        {"ahead_gain_tokens", "gauge", "Expected gain of proactive drafting, tokens a round.",
         ft_gen_proactive_gain(s)},
    };
    put_metrics(out, rows, COUNT(rows));
}

static void put_trace(ft_buf *out, const ft_trace_stats *s)
{
    const metric rows[] = {
        {"trace_rounds_total", "counter", "Drafts written to the trace store.", (double)s->rounds},
        {"trace_dropped_total", "counter", "Drafts that could not be written.", (double)s->dropped},
    };
    put_metrics(out, rows, COUNT(rows));
}

static ft_status backend_metrics(void *ctx, ft_buf *out)
{
    ft_openai *o = ctx;
    pthread_mutex_lock(&o->mutex);
    const counters c = o->count;
    const uint32_t running = o->running;
    ft_edge *edge = o->edge;
    pthread_mutex_unlock(&o->mutex);
    put_generations(out, &c, running);
    put_drafting(out, &c.sums);
    if (edge && ft_edge_trace(edge)) {
        const ft_trace_stats trace = ft_trace_get_stats(ft_edge_trace(edge));
        put_trace(out, &trace);
    }
    ft_buf_puts(out, "# HELP foretoken_edge_ttft_seconds Time to the first token.\n"
                     "# TYPE foretoken_edge_ttft_seconds summary\n");
    ft_buf_printf(out, "foretoken_edge_ttft_seconds_sum %.17g\n", c.ttft_s);
    ft_buf_printf(out, "foretoken_edge_ttft_seconds_count %" PRIu64 "\n", c.ttft_count);
    return out->failed ? FT_NOMEM : FT_OK;
}

ft_status ft_openai_create(const ft_openai_opts *opts, ft_error *err, ft_openai **out)
{
    ft_openai *o = calloc(1, sizeof *o);
    *out = NULL;
    if (o && opts->model_id)
        o->model_id = strdup(opts->model_id);
    if (!o || (opts->model_id && !o->model_id)) {
        free(o);
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    }
    o->edge = opts->edge;
    o->vocab = opts->vocab;
    o->no_speculation = opts->no_speculation;
    pthread_mutex_init(&o->mutex, NULL);
    *out = o;
    return FT_OK;
}

void ft_openai_set_absent(ft_openai *o, const char *why)
{
    pthread_mutex_lock(&o->mutex);
    snprintf(o->absent, sizeof o->absent, "%s", why);
    pthread_mutex_unlock(&o->mutex);
}

void ft_openai_set_edge(ft_openai *o, ft_edge *edge)
{
    pthread_mutex_lock(&o->mutex);
    o->edge = edge;
    pthread_mutex_unlock(&o->mutex);
}

void ft_openai_destroy(ft_openai *o)
{
    if (!o)
        return;
    pthread_mutex_destroy(&o->mutex);
    free(o->model_id);
    free(o);
}

ft_http_backend ft_openai_backend(ft_openai *o)
{
    return (ft_http_backend){.ctx = o,
                             .model = backend_model,
                             .generate = backend_generate,
                             .health = backend_health,
                             .metrics = backend_metrics};
}
