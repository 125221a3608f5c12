/* SPDX-License-Identifier: Apache-2.0
 *
 * Time is an argument: modules that need the time take an ft_clock, so that tests can set it. It is
 * in monotonic microseconds since any origin.
 */
#ifndef FT_BASE_CLOCK_H
#define FT_BASE_CLOCK_H

#include <stdint.h>

typedef struct ft_clock {
    int64_t (*now_us)(void *ctx);
    void *ctx;
} ft_clock;

/* The machine's monotonic clock; thread-safe. */
ft_clock ft_clock_monotonic(void);
/* Its time, for modules that no test wants at another one. */
int64_t ft_monotonic_us(void);
/* How long this process has run, in steps of the kernel's ticks (10 ms); -1: not known. */
int64_t ft_process_age_us(void);

static inline int64_t ft_clock_now_us(const ft_clock *clock)
{
    return clock->now_us(clock->ctx);
}

/* The shorter of two times to wait; < 0 stands for a wait without a limit. */
static inline int64_t ft_sooner_us(int64_t a_us, int64_t b_us)
{
    return a_us < 0 || (b_us >= 0 && b_us < a_us) ? b_us : a_us;
}

#endif
