// SPDX-License-Identifier: Apache-2.0
// One request. These are checked in this order: headers, Host, Origin, API key, number of
// connections, path, method, content type, model, size. The first check that fails decides the
// answer. Nothing is done for a request before all checks have passed. A GET is answered only after
// it has come completely, because an earlier answer would close the connection. A client whose
// requests are refused again and again gets its refusals late.
#include "http/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/chat_prefix.h"
#include "base/thread.h"
#include "http/dialect.h"
#include "http/json.h"
#include "http/page.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/think.h"
#include "http/tokens.h"

/* If a body of unknown length becomes larger than the limit, up to so many times the limit is still
 * read, so that its sender gets the answer. Then the connection is closed. */
#define DRAIN_LIMITS 4

typedef struct route route;

typedef ft_status token_answer(const ft_http_backend *backend, const ft_http_model *model,
                               const char *body, size_t n, ft_http_fail *fail, json_t **out);

struct ft_http_exchange {
    ft_http *http;
    ft_http_conn *conn;
    struct MHD_Connection *connection;
    const char *uri, *method; /* borrowed from the connection */
    const route *route;
    const char *tail;       /* what follows a route's prefix */
    ft_http_reply defaults; /* origin, close */
    ft_http_fail fail;      /* http != 0: refused */
    const char *allow;      /* methods that the path allows; NULL: no such path */
    bool has_body;
    bool preflight;
    bool authorized;     /* no key is asked for, or it was given */
    ft_client_id client; /* once its address and its key are looked at */
    bool entered;        /* a drain waits for this answer */
    ft_http_model model; /* once it was asked for */
    size_t max_body_bytes;
    ft_buf body;
    uint64_t body_bytes;
    int64_t began_cpu_us; /* of the connection's thread */
    ft_http_generation *generation;
};

struct route {
    const char *path;
    bool prefix;                    /* more must follow */
    bool post;                      /* else GET and HEAD */
    bool chat;                      /* the body has messages, else a prompt */
    const ft_http_dialect *dialect; /* the body is as that API has it; NULL: as `chat` says */
    bool open;                      /* answered without a key; always there, but for pages */
    bool metrics;                   /* there if the backend has metrics; others: if it generates */
    const ft_http_page *page;       /* NULL: no page for people */
    token_answer *tokens;           /* of answer_tokens */
    enum MHD_Result (*answer)(ft_http_exchange *x);
};

/* --- pages --- */

/* Who floods with requests that are refused waits for the answers, without what they needed. That
 * its constraints take too long is the client's fault, too. */
static void be_late(ft_http_exchange *x)
{
    x->fail.cpu_us += ft_thread_cpu_us() - x->began_cpu_us;
    const uint32_t n = ft_http_fail_counts(&x->fail, x->body_bytes);
    if (n == 0)
        return;
    ft_buf_deinit(&x->body);
    ft_http_generation_destroy(x->generation);
    x->generation = NULL;
    ft_http_conns_refused(&x->http->conns, x->conn, &x->client, n);
    ft_http_conns_limit(&x->http->conns, x->conn, x->http->stall_timeout_s);
}

static enum MHD_Result reply_fail(ft_http_exchange *x)
{
    ft_http_reply reply = x->defaults;
    be_late(x);
    if (x->fail.http == 405)
        reply.allow = x->allow;
    return ft_http_reply_fail(x->connection, &reply, &x->fail);
}

/* 200 with this body, if the status of making it is FT_OK. Takes what body holds. */
static enum MHD_Result reply_body(ft_http_exchange *x, ft_status status, const char *type,
                                  ft_buf *body)
{
    if (status != FT_OK) {
        ft_buf_deinit(body);
        ft_http_fail_from(&x->fail, status, NULL);
        return reply_fail(x);
    }
    ft_http_reply reply = x->defaults;
    reply.status = 200;
    reply.type = type;
    return ft_http_reply_send(x->connection, &reply, body);
}

/* Takes root. */
static enum MHD_Result reply_json(ft_http_exchange *x, json_t *root)
{
    ft_buf body = {0};
    ft_status status = ft_http_json_append(root, &body);
    return reply_body(x, status, "application/json", &body);
}

/* FT_INVALID: the backend cannot generate yet, and x->fail says why. */
static ft_status ask_model(ft_http_exchange *x)
{
    const ft_http_backend *b = &x->http->backend;
    ft_error err = {0};
    ft_status status = b->model(b->ctx, &err, &x->model);
    if (status == FT_OK)
        return FT_OK;
    ft_http_fail_from(&x->fail, status, &err);
    return FT_INVALID;
}

static json_t *json_model(const ft_http_exchange *x, const char *name)
{
    return json_pack("{s:s,s:s,s:I,s:s,s:I}", "id", name, "object", "model", "created",
                     (json_int_t)x->http->started_s, "owned_by", "foretoken", "max_model_len",
                     (json_int_t)x->model.context_tok);
}

static enum MHD_Result answer_models(ft_http_exchange *x)
{
    if (ask_model(x) != FT_OK)
        return reply_fail(x);
    json_t *all = json_array();
    int failed = 0;
    for (size_t i = 0; i <= x->model.n_aliases; i++)
        failed |= json_array_append_new(all, json_model(x, ft_http_model_name(&x->model, i)));
    if (failed)
        json_decref(all);
    return reply_json(x, json_pack("{s:s,s:o}", "object", "list", "data", failed ? NULL : all));
}

static enum MHD_Result answer_model(ft_http_exchange *x)
{
    if (ask_model(x) == FT_OK) {
        if (ft_http_model_find(&x->model, x->tail))
            return reply_json(x, json_model(x, x->tail));
        ft_http_fail_model(&x->fail, x->tail, x->model.id);
    }
    return reply_fail(x);
}

static enum MHD_Result answer_health(ft_http_exchange *x)
{
    const ft_http_backend *b = &x->http->backend;
    ft_error err = {0};
    ft_status status = b->health ? b->health(b->ctx, &err) : FT_OK;
    if (status == FT_OK && ft_http_conns_retiring(&x->http->conns))
        status = ft_error_set(&err, FT_UNAVAILABLE, "http: going down");
    if (status == FT_OK)
        return reply_json(x, json_pack("{s:s}", "status", "ok"));
    /* who has no key learns that it is down, not why */
    ft_http_fail_from(&x->fail, status, x->authorized ? &err : NULL);
    x->fail.http = 503;
    x->fail.code = "unavailable";
    return reply_fail(x);
}

static enum MHD_Result answer_metrics(ft_http_exchange *x)
{
    const ft_http_backend *b = &x->http->backend;
    ft_buf body = {0};
    ft_status status = b->metrics(b->ctx, &body);
    if (status == FT_OK && body.failed)
        status = FT_NOMEM;
    return reply_body(x, status, "text/plain; version=0.0.4; charset=utf-8", &body);
}

/* Without a key: the page asks for one, and sends it with what it asks. */
static enum MHD_Result answer_page(ft_http_exchange *x)
{
    return ft_http_reply_page(x->connection, &x->defaults, x->route->page);
}

static enum MHD_Result answer_props(ft_http_exchange *x)
{
    if (ask_model(x) != FT_OK)
        return reply_fail(x);
    return reply_json(x, ft_http_props(&x->model));
}

/* --- tokens --- */

static enum MHD_Result answer_tokens(ft_http_exchange *x)
{
    json_t *root;
    const ft_status status = x->route->tokens(&x->http->backend, &x->model, ft_buf_str(&x->body),
                                              x->body.len, &x->fail, &root);
    ft_http_conns_limit(&x->http->conns, x->conn, x->http->stall_timeout_s);
    return status == FT_OK ? reply_json(x, root) : reply_fail(x);
}

/* --- completions --- */

/* libmicrohttpd's reader, in the connection's thread: waits for bytes. */
static ssize_t read_stream(void *ctx, uint64_t pos, char *buf, size_t max)
{
    ft_http_exchange *x = ctx;
    ft_http_conns_limit(&x->http->conns, x->conn, 0); /* the wait is ours, not the client's */
    ft_http_wait state = ft_http_generation_wait(x->generation, x->conn->fd);
    ft_http_conns_limit(&x->http->conns, x->conn, x->http->stall_timeout_s);
    if (state == FT_HTTP_WAIT_DATA)
        return (ssize_t)ft_http_generation_read(x->generation, buf, max);
    return state == FT_HTTP_WAIT_END ? MHD_CONTENT_READER_END_OF_STREAM
                                     : MHD_CONTENT_READER_END_WITH_ERROR;
}

static ft_status start(ft_http_exchange *x)
{
    const ft_http_ask ask = {.body = ft_buf_str(&x->body),
                             .n = x->body.len,
                             .chat = x->route->chat,
                             .dialect = x->route->dialect,
                             .model = x->model,
                             .client = &x->client,
                             .parts = x->http->reasoning == FT_HTTP_REASONING_AUTO &&
                                      ft_http_think_marked(x->model.chat_template),
                             .reasoning_apart = x->http->reasoning == FT_HTTP_REASONING_AUTO,
                             .keep_alive_ms = x->http->keep_alive_ms};
    ft_status status = ft_http_generation_create(&x->http->backend, &ask, &x->fail, &x->generation);
    ft_buf_deinit(&x->body); /* the parsed form is a copy */
    return status;
}

/* The status is sent with the first bytes. So a request that the backend refuses gets an error
 * status, even if it asks for a stream. */
static enum MHD_Result answer_text(ft_http_exchange *x)
{
    x->entered = ft_http_conns_enter(&x->http->conns);
    if (!x->entered) {
        ft_http_fail_set(&x->fail, 503, "unavailable", NULL,
                         "This server is going down: try another, or again later.");
        return reply_fail(x);
    }
    if (start(x) != FT_OK)
        return reply_fail(x);
    ft_http_wait state = ft_http_generation_wait(x->generation, x->conn->fd);
    if (state == FT_HTTP_WAIT_GONE)
        return MHD_NO;
    ft_http_conns_limit(&x->http->conns, x->conn, x->http->stall_timeout_s);
    if (state == FT_HTTP_WAIT_FAILED) {
        x->fail = *ft_http_generation_fail(x->generation);
        return reply_fail(x);
    }
    if (!ft_http_generation_streams(x->generation)) {
        ft_buf body = {0};
        ft_http_generation_take(x->generation, &body);
        return reply_body(x, FT_OK, "application/json", &body);
    }
    return ft_http_reply_stream(x->connection, &x->defaults, read_stream, x);
}

static const route routes[] = {
    {.path = "/v1/models", .answer = answer_models},
    {.path = "/v1/models/", .prefix = true, .answer = answer_model},
    {.path = "/v1/chat/completions", .post = true, .chat = true, .answer = answer_text},
    {.path = "/v1/completions", .post = true, .answer = answer_text},
    {.path = "/v1/responses", .post = true, .dialect = &ft_http_responses, .answer = answer_text},
    {.path = "/v1/messages", .post = true, .dialect = &ft_http_messages, .answer = answer_text},
    {.path = "/v1/messages/count_tokens",
     .post = true,
     .dialect = &ft_http_messages_count,
     .tokens = ft_http_count_tokens_answer,
     .answer = answer_tokens},
    {.path = "/v1/tokenize",
     .post = true,
     .tokens = ft_http_tokenize_answer,
     .answer = answer_tokens},
    {.path = "/tokenize", .post = true, .tokens = ft_http_tokenize_answer, .answer = answer_tokens},
    {.path = "/v1/detokenize",
     .post = true,
     .tokens = ft_http_detokenize_answer,
     .answer = answer_tokens},
    {.path = "/detokenize",
     .post = true,
     .tokens = ft_http_detokenize_answer,
     .answer = answer_tokens},
    {.path = "/props", .answer = answer_props},
    {.path = "/", .open = true, .page = &ft_http_page_chat, .answer = answer_page},
    {.path = "/dashboard", .open = true, .page = &ft_http_page_dashboard, .answer = answer_page},
    {.path = "/health", .open = true, .answer = answer_health},
    {.path = "/metrics", .metrics = true, .answer = answer_metrics},
};

/* --- admission --- */

static const char *const once[] = {
    "Host",         "Origin",         "Authorization",     "X-Api-Key",
    "Content-Type", "Content-Length", "Transfer-Encoding", "Content-Encoding"};
enum { N_ONCE = sizeof once / sizeof *once };

static enum MHD_Result count_header(void *ctx, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    unsigned *count = ctx;
    for (size_t i = 0; i < N_ONCE; i++)
        count[i] += strcasecmp(once[i], key) == 0;
    return MHD_YES;
}

static const char *header(const ft_http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static ft_status refuse(ft_http_exchange *x, int http, const char *code, const char *message)
{
    return ft_http_fail_set(&x->fail, http, code, NULL, "%s", message);
}

static ft_status refuse_size(ft_http_exchange *x)
{
    return ft_http_fail_set(&x->fail, 413, "body_too_large", NULL,
                            "The body is larger than this server's limit of %zu bytes. The model's "
                            "context holds at most %zu bytes of text.",
                            x->max_body_bytes, x->model.text_bytes);
}

/* A text that fills the context fits into it, even if each byte is escaped ("\u0041"), beside the
 * other fields. */
static size_t most_body_bytes(const ft_http_exchange *x)
{
    const size_t most = x->http->max_body_bytes, text = x->model.text_bytes;
    const size_t needed = text < most ? FT_HTTP_OTHER_BYTES + 6 * text : most;
    return needed < most ? needed : most;
}

/* Headers that decide something may occur once, and a body has one length. */
static ft_status check_headers(ft_http_exchange *x)
{
    unsigned count[N_ONCE] = {0};
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, count_header, count);
    for (size_t i = 0; i < N_ONCE; i++)
        if (count[i] > 1)
            return ft_http_fail_set(&x->fail, 400, "invalid_header", NULL,
                                    "The header '%s' is there more than once.", once[i]);
    const char *length = header(x, "Content-Length"), *coding = header(x, "Transfer-Encoding");
    x->has_body = coding || (length && strspn(length, "0") != strlen(length));
    if (coding && (length || strcasecmp(coding, "chunked") != 0))
        return refuse(x, 400, "invalid_header",
                      "A body has either a Content-Length or the Transfer-Encoding 'chunked'.");
    return FT_OK;
}

/* Says the flag that would allow the name, if it looks like one that a shell takes as it is. */
static ft_status refuse_source(ft_http_exchange *x, const char *code, const char *what,
                               const char *flag, const char *name)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:/";
    const size_t n = strlen(name);
    const bool is_plain = n > 0 && n <= 128 && strspn(name, plain) == n;
    return ft_http_fail_set(&x->fail, 403, code, NULL,
                            "%s is not a name that this server goes by. If it is yours, start the "
                            "server with %s %s.",
                            what, flag, is_plain ? name : "NAME:PORT");
}

/* Host and Origin. */
static ft_status check_source(ft_http_exchange *x, const char **path)
{
    char authority[300];
    const ft_http_guard *guard = &x->http->guard;
    const char *host = header(x, "Host"), *origin = header(x, "Origin");
    if (!ft_http_split_uri(x->uri, path, authority, sizeof authority))
        return refuse(x, 400, "invalid_uri", "The request's URI is malformed.");
    if (!host)
        return refuse(x, 400, "invalid_header", "The header 'Host' is missing.");
    if (authority[0] && !ft_http_guard_host(guard, authority))
        return refuse_source(x, "host_not_allowed", "The request's URI", "--allow-host", authority);
    if (!ft_http_guard_host(guard, host))
        return refuse_source(x, "host_not_allowed", "The request's Host", "--allow-host", host);
    if (origin && !ft_http_guard_origin(guard, origin))
        return refuse_source(x, "origin_not_allowed", "The web page's origin", "--allow-origin",
                             origin);
    x->defaults.origin = origin;
    return FT_OK;
}

static bool is_there(const ft_http *http, const route *r)
{
    const ft_http_backend *b = &http->backend;
    if (r->page == &ft_http_page_dashboard) /* it shows a server's metrics, not an edge's */
        return !b->generate && !http->no_page;
    if (r->page)
        return b->generate && !http->no_page;
    return r->open || (r->metrics ? b->metrics != NULL : b->generate != NULL);
}

static ft_status find_route(ft_http_exchange *x, const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const route *r = &routes[i];
        size_t n = strlen(r->path);
        if (r->prefix ? strncmp(path, r->path, n) == 0 && path[n] : strcmp(path, r->path) == 0)
            if (is_there(x->http, r)) {
                x->route = r;
                x->tail = path + n;
                x->allow = r->post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
                x->defaults.fail_json = r->dialect ? r->dialect->fail : NULL;
                return FT_OK;
            }
    }
    return ft_http_fail_set(&x->fail, 404, "unknown_url", NULL, "Unknown URL: %s %.200s", x->method,
                            path);
}

static ft_status check_key(ft_http_exchange *x)
{
    char name[FT_HTTP_NAME_SIZE];
    x->authorized = ft_http_guard_key(&x->http->guard, header(x, "Authorization"),
                                      header(x, "X-Api-Key"), name);
    snprintf(x->client.tenant, sizeof x->client.tenant, "%.*s", FT_CLIENT_TENANT_SIZE - 1, name);
    if (x->authorized || (x->route && x->route->open))
        return FT_OK;
    return refuse(x, 401, "invalid_api_key",
                  "A valid API key is required, in the header 'Authorization: Bearer KEY' or "
                  "'X-Api-Key: KEY'.");
}

static enum MHD_Result keep_last(void *ctx, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    const char **last = ctx;
    if (strcasecmp(key, "X-Forwarded-For") == 0)
        *last = value;
    return MHD_YES;
}

/* A proxy that adds a header of its own adds it behind those of its clients. */
static void find_address(ft_http_exchange *x)
{
    const char *forwarded = "";
    ft_address address;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!ft_address_of(info->client_addr, &address))
        return;
    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, keep_last, &forwarded);
    address = ft_networks_client(&x->http->proxies, &address, forwarded, strlen(forwarded));
    ft_address_network(&address, x->client.address);
}

/* The connection is this client's, now that a key was shown or none is needed. */
static ft_status count_client(ft_http_exchange *x)
{
    ft_error err = {0};
    bool share;
    if (ft_http_conns_know(&x->http->conns, x->conn, &x->client, &err, &share) == FT_OK)
        return FT_OK;
    return refuse(x, share ? 429 : 503, "too_many_connections", err.message);
}

static ft_status check_method(ft_http_exchange *x)
{
    bool get = strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0;
    if (x->route->post ? strcmp(x->method, "POST") == 0 : get)
        return FT_OK;
    return ft_http_fail_set(&x->fail, 405, "method_not_allowed", NULL,
                            "The method %.16s is not allowed here (%s are).", x->method, x->allow);
}

static ft_status check_body(ft_http_exchange *x)
{
    const char *length = header(x, "Content-Length"), *coding = header(x, "Content-Encoding");
    if (!x->route->post)
        return x->has_body ? refuse(x, 400, "unexpected_body", "This request takes no body.")
                           : FT_OK;
    if (!ft_http_is_json_type(header(x, "Content-Type")))
        return refuse(x, 415, "unsupported_media_type",
                      "The header 'Content-Type' must be 'application/json'.");
    if (coding && strcasecmp(coding, "identity") != 0)
        return refuse(x, 415, "unsupported_media_type", "The body must not be compressed.");
    if (ask_model(x) != FT_OK)
        return FT_INVALID;
    x->max_body_bytes = most_body_bytes(x);
    errno = 0;
    unsigned long long n = length ? strtoull(length, NULL, 10) : 0;
    return errno == ERANGE || n > x->max_body_bytes ? refuse_size(x) : FT_OK;
}

static ft_status admit(ft_http_exchange *x)
{
    const char *path;
    find_address(x);
    ft_status status = check_headers(x);
    if (status == FT_OK)
        status = check_source(x, &path);
    if (status != FT_OK)
        return status;
    if (strcmp(x->method, "OPTIONS") == 0 && !x->has_body) {
        x->preflight = true; /* the answer only lets an allowed origin read other answers */
        return FT_OK;
    }
    ft_status routed = find_route(x, path);
    status = check_key(x); /* before "unknown": who has no key need not know which paths exist */
    if (status == FT_OK && !(x->route && x->route->open))
        status = count_client(x);
    if (status != FT_OK || routed != FT_OK)
        return FT_INVALID;
    const char *prefix = header(x, FT_CHAT_PREFIX_HEADER);
    if (prefix)
        ft_chat_prefix_check("http", prefix, strlen(prefix));
    status = check_method(x);
    return status == FT_OK ? check_body(x) : status;
}

/* --- the exchange --- */

ft_http_exchange *ft_http_exchange_create(ft_http *http, ft_http_conn *conn,
                                          struct MHD_Connection *connection, const char *uri,
                                          const char *method)
{
    ft_http_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->http = http;
    x->conn = conn;
    x->connection = connection;
    x->uri = uri;
    x->method = method;
    x->max_body_bytes = http->max_body_bytes;
    return x;
}

void ft_http_exchange_destroy(ft_http_exchange *x)
{
    if (!x)
        return;
    ft_http_generation_destroy(x->generation);
    if (x->entered)
        ft_http_conns_leave(&x->http->conns);
    ft_http_conns_limit(&x->http->conns, x->conn, x->http->request_timeout_s);
    ft_buf_deinit(&x->body);
    free(x);
}

enum MHD_Result ft_http_exchange_begin(ft_http_exchange *x)
{
    x->began_cpu_us = ft_thread_cpu_us();
    ft_http_conns_limit(&x->http->conns, x->conn, x->http->request_timeout_s);
    const ft_status admitted = admit(x);
    x->defaults.close = x->conn->standing == FT_HTTP_STRANGER; /* it would stay for ever */
    if (admitted != FT_OK) {
        FT_LOGD("http", "refused=%d code=%s", x->fail.http, x->fail.code ? x->fail.code : "-");
        if (x->has_body)
            return reply_fail(x);
    }
    return MHD_YES;
}

enum MHD_Result ft_http_exchange_body(ft_http_exchange *x, const char *data, size_t n)
{
    uint64_t limit = x->max_body_bytes;
    x->body_bytes += n;
    ft_http_conn_takes(x->conn, x->body_bytes);
    if (x->body_bytes > limit * DRAIN_LIMITS)
        return MHD_NO;
    if (x->body_bytes > limit) {
        if (x->fail.http == 0)
            refuse_size(x);
        ft_buf_deinit(&x->body);
        return MHD_YES;
    }
    return ft_buf_append(&x->body, data, n) == FT_OK ? MHD_YES : MHD_NO;
}

enum MHD_Result ft_http_exchange_end(ft_http_exchange *x)
{
    bool generates = x->fail.http == 0 && !x->preflight && x->route->post;
    ft_http_conns_limit(&x->http->conns, x->conn, generates ? 0 : x->http->stall_timeout_s);
    if (x->fail.http != 0)
        return reply_fail(x);
    if (!x->preflight)
        return x->route->answer(x);
    ft_http_reply reply = x->defaults;
    reply.status = MHD_HTTP_NO_CONTENT;
    reply.allow = "GET, HEAD, POST, OPTIONS";
    return reply.origin ? ft_http_reply_preflight(x->connection, &reply)
                        : ft_http_reply_send(x->connection, &reply, &(ft_buf){0});
}
