// SPDX-License-Identifier: Apache-2.0
// The pass's sleep in a weight stream, and what it does about a disk that does not answer. It
// sleeps in short slices and adds them up as long as no read ends. A slice counts no more than it
// should have taken: so a program that was stopped for a minute does not blame the disk.
#include "model/stream_impl.h"

#include "base/cond.h"
#include "base/log.h"

#define SLICES    30 /* of the time after which a wait fails */
#define WARN_FROM 5  /* slices without an answer */

ft_status ft_weight_sleep(ft_weight_stream *s, int64_t *idle_us, uint64_t *n_ended, ft_error *err)
{
    const int64_t slice_us = s->opts.stall_us / SLICES > 0 ? s->opts.stall_us / SLICES : 1;
    const int64_t from_us = ft_clock_now_us(&s->opts.clock), before_us = *idle_us;
    ft_cond_wait_until(&s->changed, &s->lock, ft_deadline_us(slice_us));
    const int64_t took_us = ft_clock_now_us(&s->opts.clock) - from_us;
    s->shared.stats.waited_us += took_us;
    if (*n_ended != s->shared.n_ended || s->shared.n_flying == 0) {
        *n_ended = s->shared.n_ended;
        *idle_us = 0;
        return FT_OK;
    }
    *idle_us += took_us < slice_us ? took_us : slice_us;
    if (before_us < WARN_FROM * slice_us && *idle_us >= WARN_FROM * slice_us)
        FT_LOGW("model", "%s: the disk has not answered for %.0f s", s->opts.path,
                (double)*idle_us / 1e6);
    if (*idle_us < SLICES * slice_us)
        return FT_OK;
    return ft_error_set(err, FT_UNAVAILABLE,
                        "%s: the disk has not answered for %.0f s: check it and try again",
                        s->opts.path, (double)*idle_us / 1e6);
}
