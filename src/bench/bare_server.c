// SPDX-License-Identifier: Apache-2.0
// A gRPC server without a program behind it: it accepts streams, answers each message with some
// bytes and keeps the stream. It has those channel arguments of wire/server.c that affect memory.
// The child has one thread, which owns all its state; it ends when its parent ends.
#include "bench/bare_server.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/rpc.h"

#define ARMED_REQUESTS 8
#define ANSWER_BYTES   31 /* docs/PROTOCOL.md, "Sizes": a verdict with 5 accepted nodes */

typedef struct bare {
    grpc_server *server;
    grpc_completion_queue *cq;
} bare;

typedef struct stream {
    bare *bare;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    ft_rpc_tag accepted, received, sent, closed;
    grpc_byte_buffer *message, *answer;
    int cancelled;
    bool greeted; /* the initial metadata are sent */
} stream;

static void arm(bare *b);

static void read_next(stream *s)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &s->message;
    (void)grpc_call_start_batch(s->call, &op, 1, &s->received, NULL);
}

static void on_sent(void *owner, bool ok)
{
    stream *s = owner;
    grpc_byte_buffer_destroy(s->answer);
    s->answer = NULL;
    if (ok)
        read_next(s);
}

static void on_received(void *owner, bool ok)
{
    stream *s = owner;
    uint8_t *bytes = s->message ? calloc(1, ANSWER_BYTES) : NULL;
    grpc_byte_buffer_destroy(s->message);
    s->message = NULL;
    if (!ok || !bytes)
        return;
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_MESSAGE}};
    s->answer = ft_rpc_wrap(bytes, ANSWER_BYTES);
    ops[1].data.send_message.send_message = s->answer;
    (void)grpc_call_start_batch(s->call, ops + s->greeted, 2 - (size_t)s->greeted, &s->sent, NULL);
    s->greeted = true;
}

/* The stream is not freed: the child is killed before anybody counts memory. */
static void on_closed(void *owner, bool ok)
{
    (void)owner;
    (void)ok;
}

static void on_accepted(void *owner, bool ok)
{
    stream *s = owner;
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    if (!ok)
        return;
    arm(s->bare);
    grpc_call_details_destroy(&s->details);
    grpc_metadata_array_destroy(&s->metadata);
    op.data.recv_close_on_server.cancelled = &s->cancelled;
    (void)grpc_call_start_batch(s->call, &op, 1, &s->closed, NULL);
    read_next(s);
}

static void arm(bare *b)
{
    stream *s = calloc(1, sizeof *s);
    if (!s)
        return;
    *s = (stream){.bare = b,
                  .accepted = {on_accepted, s},
                  .received = {on_received, s},
                  .sent = {on_sent, s},
                  .closed = {on_closed, s}};
    grpc_call_details_init(&s->details);
    grpc_metadata_array_init(&s->metadata);
    (void)grpc_server_request_call(b->server, &s->call, &s->details, &s->metadata, b->cq, b->cq,
                                   &s->accepted);
}

/* The child's life. Writes its port into `out`. */
static void be_server(int out, uint32_t max_streams)
{
    grpc_arg args[] = {
        ft_rpc_int(GRPC_ARG_ALLOW_REUSEPORT, 0),
        ft_rpc_int(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)max_streams),
        ft_rpc_int(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, FT_RPC_MIN_RECV_PING_MS),
        ft_rpc_int(GRPC_ARG_HTTP2_BDP_PROBE, 0),
    };
    const grpc_channel_args all = {.num_args = sizeof args / sizeof *args, .args = args};
    bare b;
    ft_rpc_init();
    b.server = grpc_server_create(&all, NULL);
    b.cq = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(b.server, b.cq, NULL);
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(b.server, "127.0.0.1:0", creds);
    grpc_server_credentials_release(creds);
    grpc_server_start(b.server);
    for (int i = 0; i < ARMED_REQUESTS; i++)
        arm(&b);
    if (write(out, &port, sizeof port) != sizeof port)
        _exit(1);
    close(out);
    ft_rpc_serve(b.cq);
    _exit(0);
}

ft_status ft_bench_bare_server_start(uint32_t max_streams, ft_error *err, ft_bench_bare_server *out)
{
    int ends[2], port = 0;
    *out = (ft_bench_bare_server){0};
    if (pipe(ends) != 0)
        return ft_error_set(err, FT_UNAVAILABLE, "no pipe to a bare gRPC server");
    pid_t parent = getpid();
    out->pid = fork();
    if (out->pid == 0) {
        close(ends[0]);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
            _exit(126);
        setpgid(0, 0); /* Ctrl-C is the parent's to handle */
        be_server(ends[1], max_streams);
    }
    close(ends[1]);
    bool told = out->pid > 0 && read(ends[0], &port, sizeof port) == sizeof port && port > 0;
    close(ends[0]);
    if (!told) {
        ft_bench_bare_server_stop(out);
        return ft_error_set(err, FT_UNAVAILABLE, "a bare gRPC server could not be started");
    }
    snprintf(out->address, sizeof out->address, "127.0.0.1:%d", port);
    return FT_OK;
}

void ft_bench_bare_server_stop(ft_bench_bare_server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    *server = (ft_bench_bare_server){0};
}
