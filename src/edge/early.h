/* SPDX-License-Identifier: Apache-2.0
 *
 * The early draft. While the server verifies a tree, the draft model goes on below that tree. The
 * early draft sends a part of this work before the verdict: nodes that extend the tree. If some of
 * them follow the verdict, the server begins the next round with these at once, and the verdict
 * says so. They are the outstanding draft then, as if the edge had sent them at that moment.
 * Otherwise the server drops the early draft.
 *
 *   POSSIBLE --ft_early_make--> OUT --ft_early_cut: the verdict took it--> POSSIBLE
 *   POSSIBLE --look_early (exchange.c)--> PASSED
 *   any --another draft is sent, or the stream is lost (exchange.c, rounds.c)--> POSSIBLE
 *
 * spec/early_policy.h decides when to send it; nothing is drafted here.
 */
#ifndef FT_EDGE_EARLY_H
#define FT_EDGE_EARLY_H

#include "spec/early_policy.h"
#include "spec/tree.h"
#include "wire/messages.h"

typedef enum ft_early_state {
    FT_EARLY_POSSIBLE, /* an early draft for the outstanding tree may still be sent */
    FT_EARLY_PASSED,   /* none will be sent for this tree */
    FT_EARLY_OUT       /* one was sent */
} ft_early_state;

typedef struct ft_early {
    ft_early_state state;
    ft_client_msg msg; /* OUT: what was sent */
    ft_early_policy policy;
} ft_early;

/* Makes the message of an early draft for `round`. base: the text's length before the outstanding
 * tree. tree, under: as ft_drafter_early fills them. Valid until the next call. */
const ft_client_msg *ft_early_make(ft_early *e, uint32_t round, uint32_t base, const ft_tree *tree,
                                   const uint8_t *under);
/* Whether an early draft is out and some of its nodes follow the verdict. */
bool ft_early_fits(const ft_early *e, const ft_msg_verdict *verdict);
/* If it fits: writes the nodes that follow the verdict into n, token and parent of *out. After that
 * no early draft is out. */
void ft_early_cut(ft_early *e, const ft_msg_verdict *verdict, ft_msg_draft *out);

#endif
