// SPDX-License-Identifier: Apache-2.0
// The monotonic clock. Stateless.
#include "base/clock.h"

#include <time.h>

static int64_t monotonic_us(void *ctx)
{
    struct timespec ts;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

ft_clock ft_clock_monotonic(void)
{
    return (ft_clock){monotonic_us, 0};
}
