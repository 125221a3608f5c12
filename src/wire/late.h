/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends calls whose first message does not come in time; private to this room. One thread sleeps
 * until the earliest deadline of ft_wire_server.streams, under the server's lock.
 */
#ifndef FT_WIRE_LATE_H
#define FT_WIRE_LATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_wire_server ft_wire_server;
typedef struct ft_stream ft_stream;

typedef struct ft_late {
    pthread_t thread;
    bool started;
    pthread_cond_t changed; /* an earlier deadline, or stop */
    /* guarded by the server's lock */
    int64_t wake_us; /* when the thread looks next */
    bool stop;
} ft_late;

/* Starts the thread. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_late_start(ft_wire_server *server, ft_error *err);
/* Ends the thread, if it was started. */
void ft_late_stop(ft_wire_server *server);
/* With the server's lock held: the stream's first message must come within its method's time. */
void ft_late_expect(ft_wire_server *server, ft_stream *stream);

#endif
