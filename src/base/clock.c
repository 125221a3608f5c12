// SPDX-License-Identifier: Apache-2.0
// The monotonic clock, and the age of the process. Stateless.
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t ft_monotonic_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* /proc/self/stat: the program's name in parentheses is field 2, the start field 22. */
int64_t ft_process_age_us(void)
{
    char line[1024];
    unsigned long long ticks = 0;
    struct timespec now;
    FILE *file = fopen("/proc/self/stat", "re");
    const char *at = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (file)
        fclose(file);
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return -1;
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 -
           (int64_t)(ticks * 1000000 / (unsigned long long)sysconf(_SC_CLK_TCK));
}

static int64_t monotonic_us(void *ctx)
{
    (void)ctx;
    return ft_monotonic_us();
}

ft_clock ft_clock_monotonic(void)
{
    return (ft_clock){monotonic_us, 0};
}
