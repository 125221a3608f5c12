/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline of the serving comparison: what devices and servers did in the first round of each
 * mode. Devices write into it themselves; servers write files of their own, whose events of that
 * time are added at the end. Owned by one thread. */
#ifndef FT_BENCH_SERVING_TIMELINE_H
#define FT_BENCH_SERVING_TIMELINE_H

#include "base/timeline.h"
#include "bench/load_server.h"

/* The largest size of a file. A server's own has its passes before the first round, too. */
#define FT_BENCH_TIMELINE_MB 1024

typedef struct ft_bench_timeline {
    ft_timeline *to;           /* NULL: none was asked for, and all calls do nothing */
    int64_t from_us, until_us; /* of the modes that were drawn */
} ft_bench_timeline;

/* path NULL: there is none. Errors as ft_timeline_open. */
FT_WARN_UNUSED ft_status ft_bench_timeline_open(ft_bench_timeline *t, const char *path,
                                                ft_error *err);
/* A mode (a literal) at this round-trip time was measured. */
void ft_bench_timeline_mode(ft_bench_timeline *t, const char *mode, uint32_t rtt_us,
                            int64_t from_us, int64_t until_us);
/* Ends the server and adds its passes. One without a process has none. Errors as
 * ft_timeline_include. */
FT_WARN_UNUSED ft_status ft_bench_timeline_server(ft_bench_timeline *t,
                                                  ft_bench_load_server *server, ft_error *err);
void ft_bench_timeline_close(ft_bench_timeline *t);

#endif
