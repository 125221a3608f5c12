/* SPDX-License-Identifier: Apache-2.0
 *
 * A way to a verifier in this process that takes virtual time: sending and receiving move its
 * clock, each pass of the server as much as the other, and drafting not at all. So what an edge
 * measures over it depends on bytes alone. */
#ifndef FT_TEST_VIRTUAL_WAY_H
#define FT_TEST_VIRTUAL_WAY_H

#include "base/line.h"
#include "local/link.h"

enum { VIRTUAL_HALF_RTT_US = 10000, VIRTUAL_PASS_US = 10000 };

typedef struct virtual_way {
    ft_link_source inner;
    ft_line line;
    int64_t now_us;
    int64_t busy_us; /* an answer waits so long for the edge, in turn no time and this */
    uint32_t n_answers;
} virtual_way;

/* At this rate; 0: any message takes the same time. */
virtual_way virtual_way_to(ft_verifier *v, double bits_per_s);
/* For an edge; the way is borrowed. */
ft_link_source virtual_way_source(virtual_way *way);
ft_clock virtual_way_clock(virtual_way *way);

#endif
