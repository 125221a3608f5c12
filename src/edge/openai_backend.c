// SPDX-License-Identifier: Apache-2.0
// Turns an OpenAI request into an edge's generation, and its result into an answer. Each call has
// its own state on its own thread. `mutex` guards the counters of /metrics, and the edge until it
// is set; it never changes after that. Does not know HTTP, and does not make edges.
#include "edge/openai_backend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chat_prefix.h"
#include "base/rng.h"
#include "base/secret.h"
#include "constrain/constraint.h"
#include "template/template.h"

/* An agent asks with the same tools again and again, and a machine has a few agents. */
#define REFUSED 16

struct ft_openai {
    const ft_vocab *vocab;
    ft_template *template;
    char *model_id; /* NULL: the server's model name */
    char **aliases; /* [n_aliases] */
    size_t n_aliases;
    bool no_speculation;
    pthread_mutex_t mutex; /* guards what follows */
    ft_edge *edge;         /* NULL: not set yet, for the reason in `absent` */
    char absent[384];      /* as long as an error's message */
    ft_edge_stats count;
    ft_gen_stats sums;
    uint64_t refused[REFUSED]; /* hashes of calls that the server did not compile; a ring */
    size_t n_refused;
};

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

/* ---- the prompt ---- */

static uint32_t context_of(const ft_edge *edge)
{
    return ft_edge_server_info(edge)->limits.max_context;
}

static ft_status make_prompt(const ft_openai *o, const ft_http_request *q, uint32_t context,
                             const ft_gen_sink *sink, ft_error *err, ft_template_prompt *prompt)
{
    const ft_tokenize_limits limits = {sink->cancelled, sink->ctx, context};
    const ft_vocab *vocab = o->vocab;
    ft_tokens *out = &prompt->tokens;
    ft_chat chat = q->conversation;
    chat.no_thought = q->constraint.kind != FT_CONSTRAINT_NONE; /* it holds from the first token */
    if (q->chat)
        return ft_template_apply(o->template, &chat, &limits, err, prompt);
    if (q->prompt)
        return ft_vocab_tokenize(vocab, q->prompt, strlen(q->prompt), &limits, err, out);
    for (size_t i = 0; i < q->n_prompt_tokens; i++)
        if (q->prompt_tokens[i] < 0 || q->prompt_tokens[i] >= ft_vocab_size(vocab))
            return ft_error_set(err, FT_INVALID, "prompt token %zu is %d, outside [0, %d)", i,
                                q->prompt_tokens[i], ft_vocab_size(vocab));
    return ft_tokens_append(out, q->prompt_tokens, q->n_prompt_tokens);
}

/* The tokens of the request's prediction: text, not a prompt. */
static ft_status make_prediction(const ft_vocab *vocab, const ft_http_request *q, uint32_t context,
                                 const ft_gen_sink *sink, ft_error *err, ft_tokens *out)
{
    const ft_tokenize_limits limits = {sink->cancelled, sink->ctx, context};
    if (!q->prediction)
        return FT_OK;
    const ft_status status =
        ft_vocab_tokenize_text(vocab, q->prediction, strlen(q->prediction), &limits, err, out);
    if (status == FT_TOO_LARGE || out->n > context)
        return ft_error_set(err, FT_TOO_LARGE,
                            "the prediction has more tokens than the context holds: %u", context);
    return status;
}

static ft_status check_length(size_t n_prompt, uint32_t context, ft_error *err)
{
    if (n_prompt == 0)
        return ft_error_set(err, FT_INVALID, "the prompt is empty");
    if (n_prompt >= context)
        return ft_error_set(err, FT_TOO_LARGE, "the prompt has %zu tokens, the context holds %u",
                            n_prompt, context);
    return FT_OK;
}

/* What can be said before a server is asked. */
static ft_status check_constraint(const ft_constraint *c, const ft_msg_info *server, ft_error *err)
{
    if (c->kind == FT_CONSTRAINT_NONE)
        return FT_OK;
    if (!server->limits.constraints)
        return ft_error_set(err, FT_UNSUPPORTED, FT_NO_CONSTRAINTS);
    return ft_constraint_check(c, err);
}

/* ---- backend functions ---- */

static void count_one(ft_openai *o, ft_status status, const ft_gen_stats *s)
{
    pthread_mutex_lock(&o->mutex);
    o->count.running--;
    o->count.generations++;
    o->count.cancelled += status == FT_CANCELLED;
    o->count.failed += status != FT_OK && status != FT_CANCELLED;
    ft_stats_add(&ft_gen_stat_list, &o->sums, s);
    pthread_mutex_unlock(&o->mutex);
}

typedef struct texts {
    ft_template_prompt prompt;
    ft_tokens prediction;
    ft_constraint constraint; /* the request's, or one of calls */
    bool optional;            /* of calls: the text may have a looser one, or none */
    ft_loosen looser;         /* the next one; FT_LOOSENS: none */
    ft_buf calls;             /* data of one of calls */
    const char *field;        /* that brought the constraint; NULL: it is optional */
    const char *wrong_field;  /* that an error is about; NULL: none alone */
} texts;

static uint64_t hash_of(const ft_constraint *c)
{
    return ft_fnv64(FT_FNV64_INIT, c->data, c->n);
}

static bool was_refused(ft_openai *o, const ft_constraint *c)
{
    const uint64_t hash = hash_of(c);
    bool found = false;
    pthread_mutex_lock(&o->mutex);
    for (size_t i = 0; i < REFUSED && i < o->n_refused; i++)
        found |= o->refused[i] == hash;
    pthread_mutex_unlock(&o->mutex);
    return found;
}

static void note_refused(ft_openai *o, uint64_t hash)
{
    pthread_mutex_lock(&o->mutex);
    o->refused[o->n_refused++ % REFUSED] = hash;
    pthread_mutex_unlock(&o->mutex);
}

/* The calls' constraint, loosened so. */
static ft_status loosen(ft_loosen which, texts *t, ft_error *err)
{
    const ft_constraint calls = {FT_CONSTRAINT_CALL, ft_buf_str(&t->prompt.call),
                                 t->prompt.call.len};
    ft_buf_clear(&t->calls);
    if (ft_constraint_loosen(&calls, which, &t->calls) != FT_OK)
        return ft_error_set(err, FT_NOMEM, "edge: out of memory for a text");
    t->constraint = (ft_constraint){FT_CONSTRAINT_CALL, ft_buf_str(&t->calls), t->calls.len};
    return FT_OK;
}

/* Calls that the model makes of its own accord: as many schemas as can be had. None at all is an
 * answer, too. */
static ft_status add_loose_calls(ft_openai *o, const ft_msg_info *server, ft_error *err, texts *t)
{
    ft_error why;
    for (t->optional = false; !t->optional && t->looser < FT_LOOSENS; t->looser++) {
        const ft_status status = loosen(t->looser, t, err);
        if (status != FT_OK)
            return status;
        t->optional = check_constraint(&t->constraint, server, &why) == FT_OK &&
                      !was_refused(o, &t->constraint);
    }
    if (!t->optional)
        t->constraint = (ft_constraint){0};
    return FT_OK;
}

static ft_status add_constraint(ft_openai *o, const ft_http_request *q, ft_error *err, texts *t)
{
    const ft_msg_info *server = ft_edge_server_info(o->edge);
    const bool calls = t->prompt.call.len > 0;
    const bool call = calls && q->conversation.choice == FT_CHAT_CHOICE_REQUIRED;
    ft_status status = FT_OK;
    if (calls && !call && q->constraint.kind == FT_CONSTRAINT_NONE)
        return add_loose_calls(o, server, err, t);
    t->constraint = q->constraint;
    t->field = call ? "tool_choice" : q->constraint_field;
    if (call)
        status = loosen(FT_LOOSEN_NONE, t, err);
    if (status != FT_OK)
        return status;
    status = check_constraint(&t->constraint, server, err);
    if (status != FT_OK)
        t->wrong_field = t->field;
    return status;
}

static ft_status make_texts(ft_openai *o, const ft_http_request *q, const ft_gen_sink *sink,
                            ft_error *err, texts *t)
{
    const uint32_t context = context_of(o->edge);
    ft_status status = make_prompt(o, q, context, sink, err, &t->prompt);
    if (status == FT_UNSUPPORTED)
        t->wrong_field = "tool_choice";
    if (status == FT_OK)
        status = check_length(t->prompt.tokens.n, context, err);
    if (status != FT_OK)
        return status;
    status = make_prediction(o->vocab, q, context, sink, err, &t->prediction);
    if (status == FT_TOO_LARGE)
        t->wrong_field = "prediction";
    return status == FT_OK ? add_constraint(o, q, err, t) : status;
}

static ft_status run(ft_openai *o, const ft_http_request *q, const texts *t,
                     const ft_gen_sink *sink, ft_error *err, ft_gen_stats *stats)
{
    const uint32_t room = context_of(o->edge) - (uint32_t)t->prompt.tokens.n;
    const uint64_t prefix =
        q->chat ? ft_chat_prefix_of(q->conversation.messages, q->conversation.n_messages) : 0;
    ft_gen_request request = {.prompt = t->prompt.tokens.id,
                              .n_prompt = (uint32_t)t->prompt.tokens.n,
                              .prediction = t->prediction.id,
                              .n_prediction = (uint32_t)t->prediction.n,
                              .sampling = {.temperature = q->temperature,
                                           .top_k = q->top_k,
                                           .top_p = q->top_p,
                                           .min_p = q->min_p,
                                           .seed = q->seed,
                                           .penalties = q->penalties,
                                           .answer_at = (uint32_t)t->prompt.tokens.n},
                              .constraint = t->constraint,
                              .max_tokens = q->max_tokens < room ? q->max_tokens : room,
                              .stops = q->stops,
                              .n_stops = q->n_stops,
                              .spelled = t->prompt.spelled.id,
                              .n_spelled = t->prompt.spelled.n,
                              .logprobs = q->logprobs,
                              .top_logprobs = q->top_logprobs,
                              .no_speculation = o->no_speculation || q->no_speculation,
                              .no_server_drafts = q->no_speculation,
                              .slo_tokens_per_s = q->slo_tokens_per_s,
                              .prefix = prefix,
                              .client = q->client};
    if (!q->has_seed && ft_random_bytes(&request.sampling.seed, sizeof request.sampling.seed))
        return ft_error_set(err, FT_IO, "edge: the operating system gave no random bytes");
    pthread_mutex_lock(&o->mutex);
    o->count.running++;
    pthread_mutex_unlock(&o->mutex);
    ft_status status = ft_edge_generate(o->edge, &request, sink, err, stats);
    count_one(o, status, stats);
    return status;
}

/* The server refuses the constraint, now and later: a looser one follows, at last none. Not where
 * it is only busy: then the text would depend on that. A text that fails without one, too, was not
 * refused for its constraint. */
static ft_status run_looser(ft_openai *o, const ft_http_request *q, texts *t,
                            const ft_gen_sink *sink, ft_error *err, ft_gen_stats *stats)
{
    uint64_t refused[FT_LOOSENS];
    size_t n = 0;
    ft_status status = FT_INVALID;
    while (status == FT_INVALID && t->optional && stats->tokens == 0) {
        refused[n++] = hash_of(&t->constraint);
        status = add_loose_calls(o, ft_edge_server_info(o->edge), err, t);
        if (status == FT_OK)
            status = run(o, q, t, sink, err, stats);
    }
    for (size_t i = 0; status == FT_OK && i < n; i++)
        note_refused(o, refused[i]);
    return status;
}

static ft_status backend_generate(void *ctx, const ft_http_request *q, const ft_gen_sink *sink,
                                  ft_error *err, ft_http_result *result)
{
    ft_openai *o = ctx;
    texts t = {0};
    ft_gen_stats s = {0};
    ft_edge *edge = edge_of(o, err);
    ft_status status = FT_UNAVAILABLE;
    if (edge)
        status = make_texts(o, q, sink, err, &t);
    if (status == FT_OK && t.prompt.thinks && sink->on_thinks)
        sink->on_thinks(sink->ctx);
    if (status == FT_OK && t.prompt.reader.read && sink->on_reader) {
        sink->on_reader(sink->ctx, &t.prompt.reader);
        t.prompt.reader = (ft_chat_reader){0};
    }
    const bool ran = status == FT_OK;
    if (ran)
        status = run(o, q, &t, sink, err, &s);
    if (status == FT_INVALID && t.optional && s.tokens == 0)
        status = run_looser(o, q, &t, sink, err, &s);
    else if (ran && status == FT_INVALID && t.constraint.kind != FT_CONSTRAINT_NONE)
        t.wrong_field = t.field; /* the rest of the request has been checked here */
    *result = (ft_http_result){.length = s.finish == FT_FINISH_LENGTH,
                               .prompt_tokens = (uint32_t)t.prompt.tokens.n,
                               .completion_tokens = (uint32_t)s.tokens,
                               .cached_tokens = (uint32_t)s.cached_tokens,
                               .first_us = (int64_t)s.ttft.sum_us,
                               .total_us = (int64_t)s.total_us,
                               .drafted = (uint32_t)s.drafted,
                               .accepted = (uint32_t)s.accepted,
                               .accepted_prediction_tokens = (uint32_t)s.prediction_accepted,
                               .rejected_prediction_tokens = (uint32_t)s.prediction_rejected,
                               .wrong_field = t.wrong_field,
                               .extension = json_object(),
                               .retry_after_ms = s.retry_after_ms};
    ft_stats_json(&ft_gen_usage_stat_list, &s, result->extension);
    if (s.rule && result->extension) {
        json_object_set_new(result->extension, "rule", json_string(s.rule));
        json_object_set_new(result->extension, "rule_reason", json_string(ft_why_name[s.rule_why]));
        json_object_set_new(result->extension, "same_tokens", json_boolean(s.same_tokens));
    }
    ft_template_prompt_deinit(&t.prompt);
    ft_tokens_deinit(&t.prediction);
    ft_buf_deinit(&t.calls);
    return status;
}

static bool never(void *ctx)
{
    return false;
}

static ft_status backend_tokenize(void *ctx, const ft_http_request *q, bool bos, ft_error *err,
                                  int32_t **tokens, size_t *n)
{
    ft_openai *o = ctx;
    const ft_gen_sink sink = {.cancelled = never};
    ft_template_prompt t = {0};
    ft_edge *edge = edge_of(o, err);
    ft_status status = FT_UNAVAILABLE;
    if (edge && (q->chat || bos))
        status = make_prompt(o, q, UINT32_MAX, &sink, err, &t);
    else if (edge)
        status =
            ft_vocab_tokenize_text(o->vocab, q->prompt, strlen(q->prompt), NULL, err, &t.tokens);
    *tokens = t.tokens.id;
    *n = t.tokens.n;
    return status;
}

static ft_status backend_token_text(void *ctx, int32_t token, ft_buf *out)
{
    return ft_vocab_piece(((const ft_openai *)ctx)->vocab, token, true, out);
}

static ft_status backend_health(void *ctx, ft_error *err)
{
    ft_edge *edge = edge_of(ctx, err);
    return edge ? ft_edge_health(edge, err) : FT_UNAVAILABLE;
}

static ft_status backend_model(void *ctx, ft_error *err, ft_http_model *out)
{
    ft_openai *o = ctx;
    ft_edge *edge = edge_of(o, err);
    if (!edge)
        return FT_UNAVAILABLE;
    const ft_msg_info *server = ft_edge_server_info(edge);
    out->id = o->model_id ? o->model_id : server->model;
    out->aliases = (const char *const *)o->aliases;
    out->n_aliases = o->n_aliases;
    out->n_vocab = (uint32_t)ft_vocab_size(o->vocab);
    out->context_tok = server->limits.max_context;
    out->chat_template = ft_template_source(o->template);
    out->text_bytes = server->limits.max_context * ft_vocab_longest_bytes(o->vocab);
    return FT_OK;
}

static ft_status backend_metrics(void *ctx, ft_buf *out)
{
    ft_openai *o = ctx;
    pthread_mutex_lock(&o->mutex);
    const ft_edge_stats count = o->count;
    const ft_gen_stats sums = o->sums;
    ft_trace *trace = o->edge ? ft_edge_trace(o->edge) : NULL;
    pthread_mutex_unlock(&o->mutex);
    ft_stats_append(&ft_edge_stat_list, &count, out);
    ft_stats_append(&ft_gen_stat_list, &sums, out);
    if (trace) {
        const ft_trace_stats written = ft_trace_get_stats(trace);
        ft_stats_append(&ft_edge_trace_stat_list, &written, out);
    }
    return ft_gen_ratios_append(&sums, out);
}

static bool copy_names(ft_openai *o, const ft_openai_opts *opts)
{
    o->aliases = calloc(opts->n_aliases + 1, sizeof *o->aliases);
    if (!o->aliases || (opts->model_id && !(o->model_id = strdup(opts->model_id))))
        return false;
    for (; o->n_aliases < opts->n_aliases; o->n_aliases++)
        if (!(o->aliases[o->n_aliases] = strdup(opts->aliases[o->n_aliases])))
            return false;
    return true;
}

static void release(ft_openai *o)
{
    for (size_t i = 0; i < o->n_aliases; i++)
        free(o->aliases[i]);
    free(o->aliases);
    free(o->model_id);
    ft_template_destroy(o->template);
    free(o);
}

ft_status ft_openai_create(const ft_openai_opts *opts, ft_error *err, ft_openai **out)
{
    ft_openai *o = calloc(1, sizeof *o);
    *out = NULL;
    if (!o || !copy_names(o, opts)) {
        if (o)
            release(o);
        return ft_error_set(err, FT_NOMEM, "edge: out of memory");
    }
    ft_status status = ft_template_create(opts->vocab, opts->chat_template, err, &o->template);
    if (status != FT_OK) {
        release(o);
        return status;
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
    release(o);
}

ft_http_backend ft_openai_backend(ft_openai *o)
{
    return (ft_http_backend){.ctx = o,
                             .model = backend_model,
                             .generate = backend_generate,
                             .tokenize = backend_tokenize,
                             .token_text = backend_token_text,
                             .health = backend_health,
                             .metrics = backend_metrics};
}
