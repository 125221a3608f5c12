/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a verdict was late: after the time budget of its round (WISP eq. (6)). WISP 5.3 divides late
 * rounds into those in a spike and all others; here the others have three causes. Only statistics:
 * no decision depends on it. Pure; the server and the simulator call the same function.
 */
#ifndef FT_SCHED_LATE_H
#define FT_SCHED_LATE_H

#include <stdbool.h>
#include <stdint.h>

/* F(NAME, "label"), in the order in which causes are tried: the first that fits counts. */
#define FT_LATE_LIST(F)                                                                         \
    F(NONE, "none")       /* it was in time */                                                  \
    F(NETWORK, "network") /* drafting and the network had used up the budget before the draft \
                                 came */ \
    F(SPIKE, "spike")     /* its pass was a spike (eq. (21), sched/spike.h) */                  \
    F(LONG_PASS, "long_pass") /* its pass took longer than what was left of the budget then */  \
    F(WAITING, "waiting")     /* it would have been in time if its pass had begun at once */
typedef enum ft_late {
#define F(name, text) FT_LATE_##name,
    FT_LATE_LIST(F)
#undef F
        FT_LATE_CAUSES
} ft_late;
extern const char *const ft_late_name[FT_LATE_CAUSES];

typedef struct ft_late_round {
    int64_t arrival_us, pass_us, verdict_us; /* when its draft came, its pass began, it was over */
    int64_t budget_us;                       /* ft_promise_budget: after arrival_us */
    bool spike;                              /* its pass was one */
} ft_late_round;

/* Why the verdict was late; FT_LATE_NONE: it was in time. */
ft_late ft_late_cause(const ft_late_round *round);

#endif
