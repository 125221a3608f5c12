/* SPDX-License-Identifier: Apache-2.0
 *
 * When an edge sends an early draft (wire/early.h): a part of the nodes that it drafted while the
 * verdict on a tree is awaited. Pure: measurements come in, a decision comes out; no clock, no
 * thread. The state is plain data.
 *
 * When: as late as possible, because later nodes are better, but before the verdict is given.
 * Whether: an early draft begins the next round sooner, by the network time and by the time of an
 * ordinary draft, but it has fewer nodes. It is not sent while other sessions keep the server busy
 * for longer than it saves.
 *
 *   sent a tree -> [decide]* -> SEND or NEVER -> verdict: saw_draft -> ...
 */
#ifndef FT_SPEC_EARLY_POLICY_H
#define FT_SPEC_EARLY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/known.h"

typedef enum ft_early_decision {
    FT_EARLY_WAIT, /* ask again after the next draft forward */
    FT_EARLY_SEND,
    FT_EARLY_NEVER /* not behind this tree */
} ft_early_decision;

/* What verdicts have taught. All-zero: nothing. */
typedef struct ft_early_policy {
    ft_mean draft_us; /* time of an ordinary draft */
    ft_mean tokens;   /* expected of its nodes */
} ft_early_policy;

/* A tree whose verdict is awaited. */
typedef struct ft_early_view {
    double sent_ago_us;   /* since the tree was sent */
    double answer_us;     /* expected from its arrival to its verdict */
    double rtt_us;        /* network time */
    double others_us;     /* for how long others keep the server busy (spec/control.h) */
    double forward_us;    /* time of a draft forward */
    bool more;            /* there is more to draft before the verdict */
    double tokens_per_us; /* of recent rounds */
    uint32_t budget;      /* nodes of an ordinary tree */
} ft_early_view;

/* The bounds of an early draft that is sent. */
typedef struct ft_early_bounds {
    uint32_t budget;  /* nodes at most */
    double spare_tok; /* as in ft_growth_early (spec/growth.h) */
} ft_early_bounds;

/* By how much the next round begins sooner: by the network time and an ordinary draft, less what
 * others keep the server busy. */
double ft_early_saved_us(const ft_early_policy *policy, double rtt_us, double others_us);
/* With SEND it fills *bounds. Returns WAIT while nothing is known of ordinary drafts. */
ft_early_decision ft_early_decide(const ft_early_policy *policy, const ft_early_view *view,
                                  ft_early_bounds *bounds);
/* Whether an early draft with this expected gain in tokens is worth its bytes. */
bool ft_early_worth(double gain_tok);

/* An ordinary draft took `us`, and its nodes are expected to bring `tokens`. */
void ft_early_saw_draft(ft_early_policy *policy, double us, double tokens);

#endif
