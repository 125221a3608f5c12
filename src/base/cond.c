// SPDX-License-Identifier: Apache-2.0
// Deadlines of waits on conditions. Stateless; any thread.
#include "base/cond.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

int64_t ft_deadline_us(int64_t timeout_us)
{
    return timeout_us < 0 ? FT_NO_DEADLINE : ft_monotonic_us() + timeout_us;
}

bool ft_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_us)
{
    const struct timespec at = {.tv_sec = deadline_us / 1000000,
                                .tv_nsec = deadline_us % 1000000 * 1000};
    if (deadline_us == FT_NO_DEADLINE)
        return pthread_cond_wait(cond, lock) == 0;
    return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &at) != ETIMEDOUT;
}
