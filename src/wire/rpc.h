/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers over gRPC's C core for server and client; private to this room. Any thread.
 */
#ifndef FT_WIRE_RPC_H
#define FT_WIRE_RPC_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_RPC_SESSION "/foretoken.v1.Verifier/Session"
#define FT_RPC_INFO    "/foretoken.v1.Verifier/Info"

#define FT_RPC_RETRY_AFTER   "retry-after-ms"
#define FT_RPC_AUTHORIZATION "authorization"

/* A dead peer is noticed after time + timeout. The server must allow pings at least as often as
 * clients send them, or it answers GOAWAY. */
#define FT_RPC_CLIENT_PING_MS     2000
#define FT_RPC_SERVER_PING_MS     3000
#define FT_RPC_PING_TIMEOUT_MS    2000
#define FT_RPC_MIN_RECV_PING_MS   500
#define FT_RPC_HANDSHAKE_LIMIT_MS 10000
/* A connection without any call is not pinged (it would keep a radio awake) but closed. */
#define FT_RPC_IDLE_LIMIT_MS 300000

/* Every completion queue event carries one of these as its tag. */
typedef struct ft_rpc_tag {
    void (*done)(void *owner, bool ok);
    void *owner;
} ft_rpc_tag;

/* grpc_init with this program's settings; each call needs its ft_rpc_shutdown. */
void ft_rpc_init(void);
void ft_rpc_shutdown(void);

/* Handles events until the queue has shut down. */
void ft_rpc_serve(grpc_completion_queue *cq);
/* Starts a thread that serves cq until its shutdown, with all signals blocked. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_rpc_start_thread(grpc_completion_queue *cq, ft_error *err,
                                             pthread_t *out);

/* A whole PEM file as a string that the caller frees. FT_INVALID: unreadable or no PEM. */
FT_WARN_UNUSED ft_status ft_rpc_read_pem(const char *path, ft_error *err, char **out);

/* Takes malloc'ed bytes (freed even on failure). NULL: no memory. */
grpc_byte_buffer *ft_rpc_wrap(uint8_t *data, size_t n);
/* The buffer's bytes in one slice, which the caller unrefs. False: compressed or broken. */
bool ft_rpc_unwrap(grpc_byte_buffer *buffer, grpc_slice *out);

/* Makes one printable line of the other side's text: control bytes become spaces. */
void ft_rpc_printable(grpc_slice text, char *out, size_t size);

/* A channel argument. key is borrowed. */
grpc_arg ft_rpc_int(const char *key, int value);

/* Bytes that a message of n bytes takes in a stream: with gRPC's prefix and the headers of its DATA
 * frames, which hold at most 16 KiB by HTTP/2's default. */
static inline uint64_t ft_rpc_wire_bytes(size_t n)
{
    enum { PREFIX = 5, FRAME_HEADER = 9, FRAME_MAX = 16 * 1024 };
    uint64_t data = n + PREFIX;
    return data + (data + FRAME_MAX - 1) / FRAME_MAX * FRAME_HEADER;
}

#endif
