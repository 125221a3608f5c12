// SPDX-License-Identifier: Apache-2.0
// The gRPC server: listens, accepts calls, checks who calls and whether there is room, and gives
// each message to its method. One queue thread does all of this and runs the handler, so calls of
// the handler never overlap; it never blocks. Requests for calls name no method, so a call of an
// unknown method gets an answer, too. Does not know sessions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/listen.h"
#include "base/log.h"
#include "base/chat_prefix.h"
#include "base/rng.h"
#include "wire/auth.h"
#include "wire/peer.h"
#include "wire/stream.h"

/* Requests for a call that wait in gRPC at any time. */
#define ARMED_REQUESTS 8
/* max_streams if opts say 0. */
#define DEFAULT_STREAMS 1024
/* Calls of Info and Check at a time, and as many of Watch. Twice as many serve more monitors. Half
 * as many would, with a share of a quarter, leave one client 32. */
#define OTHER_CALLS_MAX 256
/* A client may open a quarter of its share of the streams at once, and all of it within this time.
 * Opening 256 at once keeps the engine and the queue thread from others for some 50 ms. With half
 * the time they noticed; twice as much would delay an edge that comes back with all its users. */
#define OPEN_ALL_US 2500000
/* A client hears of this many refusals at once, then of one each interval. Refused clients call
 * again: 800 of them at once cost 40 ms of a processor. */
#define REFUSED_AT_ONCE     20
#define REFUSED_INTERVAL_US 10000
#define REFUSED_WAIT_US     20000000
/* How long ft_wire_server_destroy waits for the last messages before it cuts connections. */
#define FLUSH_US 2000000

typedef struct request {
    ft_rpc_tag tag;
    ft_wire_server *server;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
} request;

static void on_request(void *owner, bool ok);

static void request_clear(request *req)
{
    grpc_call_details_destroy(&req->details);
    grpc_metadata_array_destroy(&req->metadata);
}

/* Requests a call. Takes req, and frees it if gRPC wants no more of them. */
static void arm(request *take_req)
{
    request *req = take_req;
    ft_wire_server *server = req->server;
    grpc_call_details_init(&req->details);
    grpc_metadata_array_init(&req->metadata);
    ft_rpc_hand_over(&req->tag);
    if (grpc_server_request_call(server->grpc, &req->call, &req->details, &req->metadata,
                                 server->queue.cq, server->queue.cq, &req->tag) == GRPC_CALL_OK)
        return;
    request_clear(req);
    free(req);
}

/* The requests are made at the start and used again and again, so memory that runs out later ends
 * calls but not the taking of calls. */
static ft_status arm_all(ft_wire_server *server, ft_error *err)
{
    for (int i = 0; i < ARMED_REQUESTS; i++) {
        request *req = calloc(1, sizeof *req);
        if (!req)
            return ft_error_set(err, FT_NOMEM, "no memory for a server");
        req->server = server;
        req->tag = (ft_rpc_tag){on_request, req};
        arm(req);
    }
    return FT_OK;
}

static ft_method method_of(grpc_slice path)
{
    static const struct {
        const char *path;
        ft_method method;
    } methods[] = {
        {FT_RPC_SESSION, FT_METHOD_SESSION},
        {FT_RPC_INFO, FT_METHOD_INFO},
        {FT_RPC_OFFER, FT_METHOD_OFFER},
        {"/grpc.health.v1.Health/Check", FT_METHOD_HEALTH_CHECK},
        {"/grpc.health.v1.Health/Watch", FT_METHOD_HEALTH_WATCH},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (grpc_slice_str_cmp(path, methods[i].path) == 0)
            return methods[i].method;
    return FT_METHOD_UNKNOWN;
}

/* Where a call of this method finds a place; NULL: nowhere, it is refused at once. */
static ft_quota *quota_for(ft_wire_server *server, ft_method method, bool proven)
{
    switch (method) {
    case FT_METHOD_SESSION:
        return &server->quotas.sessions;
    case FT_METHOD_INFO:
    case FT_METHOD_HEALTH_CHECK:
        return &server->quotas.calls[proven];
    case FT_METHOD_OFFER:
    case FT_METHOD_HEALTH_WATCH:
        return &server->quotas.watches;
    case FT_METHOD_UNKNOWN:
        break;
    }
    return NULL;
}

/* The call is refused. Whether the client hears of it late. Places for this are limited, too:
 * without one it hears at once. */
static bool refuse_late(ft_wire_server *server, ft_stream *stream, const ft_error *why)
{
    const int64_t wait_us =
        ft_throttle_take(&server->paces.refusals, &stream->client, ft_monotonic_us());
    ft_error *const refusal = wait_us > 0 ? malloc(sizeof *refusal) : NULL;
    if (!refusal || ft_quota_take(&server->quotas.refused, &stream->client, NULL) != FT_OK) {
        free(refusal);
        return false;
    }
    *refusal = *why;
    stream->refusal = refusal;
    stream->quota = &server->quotas.refused;
    ft_late_refuse(server, stream, wait_us);
    return true;
}

/* The call has a place. Whether its message may be asked for now. */
static bool begin_now(ft_wire_server *server, ft_stream *stream)
{
    const int64_t wait_us =
        stream->method == FT_METHOD_SESSION
            ? ft_throttle_take(&server->paces.sessions, &stream->client, ft_monotonic_us())
            : 0;
    if (wait_us > 0)
        ft_late_read(server, stream, wait_us);
    else
        ft_late_expect(server, stream);
    return wait_us == 0;
}

void ft_stream_count_refused(ft_stream *stream, ft_status why, size_t constraint_bytes)
{
    ft_wire_server *server = stream->server;
    const uint32_t more = ft_throttle_of_bytes(constraint_bytes); /* begin_now counted one */
    if (more == 0 || !ft_throttle_counts(ft_status_http(why)))
        return;
    pthread_mutex_lock(&server->lock);
    (void)ft_throttle_take_many(&server->paces.sessions, &stream->client, more, ft_monotonic_us());
    pthread_mutex_unlock(&server->lock);
}

typedef enum admitted { ADMITTED_NOW, ADMITTED_LATER, REFUSED_NOW } admitted;

/* Adds the stream to the list. Later: the late thread reads or refuses it. err: why the client may
 * not make the call; its code is FT_OK if it may, and then it can find no place in the quota. */
static admitted admit(ft_wire_server *server, ft_stream *stream, ft_quota *quota, ft_error *err)
{
    admitted how = REFUSED_NOW;
    pthread_mutex_lock(&server->lock);
    stream->next = server->streams;
    if (stream->next)
        stream->next->prev = stream;
    server->streams = stream;
    server->n_streams++;
    if (err->code == FT_OK && stream->method == FT_METHOD_SESSION && server->closing)
        ft_error_set(err, FT_UNAVAILABLE, "the server is shutting down");
    else if (err->code == FT_OK)
        err->code = ft_quota_take(quota, &stream->client, err);
    if (err->code == FT_OK) {
        stream->quota = quota;
        how = begin_now(server, stream) ? ADMITTED_NOW : ADMITTED_LATER;
    } else if (!server->closing && refuse_late(server, stream, err)) {
        how = ADMITTED_LATER;
    }
    pthread_mutex_unlock(&server->lock);
    return how;
}

/* Whether the client may make this call. *proven: it has shown a credential that this server asks
 * for. */
static ft_status check_call(const ft_wire_server_opts *opts, ft_method method,
                            const grpc_metadata_array *metadata, ft_error *err, ft_key *key,
                            bool *proven)
{
    *proven = false;
    if (method == FT_METHOD_UNKNOWN)
        return ft_error_set(err, FT_UNSUPPORTED, "unknown method");
    const ft_status status = ft_auth_check(metadata, opts->token, opts->keys, err, key);
    *proven = status == FT_OK && (opts->token || opts->keys || opts->tls_client_ca);
    if (method == FT_METHOD_HEALTH_CHECK || method == FT_METHOD_HEALTH_WATCH)
        return FT_OK;
    return status;
}

/* One line of the log a call, however many values it has. */
static void check_prefix(const grpc_metadata_array *metadata)
{
    bool right = true;
    for (size_t i = 0; right && i < metadata->count; i++) {
        const grpc_metadata *m = &metadata->metadata[i];
        if (grpc_slice_str_cmp(m->key, FT_CHAT_PREFIX_HEADER) == 0)
            right = ft_chat_prefix_check("wire", (const char *)GRPC_SLICE_START_PTR(m->value),
                                         GRPC_SLICE_LENGTH(m->value));
    }
}

static void on_info(ft_stream *stream)
{
    const ft_wire_handler *handler = &stream->server->opts.handler;
    ft_msg_info info = {0};
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err;
    ft_status status = handler->info(handler->ctx, &err, &info);
    if (status == FT_OK)
        status = ft_info_encode(&info, &err, &data, &n);
    if (status != FT_OK) {
        ft_stream_finish(stream, status, err.message,
                         status == FT_UNAVAILABLE ? FT_STREAM_FULL_RETRY_MS : 0);
        return;
    }
    ft_stream_send_bytes(stream, data, n);
    ft_stream_finish(stream, FT_OK, "", 0);
}

static void on_session(ft_stream *stream, const uint8_t *data, size_t n)
{
    const ft_wire_handler *handler = &stream->server->opts.handler;
    ft_client_msg *msg = NULL;
    ft_error err;
    if (ft_client_msg_decode(data, n, &stream->server->opts.limits, &err, &msg) != FT_OK) {
        FT_LOGI("wire", "message refused bytes=%zu reason=\"%s\"", n, err.message);
        ft_stream_finish(stream, err.code, err.message, 0);
        return;
    }
    handler->on_message(handler->ctx, stream, msg);
}

static void heard(ft_stream *stream)
{
    pthread_mutex_lock(&stream->server->lock);
    stream->due_us = FT_NO_DEADLINE;
    pthread_mutex_unlock(&stream->server->lock);
}

static void on_bytes(ft_stream *stream, const uint8_t *data, size_t n)
{
    if (stream->due_us != FT_NO_DEADLINE) /* the late thread has set it before it asked for this */
        heard(stream);
    switch (stream->method) {
    case FT_METHOD_SESSION:
        on_session(stream, data, n);
        return;
    case FT_METHOD_INFO:
        on_info(stream);
        return;
    case FT_METHOD_OFFER:
        ft_offer_on_request(stream, data, n);
        return;
    case FT_METHOD_HEALTH_CHECK:
    case FT_METHOD_HEALTH_WATCH:
        ft_health_on_request(stream, data, n);
        return;
    case FT_METHOD_UNKNOWN:
        return;
    }
}

static void on_gone(ft_stream *stream)
{
    ft_wire_server *server = stream->server;
    pthread_mutex_lock(&server->lock);
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        server->streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    server->n_streams--;
    if (stream->quota)
        ft_quota_give_back(stream->quota, &stream->client);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    ft_stream_unref(stream);
}

static const ft_stream_owner owner_of_streams = {.on_bytes = on_bytes, .on_gone = on_gone};

static void on_request(void *owner, bool ok)
{
    request *req = owner;
    ft_wire_server *server = req->server;
    ft_error err = {0};
    if (!ok) { /* shutting down */
        request_clear(req);
        free(req);
        return;
    }
    ft_key key = {0};
    ft_accepted from;
    ft_method method = method_of(req->details.method);
    bool proven = false;
    ft_status status = ft_peer_of(server, req->call, &err, &from);
    if (status == FT_OK)
        status = check_call(&server->opts, method, &req->metadata, &err, &key, &proven);
    err.code = status;
    if (status != FT_OK)
        method = FT_METHOD_UNKNOWN;
    ft_stream *stream =
        ft_stream_create(server, &owner_of_streams, req->call, method,
                         ft_auth_credential(from.names, &req->metadata, server->salt, &key));
    if (stream) {
        stream->key = key;
        ft_peer_client(server, &from, &req->metadata, &key, &stream->client);
        if (method == FT_METHOD_SESSION)
            check_prefix(&req->metadata);
        const admitted how = admit(server, stream, quota_for(server, method, proven), &err);
        if (how == ADMITTED_NOW)
            ft_stream_read_next(stream);
        else if (how == REFUSED_NOW)
            ft_stream_refuse(stream, &err);
    }
    free(from.names);
    request_clear(req);
    arm(req);
}

static void on_shut_down(void *owner, bool ok)
{
    ft_wire_server *server = owner;
    pthread_mutex_lock(&server->lock);
    server->shut_down = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* Each call may come over a connection of its own. */
static uint32_t calls_max(const ft_wire_server *server)
{
    return server->opts.max_streams + 3 * OTHER_CALLS_MAX;
}

/* The accept loop needs two descriptors a connection, with TLS four. Other parts of the process
 * need some, too. */
static void raise_descriptor_limit(const ft_wire_server *server)
{
    enum { LEAST = 65536, OTHERS = 4096 };
    const rlim_t each = server->opts.tls_cert ? 4 : 2;
    const rlim_t need = each * calls_max(server) + OTHERS;
    const rlim_t wanted = need > LEAST ? need : LEAST;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        FT_LOGW("wire", "cannot raise the limit of open files: %m");
    if (limit.rlim_cur < wanted)
        FT_LOGW("wire", "open files are limited limit=%ju wanted=%ju", (uintmax_t)limit.rlim_cur,
                (uintmax_t)wanted);
}

static void create_grpc(ft_wire_server *server)
{
    size_t max_bytes = ft_client_msg_max_bytes(&server->opts.limits);
    uint32_t calls = calls_max(server);
    grpc_arg args[] = {
        /* without this, two servers share a port and nobody notices */
        ft_rpc_int(GRPC_ARG_ALLOW_REUSEPORT, 0),
        ft_rpc_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                   max_bytes < INT32_MAX ? (int)max_bytes : INT32_MAX),
        ft_rpc_int(GRPC_ARG_MAX_CONCURRENT_STREAMS, calls < INT32_MAX ? (int)calls : INT32_MAX),
        ft_rpc_int(GRPC_ARG_KEEPALIVE_TIME_MS, FT_RPC_SERVER_PING_MS),
        ft_rpc_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, FT_RPC_PING_TIMEOUT_MS),
        ft_rpc_int(GRPC_ARG_MAX_CONNECTION_IDLE_MS, FT_RPC_IDLE_LIMIT_MS),
        ft_rpc_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        ft_rpc_int(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, FT_RPC_MIN_RECV_PING_MS),
        ft_rpc_int(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        ft_rpc_int(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, FT_RPC_HANDSHAKE_LIMIT_MS),
        /* no compression: a small message could become a large one */
        ft_rpc_int(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
    };
    grpc_channel_args all = {.num_args = sizeof args / sizeof *args, .args = args};
    server->grpc = grpc_server_create(&all, NULL);
    grpc_server_register_completion_queue(server->grpc, server->queue.cq, NULL);
}

static ft_status listen_on(ft_wire_server *server, const ft_wire_server_opts *opts, ft_error *err)
{
    const ft_tls_files files = {opts->tls_cert, opts->tls_key, opts->tls_client_ca};
    const ft_accept_opts accept = {.host = opts->host,
                                   .port = opts->port,
                                   .max = calls_max(server),
                                   .client_share = opts->client_share,
                                   .proxies = opts->proxies,
                                   .tls = files.cert || files.key || files.ca ? &files : NULL};
    ft_status status = ft_accept_create(&accept, err, &server->accept);
    if (status == FT_OK)
        server->port = ft_accept_port(server->accept);
    return status;
}

static ft_status check_opts(const ft_wire_server_opts *opts, ft_error *err)
{
    if (!opts->host || !*opts->host || strlen(opts->host) > 255)
        return ft_error_set(err, FT_INVALID, "no host to listen on");
    if (opts->port < 0 || opts->port > 65535)
        return ft_error_set(err, FT_INVALID, "port %d: must be within [0, 65535]", opts->port);
    if (opts->token && opts->keys)
        return ft_error_set(err, FT_INVALID, "one bearer token for all, or keys, not both");
    if (opts->token && !*opts->token)
        return ft_error_set(err, FT_INVALID, "the bearer token is empty");
    return FT_OK;
}

static ft_status init_quotas(ft_wire_server *server, ft_error *err)
{
    const struct {
        ft_quota *quota;
        const char *what;
        uint32_t max;
    } all[] = {{&server->quotas.sessions, "streams", server->opts.max_streams},
               {&server->quotas.calls[false], "calls without a credential", OTHER_CALLS_MAX},
               {&server->quotas.calls[true], "calls", OTHER_CALLS_MAX},
               {&server->quotas.watches, "calls of Watch", OTHER_CALLS_MAX},
               {&server->quotas.refused, "refused calls", 4 * server->opts.max_streams}};
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < sizeof all / sizeof *all; i++)
        status =
            ft_quota_init(all[i].quota, all[i].what, all[i].max, server->opts.client_share, err);
    return status;
}

/* Where clients have no share, one address may be all of them, and nobody waits. */
static void set_paces(ft_wire_server *server)
{
    const ft_quota *sessions = &server->quotas.sessions;
    if (sessions->share == sessions->max)
        return;
    server->paces.sessions = (ft_throttle){.interval_us = OPEN_ALL_US / sessions->share,
                                           .burst = (sessions->share + 3) / 4,
                                           .most_us = OPEN_ALL_US};
    server->paces.refusals = (ft_throttle){
        .interval_us = REFUSED_INTERVAL_US, .burst = REFUSED_AT_ONCE, .most_us = REFUSED_WAIT_US};
}

static void deinit_quotas(ft_wire_server *server)
{
    ft_quota_deinit(&server->quotas.sessions);
    ft_quota_deinit(&server->quotas.calls[false]);
    ft_quota_deinit(&server->quotas.calls[true]);
    ft_quota_deinit(&server->quotas.watches);
    ft_quota_deinit(&server->quotas.refused);
}

static ft_status set_up(ft_wire_server *server, const ft_wire_server_opts *opts, ft_error *err)
{
    server->opts = *opts;
    if (!server->opts.max_streams)
        server->opts.max_streams = DEFAULT_STREAMS;
    server->tag_shutdown = (ft_rpc_tag){on_shut_down, server};
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    if (ft_random_bytes(server->salt, sizeof server->salt) != FT_OK)
        return ft_error_set(err, FT_IO, "the kernel has no random bytes");
    ft_status status = init_quotas(server, err);
    set_paces(server);
    if (status == FT_OK)
        status = ft_late_start(server, err);
    return status == FT_OK ? ft_rpc_queue_start(&server->queue, err) : status;
}

static void free_server(ft_wire_server *server)
{
    ft_late_stop(server);
    deinit_quotas(server);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

ft_status ft_wire_server_create(const ft_wire_server_opts *opts, ft_error *err,
                                ft_wire_server **out)
{
    *out = NULL;
    ft_status status = check_opts(opts, err);
    if (status != FT_OK)
        return status;
    ft_wire_server *server = calloc(1, sizeof *server);
    if (!server)
        return ft_error_set(err, FT_NOMEM, "no memory for a server");
    status = set_up(server, opts, err);
    if (status != FT_OK) {
        free_server(server);
        return status;
    }
    raise_descriptor_limit(server);
    create_grpc(server);
    status = listen_on(server, opts, err);
    if (status == FT_OK) {
        grpc_server_start(server->grpc);
        status = arm_all(server, err);
    }
    if (status == FT_OK)
        status = ft_accept_start(server->accept, server->grpc, err);
    if (status == FT_OK)
        *out = server;
    else
        ft_wire_server_destroy(server);
    return status;
}

int ft_wire_server_port(const ft_wire_server *server)
{
    return server->port;
}

/* Sets what health depends on, and tells those who watch it. */
static void set_health(ft_wire_server *server, bool unwell, bool draining)
{
    const bool before = ft_wire_server_serves(server);
    server->unwell = unwell;
    server->draining = draining;
    const bool serves = ft_wire_server_serves(server);
    for (ft_stream *s = server->streams; s && serves != before; s = s->next)
        if (s->watching)
            ft_health_tell(s, serves);
}

void ft_wire_server_set_serving(ft_wire_server *server, bool serving)
{
    pthread_mutex_lock(&server->lock);
    set_health(server, !serving, server->draining);
    pthread_mutex_unlock(&server->lock);
}

ft_status ft_wire_server_reload_tls(ft_wire_server *server, ft_error *err)
{
    return ft_accept_reload_tls(server->accept, err);
}

void ft_wire_server_drain(ft_wire_server *server)
{
    pthread_mutex_lock(&server->lock);
    set_health(server, server->unwell, true);
    pthread_mutex_unlock(&server->lock);
}

void ft_wire_server_destroy(ft_wire_server *server)
{
    if (!server)
        return;
    ft_wire_server_drain(server);
    int64_t deadline_us = ft_deadline_us(FLUSH_US);
    pthread_mutex_lock(&server->lock);
    server->closing = true;
    for (ft_stream *s = server->streams; s; s = s->next)
        ft_stream_finish(s, FT_UNAVAILABLE, "the server is shutting down", 0);
    pthread_mutex_unlock(&server->lock);
    ft_accept_stop(server->accept);
    grpc_server_shutdown_and_notify(server->grpc, server->queue.cq, &server->tag_shutdown);
    pthread_mutex_lock(&server->lock);
    while (server->n_streams && ft_cond_wait_until(&server->changed, &server->lock, deadline_us)) {
    }
    pthread_mutex_unlock(&server->lock);
    grpc_server_cancel_all_calls(server->grpc);
    pthread_mutex_lock(&server->lock);
    while (!server->shut_down || server->n_streams)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    grpc_server_destroy(server->grpc);
    ft_accept_destroy(server->accept);
    ft_rpc_queue_stop(&server->queue); /* handles the requests that got no call */
    free_server(server);
}
