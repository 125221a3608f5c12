// SPDX-License-Identifier: Apache-2.0
// Admission: the server gives the policy (sched/admit.h) what src/serve/slo.c and kv_room.c give
// it. All state belongs to the simulation.
#include "sched/admit.h"

#include "sim/wisp_internal.h"

/* Blocks that a text of n_tok tokens needs with its longest draft. */
static uint64_t blocks_for(const sim *s, uint32_t n_tok)
{
    return (uint64_t)(n_tok + s->k[FT_SIM_DRAFT_MOST] + 1) / FT_SIM_BLOCK_TOK + 1;
}

bool ft_sim_admits(const sim *s, const device *asking)
{
    const ft_admit_text new = {.tokens_per_s = asking->speed, .len = asking->prompt + asking->done};
    uint64_t wanted = blocks_for(s, new.len);
    double promised = 0;
    for (size_t i = 0; i < s->n_members; i++) {
        const device *d = &s->devices[s->members[i]];
        const ft_admit_text text = {
            .tokens_per_s = d->speed, .gain = &d->gain, .len = d->prompt + d->done};
        if (!d->open)
            continue;
        wanted += blocks_for(s, text.len);
        promised += ft_admit_load(s->cost, &s->usual_gain, &text);
    }
    const ft_admit_blocks blocks = {.all = wanted, .of_tenant = wanted, .n_tenants = 1};
    return ft_admit_kv(&blocks, (uint32_t)s->k[FT_SIM_KV_BLOCKS]) &&
           ft_admit_promise(promised, ft_admit_load(s->cost, &s->usual_gain, &new),
                            ft_admit_behind_share(&s->behind, s->now_us));
}

void ft_sim_admit_saw(sim *s, const device *d, const ft_gain_round *round)
{
    const ft_promise promise = ft_sim_promise(s, d);
    const ft_late_round at = ft_sim_round_times(s, d);
    ft_gain_saw_usual(&s->usual_gain, round);
    ft_admit_saw(&s->behind, ft_admit_is_behind(&promise, &at), s->now_us);
}
