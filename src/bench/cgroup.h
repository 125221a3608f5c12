/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory cgroup for one child process, below the cgroup of this process: version 1 or 2, whatever
 * is mounted. Used by one thread.
 */
#ifndef FT_BENCH_CGROUP_H
#define FT_BENCH_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_bench_cgroup {
    char dir[540]; /* "": there is none */
    bool v2;
} ft_bench_cgroup;

/* Makes one whose processes may have so many bytes, page cache included, and no swap. FT_FORBIDDEN:
 * this process may not, or no memory cgroups are mounted; *out is empty then. The caller removes
 * it. */
FT_WARN_UNUSED ft_status ft_bench_cgroup_make(uint64_t limit_bytes, ft_error *err,
                                              ft_bench_cgroup *out);
/* Puts the calling process into it. Safe between fork and exec. */
bool ft_bench_cgroup_enter(const ft_bench_cgroup *group);
/* The most bytes that its processes had at a time; 0: the kernel does not say. */
uint64_t ft_bench_cgroup_peak(const ft_bench_cgroup *group);
/* Its processes have ended. An empty one is legal. */
void ft_bench_cgroup_remove(ft_bench_cgroup *group);

#endif
