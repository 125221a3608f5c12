/* SPDX-License-Identifier: Apache-2.0
 *
 * An HTTP server with the OpenAI API, over a backend that generates text. It parses and checks
 * requests, streams answers (server-sent events) or collects them, and writes errors as OpenAI
 * does. It knows no models: the backend tokenizes and generates.
 *
 * Threads: one for each connection (libmicrohttpd), one for each running generation, one that
 * accepts connections, and one that ends slow ones. Generation threads call `generate` and
 * `token_text`; connection threads call the others, and `token_text`, too. All must be thread-safe.
 *
 * If a client closes its side of the connection, even only for writing, its generation is
 * cancelled. Most proxies do the same.
 */
#ifndef FT_HTTP_OPENAI_H
#define FT_HTTP_OPENAI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/buf.h"
#include "base/constraint.h"
#include "base/chat.h"
#include "base/penalties.h"
#include "base/sink.h"
#include "base/quota.h"
#include "base/status.h"
#include "base/text.h"

#define FT_HTTP_NAME_SIZE 64

/* A checked request. Its strings are borrowed from the parsed body during generate. */
typedef struct ft_http_request {
    bool chat;
    ft_chat conversation; /* chat */
    const char *prompt;   /* completion: text; NULL: prompt_tokens [n_prompt_tokens] */
    const int32_t *prompt_tokens;
    size_t n_prompt_tokens;
    float temperature, top_p, min_p; /* min_p and top_k: extensions */
    int32_t top_k;
    const ft_penalties *penalties; /* NULL: none */
    ft_constraint constraint;      /* what the answer must be; its form alone is checked */
    const char *constraint_field;  /* the field that says it, a literal; NULL: none */
    bool has_seed;
    uint64_t seed;
    uint32_t max_tokens;      /* 0: not given */
    const char *const *stops; /* not empty strings */
    size_t n_stops;
    bool logprobs;
    uint32_t top_logprobs;
    const char *prediction;     /* what the answer may look like; NULL: not given */
    float slo_tokens_per_s;     /* extension: the token speed to ask for; 0: the backend's */
    bool no_speculation;        /* extension: nobody drafts for this text */
    const ft_client_id *client; /* who asks; borrowed; NULL: this process itself */
} ft_http_request;

typedef struct ft_http_result {
    bool length; /* finish_reason "length", else "stop" */
    uint32_t prompt_tokens, completion_tokens;
    uint32_t cached_tokens;     /* of the prompt, that were not computed anew */
    int64_t first_us, total_us; /* until the first token; until the end */
    uint32_t drafted, accepted; /* tokens of drafts */
    /* Of a prediction's tokens: that are in the answer; that are not. */
    uint32_t accepted_prediction_tokens, rejected_prediction_tokens;
    const char *wrong_field; /* with an error: the field that is wrong, a literal; NULL: none */
    json_t *extension;       /* usage.foretoken, owned by the receiver; NULL: there is none */
    uint32_t retry_after_ms; /* with an error: when the client may try again; 0: not known */
} ft_http_result;

/* The one model of a backend. */
typedef struct ft_http_model {
    const char *id;             /* valid as long as the backend */
    const char *const *aliases; /* [n_aliases] further names; so too */
    size_t n_aliases;
    size_t text_bytes; /* a longer text has more tokens than the context holds */
    uint32_t context_tok, n_vocab;
    const char *chat_template; /* so too; NULL: none */
} ft_http_model;

/* Name i of 0 to n_aliases. */
static inline const char *ft_http_model_name(const ft_http_model *model, size_t i)
{
    return i == 0 ? model->id : model->aliases[i - 1];
}

/* Without `generate` the server has only the pages /health, /metrics and /dashboard. */
typedef struct ft_http_backend {
    void *ctx;
    /* With generate. An error: the backend cannot generate yet, and requests get this error. */
    ft_status (*model)(void *ctx, ft_error *err, ft_http_model *out);
    ft_status (*generate)(void *ctx, const ft_http_request *request, const ft_gen_sink *sink,
                          ft_error *err, ft_http_result *result);
    /* With generate: the token ids of a request's prompt; bos: as a prompt begins. *tokens is
     * malloc'ed, the caller's. */
    ft_status (*tokenize)(void *ctx, const ft_http_request *request, bool bos, ft_error *err,
                          int32_t **tokens, size_t *n);
    /* With generate: appends a token's own bytes, perhaps a part of a character. FT_NOMEM. */
    ft_status (*token_text)(void *ctx, int32_t token, ft_buf *out);
    /* FT_OK: healthy. Else /health answers 503 with this error. */
    ft_status (*health)(void *ctx, ft_error *err);
    /* Appends Prometheus text for /metrics; NULL: no such page. */
    ft_status (*metrics)(void *ctx, ft_buf *out);
} ft_http_backend;

/* Finds the name of an API key, if clients have keys of their own. */
typedef struct ft_http_whose {
    void *ctx;
    /* Any thread. False: there is no such key. */
    bool (*find)(void *ctx, const char *key, char name[FT_HTTP_NAME_SIZE]);
} ft_http_whose;

/* What becomes of a chat's thoughts, if the model's template has marks for them. */
typedef enum ft_http_reasoning {
    FT_HTTP_REASONING_AUTO, /* reasoning_content, apart from content */
    FT_HTTP_REASONING_NONE  /* they stay in content */
} ft_http_reasoning;

typedef struct ft_http_opts {
    const char *host;    /* "127.0.0.1" by default */
    int port;            /* 0: any free one */
    const char *api_key; /* NULL: none is asked for */
    ft_http_whose whose; /* instead of api_key; find NULL: no such keys */
    /* Further values allowed in Host ("edge.local:8080"; a name without a port is also allowed with
     * ours) and in Origin ("http://localhost:3000"). Always allowed in both: the loopback names and
     * `host`, unless it is a wildcard, with our port. An allowed Host is allowed as Origin, too: so
     * our page works under that name. All strings of these options are copied. */
    const char *const *allow_hosts;
    size_t n_allow_hosts;
    const char *const *allow_origins;
    size_t n_allow_origins;
    const char *tls_cert, *tls_key; /* PEM files */
    uint32_t max_connections;       /* 0: 128; a request on a further one gets 503 */
    uint32_t client_share;          /* percent of them that one client may have; 0: all */
    /* Whose X-Forwarded-For tells a client's address; copied. NULL: nobody's. */
    const ft_networks *proxies;
    /* 0: 8 MiB. A completion's body has 64 KiB and six times the model's text_bytes at most,
     * because an escape takes six bytes for one. */
    size_t max_body_bytes;
    /* A connection ends if its client has not sent all headers within this time, or after them the
     * whole body within the same time again. So an idle connection ends, too. 0: 60 s. */
    uint32_t request_timeout_s;
    /* A connection ends if its client does not read an answer within this time. 0: 60 s. A
     * generation itself has no limit. */
    uint32_t stall_timeout_s;
    /* A stream that had nothing to say for this long says a comment, which clients skip, so that
     * nobody on the way takes it for dead. An error after that is an event. 0: 5 s. */
    uint32_t keep_alive_ms;
    /* When many requests of one client are refused (4xx but 429), further ones are answered once in
     * this time. 0: 100 ms. */
    uint32_t refusal_ms;
    ft_http_reasoning reasoning;
    /* No pages for people: the chat at `/`, if the backend generates, or else the figures at
     * `/dashboard`. */
    bool no_page;
    ft_http_backend backend;
} ft_http_opts;

typedef struct ft_http ft_http;

/* Binds, listens and serves. FT_INVALID: the options contradict each other. FT_IO: the address
 * cannot be bound, or a TLS file cannot be read. FT_UNSUPPORTED: libmicrohttpd has no TLS. */
FT_WARN_UNUSED ft_status ft_http_create(const ft_http_opts *opts, ft_error *err, ft_http **out);
/* The port it listens on. */
int ft_http_port(const ft_http *http);
/* Reads the TLS files again: later connections get what is in them now. FT_INVALID, FT_NOMEM: they
 * are wrong, and those before stay in use. Does nothing without TLS. Any thread. */
FT_WARN_UNUSED ft_status ft_http_reload_tls(ft_http *http, ft_error *err);
/* From now on /health says 503. Generations go on, and new ones are taken. Any thread. */
void ft_http_retire(ft_http *http);
/* Refuses new generations with 503, as /health does, too. Waits until all running generations have
 * ended and their clients have read them, at most timeout_us. */
void ft_http_drain(ft_http *http, int64_t timeout_us);
/* Cancels running generations, waits for them, frees. */
void ft_http_destroy(ft_http *http);

#endif
