/* SPDX-License-Identifier: Apache-2.0
 *
 * When an edge sends an early draft (wire/early.h): a part of what it drafted while the verdict on
 * a tree is awaited. Pure: what was measured comes in, a decision comes out; no clock, no thread.
 * The state is plain data.
 *
 * When: as late as it still arrives before the verdict is given, because later nodes are better. An
 * early draft that came too late makes the next ones earlier. Whether: it begins the next round
 * sooner, by the network time and by the drafting that an ordinary draft takes, but it has fewer
 * nodes. It is not sent while other sessions keep the server busy for longer than it saves.
 *
 *   sent a tree -> [decide]* -> SEND or NEVER -> verdict: drafted, saw -> ...
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
    ft_mean draft_us; /* an ordinary draft takes */
    ft_mean tokens;   /* its nodes should bring */
    double lead_us;   /* to be early by, besides a share of the time to the verdict */
} ft_early_policy;

/* A tree whose verdict is awaited. */
typedef struct ft_early_view {
    double sent_ago_us;   /* the tree was sent so long ago */
    double answer_us;     /* it should take from its arrival to its verdict */
    double rtt_us;        /* the network takes */
    double others_us;     /* other sessions keep the server busy (spec/busy.h) */
    double forward_us;    /* a draft forward takes */
    bool more;            /* there is something left to draft before the verdict */
    double tokens_per_us; /* that rounds bring lately */
    uint32_t budget;      /* nodes of an ordinary tree */
} ft_early_view;

/* The bounds of an early draft that is sent. */
typedef struct ft_early_bounds {
    uint32_t budget;  /* nodes at most */
    double spare_tok; /* as in ft_growth_early (spec/growth.h) */
} ft_early_bounds;

/* Fills *bounds with SEND. Waits as long as nothing is known of ordinary drafts. */
ft_early_decision ft_early_decide(const ft_early_policy *policy, const ft_early_view *view,
                                  ft_early_bounds *bounds);
/* Whether an early draft that should bring so many tokens is worth its bytes. */
bool ft_early_worth(double gain_tok);

/* An ordinary draft took `us`, and its nodes should bring `tokens`. */
void ft_early_saw_draft(ft_early_policy *policy, double us, double tokens);

typedef enum ft_early_outcome {
    FT_EARLY_TAKEN,
    FT_EARLY_LATE,  /* it fitted the verdict, and was not taken */
    FT_EARLY_MISSED /* it did not fit, or none was sent */
} ft_early_outcome;

/* What a verdict made of the early draft behind its tree. */
void ft_early_saw_verdict(ft_early_policy *policy, ft_early_outcome outcome, double forward_us);

#endif
