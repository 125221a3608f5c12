/* SPDX-License-Identifier: Apache-2.0
 *
 * A generation: its state machine, and the struct that holds its parts. `state` alone says what a
 * generation is doing. Each arrow below is one function, which calls ft_gen_happened.
 *
 *        ft_gens_prepare (rounds.c)          take_early (rounds.c)
 *          +-------------------> TREE ------------------------------> TREE_EARLY <--+
 *          |                      |                                     |    |      | take_early
 *          |   round_over         |              round_over             |    +------+
 *        READY <------------------+<------------------------------------+
 *          |  ^
 *          |  +-------- round_over (rounds.c) ---------+
 *          |                                           |
 *          +-------------------> RUN ------------------+
 *         ft_gens_prepare        |  ^
 *              ask_next (rounds) |  | round_over, recover (exchange.c)
 *                                v  |
 *                              RUN_NEXT
 *
 *        any --ft_gen_end--> ENDED
 *
 * While a verdict is awaited the stream may be lost and opened again (recover in exchange.c, event
 * LOST). The outstanding round stays, but a next run is forgotten. The stream's state says whether
 * the draft was sent over the present stream (stream.h); drafting.h has the draft model's state.
 *
 * The parts know neither each other nor this struct: rounds.c and exchange.c pass values between
 * them. Parts count what they do in the generation's statistics (stats.h). All of it belongs to the
 * thread that called ft_edge_generate, or ft_batch_run with all of its texts.
 */
#ifndef FT_EDGE_GENERATION_H
#define FT_EDGE_GENERATION_H

#include "edge/confidences.h"
#include "edge/drafting.h"
#include "edge/early.h"
#include "edge/edge.h"
#include "edge/edge_internal.h"
#include "edge/gen_timeline.h"
#include "edge/output.h"
#include "edge/record.h"
#include "edge/steer.h"
#include "edge/stream.h"
#include "edge/text_rule.h"
#include "edge/timing.h"

typedef enum ft_gen_state {
    FT_GEN_READY,      /* no round is outstanding: the next must be prepared */
    FT_GEN_TREE,       /* a tree's verdict is awaited */
    FT_GEN_TREE_EARLY, /* the same; the tree is a part of an early draft */
    FT_GEN_RUN,        /* a run's next verdict is awaited */
    FT_GEN_RUN_NEXT,   /* the same; the next run was already asked for */
    FT_GEN_ENDED,
    FT_GEN_N_STATES,
    FT_GEN_ILLEGAL = FT_GEN_N_STATES /* in the table: the event cannot come in this state */
} ft_gen_state;

typedef enum ft_gen_event {
    FT_GEN_ASK_TREE,    /* a tree was drafted: it is the outstanding round */
    FT_GEN_ASK_RUN,     /* a run is the outstanding round */
    FT_GEN_ASK_NEXT,    /* the next run was asked for during a run */
    FT_GEN_MORE,        /* a verdict of a run came that is not its last */
    FT_GEN_OVER,        /* a round's last verdict came */
    FT_GEN_EARLY_TAKEN, /* the same, and the next round has begun with an early draft */
    FT_GEN_LOST,        /* the stream was lost */
    FT_GEN_END,
    FT_GEN_N_EVENTS
} ft_gen_event;

/* The state after an event; FT_GEN_ILLEGAL where the event cannot come. */
ft_gen_state ft_gen_next(ft_gen_state state, ft_gen_event event);

/* The outstanding round. */
typedef struct ft_gen_round {
    ft_client_msg msg;  /* its Draft, kept to be sent again */
    uint32_t run_left;  /* RUN, RUN_NEXT: tokens still to come */
    uint32_t next_run;  /* RUN_NEXT: tokens of the next run */
    uint32_t together;  /* of the last verdict: joint drafts of this one's batch in its pass, */
    uint32_t verify_us; /* and how long the pass took; */
    uint32_t read_tok;  /* tokens of the text that were read before it, */
    uint32_t read_us;   /* and for how long */
} ft_gen_round;

typedef struct ft_gen {
    ft_edge *edge;
    const ft_gen_request *request;
    ft_sampling sampling; /* of its drafts: the request's, with a matcher under a constraint */
    bool lacks_grammar;   /* that matcher's grammar is being compiled */
    ft_gen_stats *stats;
    int64_t start_us;
    bool cancelled;   /* by the sink */
    bool reads_later; /* the draft model will read the prompt behind the first token */
    ft_edge_start start;
    ft_gen_state state;
    ft_tokens text; /* prompt and everything generated, an end token included */
    ft_gen_round out;
    ft_server_msg *held; /* a message that came and was not looked at yet; NULL: none */
    int64_t held_us;     /* when it was read */
    ft_text_rule rule;
    ft_confidences confidences;
    ft_stream stream;
    ft_timing timing;
    ft_drafting drafting;
    ft_steer steer;
    ft_rule_seen seen; /* of this text's rule */
    ft_early early;
    ft_output output;
    ft_record record;
    ft_gen_timeline timeline;
} ft_gen;

/* Makes a generation in READY for a checked request; sends nothing. FT_EXHAUSTED: too many are
 * running; FT_NOMEM. All arguments are borrowed until ft_gen_destroy. */
FT_WARN_UNUSED ft_status ft_gen_create(ft_edge *edge, const ft_gen_request *request,
                                       const ft_gen_sink *sink, ft_gen_stats *stats, ft_error *err,
                                       ft_gen **out);
/* Ends the generation: closes the stream, frees the drafter, completes the statistics. */
void ft_gen_end(ft_gen *gen, ft_status status);
/* NULL is legal. */
void ft_gen_destroy(ft_gen *gen);

/* Goes to the state after the event. The other fields of `gen` must already fit that state. */
void ft_gen_happened(ft_gen *gen, ft_gen_event event);
/* Asserts the invariants; debug builds run it after every event. */
void ft_gen_check(const ft_gen *gen);

/* Whether the outstanding round is a tree; whether it is a run. */
bool ft_gen_in_tree(const ft_gen *gen);
bool ft_gen_in_run(const ft_gen *gen);
/* Whether it drafts while a verdict is awaited. */
bool ft_gen_drafts_ahead(const ft_gen *gen);
/* Before a round is chosen: takes the constraint's grammar if it has been compiled since. */
void ft_gen_match(ft_gen *gen);
/* The speed to ask the server for, tokens/s; 0: none. */
float ft_gen_speed(const ft_gen *gen);
/* The time on the edge's clock. */
int64_t ft_gen_now_us(const ft_gen *gen);
/* Asks the sink; once true, it stays true. */
bool ft_gen_cancelled(ft_gen *gen);
/* Records the cost of a shadow that was just drafted. */
void ft_gen_measure_shadow(ft_gen *gen);

#endif
