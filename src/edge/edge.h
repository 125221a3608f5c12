/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge agent: drafts with a small model, lets a verifier check, hands out text. One ft_edge = one
 * vocabulary, one draft engine (or none) and one way to a verifier. Generations run in the thread that
 * calls ft_edge_generate; several may run at once and take turns at the draft engine (a lock: whoever
 * holds it is the engine's owner thread).
 *
 * A lost stream is resumed; if the server does not know the session any more, it is re-opened with the
 * text so far, and rule `exact` makes the text go on unchanged.
 */
#ifndef FT_EDGE_EDGE_H
#define FT_EDGE_EDGE_H

#include <stdbool.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "edge/link.h"
#include "learn/trace.h"
#include "model/model.h"
#include "model/vocab.h"
#include "spec/control.h"
#include "spec/drafter.h"
#include "spec/sampling.h"

typedef struct ft_edge ft_edge;

typedef struct ft_edge_opts {
    const ft_vocab *vocab; /* borrowed */
    const ft_model
        *draft_model; /* borrowed; NULL: never draft (plain remote decoding), but for... */
    /* Drafts from elsewhere than a model of the edge's own: create not NULL and no draft_model. Each
     * generation makes a source and uses it on its thread, several at the same time. */
    ft_draft_source_factory drafts;
    ft_link_source source;
    ft_draft_params draft;
    /* Whether to draft, how many nodes and how deep is decided by what is measured (spec/control.h);
     * budget and depth of `draft` are upper limits then. */
    bool automatic;
    /* Of automatic. Without, trees have `draft.budget` nodes, and AUTO stands for `draft.depth` forwards
     * each, the others for as many at most. LATENCY, and AUTO of automatic while others do not keep the
     * server busy, also end a draft before its depth where a further forward would bring less than its
     * time is worth (spec/stop.h). */
    ft_depth_rule depth_rule;
    /* Drafts while a verdict is waited for: ahead of it, and in runs what the controller wants to know.
     * For a draft model that does not take its time from the target. */
    bool proactive;
    /* With proactive: sends a part of what was drafted ahead before the verdict on the tree that is out, where
     * the server understands that: it goes on with that part at once if it fits the verdict. */
    bool early;
    ft_clock clock;
    ft_kv_type draft_kv_type;
    uint32_t draft_kv_tok;    /* draft KV pool in tokens; 0: 4 times max_context of the server */
    uint32_t max_generations; /* at once; 0: 64 */
    int n_threads;            /* of the draft engine */
    uint32_t reconnect_ms;    /* how long a lost verifier is tried again; 0: 10,000 */
    float slo_tokens_per_s;   /* the token speed that the server is asked to promise; 0: none */
    ft_trace *trace;          /* borrowed; where drafts and verdicts are kept; NULL: nowhere */
} ft_edge_opts;

/* Asks the verifier for Info: FT_PRECONDITION with both fingerprints where the vocabulary is
 * not the server's. */
FT_WARN_UNUSED ft_status ft_edge_create(const ft_edge_opts *opts, ft_error *err, ft_edge **out);
/* All generations must have returned. */
void ft_edge_destroy(ft_edge *edge);
/* What Info said at creation. */
const ft_msg_info *ft_edge_server_info(const ft_edge *edge);
/* The trace store it was given, or NULL. */
ft_trace *ft_edge_trace(const ft_edge *edge);
/* FT_OK if the verifier answers; asked again at most every two seconds. Any thread. */
FT_WARN_UNUSED ft_status ft_edge_health(ft_edge *edge, ft_error *err);

typedef struct ft_gen_token {
    int32_t id;
    bool has_logprob;
    ft_token_logprob logprob;
} ft_gen_token;

/* Where a generation's output goes; called in the generating thread. Return false to stop. */
typedef struct ft_gen_sink {
    void *ctx;
    /* New text (complete UTF-8, may be empty) and the tokens that came with it. */
    bool (*on_text)(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens);
    /* Asked often, in prefill and while waiting: true ends the generation (FT_CANCELLED). */
    bool (*cancelled)(void *ctx);
} ft_gen_sink;

typedef struct ft_gen_request {
    const int32_t *prompt; /* [n_prompt], n_prompt > 0 */
    uint32_t n_prompt;
    ft_sampling sampling;
    uint32_t max_tokens; /* 0: until the context is full */
    const char *const *stops;
    size_t n_stops;
    bool logprobs;
    uint32_t top_logprobs;
    bool no_speculation;    /* never draft in this generation */
    float slo_tokens_per_s; /* the token speed to be promised; 0: the edge's own */
    const char *
        tenant; /* of a server in this process: the name of the key that it is for; NULL: nobody's */
    ft_progress progress; /* of prefill, in tokens */
} ft_gen_request;

typedef struct ft_gen_stats {
    ft_finish finish; /* STOP also for a stop string */
    uint32_t tokens;  /* generated, an end-of-generation token not counted */
    uint32_t rounds;  /* drafts that were verified */
    uint32_t drafted, accepted, reconnects;
    uint32_t runs, run_tokens;           /* of tokens that the server made by itself */
    uint64_t depth_sum;                  /* of the drafts' levels */
    int64_t ttft_us, total_us;           /* from the call */
    int64_t draft_us, wait_us;           /* wait: for verdicts, drafting ahead included */
    uint64_t bytes_sent, bytes_received; /* as ft_call_bytes counts them */
    /* Of the draft model; `ahead` is proactive drafting (SpecEdge 4.2): */
    uint64_t forwards, ahead_forwards;
    uint64_t heads;   /* trees whose head was drafted from ahead of the verdict */
    uint64_t aligned; /* of them: the accepted path ended in the head */
    uint64_t matched; /* of these: and the server's own token was drafted below it */
    uint64_t ahead_nodes, ahead_kept; /* computed below heads; of them, those that were used on */
    uint32_t early_sent, early_taken; /* early drafts; rounds that began with a part of one */
    uint32_t retry_after_ms; /* with an error: what the server said of trying again; 0: nothing */
} ft_gen_stats;

/* SpecEdge eq. (1), P_align * P_match|align * (T_draft / H_expan - 1) with one head, H_expan = 1, and
 * T_draft the mean of nodes drafted ahead a head: expected tokens a round that need no drafting any
 * more. 0 where nothing was drafted ahead. */
double ft_gen_ahead_gain(const ft_gen_stats *stats);

/* Blocks until the text ends, the sink stops it (FT_OK, finish STOP) or it fails. *stats is filled in
 * any case. Any number of threads may call it at once, up to max_generations (FT_EXHAUSTED). */
FT_WARN_UNUSED ft_status ft_edge_generate(ft_edge *edge, const ft_gen_request *request,
                                          const ft_gen_sink *sink, ft_error *err,
                                          ft_gen_stats *stats);

#endif
