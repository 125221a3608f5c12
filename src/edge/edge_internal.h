/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside src/edge: the edge's state and one generation's, and how its files divide the work.
 *
 *   generate.c  the rounds: draft -> exchange -> take over the verdict -> draft ...
 *   session.c   one exchange with the verifier, over as many streams as it takes
 *   drafting.c  the draft model's side of a generation, under the engine lock
 *   output.c    from a verdict's tokens to text
 *
 * Locks: `mutex` guards the edge's counters and the engine queue; the engine itself belongs to
 * whoever's turn it is (ft_edge_engine_lock). Nothing else is locked while waiting for a turn.
 */
#ifndef FT_EDGE_INTERNAL_H
#define FT_EDGE_INTERNAL_H

#include <pthread.h>

#include "base/text.h"
#include "edge/edge.h"

struct ft_edge {
    const ft_vocab *vocab;
    uint64_t fingerprint;
    ft_link_source source;
    ft_draft_params draft;
    ft_clock clock;
    int64_t reconnect_us;
    uint32_t max_generations;
    uint32_t draft_ctx; /* tokens of text the draft model can read; 0: no draft model */
    ft_engine *engine;  /* NULL: no draft model; belongs to the turn's holder */
    ft_msg_info info;   /* as of creation */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t turn;
    uint64_t next_ticket, serving; /* turns at the engine, first come first served */
    uint32_t running;
    bool asked; /* health: an answer is there */
    int64_t asked_us;
    ft_error health;
};

/* Waits for a turn at the draft engine; from then to unlock the calling thread is its owner. */
void ft_edge_engine_lock(ft_edge *edge);
void ft_edge_engine_unlock(ft_edge *edge);

typedef enum ft_drafting {
    FT_DRAFTING_OFF,  /* not any more in this generation */
    FT_DRAFTING_ON,   /* the drafter holds the text */
    FT_DRAFTING_LATER /* no room in the pool: tried again at round retry_round */
} ft_drafting;

/* One generation; lives on its thread. */
typedef struct ft_gen {
    ft_edge *edge;
    const ft_gen_request *request;
    const ft_gen_sink *sink;
    ft_gen_stats *stats;
    int64_t start_us;
    bool cancelled; /* the sink said so */
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
    uint32_t round;
    ft_client_msg out; /* the outstanding Draft */
    int64_t sent_us;
    double rtt_us;      /* smoothed; 0: not known yet */
    int64_t down_us;    /* without a stream since the last verdict, past losses */
    int64_t down_since; /* of the present loss; valid while is_down */
    bool is_down;
    int64_t backoff_us;
    uint64_t old_sent, old_received; /* bytes of streams that are gone */

    /* drafting.c */
    ft_drafting drafting;
    ft_drafter *drafter;
    ft_tree tree; /* of the outstanding Draft; n = 0: none */
    uint32_t retry_round, retry_step;

    /* output.c */
    ft_text_stream stream;
    ft_buf piece, shown;
    ft_gen_token *tokens; /* [FT_TREE_MAX + 1] */
} ft_gen;

/* Asks the sink; true from then on. */
bool ft_gen_cancelled(ft_gen *gen);

/* Opens a stream and sends Open, without waiting. */
ft_status ft_gen_connect(ft_gen *gen, ft_error *err);
/* Sends gen->out (a Draft) and waits for its verdict, reconnecting where the stream is lost. The
 * caller frees *out. FT_CANCELLED: by the sink. */
ft_status ft_gen_exchange(ft_gen *gen, ft_error *err, ft_server_msg **out);
/* Says Close or Cancel and frees the link. */
void ft_gen_disconnect(ft_gen *gen, ft_client_kind kind);

/* Brings the draft model up to the text, in pieces, as far as there is room and nobody cancels. */
void ft_gen_draft_start(ft_gen *gen);
/* Drafts gen->tree of at most max_nodes nodes and max_depth levels; n = 0 where it cannot. */
void ft_gen_draft(ft_gen *gen, uint32_t max_nodes, uint32_t max_depth);
/* The text has grown by the verdict's path and next. */
void ft_gen_draft_advance(ft_gen *gen, const ft_msg_verdict *verdict);
/* While the verifier works: tries again what lacked room before. */
void ft_gen_draft_retry(ft_gen *gen);
void ft_gen_draft_stop(ft_gen *gen);

/* FT_CORRUPT: the verdict does not answer the outstanding Draft. */
ft_status ft_gen_verdict_check(const ft_gen *gen, const ft_msg_verdict *verdict, ft_error *err);
/* Appends the verdict's tokens to the text and shows them; *finish is NONE while the text goes on. */
ft_status ft_gen_output(ft_gen *gen, const ft_msg_verdict *verdict, ft_error *err,
                        ft_finish *finish);

#endif
