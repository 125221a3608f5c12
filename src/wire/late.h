/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens to calls without a message of theirs, when a time has come; private to this room:
 *
 *   - a call whose first message does not come in time ends;
 *   - a client that opens many sessions at once has the further ones read a little later, so that
 *     they do not delay the rounds of others all at once;
 *   - a client that is refused again and again hears of it late, because it would only call again.
 *
 * One thread sleeps until the earliest time of ft_wire_server.streams, under the server's lock.
 */
#ifndef FT_WIRE_LATE_H
#define FT_WIRE_LATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_wire_server ft_wire_server;
typedef struct ft_stream ft_stream;

typedef enum ft_late_step {
    FT_LATE_END,   /* the first message has not come */
    FT_LATE_READ,  /* the first message is asked for */
    FT_LATE_REFUSE /* with ft_stream.refusal */
} ft_late_step;

typedef struct ft_late {
    pthread_t thread;
    bool started;
    pthread_cond_t changed; /* an earlier time, or stop */
    /* guarded by the server's lock */
    int64_t wake_us; /* when the thread looks next */
    bool stop;
} ft_late;

/* Starts the thread. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_late_start(ft_wire_server *server, ft_error *err);
/* Ends the thread, if it was started. */
void ft_late_stop(ft_wire_server *server);
/* All three with the server's lock held. The stream's first message must come within its method's
 * time. */
void ft_late_expect(ft_wire_server *server, ft_stream *stream);
/* The stream is read after so long; then as expect. */
void ft_late_read(ft_wire_server *server, ft_stream *stream, int64_t wait_us);
/* The stream is refused after so long. */
void ft_late_refuse(ft_wire_server *server, ft_stream *stream, int64_t wait_us);

#endif
