/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a pass prompts may take while rounds wait for it (chunked prefill). Pure; the server
 * and the simulator call the same functions.
 */
#ifndef FT_SCHED_PROMPT_SHARE_H
#define FT_SCHED_PROMPT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_prompt_share {
    int64_t budget_us; /* prompts may delay a round by this, >= 0 */
    int64_t read_us;   /* already spent on prompts before this pass, by the server's draft model */
    bool others;       /* a round waits for the pass, or may come while it runs */
} ft_prompt_share;

/* Time that prompts may add to the pass, > 0; 0: no limit, as nobody is delayed. */
int64_t ft_prompt_share_us(const ft_prompt_share *in);

/* Whether a session without work, last used so long ago, may send a draft while the pass runs. */
bool ft_prompt_awaits(int64_t quiet_us);

#endif
