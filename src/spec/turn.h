/* SPDX-License-Identifier: Apache-2.0
 *
 * When a server that others keep busy takes a session's next draft. Between a session's verdict and
 * that moment the engine works for others, and the session drafts; a draft that comes later lets
 * the engine wait, and one that comes much earlier could have been deeper. Verdicts say how long
 * that was (ft_msg_verdict.others_us). Pure, plain data: copy it to begin a generation with what
 * others learnt.
 *
 * Time counts from a *mark*: when the verdict was given, seen from the edge, as if drafts took no
 * time on their way (sending + queue + verification). A draft sent as long after the mark as the
 * engine is busy arrives as the engine gets free, whatever the network's time, which is the same
 * before and after.
 */
#ifndef FT_SPEC_TURN_H
#define FT_SPEC_TURN_H

#include <stdint.h>

typedef struct ft_turn {
    double
        busy_us; /* from a mark until the engine is free again; 0: not known, or for nobody else */
    double off_us;  /* how far a time was from that, about */
    uint32_t alone; /* rounds in a row in which there was nobody else */
} ft_turn;

/* Others kept the engine busy for others_us behind a verdict; the verification took verify_us. */
void ft_turn_saw(ft_turn *turn, int64_t others_us, int64_t verify_us);

/* After the mark: until then the next draft is to be sent, so that the engine need not wait. 0:
 * nobody keeps it busy, as far as is known. */
double ft_turn_until_us(const ft_turn *turn);

#endif
