/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a session's edge thinks (drafts, and crosses the network) between a verdict and its next
 * draft, and whether that draft is still expected. Pure: times in, an expectation out; no clock.
 */
#ifndef FT_SCHED_THINK_H
#define FT_SCHED_THINK_H

#include <stdbool.h>
#include <stdint.h>

/* All-zero: nothing is known. */
typedef struct ft_think {
    bool known;
    double us; /* mean of recent rounds */
} ft_think;

/* A draft came so long after the verdict before it. Ignored if that is no thinking any more. */
void ft_think_saw(ft_think *think, int64_t us);
/* A draft came that follows no verdict; its edge says that it took so long. Counts until a time was
 * measured. */
void ft_think_said(ft_think *think, int64_t us);

/* Whether a session without work that was used last so long ago may send a draft any time. */
bool ft_think_active(int64_t quiet_us);
/* Whether its draft is about to come, by what is known of its edge. */
bool ft_think_expects(const ft_think *think, int64_t quiet_us);

#endif
