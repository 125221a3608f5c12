/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge: drafts with a small model, lets a verifier check the drafts, returns text. An ft_edge
 * has one vocabulary, one draft engine (or none) and one verifier, or several of one model. A
 * generation runs in the thread that calls ft_edge_generate. Several may run at once; they lock the
 * draft engine while they use it (edge/engine_lock.h).
 *
 * A lost stream is resumed. If the server does not know the session any more, or cannot be reached
 * and there is another one, the edge opens the text so far anew. Whether the text then gets the
 * same tokens as without the loss depends on its rule (ft_gen_stats.same_tokens).
 *
 * A fallback target is a verifier in this process that takes texts while no server does
 * (edge/offline.h). If no server is there at creation, the edge begins with it.
 */
#ifndef FT_EDGE_EDGE_H
#define FT_EDGE_EDGE_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/kept_file.h"
#include "base/constraint.h"
#include "base/sink.h"
#include "base/timeline.h"
#include "edge/link.h"
#include "edge/stats.h"
#include "engine/engine.h"
#include "learn/policy.h"
#include "learn/trace.h"
#include "model/model.h"
#include "model/vocab.h"
#include "spec/control.h"
#include "spec/drafter.h"
#include "spec/sampling.h"

/* Rows of a forward of its draft engine: a tree's widest level, and a prompt chunk. At most
 * FT_DRAFT_LEAVES of them want logits. */
#define FT_EDGE_DRAFT_ROWS FT_TREE_MAX

/* Of a server that does not offer constraints. */
#define FT_NO_CONSTRAINTS                                                                      \
    "the verification server takes no constraints (JSON, grammars): it needs foretoken 0.1.0 " \
    "or later, built with XGrammar"

typedef struct ft_edge ft_edge;

/* What drafts. */
typedef enum ft_draft_by {
    FT_DRAFT_BY_AUTO,   /* the model, if there is one; in texts with a prediction lookups, too */
    FT_DRAFT_BY_MODEL,  /* the model alone */
    FT_DRAFT_BY_LOOKUP, /* the text's own n-grams and its prediction (spec/lookup.h) */
    FT_DRAFT_BY_BOTH
} ft_draft_by;

/* Expected times of a target's pass; 0: not known. */
typedef struct ft_edge_pass {
    int64_t us, row_us; /* with one row; what one more row adds */
} ft_edge_pass;

typedef struct ft_edge_opts {
    const ft_vocab *vocab;       /* borrowed */
    const ft_model *draft_model; /* borrowed; NULL: drafts come from `drafts`, or there are none */
    /* Used if `create` is set and there is no draft_model. Each generation makes a source and uses
     * it on its own thread; several do so at the same time. */
    ft_draft_source_factory drafts;
    /* Lookups are of use in texts whose drafts carry no evidence (spec/rule.h) alone. */
    ft_draft_by draft_by;
    /* Texts under a constraint: what it forces is drafted without a model (spec/forced.h), also
     * where nothing else drafts. True: it is not. */
    bool no_forced;
    ft_link_source source; /* the first server */
    /* Further servers, tried in this order while those before them cannot take a text; at most
     * FT_SERVERS_MAX in all. All must serve one model, of this vocabulary. */
    const ft_link_source *more; /* [n_more], copied */
    uint32_t n_more;
    /* Takes texts that no server has taken for fallback_ms, until one would; NULL: none. Copied; it
     * counts among FT_SERVERS_MAX. Its target may have a name of its own. */
    const ft_link_source *fallback;
    uint32_t fallback_ms; /* 0: 2,000 */
    const ft_rule *rule;  /* borrowed; the rule of texts if the server offers it; NULL or not
                            offered: the rule that every server offers */
    /* `rule`, which is `ratio`, or the rule that every server offers: for each text the one that
     * promises more tokens a second (spec/rule_choice.h). */
    bool rule_auto;
    ft_draft_params draft;
    /* Borrowed. Chooses length and l of drafts that carry points (rule `ratio`), within the limits
     * of `draft`, while the uplink's rate is known; before that `draft` says both. NULL: it always
     * does. */
    const ft_policy *policy;
    /* With `automatic`: draft.predictor ends drafts only where it was measured that rounds with it
     * bring more tokens a second than rounds without it (spec/measured.h). */
    bool predictor_if_pays;
    /* The controller decides from measured times whether to draft, how many nodes and how deep
     * (spec/control.h). Budget and depth of `draft` are upper limits then. */
    bool automatic;
    /* How deep to draft. Without `automatic` a tree has `draft.budget` nodes; AUTO means exactly
     * `draft.depth` forwards a tree, the other rules at most so many. LATENCY also ends a draft
     * early if one more forward would bring less than its time is worth (spec/depth.h). So does
     * AUTO with `automatic`. FALLBACK ends a draft that is in doubt. */
    ft_depth_rule depth_rule;
    float alpha; /* of FALLBACK, as in ft_fallback_begin */
    /* Draft while a verdict is awaited: below the outstanding tree, and shadows in runs. Use it if
     * the draft model does not slow down the target. */
    bool proactive;
    /* With `proactive`: beside a target in this process only while a draft takes a good part of a
     * round, as the two share the processor (ft_control_drafts_long). */
    bool proactive_if_long;
    /* With `proactive`: send a part of that work before the verdict (edge/early.h), if the server
     * supports early drafts. */
    bool early;
    ft_clock clock;
    ft_kv_type draft_kv_type;
    uint32_t draft_kv_tok;    /* draft KV pool in tokens; 0: 4 times max_context of the server */
    uint32_t max_generations; /* at once; 0: 64 */
    int n_threads;            /* of the draft engine */
    ft_edge_pass verify;      /* if the verifier is in this process */
    ft_edge_pass fallback_verify; /* of the fallback target */
    ft_turn *turn;                /* of the draft engine: as in ft_engine_opts; borrowed */
    /* A text that must be opened anew on another target (ft_msg_opened.target) ends. Without it the
     * text goes on, and its statistics say so. */
    bool require_same_target;
    uint32_t reconnect_ms;  /* for how long lost verifiers are tried again; 0: 120,000 */
    float slo_tokens_per_s; /* the token speed to ask the server for; 0: none */
    /* Of the uplink; 0: it is estimated from round trips (spec/uplink.h). */
    double uplink_bits_per_s;
    ft_trace *trace;       /* borrowed; records drafts and verdicts; NULL: nothing is recorded */
    ft_timeline *timeline; /* borrowed; gets what each round did (gen_timeline.h), with times of
                              `clock`; NULL: none */
    ft_kept_place kept;    /* where what was learnt is kept for the next process (edge/kept.h) */
} ft_edge_opts;

/* Asks the verifiers for Info, until one answers and fits, the fallback target last.
 * FT_PRECONDITION, with both fingerprints: the vocabulary is not the server's, or predictor or
 * policy are not for this draft model. */
FT_WARN_UNUSED ft_status ft_edge_create(const ft_edge_opts *opts, ft_error *err, ft_edge **out);
/* All generations must have returned. */
void ft_edge_destroy(ft_edge *edge);
/* As of creation, of the first server that answered. */
const ft_msg_info *ft_edge_server_info(const ft_edge *edge);
/* Of its draft engine, so far; all zeros without one. Waits for a generation that drafts. Any
 * thread. */
void ft_edge_draft_stats(ft_edge *edge, ft_engine_stats *out);
/* The trace store it was given, or NULL. */
ft_trace *ft_edge_trace(const ft_edge *edge);
/* Has the constraint compiled for drafts, so that this client's first text need not wait for it;
 * waits for at most wait_us. Nothing happens where drafts do not know constraints. client: as in
 * ft_gen_request. FT_TIMEOUT; errors of ft_grammars_wait. Any thread. */
FT_WARN_UNUSED ft_status ft_edge_compile(ft_edge *edge, const ft_constraint *constraint,
                                         const ft_client_id *client, int64_t wait_us,
                                         ft_error *err);
/* FT_OK if a verifier answers. It is asked at most every two seconds. Any thread. */
FT_WARN_UNUSED ft_status ft_edge_health(ft_edge *edge, ft_error *err);

typedef struct ft_gen_request {
    const int32_t *prompt; /* [n_prompt], n_prompt > 0 */
    uint32_t n_prompt;
    ft_sampling sampling; /* its answer_at is n_prompt */
    /* What the text must be; its bytes are borrowed. The rule that every server offers is its. */
    ft_constraint constraint;
    uint32_t max_tokens; /* 0: until the context is full */
    const char *const *stops;
    size_t n_stops;
    bool logprobs;
    uint32_t top_logprobs;
    const int32_t *spelled; /* [n_spelled] special tokens that are text here */
    size_t n_spelled;
    bool no_speculation;   /* never draft in this generation */
    bool no_server_drafts; /* nor shall the server by itself, in runs */
    /* What the answer may look like, for lookups. Text does not depend on it. */
    const int32_t *prediction; /* [n_prediction] */
    uint32_t n_prediction;
    float slo_tokens_per_s; /* the token speed to ask the server for; 0: the edge's */
    /* A number that texts have in common if they begin in the same way; a proxy brings them to one
     * server by it. 0: made of the whole prompt. */
    uint64_t prefix;
    /* For whom this process asks: counts what its constraints take, and in one process with the
     * server names its key. Borrowed; NULL: for itself. */
    const ft_client_id *client;
    ft_progress progress; /* of prefill, in tokens */
} ft_gen_request;

/* Blocks until the text ends, the sink stops it (FT_OK, finish STOP) or it fails. *stats is always
 * filled. Up to max_generations threads may call it at once (more: FT_EXHAUSTED). */
FT_WARN_UNUSED ft_status ft_edge_generate(ft_edge *edge, const ft_gen_request *request,
                                          const ft_gen_sink *sink, ft_error *err,
                                          ft_gen_stats *stats);

#endif
