// SPDX-License-Identifier: Apache-2.0
// Reads and checks completion requests. A field that would change the answer takes effect or is
// refused. All other fields (user, metadata, store, unknown ones) are ignored, as other servers
// with this API do. null means absent. Pure: no state, any thread. Not checked here: whether the
// prompt's tokens fit into the context, and whether token ids are in the vocabulary. Only the
// backend knows that.
#include "http/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/body.h"
#include "http/chat.h"
#include "http/constraint.h"
#include "http/unsupported.h"

#define PROMPTS "a string, a list of token ids, or a list of such"

typedef struct reader {
    json_t *root;
    ft_http_fail *fail;
    ft_http_parsed *out;
} reader;

static ft_status wrong_type(reader *r, const char *name, const char *expected)
{
    return ft_http_fail_set(r->fail, 400, "invalid_type", name, "'%s' must be %s.", name, expected);
}

static ft_status wrong_value(reader *r, const char *name, const char *expected)
{
    return ft_http_fail_set(r->fail, 400, "invalid_value", name, "'%s' must be %s.", name,
                            expected);
}

static ft_status out_of_memory(reader *r)
{
    ft_http_fail_set(r->fail, 503, "unavailable", NULL, "out of memory");
    return FT_NOMEM;
}

/* NULL where the field is absent or null. */
static json_t *field(const reader *r, const char *name)
{
    json_t *v = json_object_get(r->root, name);
    return json_is_null(v) ? NULL : v;
}

/* ---- numbers and switches ---- */

typedef struct scalars {
    double temperature, top_p, min_p, slo_tokens_per_s, presence, frequency, repetition;
    int64_t n, top_k, seed, max_tokens, max_completion_tokens, n_logprobs, top_logprobs;
    bool logprobs, stream, no_speculation;
} scalars;

typedef struct scalar {
    const char *name;
    enum { REAL, INTEGER, SWITCH } kind;
    enum { BOTH, CHAT, TEXT } where; /* the endpoint that has this field; others ignore it */
    double min, max;
    size_t at;
} scalar;

#define AT(field) offsetof(scalars, field)
static const scalar scalar_fields[] = {
    {"temperature", REAL, BOTH, 0, 2, AT(temperature)},
    {"top_p", REAL, BOTH, 0, 1, AT(top_p)},
    {"min_p", REAL, BOTH, 0, 1, AT(min_p)},
    {"presence_penalty", REAL, BOTH, -2, 2, AT(presence)},
    {"frequency_penalty", REAL, BOTH, -2, 2, AT(frequency)},
    {"repetition_penalty", REAL, BOTH, 0.01, 10, AT(repetition)},
    {"slo_tokens_per_s", REAL, BOTH, 0, 1e6, AT(slo_tokens_per_s)},
    {"top_k", INTEGER, BOTH, -1, INT32_MAX, AT(top_k)}, /* -1: off, as in llama.cpp and vLLM */
    {"seed", INTEGER, BOTH, -1e19, 1e19, AT(seed)},     /* any 64-bit integer */
    {"max_tokens", INTEGER, BOTH, 1, INT32_MAX, AT(max_tokens)},
    {"max_completion_tokens", INTEGER, BOTH, 1, INT32_MAX, AT(max_completion_tokens)},
    {"n", INTEGER, BOTH, 1, FT_HTTP_TEXTS_MAX, AT(n)},
    {"stream", SWITCH, BOTH, 0, 0, AT(stream)},
    {"no_speculation", SWITCH, BOTH, 0, 0, AT(no_speculation)},
    {"logprobs", SWITCH, CHAT, 0, 0, AT(logprobs)},
    {"top_logprobs", INTEGER, CHAT, 0, FT_TOP_LOGPROBS_MAX, AT(top_logprobs)},
    {"logprobs", INTEGER, TEXT, 0, FT_TOP_LOGPROBS_MAX, AT(n_logprobs)},
};

static ft_status read_scalar(reader *r, const scalar *f, scalars *out)
{
    void *at = (char *)out + f->at;
    json_t *v = field(r, f->name);
    if (!v)
        return FT_OK;
    if (f->kind == SWITCH) {
        *(bool *)at = json_is_true(v);
        return json_is_boolean(v) ? FT_OK : wrong_type(r, f->name, "true or false");
    }
    if (!(f->kind == INTEGER ? json_is_integer(v) : json_is_number(v)))
        return wrong_type(r, f->name, f->kind == INTEGER ? "an integer" : "a number");
    const double x = json_number_value(v);
    if (!(x >= f->min && x <= f->max))
        return ft_http_fail_set(r->fail, 400, "invalid_value", f->name,
                                "'%s' must be between %.10g and %.10g.", f->name, f->min, f->max);
    if (f->kind == INTEGER)
        *(int64_t *)at = json_integer_value(v);
    else
        *(double *)at = x;
    return FT_OK;
}

static ft_status read_scalars(reader *r)
{
    ft_http_request *q = &r->out->request;
    scalars s = {.temperature = 1, .top_p = 1, .n = 1};
    ft_status status = FT_OK;
    for (size_t i = 0; i < sizeof scalar_fields / sizeof *scalar_fields && status == FT_OK; i++)
        if (scalar_fields[i].where != (q->chat ? TEXT : CHAT))
            status = read_scalar(r, &scalar_fields[i], &s);
    if (status != FT_OK)
        return status;
    if (s.max_tokens && s.max_completion_tokens && s.max_tokens != s.max_completion_tokens)
        return ft_http_fail_set(r->fail, 400, "invalid_value", "max_tokens",
                                "'max_tokens' and 'max_completion_tokens' differ: give one.");
    if (s.top_logprobs > 0 && !s.logprobs)
        return ft_http_fail_set(r->fail, 400, "invalid_value", "top_logprobs",
                                "'top_logprobs' is only allowed when 'logprobs' is true.");
    r->out->stream = s.stream;
    r->out->per_prompt = (uint32_t)s.n;
    q->temperature = (float)s.temperature;
    q->top_p = s.top_p < 1e-6 ? 1e-6f : (float)s.top_p; /* 0 means: the most probable token alone */
    q->min_p = (float)s.min_p;
    q->slo_tokens_per_s = (float)s.slo_tokens_per_s;
    q->no_speculation = s.no_speculation;
    r->out->penalties = (ft_penalties){.presence = (float)s.presence,
                                       .frequency = (float)s.frequency,
                                       .repetition = s.repetition == 1 ? 0 : (float)s.repetition};
    q->top_k = s.top_k < 0 ? 0 : (int32_t)s.top_k;
    q->has_seed = field(r, "seed") != NULL;
    q->seed = (uint64_t)s.seed;
    q->max_tokens = (uint32_t)(s.max_tokens ? s.max_tokens : s.max_completion_tokens);
    q->logprobs = q->chat ? s.logprobs : field(r, "logprobs") != NULL;
    q->top_logprobs = (uint32_t)(q->chat ? s.top_logprobs : s.n_logprobs);
    return FT_OK;
}

/* ---- other fields ---- */

static bool is_string(json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

const char *ft_http_model_find(const ft_http_model *model, const char *name)
{
    for (size_t i = 0; i <= model->n_aliases; i++)
        if (strcmp(ft_http_model_name(model, i), name) == 0)
            return ft_http_model_name(model, i);
    return NULL;
}

static ft_status read_model(reader *r, const ft_http_model *model)
{
    json_t *v = field(r, "model");
    r->out->model = model->id;
    if (!v)
        return FT_OK;
    if (!json_is_string(v))
        return wrong_type(r, "model", "a string");
    r->out->model = ft_http_model_find(model, json_string_value(v));
    return r->out->model ? FT_OK : ft_http_fail_model(r->fail, json_string_value(v), model->id);
}

/* A switch in an object, by its whole name. */
static ft_status read_option(reader *r, json_t *options, const char *name, bool *out)
{
    json_t *v = json_object_get(options, strchr(name, '.') + 1);
    *out = json_is_true(v);
    return !v || json_is_null(v) || json_is_boolean(v) ? FT_OK
                                                       : wrong_type(r, name, "true or false");
}

static ft_status read_stream_options(reader *r)
{
    json_t *options = field(r, "stream_options");
    if (!options)
        return FT_OK;
    if (!json_is_object(options))
        return wrong_type(r, "stream_options", "an object");
    if (!r->out->stream)
        return ft_http_fail_set(r->fail, 400, "invalid_value", "stream_options",
                                "'stream_options' is only allowed when 'stream' is true.");
    ft_status status =
        read_option(r, options, "stream_options.include_usage", &r->out->include_usage);
    if (status == FT_OK)
        status = read_option(r, options, "stream_options.include_draft", &r->out->include_draft);
    return status;
}

/* OpenAI's predicted outputs: {"type": "content", "content": a string or a list of text parts}. */
static ft_status read_prediction(reader *r, size_t most_bytes)
{
    json_t *v = field(r, "prediction");
    ft_status status = FT_OK;
    if (!v)
        return FT_OK;
    if (!json_is_object(v))
        return wrong_type(r, "prediction", "an object with 'type' and 'content'");
    if (!is_string(json_object_get(v, "type"), "content"))
        return wrong_value(r, "prediction.type", "'content'");
    if (json_array_size(json_object_get(v, "content")) > 0)
        status = ft_http_join_parts(v, "prediction.content", "", r->fail);
    if (status != FT_OK)
        return status;
    json_t *content = json_object_get(v, "content");
    if (!json_is_string(content))
        return wrong_type(r, "prediction.content", "a string or a list of text parts");
    if (json_string_length(content) > most_bytes)
        return ft_http_fail_set(r->fail, 400, "context_length_exceeded", "prediction",
                                "The prediction has %zu bytes, and the model's context holds %zu "
                                "at most: shorten it.",
                                json_string_length(content), most_bytes);
    r->out->request.prediction = json_string_value(content);
    return FT_OK;
}

/* {"TOKEN": bias, ...} */
static ft_status add_bias(reader *r, const char *key, json_t *v, uint32_t n_vocab)
{
    ft_penalties *p = &r->out->penalties;
    char canonical[24], *end;
    const long token = strtol(key, &end, 10);
    snprintf(canonical, sizeof canonical, "%ld", token < INT32_MAX ? token : -1);
    if (token < 0 || (uint64_t)token >= n_vocab || strcmp(key, canonical) != 0)
        return wrong_value(r, "logit_bias", "an object of token ids of this model's vocabulary");
    const double bias = json_number_value(v);
    if (!json_is_number(v) || !(bias >= -(double)FT_BIAS_MOST && bias <= (double)FT_BIAS_MOST))
        return wrong_value(r, "logit_bias", "an object of numbers between -100 and 100");
    uint32_t at = p->n_bias++;
    for (; at > 0 && p->bias_token[at - 1] > token; at--) { /* they rise */
        p->bias_token[at] = p->bias_token[at - 1];
        p->bias[at] = p->bias[at - 1];
    }
    p->bias_token[at] = (int32_t)token;
    p->bias[at] = (float)bias;
    return FT_OK;
}

static ft_status read_penalties(reader *r, uint32_t n_vocab)
{
    json_t *v = field(r, "logit_bias"), *bias;
    const char *key;
    ft_status status = FT_OK;
    if (v && !json_is_object(v))
        return wrong_type(r, "logit_bias", "an object from token ids to numbers");
    if (json_object_size(v) > FT_BIAS_MAX)
        return wrong_value(r, "logit_bias", "an object of at most 300 tokens");
    json_object_foreach(v, key, bias)
    {
        if (status == FT_OK)
            status = add_bias(r, key, bias, n_vocab);
    }
    if (ft_penalties_any(&r->out->penalties))
        r->out->request.penalties = &r->out->penalties;
    return status;
}

static ft_status add_stop(reader *r, json_t *v)
{
    ft_http_request *q = &r->out->request;
    if (!json_is_string(v))
        return wrong_type(r, "stop", "a string or a list of strings");
    size_t n = json_string_length(v);
    if (n == 0 || n > FT_HTTP_STOP_BYTES_MAX)
        return wrong_value(r, "stop", "strings of 1 to 4096 bytes");
    r->out->stops[q->n_stops++] = json_string_value(v);
    return FT_OK;
}

static ft_status read_stop(reader *r)
{
    json_t *v = field(r, "stop");
    ft_status status = FT_OK;
    r->out->request.stops = r->out->stops;
    if (!v)
        return FT_OK;
    if (!json_is_array(v))
        return add_stop(r, v);
    if (json_array_size(v) > FT_HTTP_STOPS_MAX)
        return wrong_value(r, "stop", "at most 16 strings");
    for (size_t i = 0; status == FT_OK && i < json_array_size(v); i++)
        status = add_stop(r, json_array_get(v, i));
    return status;
}

/* Adds a prompt of token ids; out->tokens has room. */
static ft_status add_token_prompt(reader *r, json_t *v, size_t *used)
{
    ft_http_prompt *p = &r->out->prompts[r->out->n_prompts++];
    int32_t *at = r->out->tokens + *used;
    const size_t n = json_array_size(v);
    *p = (ft_http_prompt){.tokens = at, .n_tokens = n};
    *used += n;
    for (size_t i = 0; i < n; i++) {
        json_t *id = json_array_get(v, i);
        if (!json_is_integer(id))
            return wrong_type(r, "prompt", PROMPTS);
        if (json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return wrong_value(r, "prompt", "made of token ids of this model's vocabulary");
        at[i] = (int32_t)json_integer_value(id);
    }
    return FT_OK;
}

static ft_status add_prompt(reader *r, json_t *v, size_t *used)
{
    if (json_is_string(v)) {
        r->out->prompts[r->out->n_prompts++] = (ft_http_prompt){.text = json_string_value(v)};
        return FT_OK;
    }
    if (json_array_size(v) == 0) /* 0 of what is no list, too */
        return wrong_type(r, "prompt", PROMPTS);
    return add_token_prompt(r, v, used);
}

static ft_status read_prompts(reader *r, json_t *list)
{
    const size_t n = json_array_size(list);
    size_t n_tokens = 0, used = 0;
    ft_status status = FT_OK;
    if (n > FT_HTTP_TEXTS_MAX)
        return wrong_value(r, "prompt", "at most 16 prompts");
    for (size_t i = 0; i < n; i++)
        n_tokens += json_array_size(json_array_get(list, i));
    r->out->tokens = calloc(n_tokens ? n_tokens : 1, sizeof *r->out->tokens);
    if (!r->out->tokens)
        return out_of_memory(r);
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = add_prompt(r, json_array_get(list, i), &used);
    return status;
}

static ft_status read_prompt(reader *r)
{
    json_t *v = field(r, "prompt");
    if (!v)
        return ft_http_fail_set(r->fail, 400, "missing_required_parameter", "prompt",
                                "'prompt' is missing.");
    json_t *first = json_array_get(v, 0); /* NULL where v is no list */
    if (json_is_string(first) || json_is_array(first))
        return read_prompts(r, v);
    json_t *one = json_pack("[O]", v);
    ft_status status = one ? read_prompts(r, one) : out_of_memory(r);
    json_decref(one);
    return status;
}

/* How many texts there are. */
static ft_status count_texts(reader *r)
{
    ft_http_parsed *out = r->out;
    out->n_texts = out->n_prompts * out->per_prompt;
    if (out->n_texts > FT_HTTP_TEXTS_MAX)
        return wrong_value(r, "n", "so small that there are at most 16 texts: n for each prompt");
    if (out->n_texts > 1 && out->request.logprobs && !out->stream)
        return ft_http_fail_set(r->fail, 400, "unsupported_parameter", "logprobs",
                                "'logprobs' of several texts are supported in streams alone.");
    out->request = ft_http_parsed_text(out, 0);
    return FT_OK;
}

ft_http_request ft_http_parsed_text(const ft_http_parsed *parsed, uint32_t i)
{
    const ft_http_prompt *p = &parsed->prompts[i / parsed->per_prompt];
    ft_http_request q = parsed->request;
    q.prompt = p->text;
    q.prompt_tokens = p->tokens;
    q.n_prompt_tokens = p->n_tokens;
    q.seed += i;
    return q;
}

/* What has so many bytes that it cannot fit is refused before anybody renders or tokenizes it. */
static ft_status check_text(reader *r, size_t most_bytes)
{
    const ft_http_request *q = &r->out->request;
    size_t bytes = 0;
    for (size_t i = 0; i < q->conversation.n_messages; i++)
        bytes += ft_http_message_bytes(&q->conversation.messages[i]);
    for (size_t i = 0; i < r->out->n_prompts; i++) {
        const char *text = r->out->prompts[i].text;
        const size_t n = text ? strlen(text) : 0;
        bytes = n > bytes ? n : bytes;
    }
    if (bytes <= most_bytes)
        return FT_OK;
    return ft_http_fail_set(r->fail, 400, "context_length_exceeded",
                            q->chat ? "messages" : "prompt",
                            "The text has %zu bytes, and the model's context holds %zu at most: "
                            "shorten it.",
                            bytes, most_bytes);
}

ft_status ft_http_parse(const char *body, size_t n, bool chat, const ft_http_model *model,
                        ft_http_fail *fail, ft_http_parsed *out)
{
    json_t *root;
    const char *text = chat ? "messages" : "prompt";
    *out = (ft_http_parsed){0};
    const ft_status status = ft_http_body_read(body, n, text, model->text_bytes, fail, &root);
    return status == FT_OK ? ft_http_parse_root(root, chat, model, fail, out) : status;
}

ft_status ft_http_parse_root(json_t *take_root, bool chat, const ft_http_model *model,
                             ft_http_fail *fail, ft_http_parsed *out)
{
    *out = (ft_http_parsed){.request = {.chat = chat}, .root = take_root};
    *fail = (ft_http_fail){0};
    reader r = {.root = take_root, .fail = fail, .out = out};
    ft_status status;
    if ((status = read_model(&r, model)) != FT_OK ||
        (status = ft_http_refuse_unsupported(r.root, fail)) != FT_OK ||
        (status = read_scalars(&r)) != FT_OK || (status = read_stream_options(&r)) != FT_OK ||
        (status = read_stop(&r)) != FT_OK ||
        (status = read_penalties(&r, model->n_vocab)) != FT_OK ||
        (status = ft_http_read_constraint(r.root, fail, &out->constraint, &out->request.constraint,
                                          &out->request.constraint_field)) != FT_OK ||
        (status = read_prediction(&r, model->text_bytes)) != FT_OK ||
        (status = chat ? ft_http_chat_read(r.root, fail, out) : read_prompt(&r)) != FT_OK ||
        (status = count_texts(&r)) != FT_OK ||
        (status = check_text(&r, model->text_bytes)) != FT_OK)
        ft_http_parsed_deinit(out);
    return status;
}

void ft_http_parsed_deinit(ft_http_parsed *parsed)
{
    free(parsed->messages);
    free(parsed->calls);
    free(parsed->tools);
    free(parsed->template_args);
    free(parsed->tokens);
    ft_buf_deinit(&parsed->constraint);
    json_decref(parsed->asked);
    json_decref(parsed->root);
    *parsed = (ft_http_parsed){0};
}
