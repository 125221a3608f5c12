// SPDX-License-Identifier: Apache-2.0
// The time in which the engine works for others, and a margin. A draft that waited saw its end: that is a
// measurement. One that did not wait says only that the engine was free by then, and maybe was so for
// long: the next one is sent earlier, until one waits, or until it is plain that there is nobody.
#include "spec/turn.h"

#include <math.h>

#define WEIGHT      0.3  /* of a new measurement */
#define WAITED      0.01 /* of a verification: what the engine needs to take a draft is no wait */
#define EARLIER     0.04 /* of a verification: so much earlier where the engine waited... */
#define WAITED_MOST 4    /* ...in so many rounds at most: then others are not what it works for */
#define MARGIN      0.01 /* of busy_us, at least */
#define OFF_TIMES   2.   /* times it was off: one in twenty comes too late */

void ft_turn_saw(ft_turn *turn, int64_t sent_us, int64_t queue_us, int64_t verify_us)
{
    double free_us = (double)(sent_us + queue_us), off_us = fabs(free_us - turn->busy_us);
    if (sent_us < 0 || queue_us < 0 || verify_us <= 0)
        return;
    if ((double)queue_us > WAITED * (double)verify_us) {
        turn->off_us = turn->busy_us > 0 ? (1 - WEIGHT) * turn->off_us + WEIGHT * off_us : 0;
        turn->busy_us =
            turn->busy_us > 0 ? (1 - WEIGHT) * turn->busy_us + WEIGHT * free_us : free_us;
        turn->waited = 0;
        return;
    }
    if (turn->busy_us == 0)
        return;
    turn->busy_us = fmin(turn->busy_us, free_us) - EARLIER * (double)verify_us;
    if (++turn->waited > WAITED_MOST || turn->busy_us <= 0)
        *turn = (ft_turn){0};
}

double ft_turn_until_us(const ft_turn *turn)
{
    return fmax(turn->busy_us - MARGIN * turn->busy_us - OFF_TIMES * turn->off_us, 0);
}
