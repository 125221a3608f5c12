// SPDX-License-Identifier: Apache-2.0
// The monotonic clock. Stateless.
#include "base/clock.h"

#include <time.h>

int64_t ft_monotonic_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
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
