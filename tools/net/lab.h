/* SPDX-License-Identifier: Apache-2.0
 *
 * A server and its edges, each in a network namespace of its own, each edge on a link of its own to
 * the server; nobody reaches anybody else. */
#ifndef FT_NET_LAB_H
#define FT_NET_LAB_H

#include <stdbool.h>
#include <stdint.h>

#include "net/pipe.h"

enum {
    FT_LAB_MAX_EDGES = 253, /* 10.77.0.2 to 10.77.0.254 */
    FT_LAB_FAILED = 125     /* an exit status that is the lab's own, as env(1) has it */
};

/* No packet goes in, on any link, either way. Times count from the edges' start. */
typedef struct ft_lab_partition {
    int64_t at_ns, for_ns;
} ft_lab_partition;

typedef struct ft_lab_opts {
    const char *server;       /* command */
    const char *const *edges; /* [n_edge_commands] */
    size_t n_edge_commands;
    size_t n_edges;                     /* edge i runs command i modulo n_edge_commands */
    ft_pipe_opts up, down;              /* of every link; seeds are made from `seed` */
    const ft_lab_partition *partitions; /* [n_partitions] */
    size_t n_partitions;
    uint64_t seed;
    double rtt_ms;      /* for the commands' environment */
    uint16_t wait_port; /* edges start when the server listens there; 0: at once */
    int64_t wait_ns;    /* for that at most */
} ft_lab_opts;

typedef struct ft_lab_edge {
    char address[16];
    int exit_code; /* -1: its command never started */
    ft_pipe_stats up, down;
} ft_lab_edge;

typedef struct ft_lab_report {
    ft_lab_edge edge[FT_LAB_MAX_EDGES];
    size_t n_edges;
    int server_exit_code;
    uint64_t strays;  /* packets to elsewhere (other edges, multicast): dropped */
    uint64_t cut;     /* lost to partitions */
    uint64_t refused; /* by a receiver whose namespace was ending */
    bool realtime;    /* the relay came before all else on its processor */
    double seconds, relay_cpu_s;
} ft_lab_report;

/* Runs it all, to its end; SIGINT, SIGTERM and SIGHUP end it early. *exit_code: that of the first
 * edge (in their order) that did not return 0, or of the server if it failed before the edges had
 * ended, or 128 + signal. What cannot be set up: FT_FORBIDDEN (privileges, no TUN), FT_IO;
 * FT_TIMEOUT if the server did not listen in time, FT_ABORTED if it ended before. Nothing is left
 * behind in any case. The caller has one thread. */
FT_WARN_UNUSED ft_status ft_lab_run(const ft_lab_opts *opts, ft_error *err, ft_lab_report *report,
                                    int *exit_code);

#endif
