// SPDX-License-Identifier: Apache-2.0
// The gRPC client's channel: settings of the connection, TLS, the queue thread, the method Info.
// The channel connects when a call needs it. After a failure it tries again, with growing pauses.
// No proxies, and no retries of calls: the caller decides what to do when a stream is lost.
#include "wire/client.h"

#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/secret.h"
#include "wire/call.h"

#define CONNECT_TIMEOUT_MS 5000
/* From the beginning of a failed attempt to connect to the next one; gRPC adds or subtracts up to a
 * fifth. A server that is back waits that long for us, then for the edge's own pause
 * (edge/stream.c). Half of the largest doubles the attempts while a server is gone. */
#define FIRST_RECONNECT_MS   100
#define LARGEST_RECONNECT_MS 300
/* Between two looks at opts.stopped. */
#define STOPPED_LOOK_US 50000

static ft_status check_address(const char *address, ft_error *err)
{
    const char *colon = address ? strrchr(address, ':') : NULL;
    if (!colon || colon == address || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return ft_error_set(err, FT_INVALID, "server address \"%s\": must be HOST:PORT",
                            address ? address : "");
    return FT_OK;
}

/* A pseudo-random function of the token, in two halves. */
static void make_prefix_key(const char *token, uint8_t out[16])
{
    for (uint8_t half = 0; half < 2; half++) {
        const uint8_t key[16] = {half};
        const uint64_t hash = ft_siphash(key, token, strlen(token));
        memcpy(out + 8 * half, &hash, sizeof hash);
    }
}

static ft_status set_token(ft_wire_client *client, const char *token, ft_error *err)
{
    char *text = NULL;
    if (asprintf(&text, "Bearer %s", token) < 0)
        return ft_error_set(err, FT_NOMEM, "no memory for a client");
    client->authorization = grpc_slice_from_copied_string(text);
    client->has_token = true;
    make_prefix_key(token, client->prefix_key);
    free(text);
    return *token && grpc_header_nonbin_value_is_legal(client->authorization)
               ? FT_OK
               : ft_error_set(err, FT_INVALID,
                              "the bearer token must be printable ASCII and not empty");
}

static ft_status read_pem(const char *path, ft_error *err, char **out)
{
    *out = NULL;
    return path ? ft_file_read_pem(path, err, out) : FT_OK;
}

/* The caller releases *out. */
static ft_status tls_creds(const ft_wire_client_opts *opts, ft_error *err,
                           grpc_channel_credentials **out)
{
    char *cert = NULL, *key = NULL, *ca = NULL;
    *out = NULL;
    if (!opts->tls_cert != !opts->tls_key)
        return ft_error_set(err, FT_INVALID,
                            "TLS needs both a certificate and its key: only the %s was given",
                            opts->tls_cert ? "certificate" : "key");
    ft_status status = read_pem(opts->tls_cert, err, &cert);
    if (status == FT_OK)
        status = read_pem(opts->tls_key, err, &key);
    if (status == FT_OK)
        status = read_pem(opts->tls_ca, err, &ca);
    if (status == FT_OK) {
        grpc_ssl_pem_key_cert_pair pair = {.private_key = key, .cert_chain = cert};
        *out = grpc_ssl_credentials_create_ex(ca, cert ? &pair : NULL, NULL, NULL);
        if (!*out)
            status = ft_error_set(err, FT_INVALID, "cannot set up TLS from the PEM files");
    }
    free(cert);
    free(key);
    free(ca);
    return status;
}

static ft_status open_channel(ft_wire_client *client, const ft_wire_client_opts *opts,
                              ft_error *err)
{
    bool tls = opts->tls || opts->tls_ca || opts->tls_cert || opts->tls_key || opts->tls_name;
    grpc_channel_credentials *creds = NULL;
    ft_status status = FT_OK;
    if (tls)
        status = tls_creds(opts, err, &creds);
    else
        creds = grpc_insecure_credentials_create();
    if (status != FT_OK)
        return status;
    grpc_arg args[] = {
        ft_rpc_int(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        ft_rpc_int(GRPC_ARG_ENABLE_RETRIES, 0),
        /* a connection of its own, not one shared with other clients of this process */
        ft_rpc_int(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        ft_rpc_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, FT_SERVER_MSG_MAX_BYTES),
        ft_rpc_int(GRPC_ARG_KEEPALIVE_TIME_MS, FT_RPC_CLIENT_PING_MS),
        ft_rpc_int(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, FT_RPC_PING_TIMEOUT_MS),
        ft_rpc_int(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        ft_rpc_int(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        ft_rpc_int(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, FIRST_RECONNECT_MS),
        ft_rpc_int(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, LARGEST_RECONNECT_MS),
        /* limits, in spite of its name, how long one attempt to connect takes */
        ft_rpc_int(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_TIMEOUT_MS),
        {.type = GRPC_ARG_STRING, .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG},
    };
    size_t n = sizeof args / sizeof *args;
    args[n - 1].value.string = (char *)opts->tls_name;
    grpc_channel_args all = {.num_args = opts->tls_name ? n : n - 1, .args = args};
    client->channel = grpc_channel_create(client->address, creds, &all);
    grpc_channel_credentials_release(creds);
    return client->channel
               ? FT_OK
               : ft_error_set(err, FT_INVALID, "cannot open a channel to %s", client->address);
}

ft_status ft_wire_client_create(const ft_wire_client_opts *opts, ft_error *err,
                                ft_wire_client **out)
{
    *out = NULL;
    ft_status status = check_address(opts->address, err);
    if (status != FT_OK)
        return status;
    ft_wire_client *client = calloc(1, sizeof *client);
    if (!client)
        return ft_error_set(err, FT_NOMEM, "no memory for a client");
    status = ft_rpc_queue_start(&client->queue, err);
    if (status != FT_OK) {
        free(client);
        return status;
    }
    client->stopped = opts->stopped;
    client->address = strdup(opts->address);
    if (!client->address)
        status = ft_error_set(err, FT_NOMEM, "no memory for a client");
    if (status == FT_OK && opts->token)
        status = set_token(client, opts->token, err);
    if (status == FT_OK)
        status = open_channel(client, opts, err);
    if (status != FT_OK)
        ft_wire_client_destroy(client);
    else
        *out = client;
    return status;
}

void ft_wire_client_destroy(ft_wire_client *client)
{
    if (!client)
        return;
    if (client->channel)
        grpc_channel_destroy(client->channel);
    if (client->has_token)
        grpc_slice_unref(client->authorization);
    ft_rpc_queue_stop(&client->queue);
    free(client->address);
    free(client);
}

bool ft_wire_client_connected(const ft_wire_client *client)
{
    return grpc_channel_check_connectivity_state(client->channel, 0) == GRPC_CHANNEL_READY;
}

const char *ft_wire_client_address(const ft_wire_client *client)
{
    return client->address;
}

ft_status ft_call_wait_bytes(ft_wire_client *client, ft_call *call, int64_t timeout_us,
                             ft_error *err, uint8_t **data, size_t *n)
{
    ft_status status = FT_TIMEOUT;
    for (int64_t left_us = timeout_us; status == FT_TIMEOUT && left_us > 0;
         left_us -= STOPPED_LOOK_US) {
        if (client->stopped && client->stopped())
            return ft_error_set(err, FT_CANCELLED, "stopped");
        status = ft_call_recv_bytes(call, left_us < STOPPED_LOOK_US ? left_us : STOPPED_LOOK_US,
                                    err, data, n);
    }
    return status;
}

ft_status ft_call_ask(ft_wire_client *client, const ft_ask *ask, ft_error *err, uint8_t **data,
                      size_t *n)
{
    ft_call *call = NULL;
    *data = NULL;
    ft_status status = ft_call_start(client, ask->method, err, &call);
    if (status != FT_OK) {
        free(ask->take_request);
        return status;
    }
    status = ft_call_send_bytes(call, ask->take_request, ask->n_request, true, err);
    if (status == FT_OK)
        status = ft_call_wait_bytes(client, call, ask->timeout_us, err, data, n);
    if (status == FT_TIMEOUT)
        ft_error_set(err, FT_TIMEOUT, "%s did not answer within %lld ms", client->address,
                     (long long)(ask->timeout_us / 1000));
    ft_call_cancel(call);
    ft_call_destroy(call);
    return status;
}

ft_status ft_wire_client_info(ft_wire_client *client, int64_t timeout_us, ft_error *err,
                              ft_msg_info *out)
{
    const ft_ask ask = {.method = FT_RPC_INFO, .timeout_us = timeout_us};
    uint8_t *data = NULL;
    size_t n = 0;
    ft_status status = ft_call_ask(client, &ask, err, &data, &n);
    if (status == FT_OK)
        status = ft_info_decode(data, n, err, out);
    free(data);
    return status;
}
