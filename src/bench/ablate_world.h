/* SPDX-License-Identifier: Apache-2.0
 *
 * A world on a virtual clock for `bench ablate`: real edges (src/edge, src/spec) with recorded
 * drafts, and a network and a server that are modelled. The server knows the texts beforehand. So
 * it answers as rule `exact` would, in the time that a line of costs says: a pass holds whoever
 * waits when it begins, this session and others, which think between their rounds. Nothing sleeps,
 * and nothing depends on the machine: the same seed gives the same times. One thread.
 */
#ifndef FT_BENCH_ABLATE_WORLD_H
#define FT_BENCH_ABLATE_WORLD_H

#include "bench/load_device.h"
#include "edge/edge.h"
#include "sched/cost.h"

#define FT_ABLATE_TEXTS 4

/* A text of the target's, and what the edge is asked for. */
typedef struct ft_ablate_text {
    const ft_tokens *prompt, *text; /* borrowed; text: what follows */
    ft_sampling sampling;
} ft_ablate_text;

/* The draft model. */
typedef struct ft_ablate_device {
    double forward_us, read_us; /* a forward; a token of text more in it */
    double wrong;               /* share of places where it knows nothing... */
    uint32_t wrong_tok;         /* ...in every second so many tokens of the text; 0: everywhere */
    double right;               /* share of places where the target's token is its first */
    double cold;                /* its first forwards take so many times as long; 0: they do not */
} ft_ablate_device;

typedef struct ft_ablate_net {
    double rtt_us;
    double jitter; /* of each way: sigma of the logarithm */
    double lost;   /* share of tokens behind which messages come a round trip and 200 ms later */
} ft_ablate_net;

typedef struct ft_ablate_server {
    double cost_us[FT_COST_FACTORS]; /* of a pass (sched/cost.h) */
    double noise;                    /* of passes: sigma of the logarithm */
    double spikes;                   /* share of tokens behind which a pass takes 4 times as long */
    double cold;        /* the first pass takes so many times as long; 0: it does not */
    uint32_t kink_rows; /* passes of more rows take `kink` times as long; 0: all are alike */
    double kink;
    double load, load_us; /* passes take `load` times as long in every second load_us; 0: never */
    bool hints, prices;   /* it says what a run's token takes, and what a row costs others */
} ft_ablate_server;

/* Other sessions at the server. */
typedef struct ft_ablate_others {
    uint32_t n, group; /* group: verifications of a pass at most; 0: all */
    uint32_t rows;     /* of their trees */
    double think_us;   /* between their verdict and their next draft, network included */
} ft_ablate_others;

/* Under what conditions an edge lives. */
typedef struct ft_ablate_case {
    const char *name, *what;
    ft_ablate_device device;
    ft_ablate_net net;
    ft_ablate_server server;
    ft_ablate_others others;
    bool alone; /* draft and target share a machine: nothing is drafted ahead */
    int warmth; /* temperature: 0 or 1 */
    ft_depth_rule depth_rule;
    uint32_t texts; /* that an edge writes, one after another, FT_ABLATE_TEXTS at most */
} ft_ablate_case;

typedef struct ft_ablate_world_opts {
    const ft_vocab *vocab;
    ft_bench_load_drafts *drafts;
    const ft_ablate_text *texts; /* [n], of the case's temperature */
    uint32_t n;
    bool no_drafts;               /* plain decoding */
    const ft_draft_params *fixed; /* what each round drafts, borrowed; NULL: the edge chooses */
} ft_ablate_world_opts;

/* What came of an edge's life. */
typedef struct ft_ablate_life {
    double us, tokens; /* us: summed over its texts, from request to last token */
    double text_us[FT_ABLATE_TEXTS];
    double rows; /* of the server's passes that were this session's */
    double rounds, drafted, accepted, early_taken;
} ft_ablate_life;

/* The life with a seed. The same seeds meet the same texts, network and load. */
FT_WARN_UNUSED ft_status ft_ablate_live(const ft_ablate_world_opts *opts, const ft_ablate_case *how,
                                        uint64_t seed, ft_error *err, ft_ablate_life *out);

#endif
