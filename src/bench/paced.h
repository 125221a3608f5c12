/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft source that takes a slower device's time: each forward computes what another source
 * computes, then waits until the device would have been done. For load tests that drive many
 * devices from one machine.
 */
#ifndef FT_BENCH_PACED_H
#define FT_BENCH_PACED_H

#include <stdint.h>

#include "base/clock.h"
#include "spec/draft_source.h"

/* The device; filled in by the caller, who keeps it while sources use it. Its sources are used by
 * one thread at a time, and share a forward if what is behind them does. */
typedef struct ft_draft_device {
    ft_clock clock;
    void (*sleep_us)(void *ctx, int64_t us); /* returns not before so much of `clock` has passed */
    void *sleep_ctx;
    int64_t us_per_forward;
    uint64_t forwards, late; /* out: forwards, those that took longer than the device's time */
    int64_t late_us;         /* out: by how much, summed */
} ft_draft_device;

/* `inner` on the device. Takes it, also on failure. A forward of which nothing was computed takes
 * no time. FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_draft_source_paced(ft_draft_source *inner, ft_draft_device *device,
                                               ft_error *err, ft_draft_source **out);

#endif
