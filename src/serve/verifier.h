/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: target model, engine, scheduler and sessions, without a network. `foretoken serve`
 * puts the gRPC server on top (serve/server.h), `foretoken run` and tests call it in process.
 *
 * Threads: the verifier owns one engine thread; all sessions and the engine belong to it. Calls below
 * come from any thread, queue an event and return. Client callbacks run on the engine thread and must
 * not block; after on_gone no callback for that session comes any more.
 *
 *            open            draft             verdict
 *   (none) -------> PREFILL -------> WAITING -----------> IDLE --draft--> WAITING ...
 *      any state --detach--> DETACHED --open(resume)--> where it was   --ttl--> gone
 *      any state --close / failure--> gone
 */
#ifndef FT_SERVE_VERIFIER_H
#define FT_SERVE_VERIFIER_H

#include "base/clock.h"
#include "model/model.h"
#include "model/vocab.h"
#include "sched/sched.h"
#include "wire/messages.h"

typedef struct ft_verifier ft_verifier;
typedef struct ft_vsession ft_vsession;

typedef struct ft_verifier_opts {
    const ft_model *model;         /* borrowed */
    const ft_vocab *vocab;         /* borrowed */
    const ft_sched_policy *policy; /* NULL: fcfs */
    ft_clock clock;
    uint32_t max_context;   /* tokens a session at most; 0: the model's training context */
    uint32_t kv_tok;        /* pool size in tokens; 0: 16 times max_context */
    uint32_t max_batch_tok; /* 0: 512 */
    uint32_t max_prefill;   /* prompt rows a batch while verifications wait; 0: 128 */
    uint32_t max_tree;      /* 0: 64 */
    uint32_t max_sessions;  /* 0: 1024 */
    uint32_t session_ttl_s; /* how long detached sessions are kept */
    int n_threads;
    bool portable_attention;
} ft_verifier_opts;

/* Where a session's answers go. `opened` and `verdict` are borrowed during the call. */
typedef struct ft_vclient {
    void *ctx;
    void (*on_opened)(void *ctx, const ft_msg_opened *opened);
    void (*on_verdict)(void *ctx, const ft_msg_verdict *verdict);
    /* The session is gone: FT_OK after close, otherwise why. retry_after_ms: with FT_EXHAUSTED. */
    void (*on_gone)(void *ctx, ft_status code, const char *message, uint32_t retry_after_ms);
} ft_vclient;

FT_WARN_UNUSED ft_status ft_verifier_create(const ft_verifier_opts *opts, ft_error *err,
                                            ft_verifier **out);
/* Ends all sessions (on_gone UNAVAILABLE), stops the thread, frees. */
void ft_verifier_destroy(ft_verifier *verifier);

/* Opens or resumes. credential: whose session it is; a resume must present an equal one. The handle
 * stays valid until on_gone returned or ft_vsession_detach was called, whichever comes first.
 * Failures (wrong vocabulary, too long, full) come through on_gone, and only there. */
ft_vsession *ft_verifier_open(ft_verifier *verifier, const ft_msg_open *open,
                              const char *credential, const ft_vclient *client);
void ft_vsession_draft(ft_vsession *session, const ft_msg_draft *draft);
/* The stream is lost: its work is withdrawn, the session is kept for the ttl. No more callbacks once
 * this returned. */
void ft_vsession_detach(ft_vsession *session);
/* The edge is done or cancels: work and memory are free at once; on_gone follows. */
void ft_vsession_close(ft_vsession *session);

void ft_verifier_info(ft_verifier *verifier, ft_msg_info *out);

typedef struct ft_verifier_stats {
    uint64_t sessions_opened, sessions_gone, rounds, forwards, rows, tokens, accepted, drafted;
    uint32_t sessions, sessions_detached, kv_blocks, kv_blocks_free;
} ft_verifier_stats;
void ft_verifier_get_stats(ft_verifier *verifier, ft_verifier_stats *out);

#endif
