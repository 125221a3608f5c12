// SPDX-License-Identifier: Apache-2.0
// A child process. No state beside the caller's process id.
#include "bench/load_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"

#define STOP_S  10 /* to end by itself */
#define POLL_NS 2000000

/* In the child: never returns. Only calls that are safe between fork and exec. */
static void become(char *const *args, int core, int log, pid_t parent)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (core >= 0) {
        CPU_SET((size_t)core, &cpus);
        if (sched_setaffinity(0, sizeof cpus, &cpus) != 0)
            _exit(126);
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    dup2(log, STDERR_FILENO);
    dup2(log, STDOUT_FILENO);
    setpgid(0, 0); /* Ctrl-C is the driver's to handle */
    execv("/proc/self/exe", args);
    _exit(127);
}

ft_status ft_bench_load_process_start(char *const *args, int core, const char *log, ft_error *err,
                                      pid_t *pid)
{
    *pid = 0;
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return ft_error_set(err, FT_IO, "%s: %s", log, strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        become(args, core, fd, parent);
    close(fd);
    if (child < 0)
        return ft_error_set(err, FT_EXHAUSTED, "cannot start a server: %s", strerror(errno));
    *pid = child;
    return FT_OK;
}

bool ft_bench_load_process_gone(pid_t *pid, double wait_s)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    double until = ft_bench_now_s() + wait_s;
    do {
        if (*pid <= 0)
            return true;
        if (waitpid(*pid, NULL, WNOHANG) != 0)
            *pid = 0;
        else if (wait_s > 0)
            nanosleep(&pause, NULL);
    } while (*pid > 0 && ft_bench_now_s() < until);
    return *pid <= 0;
}

void ft_bench_load_process_stop(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGTERM);
    if (!ft_bench_load_process_gone(pid, STOP_S))
        ft_bench_load_process_kill(pid);
}

void ft_bench_load_process_kill(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

ft_status ft_bench_load_process_said(const char *log, const char *what, ft_error *err)
{
    char line[256], last[256] = "no word";
    FILE *in = fopen(log, "r");
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0])
            memcpy(last, line, sizeof last);
    }
    if (in)
        fclose(in);
    return ft_error_set(err, FT_UNAVAILABLE, "%s: %s", what, last);
}
