/* SPDX-License-Identifier: Apache-2.0
 *
 * What client.c and call.c share; private to this room.
 */
#ifndef FT_WIRE_CALL_H
#define FT_WIRE_CALL_H

#include "wire/client.h"
#include "wire/rpc.h"

struct ft_wire_client {
    char *address;
    bool has_token;
    grpc_slice authorization; /* has_token: "Bearer TOKEN" */
    uint8_t prefix_key[16];   /* of ft_call_set_prefix; made of the token; without one: zeros */
    bool (*stopped)(void);    /* may be NULL */
    grpc_channel *channel;
    ft_rpc_queue queue;
};

/* A call of any method. */
FT_WARN_UNUSED ft_status ft_call_start(ft_wire_client *client, const char *method, ft_error *err,
                                       ft_call **out);
/* Calls a method with one request and waits for its reply, whose bytes the caller frees. Errors as
 * ft_wire_client_info. */
typedef struct ft_ask {
    const char *method;
    uint8_t *take_request; /* malloc'ed; NULL: a request of no bytes */
    size_t n_request;
    int64_t timeout_us;
} ft_ask;
FT_WARN_UNUSED ft_status ft_call_ask(ft_wire_client *client, const ft_ask *ask, ft_error *err,
                                     uint8_t **data, size_t *n);
/* As ft_call_recv_bytes, and looks at the client's `stopped` (FT_CANCELLED). */
FT_WARN_UNUSED ft_status ft_call_wait_bytes(ft_wire_client *client, ft_call *call,
                                            int64_t timeout_us, ft_error *err, uint8_t **data,
                                            size_t *n);
/* Sends malloc'ed bytes, which it takes, without waiting. last: then half-closes the stream. */
FT_WARN_UNUSED ft_status ft_call_send_bytes(ft_call *call, uint8_t *data, size_t n, bool last,
                                            ft_error *err);
/* As ft_call_recv, but the message's bytes; the caller frees them. */
FT_WARN_UNUSED ft_status ft_call_recv_bytes(ft_call *call, int64_t timeout_us, ft_error *err,
                                            uint8_t **data, size_t *n);

#endif
