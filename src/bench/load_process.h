/* SPDX-License-Identifier: Apache-2.0
 *
 * This program as a child process beside a measurement: on a core of its own if asked for, with a
 * log. It dies with this process (PR_SET_PDEATHSIG), so that nothing is left behind. One thread. */
#ifndef FT_BENCH_LOAD_PROCESS_H
#define FT_BENCH_LOAD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

/* Starts it with these arguments (args[0]: its name; NULL at the end). core: it runs there and
 * nowhere else; < 0: where this process may. What it says goes to `log`. FT_IO, FT_EXHAUSTED. */
FT_WARN_UNUSED ft_status ft_bench_load_process_start(char *const *args, int core, const char *log,
                                                     ft_error *err, pid_t *pid);
/* True once it is gone, and *pid is 0 then. Waits so long at most. */
bool ft_bench_load_process_gone(pid_t *pid, double wait_s);
/* Ends it and waits until it is gone; 0 is legal. */
void ft_bench_load_process_stop(pid_t *pid);
/* The same by SIGKILL: it has no time for a word. */
void ft_bench_load_process_kill(pid_t *pid);
/* FT_UNAVAILABLE: `what` became of it, with the log's last line, which says why. */
FT_WARN_UNUSED ft_status ft_bench_load_process_said(const char *log, const char *what,
                                                    ft_error *err);

#endif
