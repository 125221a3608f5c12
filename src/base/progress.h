/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress line on standard error, only if that is a terminal. What takes long (loading a model,
 * reading prompts) takes it as a callback, and calls it in its own thread.
 */
#ifndef FT_BASE_PROGRESS_H
#define FT_BASE_PROGRESS_H

#include <stdint.h>

/* done of total, in the caller's unit. done == total ends the line. */
typedef struct ft_progress {
    void (*report)(void *ctx, uint64_t done, uint64_t total); /* NULL: silent */
    void *ctx;
} ft_progress;

/* Draws "label  42 %" in place, at most ten times a second. label is borrowed. */
ft_progress ft_progress_terminal(const char *label);

static inline void ft_progress_report(const ft_progress *p, uint64_t done, uint64_t total)
{
    if (p && p->report)
        p->report(p->ctx, done, total);
}

#endif
