/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions of `bench ablate` for parts of the server that neither edges nor the simulator run.
 * Each part's real code meets a modelled load on a virtual clock. Pure functions.
 *
 *   ablate_fit.c    what passes cost (sched/cost.h)
 *   ablate_fair.c   tenants' shares of a server (sched/fair.h)
 *   ablate_head.c   which rows get logits, and when (sched/heads.h)
 *   ablate_own.c    the server's own drafts (sched/own_draft.h)
 */
#ifndef FT_BENCH_ABLATE_PARTS_H
#define FT_BENCH_ABLATE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "sched/cost.h"

typedef struct ft_ablate_part {
    const char *name, *what;
    const char *group;  /* of sched's constants; no others are tried in this condition */
    const char *figure; /* its name; more is better */
    /* The figure, > 0, of one life under these conditions. The same seed meets the same load,
     * whatever the constants are. */
    ft_status (*live)(const void *how, uint64_t seed, ft_error *err, double *figure);
    const void *how;
} ft_ablate_part;

/* Passes whose time is to be predicted. The machine's costs are drawn anew for each seed. */
typedef struct ft_ablate_fit_load {
    uint32_t first, passes; /* the passes whose predictions count */
    uint32_t sessions;      /* in a pass at most */
    double prompts;         /* share of passes with a chunk of a prompt */
    double noise;           /* of passes: sigma of the logarithm; 0: 0.05 */
    double spikes;          /* share of passes that take 4 times as long */
    uint32_t slow_every;    /* in every second so many passes all take twice as long; 0: never */
    uint32_t quiet_every;   /* in every second so many passes one session decodes; 0: never */
    bool grows;             /* a session more every 100 passes, instead of any number */
    bool primed;            /* the costs were measured before, when rows took a third less */
    bool budget;            /* chunks are as long as the predictions say they may be */
} ft_ablate_fit_load;

/* The figure: 1 - the mean relative error of predictions; with a budget: how near the time of a
 * chunk is to that of the longest one within the budget, as the smaller part of the larger. how:
 * ft_ablate_fit_load. */
ft_status ft_ablate_fit(const void *how, uint64_t seed, ft_error *err, double *figure);

#define FT_ABLATE_TENANTS 4

/* Tenants who ask for more than a server has. Each session drafts, waits for its verdict, and
 * drafts again. */
typedef struct ft_ablate_fair_load {
    uint32_t sessions[FT_ABLATE_TENANTS]; /* of each tenant; 0: there is no such tenant */
    const double *cost_us;                /* [FT_COST_FACTORS] of a pass */
    uint32_t max_rows;                    /* of a pass */
    uint32_t least_drafted;               /* tokens of a draft; up to 7 more */
    double tokens_per_s;                  /* promised to all; 0: no promises */
    int64_t pause_us; /* the first tenant is away in every second so long; 0: never */
} ft_ablate_fair_load;

/* The figure: rows of the least served tenant over those of the mean tenant, of the tenants that
 * are there, in the mean of windows of 10 s. how: ft_ablate_fair_load. */
ft_status ft_ablate_fair(const void *how, uint64_t seed, ft_error *err, double *figure);

/* Passes whose walks need logits. The machine's times are drawn anew for each seed. */
typedef struct ft_ablate_head_load {
    uint32_t first, passes; /* the passes that count */
    uint32_t sessions;      /* in a pass at most */
    uint32_t nodes;         /* of a tree at most; half of it at least */
    uint32_t width;         /* children of a node at most; 1: chains */
    double right;           /* how often a walk goes to a node's first child, if it has any */
    double row;             /* a row of the head takes so much of a run without any rows */
    double stalls;          /* share of runs that are held up for up to 500 times their time */
    bool cold;              /* the first run takes 30 times as long */
    uint32_t slow_every;    /* in every second so many passes another program has the cores */
    uint32_t kinds_every;   /* in every second so many passes drafts are half as right */
} ft_ablate_head_load;

/* The figure: tokens/s, without the time for which runs are held up. how: ft_ablate_head_load. */
ft_status ft_ablate_head(const void *how, uint64_t seed, ft_error *err, double *figure);

/* Sessions in runs, for which the server drafts. Each writes one text after another. */
typedef struct ft_ablate_own_load {
    bool plain;         /* the server never drafts */
    double s;           /* how long it lasts */
    uint32_t sessions;  /* that many... */
    double sessions_us; /* ...or any number up to it, another one after so long; 0: that many */
    double prompt_tok;  /* of a text, about */
    double text_tok;    /* it gains so many, about */
    double right;       /* share of places where the draft model's first token is right... */
    double other;       /* ...and in every second text; 0: the same */
    double other_us;    /* all texts are such in every second so long; 0: each on its own */
    double bold;        /* the chances that the model says: 1 - (1 - chance)^bold; 0: as they are */
    double forward_us;  /* of the draft model: a forward... */
    double forward_row_us;           /* ...and a row in it */
    bool cold;                       /* the first drafts take 5 times as long */
    double cost_us[FT_COST_FACTORS]; /* of the target's passes (sched/cost.h) */
    uint32_t kink_rows;              /* passes of more rows... */
    double kink;                     /* ...take so many times as long; 0: they do not */
    double spikes;                   /* share of passes that take 4 times as long */
    double slow, slow_us;            /* all takes `slow` times as long in every second slow_us */
    bool slow_draft;                 /* only the draft model does */
    uint32_t edges;                  /* sessions beside them whose edges draft */
    double think_us;                 /* between a verdict and the edge's next draft */
} ft_ablate_own_load;

/* The figure: tokens/s of all sessions together. how: ft_ablate_own_load. */
ft_status ft_ablate_own(const void *how, uint64_t seed, ft_error *err, double *figure);

#endif
