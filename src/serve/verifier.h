/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: target model, engine, scheduler and sessions, without a network. `foretoken serve`
 * puts the gRPC server on top (serve/server.h), `foretoken run` and tests call it in process.
 *
 * Threads: the verifier owns one engine thread; all sessions and the engine belong to it. Calls below
 * come from any thread, queue an event and return. Client callbacks run on the engine thread and must
 * not block. Calls on a handle must not overlap each other.
 *
 * Locks: the verifier has one lock, held for queue operations only and never during callbacks, so
 * callers may hold their own locks in calls. One exception: ft_vsession_detach waits for a callback of
 * that handle that is running, so its caller must hold no lock that its callbacks take.
 *
 *            open            draft             verdict
 *   (none) -------> PREFILL -------> WAITING -----------> IDLE --draft--> WAITING ...
 *                                    |     ^
 *                                    \-----/ a run: a verdict, more of it follow
 *      any state --detach--> DETACHED --open(resume)--> where it was   --ttl--> gone
 *      any state --close / failure--> gone
 */
#ifndef FT_SERVE_VERIFIER_H
#define FT_SERVE_VERIFIER_H

#include "base/clock.h"
#include "engine/engine.h"
#include "model/model.h"
#include "model/vocab.h"
#include "sched/cost_file.h"
#include "sched/sched.h"
#include "sched/spike.h"
#include "spec/drafter.h"
#include "wire/keyring.h"
#include "wire/messages.h"

typedef struct ft_verifier ft_verifier;
typedef struct ft_vsession ft_vsession;

#define FT_SLO_CLASSES 8
#define FT_SLO_NONE    FT_SLO_CLASSES /* no promise */

typedef struct ft_verifier_opts {
    const ft_model *model;         /* borrowed */
    const ft_vocab *vocab;         /* borrowed */
    const ft_sched_policy *policy; /* NULL: fcfs */
    ft_clock clock;
    uint32_t max_context; /* tokens of a text at most; 0: the model's training context, to which
                               and to what the pool holds for one session it is lowered */
    ft_kv_type kv_type;
    uint32_t kv_tok;        /* pool size in tokens; 0: 16 times max_context */
    uint32_t max_batch_tok; /* 0: 512 */
    /* Prompts delay nobody's round by more than this, as far as one pass of the model allows; 0:
     * 50,000. */
    uint32_t prefill_budget_us;
    const ft_costs *costs; /* of passes, to start from; borrowed in create; NULL: it learns them */
    /* Token speeds that may be promised, by class (Open.slo_tokens_per_s); none: nothing is promised. */
    float slo_tokens_per_s[FT_SLO_CLASSES];
    uint32_t n_slo;
    ft_keyring
        *keys; /* whose sessions have limits; borrowed while the verifier lives; NULL: none */
    uint32_t static_batch, static_wait_us; /* of policy static; 0: 8 verifications, 100,000 */
    uint32_t
        guard_us; /* by which promises are kept early: what estimates may be off (WISP eq. (17)) */
    uint32_t max_tree;      /* 0: 64 */
    uint32_t max_sessions;  /* 0: 1024 */
    uint32_t session_ttl_s; /* how long detached sessions are kept */
    int n_threads;
    bool portable_attention;
    bool no_prefix_cache; /* sessions never take over what others of their credential computed */
    /* With a draft model the server drafts for sessions in runs, where that pays. */
    const ft_model *draft_model; /* borrowed; NULL: none */
    const ft_vocab *draft_vocab; /* borrowed; of the draft model's file, to compare */
    ft_draft_params draft;       /* of a tree; its budget is lowered to max_tree */
    uint32_t draft_kv_tok;       /* the draft's pool in tokens; 0: as the target's */
    bool draft_always; /* trees of full size, also where they do not pay: for measurements */
} ft_verifier_opts;

/* Where a session's answers go. `opened` and `verdict` are borrowed during the call. */
typedef struct ft_vclient {
    void *ctx;
    void (*on_opened)(void *ctx, const ft_msg_opened *opened);
    void (*on_verdict)(void *ctx, const ft_msg_verdict *verdict);
    /* The session is gone: FT_OK after close, otherwise why. retry_after_ms: with FT_EXHAUSTED. */
    void (*on_gone)(void *ctx, ft_status code, const char *message, uint32_t retry_after_ms);
} ft_vclient;

/* Makes engine and KV pool, starts the thread. FT_INVALID: limits that contradict each other;
 * FT_PRECONDITION: model and vocabulary are of different files, the draft's
 * vocabulary is not the target's; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_verifier_create(const ft_verifier_opts *opts, ft_error *err,
                                            ft_verifier **out);
/* Ends all sessions (on_gone UNAVAILABLE), stops the thread, frees, handles too. No other call may be
 * under way or follow. NULL is legal. */
void ft_verifier_destroy(ft_verifier *verifier);

/* Opens or resumes. credential: whose session it is; a resume must present an equal one; copied. key:
 * the one of opts.keys that it came with, copied, whose limits a new session must keep (FT_FORBIDDEN: too
 * fast a promise, FT_EXHAUSTED: too many sessions); NULL: nobody's, only the server's limits hold. The
 * handle is the caller's until ft_vsession_detach, which is called exactly once for each, also after
 * close and on_gone. Failures (wrong vocabulary, too long, full) come through on_gone, and only
 * there; a handle that is NULL (out of memory) has no callbacks. */
ft_vsession *ft_verifier_open(ft_verifier *verifier, const ft_msg_open *open,
                              const char *credential, const ft_key *key, const ft_vclient *client);
/* Copies. One draft may be under way a session, behind a run one without nodes that hangs on the
 * run's end, and behind a tree one early one; a repeated last round gets its verdict again, unless it was a
 * run of several passes.
 * Anything else ends the session with a message that says what was wrong. */
void ft_vsession_draft(ft_vsession *session, const ft_msg_draft *draft);
/* The edge is done or cancels: work and memory are free as soon as a forward under way is over, whose
 * result is dropped; on_gone follows. */
void ft_vsession_close(ft_vsession *session);
/* Gives the handle back. No more callbacks once this returned (called inside one: once that
 * returned). A session that is neither closed nor gone has lost its stream: its work is withdrawn, it
 * is kept for the ttl and can be resumed. NULL is legal. */
void ft_vsession_detach(ft_vsession *session);

/* Returns when the engine thread has handled all calls made before and has compared its clock with
 * the ttl of detached sessions, which it otherwise does by itself; for manual clocks. Not from
 * callbacks. */
void ft_verifier_tick(ft_verifier *verifier);

/* What Info answers. Any thread. */
void ft_verifier_info(ft_verifier *verifier, ft_msg_info *out);

#define FT_VERIFIER_SIZES 13 /* classes of sizes: at most 1, 2, 4, ... 2048 rows, and more */

/* Of a class: verdicts and finished texts, and those that were as fast as promised. A verdict is if it
 * is out within its budget (WISP eq. (6)), a text by its tokens behind the first verdict. */
typedef struct ft_slo_count {
    uint64_t rounds, rounds_met, texts, texts_met;
} ft_slo_count;

/* Counts since creation, sums of microseconds, and what is now. */
typedef struct ft_verifier_stats {
    uint64_t sessions_opened, sessions_gone, sessions_refused;
    uint64_t rounds; /* verdicts; a run has one a pass */
    uint64_t forwards, rows, tokens;
    uint64_t run_tokens;        /* of them those that the server made without an edge's tree */
    uint64_t accepted, drafted; /* of edges' trees */
    /* Early drafts: of which the verdict took the next round's tree, which held nothing behind it, and which
     * came when it was out. */
    uint64_t early_taken, early_missed, early_late;
    /* Of the server's own: time for drafting, the draft model's passes and their rows, nodes. */
    uint64_t own_us, own_forwards, own_rows, own_drafted, own_accepted;
    uint64_t kv_released;      /* times that a session's KV gave way to another's */
    uint64_t heads, head_rows; /* runs of the output head; rows whose logits were computed */
    uint64_t prefill_rows, prefill_chunks;
    uint64_t passes_by_rows[FT_VERIFIER_SIZES], chunks_by_rows[FT_VERIFIER_SIZES];
    /* Tokens of texts whose KV was empty when their turn came, those of them that the prefix cache had,
     * and cached blocks that gave way. */
    uint64_t prefix_lookup_tok, prefix_hit_tok, prefix_evicted;
    uint64_t queue_us, verify_us;           /* of all rounds */
    uint64_t forward_us, head_us, judge_us; /* of all passes */
    /* Time that the engine thread waited although some session had a stream and an unfinished text,
     * and what it spent on neither that, passes, verdicts nor its own drafts: events, callbacks, making
     * batches. */
    uint64_t idle_us, rest_us;
    uint64_t predicted_us,
        predict_miss_us;              /* of all passes: what they were expected to take, and by
                                               how much that was wrong, either way */
    double cost_error, cost_bias;     /* recent, over what passes took (ft_cost); 0: no pass yet */
    uint64_t spikes[FT_SPIKE_CAUSES]; /* passes by what made them much longer than others before */
    uint64_t passes_capped; /* passes that left verifications to the next, for the sake of groups */
    uint32_t groups;        /* of sessions that take turns in passes, 1 or 2; 0: no pass yet */
    ft_slo_count slo[FT_SLO_CLASSES];
    float slo_tokens_per_s[FT_SLO_CLASSES]; /* of the n_slo classes */
    uint32_t n_slo;
    uint32_t sessions, sessions_detached;
    uint32_t kv_blocks, kv_blocks_free, kv_blocks_cached; /* cached ones are among the free */
} ft_verifier_stats;
/* As of the last pass, callback or tick, or later. */
void ft_verifier_get_stats(ft_verifier *verifier, ft_verifier_stats *out);

/* Of a key: opens since creation, by what became of them, and sessions now, detached ones included. */
typedef struct ft_key_count {
    char name[FT_KEY_NAME_SIZE];
    uint64_t opened, forbidden, exhausted;
    uint32_t sessions;
} ft_key_count;
/* opts.keys; NULL: none. */
ft_keyring *ft_verifier_keys(const ft_verifier *verifier);
/* The counts of a name. Any thread. */
ft_key_count ft_verifier_key_count(ft_verifier *verifier, const char *name);
/* Those of all keys that hold now and, behind them, of others that still have sessions, into *out, which the
 * caller frees. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_verifier_list_keys(ft_verifier *verifier, ft_key_count **out,
                                               size_t *n);

#endif
