/* SPDX-License-Identifier: Apache-2.0
 *
 * An OpenAI-compatible HTTP server over a backend that generates text. Parses and checks requests,
 * streams answers (SSE) or collects them, shapes errors as OpenAI does. Knows nothing of models:
 * the backend tokenizes and generates.
 *
 * Threads: one per connection (libmicrohttpd), one per running generation, one that ends slow
 * connections. `generate` is called from generation threads, `health`, `metrics` and `model` from
 * connection threads: all must be thread-safe.
 *
 * A client that closes its side of the connection, even only for writing, counts as gone, as it
 * does for most proxies: its generation is cancelled.
 */
#ifndef FT_HTTP_OPENAI_H
#define FT_HTTP_OPENAI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/sink.h"
#include "base/status.h"

#define FT_HTTP_NAME_SIZE 64

typedef struct ft_http_message {
    const char *role, *content;
} ft_http_message;

/* A checked request; strings are borrowed from the parsed body during generate. */
typedef struct ft_http_request {
    bool chat;
    const ft_http_message *messages; /* chat: [n_messages] */
    size_t n_messages;
    const char *prompt; /* completion: text, or NULL and prompt_tokens [n_prompt_tokens] */
    const int32_t *prompt_tokens;
    size_t n_prompt_tokens;
    float temperature, top_p, min_p; /* min_p and top_k: extensions */
    int32_t top_k;
    bool has_seed;
    uint64_t seed;
    uint32_t max_tokens;      /* 0: not given */
    const char *const *stops; /* not empty strings */
    size_t n_stops;
    bool logprobs;
    uint32_t top_logprobs;
    float slo_tokens_per_s; /* extension: the token speed to promise; 0: the backend's */
    const char *key_name;   /* of the client's key (ft_http_whose); NULL: keys have no names */
} ft_http_request;

typedef struct ft_http_result {
    bool length; /* finish_reason "length", else "stop" */
    uint32_t prompt_tokens, completion_tokens;
    /* Extension, reported as usage.foretoken: */
    uint32_t rounds, drafted, accepted; /* rounds with a draft, their tokens */
    uint32_t runs, run_tokens;          /* that the server made by itself */
    uint64_t bytes_sent, bytes_received;
    int64_t ttft_us, total_us;
    uint32_t retry_after_ms; /* with an error: when to try again; 0: not known */
} ft_http_result;

/* Without `generate` the server has the pages /health and, with `metrics`, /metrics only. */
typedef struct ft_http_backend {
    void *ctx;
    /* With generate: *id is the model that /v1/models lists and that requests name or leave out;
     * valid as long as the backend. An error: the backend cannot generate yet, and requests get
     * this error. */
    ft_status (*model)(void *ctx, ft_error *err, const char **id);
    ft_status (*generate)(void *ctx, const ft_http_request *request, const ft_gen_sink *sink,
                          ft_error *err, ft_http_result *result);
    /* With generate: appends a token's own bytes, perhaps a part of a character. FT_NOMEM. */
    ft_status (*token_text)(void *ctx, int32_t token, ft_buf *out);
    /* FT_OK: healthy; else what /health reports with 503. */
    ft_status (*health)(void *ctx, ft_error *err);
    /* Appends Prometheus text for /metrics; NULL: no such page. */
    ft_status (*metrics)(void *ctx, ft_buf *out);
} ft_http_backend;

/* Finds the name of an API key, if several clients have keys of their own. */
typedef struct ft_http_whose {
    void *ctx;
    /* Any thread. False: there is no such key. */
    bool (*find)(void *ctx, const char *key, char name[FT_HTTP_NAME_SIZE]);
} ft_http_whose;

typedef struct ft_http_opts {
    const char *host;    /* "127.0.0.1" by default */
    int port;            /* 0: any free one */
    const char *api_key; /* NULL: none asked */
    ft_http_whose whose; /* instead of api_key; find NULL: no such keys */
    /* Extra names allowed in Host ("edge.local:8080"; without a port also with ours) and in Origin
     * ("http://localhost:3000"). The loopback names and `host`, unless it is a wildcard, with our
     * port are always allowed in Host, and an Origin equal to them. All strings of these options
     * are copied. */
    const char *const *allow_hosts;
    size_t n_allow_hosts;
    const char *const *allow_origins;
    size_t n_allow_origins;
    const char *tls_cert, *tls_key; /* PEM files */
    uint32_t max_connections;       /* 0: 128; one more gets 503 */
    size_t max_body_bytes;          /* 0: 8 MiB */
    /* A connection that has not sent a whole request within this time ends (so does an idle one);
     * 0: 60 s. The body gets the same time again after the headers. */
    uint32_t request_timeout_s;
    /* A connection whose client does not read what is ready for it ends after this time; 0: 60 s. A
     * generation itself has no limit. */
    uint32_t stall_timeout_s;
    ft_http_backend backend;
} ft_http_opts;

typedef struct ft_http ft_http;

/* Binds, listens and serves. FT_INVALID for options that cannot be, FT_IO where the address cannot
 * be bound or a TLS file not read, FT_UNSUPPORTED where TLS is not there; err says what to do. */
FT_WARN_UNUSED ft_status ft_http_create(const ft_http_opts *opts, ft_error *err, ft_http **out);
/* The port it listens on. */
int ft_http_port(const ft_http *http);
/* Refuses new generations (503; /health says so too) and waits for those that run and for their
 * clients to have read them, timeout_us at most. */
void ft_http_drain(ft_http *http, int64_t timeout_us);
/* Cancels running generations, waits for them, frees. */
void ft_http_destroy(ft_http *http);

#endif
