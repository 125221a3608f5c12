// SPDX-License-Identifier: Apache-2.0
// The early draft of the outstanding round. Invariant: in OUT, msg is the draft that was sent, and
// it has nodes. Owned by the generation's thread. Sends nothing and decides nothing.
#include "edge/early.h"

#include <assert.h>
#include <string.h>

#include "wire/early.h"

const ft_client_msg *ft_early_make(ft_early *e, uint32_t round, uint32_t base, const ft_tree *tree,
                                   const uint8_t *under)
{
    ft_msg_draft *d = &e->msg.draft;
    assert(e->state == FT_EARLY_POSSIBLE && tree->n > 0);
    e->state = FT_EARLY_OUT;
    e->msg.kind = FT_CLIENT_DRAFT;
    d->round = round;
    d->base = base;
    d->n = tree->n;
    d->n_under = d->run = d->draft_us = d->rtt_us = 0;
    memcpy(d->token, tree->token, tree->n * sizeof *d->token);
    memcpy(d->parent, tree->parent, tree->n * sizeof *d->parent);
    for (uint32_t i = 0; i < tree->n; i++)
        d->n_under += tree->parent[i] < 0;
    memcpy(d->under, under, d->n_under * sizeof *d->under);
    return &e->msg;
}

/* Writes the nodes that follow the verdict into *out. */
static bool behind(const ft_early *e, const ft_msg_verdict *v, ft_msg_draft *out)
{
    out->n = 0;
    if (e->state == FT_EARLY_OUT && v->finish == FT_FINISH_NONE && v->n_path > 0 && v->n_next == 1)
        ft_early_behind(&e->msg.draft, v->path[v->n_path - 1], v->next[0], out);
    return out->n > 0;
}

bool ft_early_fits(const ft_early *e, const ft_msg_verdict *verdict)
{
    ft_msg_draft next;
    return behind(e, verdict, &next);
}

void ft_early_cut(ft_early *e, const ft_msg_verdict *verdict, ft_msg_draft *out)
{
    const bool fits = behind(e, verdict, out);
    assert(fits);
    (void)fits;
    e->state = FT_EARLY_POSSIBLE;
}
