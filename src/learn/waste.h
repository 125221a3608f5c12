/* SPDX-License-Identifier: Apache-2.0
 *
 * Wasted drafting time (WISP 3.2): the part of a draft's time that went into tokens that did not
 * become text. Pure.
 *
 * The paper drafts chains. In a tree every node that is not on the accepted path is wasted, also
 * one beside the path: the device has drafted it. All nodes of a draft have the same share of its
 * time, as in eq. (8). Only time before the draft was sent counts, since only that delays the text
 * (eq. (10)): proactive drafting has counts of its own (spec/drafter.h). */
#ifndef FT_LEARN_WASTE_H
#define FT_LEARN_WASTE_H

#include <stdint.h>

/* Of one draft, or sums over drafts. */
typedef struct ft_waste {
    uint64_t tokens;               /* eq. (7): drafted and not accepted */
    uint64_t useful_us, wasted_us; /* eq. (9): both together are the time of drafting */
} ft_waste;

/* Of a draft of so many tokens, which took draft_us; `accepted` of them became text. A draft
 * without tokens wastes nothing. accepted <= drafted. */
ft_waste ft_waste_of(uint32_t drafted, uint32_t accepted, uint64_t draft_us);
/* The share of the time that was wasted; 0 without any time. */
double ft_waste_share(const ft_waste *waste);

#endif
