// SPDX-License-Identifier: Apache-2.0
// Log lines on standard error. Each line is one write, so lines of different threads never mix. The
// only state is the level, which is atomic.
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static _Atomic int min_level = FT_LOG_INFO;

void ft_log_set_level(ft_log_level level)
{
    atomic_store(&min_level, (int)level);
}

void ft_log(ft_log_level level, const char *room, const char *fmt, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    char line[1024];
    struct timespec ts;
    struct tm tm;

    if ((int)level < atomic_load(&min_level))
        return;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ldZ %s %s: ", ts.tv_nsec / 1000000,
                          names[level], room);
    va_list args;
    va_start(args, fmt);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, args);
    va_end(args);
    n = m < 0 ? n : n + (size_t)m < sizeof line - 1 ? n + (size_t)m : sizeof line - 2;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ')
            line[i] = ' '; /* text from outside must not begin a line of its own */
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* a failure cannot be reported anywhere */
}
