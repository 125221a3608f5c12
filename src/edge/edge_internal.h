/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside src/edge: the edge's state and one generation's, and how its files divide the work.
 *
 *   generate.c  the rounds: draft or ask for a run -> exchange -> take over the verdict -> ...
 *   steer.c     which of the two comes next: what was measured, through spec/control.h
 *   session.c   one exchange with the verifier, over as many streams as it takes
 *   drafting.c  the draft model's side of a generation, under the engine lock
 *   early.c     drafts that are sent before the verdict that they depend on
 *   output.c    from a verdict's tokens to text
 *   record.c    drafts and verdicts into the trace store
 *
 * Locks: `mutex` guards the edge's counters and the engine queue; the engine itself belongs to
 * whoever's turn it is (ft_edge_engine_lock). Nothing else is locked while waiting for a turn.
 */
#ifndef FT_EDGE_INTERNAL_H
#define FT_EDGE_INTERNAL_H

#include <pthread.h>

#include "base/text.h"
#include "edge/edge.h"
#include "spec/control.h"

struct ft_edge {
    const ft_vocab *vocab;
    uint64_t fingerprint;
    ft_link_source source;
    ft_draft_params draft;
    bool automatic, proactive, early;
    ft_clock clock;
    int64_t reconnect_us;
    float slo_tokens_per_s;
    ft_trace *trace;            /* NULL: nothing is recorded */
    uint64_t draft_fingerprint; /* 0: not known */
    uint32_t max_generations;
    uint32_t draft_ctx;             /* tokens of text that drafts can be made of; 0: no drafting */
    int64_t forward_us;             /* of the draft, as warmed; 0: not known */
    ft_engine *engine;              /* of the draft model, or NULL; belongs to the turn's holder */
    ft_draft_source_factory drafts; /* without an engine; create NULL: no drafting */
    ft_msg_info info;               /* as of creation */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t turn;
    ft_calibration calibration;    /* as the last generation left it */
    ft_stop stop;                  /* the same */
    uint64_t next_ticket, serving; /* turns at the engine, first come first served */
    uint32_t running;
    ft_control control; /* as the last generation left it */
    bool asked;         /* health: an answer is there */
    int64_t asked_us;
    ft_error health;
};

/* Waits for a turn at the draft engine; from then to unlock the calling thread is its owner. Without
 * an engine (drafts come from elsewhere) there are no turns: all three do nothing, try is true. */
void ft_edge_engine_lock(ft_edge *edge);
/* Takes a turn only where nobody has one or waits for one: for work that must delay nobody else's. */
bool ft_edge_engine_try(ft_edge *edge);
void ft_edge_engine_unlock(ft_edge *edge);

typedef enum ft_drafting {
    FT_DRAFTING_OFF,     /* not any more in this generation */
    FT_DRAFTING_READING, /* the drafter reads the text, while others' tokens are waited for */
    FT_DRAFTING_ON,      /* the drafter has read the text, or all but the end of it */
    FT_DRAFTING_LATER    /* no room in the pool: tried again after retry_in verdicts */
} ft_drafting;

/* What there is to do for the draft model while a verdict is waited for. */
typedef enum ft_idle {
    FT_IDLE_DONE, /* nothing */
    FT_IDLE_MORE, /* something was done, ask again */
    FT_IDLE_TURN, /* something, but others use the engine */
    FT_IDLE_NEAR  /* something, but for near_us a verdict is likelier than it is useful */
} ft_idle;

/* A tree that is compared with what a run brings. */
typedef struct ft_shadow {
    bool wanted; /* to be drafted by `params` while the run goes on */
    ft_draft_params params;
    ft_tree tree;  /* n = 0: none */
    int32_t at;    /* the node that the text has come to, -1: the root */
    uint32_t path; /* nodes that it went through */
    int64_t took_us;
} ft_shadow;

/* The early draft of the outstanding round, and what decides on the next. */
typedef struct ft_gen_early {
    ft_client_msg msg; /* draft.n = 0: none went out over this stream */
    bool settled;      /* it went out, or none will */
    bool begun; /* the outstanding round began with a part of one: its draft need not be made */
    int64_t
        since_us; /* then, if it went out that way: when the verdict came; 0: an ordinary draft */
    double draft_us,
        tokens; /* smoothed: an ordinary draft takes, and its nodes should bring; 0: not known */
    double lead_us; /* to be early by */
} ft_gen_early;

/* One generation; lives on its thread. */
typedef struct ft_gen {
    ft_edge *edge;
    const ft_gen_request *request;
    const ft_gen_sink *sink;
    ft_gen_stats *stats;
    int64_t start_us;
    bool cancelled; /* the sink said so */
    bool answered;  /* a verdict came */
    ft_tokens text; /* prompt and everything generated, an end token included */
    uint32_t generated;

    /* session.c */
    ft_link *link;      /* NULL: no stream */
    uint32_t n_streams; /* opened so far */
    bool has_session;
    bool resuming;   /* Open{resume} was sent, no Opened yet */
    bool draft_sent; /* `out` went over this stream */
    bool stream_new; /* the next verdict's wait says nothing about the network */
    ft_session_id session, secret;
    char model[128]; /* as Opened said; "" before */
    ft_msg_limits limits;
    uint32_t hint_max_tree;
    bool hint_no_trees;
    uint32_t round;
    ft_client_msg out;  /* the outstanding Draft */
    uint32_t run_left;  /* it asks for a run, and so many tokens have not come; 0: it has nodes */
    uint32_t ahead_run; /* tokens of the next run, which was asked for already; 0: it was not */
    ft_client_msg next; /* scratch for that */
    int64_t sent_us;    /* 0: says nothing about a round trip */
    int64_t mark_us;    /* of the last verdict (spec/turn.h); 0: not known */
    int64_t looked_us;  /* last look at the link that found nothing */
    bool busy_look;     /* the draft model has worked since */
    int64_t round_us;   /* from sending to the last verdict; 0: not known */
    double rtt_us;      /* smoothed; 0: not known yet */
    int64_t rtt_sample_us; /* of the last verdict; < 0: none */
    double wait_us;        /* smoothed: a tree's verdict takes; 0: not known yet */
    int64_t near_us;       /* with FT_IDLE_NEAR */
    int64_t down_us;       /* without a stream since the last verdict, past losses */
    int64_t down_since;    /* of the present loss; valid while is_down */
    bool is_down;
    int64_t backoff_us;
    uint64_t old_sent, old_received; /* bytes of streams that are gone */

    /* drafting.c */
    ft_drafting drafting;
    ft_drafter *drafter;
    uint32_t known;         /* tokens of the text that the drafter was told */
    ft_tree tree;           /* of the outstanding Draft; n = 0: none */
    ft_draft_params params; /* by which it was drafted */
    bool ahead_done;        /* nothing is left to draft ahead of its verdict */
    ft_shadow shadow;
    uint32_t retry_in, retry_step;

    ft_gen_early early;

    /* steer.c */
    ft_control control;
    ft_stop stop; /* when a draft is deep enough, where the rule of its depth asks that */
    ft_control_choice choice; /* of the outstanding round, or of the one to come (has_choice) */
    bool has_choice;
    uint32_t levels;    /* of the outstanding tree */
    int64_t drafted_us; /* what it took */
    uint32_t forwards;  /* of the draft model that it took */
    double expected;    /* tokens that it should bring */
    int64_t run_us;     /* when the verdict came from which the run's tokens count; 0: none yet */
    uint32_t run_tokens;

    /* record.c */
    ft_trace_session recorded;
    ft_trace_node *record; /* [FT_TREE_MAX] of the outstanding draft; NULL: not recorded */

    /* output.c */
    ft_text_stream stream;
    ft_buf piece, shown;
    ft_gen_token *tokens; /* [FT_TREE_MAX + 1] */
} ft_gen;

/* Asks the sink; true from then on. */
bool ft_gen_cancelled(ft_gen *gen);

/* Opens a stream and sends Open, without waiting. */
ft_status ft_gen_connect(ft_gen *gen, ft_error *err);
/* Sends gen->out (a Draft) unless that was done and waits for a verdict of it, reconnecting where the
 * stream is lost. The caller frees *out. FT_CANCELLED: by the sink. */
ft_status ft_gen_exchange(ft_gen *gen, ft_error *err, ft_server_msg **out);
/* Asks for a run of `run` tokens behind the outstanding one. */
void ft_gen_run_ahead(ft_gen *gen, uint32_t run);
/* The last verdict of the outstanding round was taken over: the run that was asked for ahead is
 * outstanding now, or nothing (run_left 0, no tree). */
void ft_gen_round_over(ft_gen *gen);
/* Says Close or Cancel and frees the link. */
void ft_gen_disconnect(ft_gen *gen, ft_client_kind kind);

/* Brings the draft model up to the text, in pieces, as far as there is room and nobody cancels. */
void ft_gen_draft_start(ft_gen *gen);
/* Whether there is something to draft with now. */
bool ft_gen_draft_ready(ft_gen *gen);
/* Drafts gen->tree; n = 0 where it cannot. */
void ft_gen_draft(ft_gen *gen, const ft_draft_params *params);
/* Drafts the shadow at once. */
void ft_gen_draft_shadow(ft_gen *gen);
/* The text has grown by the verdict's path and next. */
void ft_gen_draft_advance(ft_gen *gen, const ft_msg_verdict *verdict);
/* The outstanding draft is a part of the early one: gen->tree is, too, as far as the drafter still knows. */
void ft_gen_draft_early(ft_gen *gen);
/* While the verifier works: one draft forward at most of drafting ahead of a tree's verdict, or of
 * following a run, shadow included. */
ft_idle ft_gen_draft_idle(ft_gen *gen);
void ft_gen_draft_stop(ft_gen *gen);

/* An ordinary draft goes out, or a stream is gone: nothing is out early. */
void ft_gen_early_reset(ft_gen *gen);
/* Between draft forwards ahead of a verdict: sends the early draft when it is time to, if it is worth it. */
void ft_gen_early_look(ft_gen *gen);
/* Whether the early draft that is out holds something behind the verdict. */
bool ft_gen_early_fits(const ft_gen *gen, const ft_msg_verdict *verdict);
/* A checked verdict on a tree, before anything of the round changes. */
void ft_gen_early_saw(ft_gen *gen, const ft_msg_verdict *verdict);
/* The verdict took it, and everything else is past that verdict: what it has behind it is outstanding now. */
void ft_gen_early_take(ft_gen *gen, const ft_msg_verdict *verdict);

/* Before the first round, and after the last. */
void ft_gen_steer_begin(ft_gen *gen);
void ft_gen_steer_end(ft_gen *gen);
/* So many nodes of a draft, as far as the server takes them. */
uint32_t ft_gen_steer_nodes(const ft_gen *gen, uint32_t nodes);
/* What the next round is to be; the text can grow by `most` tokens. Fills *params where it speculates
 * or wants a shadow. */
ft_control_choice ft_gen_steer(ft_gen *gen, uint32_t most, ft_draft_params *params);
/* gen->tree, or the shadow's, was drafted. */
void ft_gen_steer_sent(ft_gen *gen, uint32_t forwards, int64_t took_us);
void ft_gen_steer_shadow(ft_gen *gen, uint32_t forwards, int64_t took_us);
/* A verdict on the outstanding round was taken over. */
void ft_gen_steer_saw(ft_gen *gen, const ft_msg_verdict *verdict);

/* How a target is named in the trace store: by a hash of its name, which is all that an edge learns of it. */
uint64_t ft_record_target(const char *name);
/* Around a generation. */
void ft_gen_record_begin(ft_gen *gen);
void ft_gen_record_end(ft_gen *gen);
/* gen->tree was drafted, and its drafter is still where it was then. */
void ft_gen_record_draft(ft_gen *gen);
/* A checked verdict on the outstanding round, which is counted already. */
void ft_gen_record_verdict(ft_gen *gen, const ft_msg_verdict *verdict);

/* FT_CORRUPT: the verdict does not answer the outstanding Draft. */
ft_status ft_gen_verdict_check(const ft_gen *gen, const ft_msg_verdict *verdict, ft_error *err);
/* Appends the verdict's tokens to the text and shows them; *finish is NONE while the text goes on. */
ft_status ft_gen_output(ft_gen *gen, const ft_msg_verdict *verdict, ft_error *err,
                        ft_finish *finish);

#endif
