/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that an edge's generations share (edge/generation.h). Fields that no lock guards are
 * set at creation and then constant.
 *
 * Locks: `mutex` guards the fields below it; the draft engine has its own lock (engine_lock.h). No
 * thread waits for one of them while it holds the other.
 */
#ifndef FT_EDGE_EDGE_INTERNAL_H
#define FT_EDGE_EDGE_INTERNAL_H

#include <pthread.h>

#include "constrain/grammars.h"
#include "edge/drafting.h"
#include "edge/edge.h"
#include "edge/servers.h"
#include "edge/steer.h"
#include "edge/timing.h"
#include "spec/depth.h"
#include "spec/rule_choice.h"
#include "spec/uplink.h"

/* Small messages do not tell a rate. So one that is known stays known for so many texts, unless it
 * is seen to change. As many as an edge waits before it tries `ratio` again: half of it would leave
 * an edge without a rate for half of its texts, twice of it would believe one for twice as long. */
#define FT_EDGE_RATE_KEPT FT_RULE_TRY_AFTER

/* Classes of temperatures. In one about as much is accepted of drafts; in another less or more. */
typedef enum ft_warmth {
    FT_WARMTH_GREEDY,
    FT_WARMTH_COOL, /* up to 0.5 */
    FT_WARMTH_WARM, /* up to 1 */
    FT_WARMTH_HOT,
    FT_WARMTHS
} ft_warmth;

/* The class of these samplers' temperature. */
ft_warmth ft_warmth_of(const ft_sampling *sampling);

/* What a generation has learnt and the next one of this kind of rule and warmth starts from. Of
 * several at once, the last to end overwrites the others. */
typedef struct ft_edge_learnt {
    ft_steer_learnt at[FT_PLACES];
    ft_calibration calibration;
    ft_rule_seen seen; /* with `rule_auto` */
} ft_edge_learnt;

/* What a text begins with. */
typedef struct ft_edge_start {
    const ft_rule *rule;
    ft_why why;
    ft_rule_kind kind; /* RATIO: its drafts carry evidence */
    ft_warmth warmth;
    ft_edge_learnt learnt;
    uint32_t text; /* number of this text */
} ft_edge_start;

struct ft_edge {
    ft_edge_opts how;     /* its defaults filled in; `rule` is never NULL */
    uint64_t fingerprint; /* of the vocabulary */
    ft_draft_origin drafts;
    ft_servers servers;
    ft_msg_info info; /* as of creation, of server `met` */
    uint32_t met;
    ft_grammars *grammars; /* for drafts under a constraint, or how.source's; NULL: they do not
                              know it */
    uint64_t empty_bytes;  /* of a Draft's message without nodes */

    pthread_mutex_t mutex; /* guards what follows */
    ft_edge_learnt learnt[FT_RULE_KINDS][FT_WARMTHS];
    bool begun[FT_RULE_KINDS][FT_WARMTHS]; /* `learnt` is of texts */
    bool learns;                           /* a text has ended in this process */
    ft_msg_limits limits;   /* of the server that texts met last; without `rule_auto` as of
                                  creation */
    uint32_t texts_unknown; /* of the last choice (spec/rule_choice.h) */
    ft_uplink uplink[FT_SERVERS_MAX];  /* each server has a path of its own */
    uint32_t known_at[FT_SERVERS_MAX]; /* n_texts when its rate was known last */
    uint32_t n_texts;                  /* that have begun */
    uint32_t heard;                    /* the server that answered last */
    uint32_t running;
    struct {
        bool asked; /* `answer` is set */
        int64_t asked_us;
        ft_error answer;
    } health;
};

/* ft_grammars_wait of the edge's grammars. client: as in ft_gen_request. */
FT_WARN_UNUSED ft_status ft_edge_grammar(struct ft_edge *edge, const ft_constraint *constraint,
                                         const ft_client_id *client, int64_t wait_us, ft_error *err,
                                         ft_grammar **out);

/* A generation begins: chooses its rule. FT_EXHAUSTED: too many are running. */
FT_WARN_UNUSED ft_status ft_edge_enter(struct ft_edge *edge, const ft_gen_request *request,
                                       ft_error *err, ft_edge_start *start);

/* What is known best of such texts: what others of this kind and warmth have learnt, or of the
 * nearest warmth, or of the other kind, as times, networks and servers are theirs, too. Under the
 * mutex. */
const ft_edge_learnt *ft_edge_nearest(const struct ft_edge *edge, ft_rule_kind kind,
                                      ft_warmth warmth);

/* What is left of a generation. */
typedef struct ft_edge_end {
    const ft_rule *rule; /* if it is not the one that it began with, nothing was learnt of it */
    const ft_msg_limits *limits; /* of the server that it met last */
    ft_edge_learnt learnt;
} ft_edge_end;

/* A generation ends that began so. */
void ft_edge_leave(struct ft_edge *edge, const ft_edge_start *start, const ft_edge_end *end);

/* A round trip to this server was measured. */
void ft_edge_saw_trip(struct ft_edge *edge, uint32_t server, const ft_timing_trip *trip);
/* The uplink to the server that answered last, as its round trips tell. */
ft_uplink_rate ft_edge_uplink(struct ft_edge *edge);
/* The rate to count with now: the one that was given (ft_edge_opts.uplink_bits_per_s), else
 * ft_edge_uplink's, or what that was within the last FT_EDGE_RATE_KEPT texts. Takes some
 * microseconds. */
ft_uplink_rate ft_edge_rate(struct ft_edge *edge);

#endif
