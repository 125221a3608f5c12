// SPDX-License-Identifier: Apache-2.0
// Progress on a terminal. The only state is the time of the last drawing, of each thread.
#include "base/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static void draw(void *ctx, uint64_t done, uint64_t total)
{
    static _Thread_local int64_t last_us;
    int64_t now = ft_monotonic_us();
    if (done < total && now - last_us < 100000)
        return;
    last_us = now;
    unsigned percent = total ? (unsigned)(100.0 * (double)done / (double)total) : 100;
    fprintf(stderr, "\r%s %3u %%%s", (const char *)ctx, percent, done >= total ? "\r\033[K" : "");
    fflush(stderr);
}

ft_progress ft_progress_terminal(const char *label)
{
    if (!isatty(STDERR_FILENO))
        return (ft_progress){0};
    return (ft_progress){draw, (void *)(uintptr_t)label};
}
