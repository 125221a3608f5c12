/* SPDX-License-Identifier: Apache-2.0
 *
 * A measurement in a process of its own, which writes one JSON object to its standard output: this
 * program with other arguments, or a function. It may have a memory limit. It dies with this
 * process. Called by one thread, before the process has others: it forks.
 */
#ifndef FT_BENCH_CHILD_H
#define FT_BENCH_CHILD_H

#include <jansson.h>
#include <stdio.h>

#include "bench/bench.h"

typedef struct ft_bench_child_opts {
    const char *const *args;           /* of this program, behind its name; NULL at the end */
    int (*call)(void *ctx, FILE *out); /* without args: runs this; returns the exit status */
    void *ctx;
    const char *cache;    /* its cache folder, XDG_CACHE_HOME; NULL: as this process's */
    uint64_t limit_bytes; /* in a memory cgroup with this limit; 0: in none */
    ft_bench_stop stop;
} ft_bench_child_opts;

typedef struct ft_bench_child {
    json_t *json;        /* what it said; owned */
    uint64_t peak_bytes; /* with a limit */
} ft_bench_child;

/* FT_FORBIDDEN: no cgroup can be made; FT_EXHAUSTED: the child was killed, as the kernel does with
 * a process that needs more than its limit; FT_CANCELLED; FT_PRECONDITION: the child failed, and
 * the message is the last line that it wrote to standard error. *out is empty then. */
FT_WARN_UNUSED ft_status ft_bench_child_run(const ft_bench_child_opts *opts, ft_error *err,
                                            ft_bench_child *out);

#endif
