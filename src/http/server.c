// SPDX-License-Identifier: Apache-2.0
// The daemon: owns the connections, passes requests to exchanges. libmicrohttpd runs one thread for
// each connection. Otherwise it would suspend a connection that waits for its answer, and would not
// see that the client closes it. libmicrohttpd's own timeouts are off, because they would include
// the model's time; conns.c has the deadlines. accept.c has the loop that accepts.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/listen.h"
#include "base/log.h"
#include "http/exchange.h"

#define HEADER_BYTES ((size_t)32 << 10) /* a connection's memory: its headers must fit */
/* libmicrohttpd counts a connection until its thread has ended, which is later than we do. */
#define ENDING_CONNECTIONS 64

/* --- accepting --- */

/* What a refused connection is told: nothing with TLS. Made once, because it costs more than the
 * rest of a refusal. */
static ft_status write_no_room(ft_http *http, ft_error *err)
{
    ft_http_fail fail = {0};
    ft_buf body = {0};
    ft_http_fail_set(&fail, 503, "too_many_connections", NULL,
                     "Too many connections of your address, or of all, have sent no request yet: "
                     "close some, or try again later.");
    ft_status status = http->tls ? FT_OK : ft_http_fail_json(&fail, &body);
    if (status == FT_OK && !http->tls)
        status =
            ft_buf_printf(&http->no_room,
                          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
                          body.len, ft_buf_str(&body));
    ft_buf_deinit(&body);
    return status == FT_OK ? FT_OK : ft_error_set(err, FT_NOMEM, "http: out of memory");
}

/* Refuses a connection before it has a thread. */
static bool take(void *ctx, int fd, const struct sockaddr *from, socklen_t n)
{
    ft_http *http = ctx;
    ft_address address;
    ft_client_id client = {0};
    if (ft_address_of(from, &address))
        client = ft_networks_stranger(&http->proxies, &address);
    if (ft_http_conns_add(&http->conns, fd, &client, http->request_timeout_s)) {
        /* closes it if that fails, perhaps later */
        (void)MHD_add_connection(http->daemon, fd, from, n);
        return true;
    }
    if (http->no_room.len > 0) /* if the socket takes it at once */
        (void)!send(fd, http->no_room.data, http->no_room.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    return false;
}

/* --- libmicrohttpd's callbacks --- */

/* Before the handshake: libmicrohttpd itself knows only the certificate of its start. */
static void show_certificate(const ft_http *http, struct MHD_Connection *connection,
                             ft_http_conn *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    conn->creds = ft_tls_cert_hold(http->tls);
    gnutls_credentials_set(info->tls_session, GNUTLS_CRD_CERTIFICATE, ft_tls_creds_of(conn->creds));
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    ft_http *http = cls;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        ft_http_conn *conn = *context;
        ft_tls_creds_give_back(conn ? conn->creds : NULL);
        ft_http_conns_remove(&http->conns, conn);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = ft_http_conns_start(&http->conns, info->connect_fd);
    if (!*context)
        shutdown(info->connect_fd, SHUT_RDWR); /* it would have no deadline */
    else if (http->tls)
        show_certificate(http, connection, *context);
}

/* lint: library signature */
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *uri,
                                  const char *method, const char *version, const char *data,
                                  size_t *n, void **context)
{
    ft_http *http = cls;
    ft_http_exchange *x = *context;
    if (!x) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        ft_http_conn *conn = info ? info->socket_context : NULL;
        *context = x = conn ? ft_http_exchange_create(http, conn, connection, uri, method) : NULL;
        return x ? ft_http_exchange_begin(x) : MHD_NO;
    }
    if (*n == 0)
        return ft_http_exchange_end(x);
    enum MHD_Result result = ft_http_exchange_body(x, data, *n);
    *n = 0;
    return result;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    ft_http_exchange_destroy(*context);
    *context = NULL;
}

static void on_log(void *cls, const char *fmt, va_list args)
{
    char line[256];
    vsnprintf(line, sizeof line, fmt, args);
    line[strcspn(line, "\n")] = 0;
    FT_LOGD("http", "mhd=\"%s\"", line);
}

/* --- creation --- */

static int port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

static ft_status check_opts(const ft_http_opts *opts, ft_error *err)
{
    if (!opts->backend.generate != !opts->backend.model)
        return ft_error_set(err, FT_INVALID, "http: generate and model go together");
    if (!opts->backend.generate && !opts->backend.metrics)
        return ft_error_set(err, FT_INVALID, "http: the backend has neither generate nor metrics");
    if (opts->port < 0 || opts->port > 65535)
        return ft_error_set(err, FT_INVALID, "http: port %d is not within 0 to 65535", opts->port);
    if (!opts->tls_cert != !opts->tls_key)
        return ft_error_set(err, FT_INVALID,
                            "http: TLS needs a certificate and its key: give both, or neither");
    if (opts->max_connections > 100000)
        return ft_error_set(err, FT_INVALID, "http: more than 100000 connections are asked for");
    if (opts->tls_cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return ft_error_set(err, FT_UNSUPPORTED, "http: this libmicrohttpd was built without TLS");
    return FT_OK;
}

/* cert, key: PEM; NULL: no TLS. */
static struct MHD_Daemon *run_daemon(ft_http *http, const char *cert, const char *key)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)on_log, http},
        {MHD_OPTION_CONNECTION_LIMIT,
         http->conns.quota[FT_HTTP_STRANGER].max + http->conns.quota[FT_HTTP_KNOWN].max +
             ENDING_CONNECTIONS,
         NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, http},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, http},
        /* without TLS the list ends here */
        {cert ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, (void *)cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)FT_TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(flags | (cert ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, http,
                            MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

static ft_status start_daemon(ft_http *http, const ft_http_opts *opts, ft_error *err)
{
    const ft_tls_files files = {.cert = opts->tls_cert, .key = opts->tls_key};
    char *cert = NULL, *key = NULL;
    ft_status status = FT_OK;
    if (files.cert) {
        status = ft_tls_cert_create(&files, err, &http->tls);
        if (status == FT_OK)
            status = ft_file_read_pem(files.cert, err, &cert);
        if (status == FT_OK)
            status = ft_file_read_pem(files.key, err, &key);
    }
    if (status == FT_OK) {
        http->daemon = run_daemon(http, cert, key);
        if (!http->daemon)
            status = ft_error_set(err, FT_IO,
                                  "http: the server did not start: out of memory or threads");
    }
    free(cert);
    free(key);
    return status;
}

static ft_status init(ft_http *http, const ft_http_opts *opts, ft_error *err)
{
    const char *host = opts->host ? opts->host : "127.0.0.1";
    http->backend = opts->backend;
    if (opts->proxies)
        http->proxies = *opts->proxies;
    http->max_body_bytes = opts->max_body_bytes ? opts->max_body_bytes : (size_t)8 << 20;
    http->request_timeout_s = opts->request_timeout_s ? opts->request_timeout_s : 60;
    http->stall_timeout_s = opts->stall_timeout_s ? opts->stall_timeout_s : 60;
    http->reasoning = opts->reasoning;
    http->keep_alive_ms = opts->keep_alive_ms ? opts->keep_alive_ms : 5000;
    http->started_s = (int64_t)time(NULL);
    http->no_page = opts->no_page;
    int fd;
    ft_error why = {0};
    if (ft_listen(host, opts->port, &why, &fd) != FT_OK)
        return ft_error_set(err, FT_IO, "http: %s", why.message);
    http->port = port_of(fd);
    ft_status status = ft_http_guard_init(&http->guard, opts, http->port, err);
    if (status == FT_OK)
        status = start_daemon(http, opts, err);
    if (status == FT_OK)
        status = write_no_room(http, err);
    if (status != FT_OK) {
        close(fd);
        return status;
    }
    http->accept.take = take;
    http->accept.ctx = http;
    return ft_http_accept_start(&http->accept, fd, err);
}

ft_status ft_http_create(const ft_http_opts *opts, ft_error *err, ft_http **out)
{
    *out = NULL;
    ft_status status = check_opts(opts, err);
    if (status != FT_OK)
        return status;
    ft_http *http = calloc(1, sizeof *http);
    if (!http)
        return ft_error_set(err, FT_NOMEM, "http: out of memory");
    status = ft_http_conns_init(&http->conns, opts->max_connections ? opts->max_connections : 128,
                                opts->client_share, opts->refusal_ms ? opts->refusal_ms : 100, err);
    if (status != FT_OK) {
        free(http);
        return status;
    }
    status = init(http, opts, err);
    if (status != FT_OK)
        ft_http_destroy(http);
    else
        *out = http;
    return status;
}

int ft_http_port(const ft_http *http)
{
    return http->port;
}

ft_status ft_http_reload_tls(ft_http *http, ft_error *err)
{
    return http->tls ? ft_tls_cert_reload(http->tls, err) : FT_OK;
}

void ft_http_retire(ft_http *http)
{
    ft_http_conns_retire(&http->conns);
}

void ft_http_drain(ft_http *http, int64_t timeout_us)
{
    ft_http_conns_drain(&http->conns, timeout_us);
}

void ft_http_destroy(ft_http *http)
{
    if (!http)
        return;
    ft_http_accept_stop(&http->accept);
    ft_http_conns_drain(&http->conns, 0); /* answers that are late come now */
    /* Closes all connections, so that their generations are cancelled, and joins their threads. */
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    ft_http_conns_deinit(&http->conns);
    ft_http_guard_deinit(&http->guard);
    ft_buf_deinit(&http->no_room);
    ft_tls_cert_destroy(http->tls);
    free(http);
}
