// SPDX-License-Identifier: Apache-2.0
// The table of a round's transitions and the check of its fields. serve/round_state.h has the
// diagram. ft_round_check has the invariants. The engine thread owns a round. This file knows no
// sessions and does not compare round numbers (drafts.c).
#include "serve/round_state.h"

#include <assert.h>

/* A cell has the next state and what the event did. An empty cell is FT_ROUND_IMPOSSIBLE. */
#define TO(state, did) (FT_ROUND_##state << 4 | FT_ROUND_##did)
/* Events that break the protocol while a round is under way. */
#define REFUSES(state)                                                         \
    [FT_ROUND_ON_TREE] = TO(state, BUSY), [FT_ROUND_ON_RUN] = TO(state, BUSY), \
    [FT_ROUND_ON_REPEAT] = TO(state, BUSY)
/* How each round can end. */
#define ENDS [FT_ROUND_ON_END] = TO(ENDED, CLOSED), [FT_ROUND_ON_WITHDRAW] = TO(NONE, CLOSED)

/* drafts.c has already refused early drafts that extend no tree. If the policy verifies no trees,
 * the server treats the edge's tree as a run of one token. The edge may then send an early draft
 * that extends its tree. During a run such an early draft is dropped. */
static const uint8_t table[FT_ROUND_STATES][FT_ROUND_EVENTS] = {
    [FT_ROUND_NONE] = {[FT_ROUND_ON_TREE] = TO(TREE, BEGAN),
                       [FT_ROUND_ON_RUN] = TO(RUN, BEGAN),
                       [FT_ROUND_ON_NEXT_RUN] = TO(RUN, BEGAN),
                       [FT_ROUND_ON_EARLY] = TO(NONE, DROPPED),
                       [FT_ROUND_ON_REPEAT] = TO(NONE, REPEATED),
                       [FT_ROUND_ON_WITHDRAW] = TO(NONE, CLOSED)},
    [FT_ROUND_TREE] =
        {REFUSES(TREE), ENDS, [FT_ROUND_ON_NEXT_RUN] = TO(TREE, BUSY),
         [FT_ROUND_ON_EARLY] = TO(TREE_EARLY, KEPT), [FT_ROUND_ON_VERDICT] = TO(NONE, CLOSED)},
    [FT_ROUND_TREE_EARLY] =
        {REFUSES(TREE_EARLY), ENDS, [FT_ROUND_ON_NEXT_RUN] = TO(TREE_EARLY, BUSY),
         [FT_ROUND_ON_EARLY] = TO(TREE_EARLY, TWICE), [FT_ROUND_ON_VERDICT] = TO(NONE, CLOSED),
         [FT_ROUND_ON_FIT] = TO(EARLY, BEGAN)},
    [FT_ROUND_EARLY] =
        {REFUSES(EARLY), ENDS, [FT_ROUND_ON_NEXT_RUN] = TO(EARLY, BUSY),
         [FT_ROUND_ON_EARLY] = TO(EARLY_EARLY, KEPT), [FT_ROUND_ON_VERDICT] = TO(NONE, CLOSED)},
    [FT_ROUND_EARLY_EARLY] =
        {REFUSES(EARLY_EARLY), ENDS, [FT_ROUND_ON_NEXT_RUN] = TO(EARLY_EARLY, BUSY),
         [FT_ROUND_ON_EARLY] = TO(EARLY_EARLY, TWICE), [FT_ROUND_ON_VERDICT] = TO(NONE, CLOSED),
         [FT_ROUND_ON_FIT] = TO(EARLY, BEGAN)},
    [FT_ROUND_RUN] =
        {REFUSES(RUN),
         ENDS, [FT_ROUND_ON_NEXT_RUN] = TO(RUN_NEXT, KEPT), [FT_ROUND_ON_EARLY] = TO(RUN, DROPPED),
         [FT_ROUND_ON_PART] = TO(RUN, WENT_ON), [FT_ROUND_ON_VERDICT] = TO(NONE, CLOSED)},
    [FT_ROUND_RUN_NEXT] =
        {REFUSES(RUN_NEXT), ENDS,
         [FT_ROUND_ON_NEXT_RUN] = TO(RUN_NEXT, BUSY), [FT_ROUND_ON_EARLY] = TO(RUN_NEXT, DROPPED),
         [FT_ROUND_ON_PART] = TO(RUN_NEXT, WENT_ON), [FT_ROUND_ON_VERDICT] = TO(RUN, BEGAN)},
    [FT_ROUND_ENDED] = {[FT_ROUND_ON_TREE] = TO(ENDED, OVER),
                        [FT_ROUND_ON_RUN] = TO(ENDED, OVER),
                        [FT_ROUND_ON_NEXT_RUN] = TO(ENDED, DROPPED),
                        [FT_ROUND_ON_EARLY] = TO(ENDED, DROPPED),
                        [FT_ROUND_ON_REPEAT] = TO(ENDED, REPEATED),
                        [FT_ROUND_ON_WITHDRAW] = TO(ENDED, CLOSED)},
};

ft_round_did ft_round_would(const ft_round *round, ft_round_event event)
{
    return (ft_round_did)(table[round->state][event] & 15);
}

ft_round_did ft_round_step(ft_round *round, ft_round_event event)
{
    const ft_round_did did = ft_round_would(round, event);
    assert(did != FT_ROUND_IMPOSSIBLE);
    round->state = (ft_round_state)(table[round->state][event] >> 4);
    return did;
}

void ft_round_begin(ft_round *round, uint32_t number, uint32_t base, uint32_t end,
                    ft_client_msg *take_draft)
{
    ft_client_msg_free(round->draft);
    round->draft = take_draft;
    round->number = number;
    round->joint = (ft_round_joint){0};
    round->base = base;
    round->end = end;
    round->n_drafted = take_draft ? take_draft->draft.n : 0;
    round->nodes = (ft_nodes){.n = 0};
    if (take_draft)
        round->nodes = (ft_nodes){.n = take_draft->draft.n,
                                  .token = take_draft->draft.token,
                                  .parent = take_draft->draft.parent};
}

void ft_round_settle(ft_round *round)
{
    ft_client_msg_free(round->early);
    ft_client_msg_free(round->draft);
    round->early = round->draft = NULL;
    round->nodes = (ft_nodes){.n = 0};
}

void ft_round_check(const ft_round *round)
{
#ifdef FT_DEBUG_CHECKS
    const bool run = ft_round_is_run(round), tree = ft_round_waits(round) && !run;
    assert((round->draft != NULL) == tree);
    assert(!tree || (round->n_drafted > 0 && round->nodes.n == round->n_drafted));
    assert(!tree || (round->nodes.token == round->draft->draft.token));
    assert(!tree || round->end == round->base);
    assert(!run || round->end > round->base);
    assert(run || tree || round->nodes.n == 0);
    assert((round->early != NULL) ==
           (round->state == FT_ROUND_TREE_EARLY || round->state == FT_ROUND_EARLY_EARLY));
    assert(!round->early || round->early_for == round->number + 1);
    assert(!ft_round_waits(round) || round->number > 0);
#else
    (void)round;
#endif
}
