// SPDX-License-Identifier: Apache-2.0
// A call takes a place before it has said anything. So its first message has a deadline, after
// which the call ends and gives its place back. The queue thread clears the deadline of a call when
// its message has come; this thread never writes one that the queue thread may look at. A call that
// ended late has a deadline in the past, which wakes nobody. A call that its client gave up before
// its time came is over: what is done to it then does nothing.
#include "wire/late.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/cond.h"
#include "wire/stream.h"

/* A client sends its first message together with the call or right after. So this is a long time on
 * any link that can be used at all; half of it would still do, and with twice as much silent calls
 * keep their places for twice as long. */
#define FIRST_MESSAGE_US 5000000
/* An Open may be as long as its prompt. A link that is slower than this would need more time. */
#define SLOWEST_BYTES_PER_S (64 * 1024)

static int64_t time_for(const ft_wire_server *server, const ft_stream *stream)
{
    if (stream->method != FT_METHOD_SESSION)
        return FIRST_MESSAGE_US;
    const size_t longest = ft_client_msg_max_bytes(&server->opts.limits);
    return FIRST_MESSAGE_US + 1000000 * (int64_t)(longest / SLOWEST_BYTES_PER_S);
}

static void end(const ft_wire_server *server, ft_stream *stream)
{
    char message[128];
    snprintf(message, sizeof message, "no %s came within %.0f s: send it when the call begins",
             stream->method == FT_METHOD_SESSION ? "Open" : "request",
             (double)time_for(server, stream) / 1e6);
    ft_stream_finish(stream, FT_TIMEOUT, message, 0);
}

/* Its time has come. */
static void act(ft_wire_server *server, ft_stream *stream)
{
    switch (stream->step) {
    case FT_LATE_END:
        end(server, stream); /* does nothing the second time */
        return;
    case FT_LATE_REFUSE:
        ft_stream_refuse(stream, stream->refusal);
        stream->due_us = FT_NO_DEADLINE;
        return;
    case FT_LATE_READ:
        ft_late_expect(server, stream);
        ft_stream_read_next(stream);
        return;
    }
}

static void *watch(void *arg)
{
    ft_wire_server *server = arg;
    ft_late *late = &server->late;
    pthread_mutex_lock(&server->lock);
    while (!late->stop) {
        const int64_t now = ft_monotonic_us();
        late->wake_us = FT_NO_DEADLINE;
        for (ft_stream *s = server->streams; s; s = s->next) {
            if (s->due_us <= now)
                act(server, s);
            if (s->due_us > now && s->due_us < late->wake_us)
                late->wake_us = s->due_us;
        }
        ft_cond_wait_until(&late->changed, &server->lock, late->wake_us);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

ft_status ft_late_start(ft_wire_server *server, ft_error *err)
{
    ft_late *late = &server->late;
    late->wake_us = FT_NO_DEADLINE;
    pthread_cond_init(&late->changed, NULL);
    late->started = pthread_create(&late->thread, NULL, watch, server) == 0;
    if (late->started)
        return FT_OK;
    pthread_cond_destroy(&late->changed);
    return ft_error_set(err, FT_NOMEM, "cannot start a thread");
}

void ft_late_stop(ft_wire_server *server)
{
    ft_late *late = &server->late;
    if (!late->started)
        return;
    pthread_mutex_lock(&server->lock);
    late->stop = true;
    pthread_cond_signal(&late->changed);
    pthread_mutex_unlock(&server->lock);
    pthread_join(late->thread, NULL);
    pthread_cond_destroy(&late->changed);
}

static void set(ft_wire_server *server, ft_stream *stream, ft_late_step step, int64_t wait_us)
{
    stream->step = step;
    stream->due_us = ft_monotonic_us() + wait_us;
    if (stream->due_us < server->late.wake_us)
        pthread_cond_signal(&server->late.changed);
}

void ft_late_expect(ft_wire_server *server, ft_stream *stream)
{
    set(server, stream, FT_LATE_END, time_for(server, stream));
}

void ft_late_read(ft_wire_server *server, ft_stream *stream, int64_t wait_us)
{
    set(server, stream, FT_LATE_READ, wait_us);
}

void ft_late_refuse(ft_wire_server *server, ft_stream *stream, int64_t wait_us)
{
    set(server, stream, FT_LATE_REFUSE, wait_us);
}
