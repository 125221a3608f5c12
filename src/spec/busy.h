/* SPDX-License-Identifier: Apache-2.0
 *
 * For how long other sessions keep the server busy. Between a session's verdict and its next round
 * the server's engine works for others, while the session drafts. A draft that arrives after that
 * work lets the engine wait. A draft that arrives long before its end could have been deeper.
 * Verdicts say how long the work took (ft_msg_verdict.others_us). Pure; plain data that can be
 * copied.
 *
 * Time counts from a *mark*: the moment at which the server gave the verdict, put back by the
 * network time of one round trip. So the mark is when the draft was sent, plus queue, plus
 * verification. A draft sent X after the mark arrives X after the verdict was given.
 */
#ifndef FT_SPEC_BUSY_H
#define FT_SPEC_BUSY_H

#include <stdint.h>

/* All-zero: nothing is known. */
typedef struct ft_busy {
    double us;      /* from a mark until the engine is free; 0: not known, or it is free at once */
    double off_us;  /* the mean distance of new times from that */
    uint32_t alone; /* rounds in a row without others */
} ft_busy;

/* After a verdict the engine worked others_us for others; the verification took verify_us. */
void ft_busy_saw(ft_busy *busy, int64_t others_us, int64_t verify_us);

/* How long after the mark the next draft is to be sent, so that it arrives before the engine is
 * free. 0: nobody keeps the engine busy, as far as is known. */
double ft_busy_until_us(const ft_busy *busy);

#endif
