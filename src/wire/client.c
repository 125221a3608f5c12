// SPDX-License-Identifier: Apache-2.0
// The gRPC client's channel: connection settings, TLS, the queue thread, and the unary Info. The
// channel connects when the first call needs it and again, with a growing pause, after a failure.
// No proxies and no retries: whoever calls decides what to do about a lost stream.
#include "wire/client.h"

#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/auth.h"
#include "wire/call.h"

#define CONNECT_TIMEOUT_MS   5000
#define FIRST_RECONNECT_MS   200
#define LARGEST_RECONNECT_MS 2000

static ft_status check_opts(const ft_wire_client_opts *opts, ft_error *err)
{
    const char *colon = opts->address ? strrchr(opts->address, ':') : NULL;
    if (!colon || colon == opts->address || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return ft_error_set(err, FT_INVALID, "server address \"%s\": must be HOST:PORT",
                            opts->address ? opts->address : "");
    if (opts->token) {
        grpc_slice slice = grpc_slice_from_copied_string(opts->token);
        bool legal = *opts->token && grpc_header_nonbin_value_is_legal(slice);
        grpc_slice_unref(slice);
        if (!legal)
            return ft_error_set(err, FT_INVALID,
                                "the bearer token must be printable ASCII and not empty");
    }
    return FT_OK;
}

static ft_status open_channel(ft_wire_client *client, const ft_wire_client_opts *opts,
                              ft_error *err)
{
    bool tls = opts->tls || opts->tls_ca || opts->tls_cert || opts->tls_key || opts->tls_name;
    grpc_channel_credentials *creds = NULL;
    ft_status status = FT_OK;
    if (tls)
        status = ft_auth_client_creds(opts->tls_ca, opts->tls_cert, opts->tls_key, err, &creds);
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
        /* this one limits how long one attempt to connect takes */
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

static void free_client(ft_wire_client *client)
{
    if (client->channel)
        grpc_channel_destroy(client->channel);
    free(client->authorization);
    free(client->address);
    free(client);
    ft_rpc_shutdown();
}

ft_status ft_wire_client_create(const ft_wire_client_opts *opts, ft_error *err,
                                ft_wire_client **out)
{
    *out = NULL;
    ft_status status = check_opts(opts, err);
    if (status != FT_OK)
        return status;
    ft_wire_client *client = calloc(1, sizeof *client);
    if (!client)
        return ft_error_set(err, FT_NOMEM, "no memory for a client");
    ft_rpc_init();
    client->address = strdup(opts->address);
    if (!client->address ||
        (opts->token && asprintf(&client->authorization, "Bearer %s", opts->token) < 0)) {
        client->authorization = NULL;
        status = ft_error_set(err, FT_NOMEM, "no memory for a client");
    }
    if (status == FT_OK)
        status = open_channel(client, opts, err);
    if (status != FT_OK)
        goto failed;
    client->cq = grpc_completion_queue_create_for_next(NULL);
    status = ft_rpc_start_thread(client->cq, err, &client->thread);
    if (status != FT_OK) {
        grpc_completion_queue_shutdown(client->cq);
        grpc_completion_queue_destroy(client->cq);
        goto failed;
    }
    *out = client;
    return FT_OK;
failed:
    free_client(client);
    return status;
}

void ft_wire_client_destroy(ft_wire_client *client)
{
    if (!client)
        return;
    grpc_completion_queue_shutdown(client->cq);
    pthread_join(client->thread, NULL);
    grpc_completion_queue_destroy(client->cq);
    free_client(client);
}

ft_status ft_wire_client_info(ft_wire_client *client, int64_t timeout_us, ft_error *err,
                              ft_msg_info *out)
{
    ft_call *call = NULL;
    uint8_t *data = NULL, *request = malloc(1);
    size_t n = 0;
    if (!request)
        return ft_error_set(err, FT_NOMEM, "no memory for a call");
    ft_status status = ft_call_start(client, FT_RPC_INFO, timeout_us, err, &call);
    if (status != FT_OK) {
        free(request);
        return status;
    }
    status = ft_call_send_bytes(call, request, 0, true, err); /* an InfoRequest has no bytes */
    if (status == FT_OK)
        status = ft_call_recv_bytes(call, timeout_us, err, &data, &n);
    if (status == FT_OK)
        status = ft_info_decode(data, n, err, out);
    else if (status == FT_TIMEOUT)
        ft_error_set(err, FT_TIMEOUT, "%s did not answer within %lld ms", client->address,
                     (long long)(timeout_us / 1000));
    free(data);
    ft_call_cancel(call);
    ft_call_destroy(call);
    return status;
}
