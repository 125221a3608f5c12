/* SPDX-License-Identifier: Apache-2.0
 *
 * Interleaving (SpecEdge 4.3): one group of sessions drafts while the other is verified. Groups
 * form by themselves, because a draft that comes while a pass runs waits for the next pass. They
 * fall together only when all sessions wait at once: the engine would verify all of them, and then
 * have nothing to do while all of them draft. Then half of them has to wait. Pure.
 */
#ifndef FT_SCHED_GROUPS_H
#define FT_SCHED_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

/* The most verifications of a pass; 0: no limit. n: verifications that wait. more: the engine will
 * have other work when the pass is over: a prompt, a run, or a draft that may come meanwhile. */
uint32_t ft_groups_cap(uint32_t n, bool more);

#endif
