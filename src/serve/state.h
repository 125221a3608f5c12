/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier's state, which its files share. It belongs to the engine thread, except the parts
 * that the inbox's lock guards. No file outside src/serve includes this header.
 *
 * The files of the verifier, lowest layer first. A file calls only files that this list names
 * before it:
 *
 *   round_state, text, record   a round's states; a text; the record of the last verdict
 *   handle, session             a client's stream; a session
 *   judge                       walks down the trees of a pass
 *   answers                     publishes statistics, sends answers to clients
 *   slo, keys                   promises and tenants; limits of keys
 *   kv_room                     shares the KV pool
 *   own_draft                   the server drafts for runs
 *   drafts                      turns a message into an event of the round
 *   lifecycle                   opens, resumes, detaches, expires, ends sessions
 *   health                      whether the engine works
 *   batch, verdict              composes a batch; gives verdicts
 *   pass                        one pass: batch, forward, verdicts
 *   verifier                    creates, runs and stops the engine thread; takes calls
 */
#ifndef FT_SERVE_STATE_H
#define FT_SERVE_STATE_H

#include "constrain/grammars.h"
#include "engine/target.h"
#include "sched/admit.h"
#include "sched/await.h"
#include "sched/cost.h"
#include "sched/price.h"
#include "sched/together.h"
#include "serve/judge.h"
#include "serve/opts.h"
#include "serve/session.h"
#include "serve/stats.h"

typedef struct ft_own ft_own; /* own_draft.c */

/* Counts of a key. Opens are counted by result, since the verifier was created. Sessions are those
 * that exist now, detached ones included. */
typedef struct ft_key_count {
    char name[FT_KEY_NAME_SIZE];
#define F(kind, field, labels, help_name, help) uint64_t field;
    FT_KEY_STATS(F)
#undef F
} ft_key_count;

/* A session that has work for the next pass. */
typedef struct ft_need {
    ft_sess *session;
    uint32_t rows; /* of its verification, without rows for missing text; 0: none waits */
    bool out;      /* left out of this pass */
} ft_need;

/* Segments of a pass, and the sessions that they are of. Borrows the arrays. */
typedef struct ft_sess_part {
    ft_segment *segment; /* [n] */
    ft_sess **of;        /* [n] */
    size_t n;
} ft_sess_part;

/* The next pass. Its memory is allocated once. Needs that fit become work. Work that the policy
 * picks becomes segments. */
typedef struct ft_sess_batch {
    ft_need *needs;         /* [max_sessions] */
    ft_work *work;          /* [max_sessions] */
    ft_pick *picks;         /* [max_sessions] */
    ft_together *joint;     /* [max_sessions] joint drafts */
    ft_await_text *awaited; /* [max_sessions] whose work waits, or is expected */
    size_t n_awaited;
    size_t n_needs;   /* once the batch is composed, work[i] belongs to needs[i] */
    bool alone;       /* one session has work, and no other session is expected to have some soon */
    ft_sess_part all; /* the segments of the batch, arrays of max_rows */
    ft_sess_part segments; /* those of the pass: all, or a part after a failure (pass.c) */
    ft_pass pass;          /* the shape of the pass */
    ft_pass prompts;       /* the shape of its prompt chunks alone */
    bool spike;            /* once it was computed: the pass was one (sched/spike.h) */
    struct {
        int32_t *token, *parent; /* [max_rows] */
        uint64_t *want;          /* [max_rows] words, at least one a segment */
        size_t n, n_want;
    } rows;
    ft_tree *trees; /* [max_rows] one a walk; memory pages that no walk has used cost nothing */
    uint32_t *path; /* [max_rows] scratch space for a commit */
} ft_sess_batch;

/* The served model, as clients see it. */
typedef struct ft_served {
    const char *name;
    uint64_t fingerprint;
    uint32_t n_vocab;
    char kernels[FT_TARGET_KERNELS]; /* as ft_msg_info has them */
    uint64_t target;
} ft_served;

struct ft_verifier {
    ft_verifier_opts opts; /* defaults filled in */
    const ft_sched_policy *policy;
    ft_served model;
    ft_engine *engine;
    ft_judge *judge;
    ft_own *own;           /* NULL: no draft model */
    ft_grammars *grammars; /* NULL: constraints are refused */
    ft_sess_list sessions;
    ft_quota places; /* of sessions; detached ones have theirs, too */
    ft_sess_batch batch;
    ft_cost cost;         /* estimates the time of passes on this machine */
    int64_t warm_pass_us; /* as ft_verifier_pass_us; set at creation */
    int64_t warm_row_us;  /* as ft_verifier_row_us; likewise */
    ft_spikes spikes;
    double row_price;       /* recent price of a row (sched/price.h) */
    ft_price_speed speed;   /* of all texts */
    ft_gain usual_gain;     /* mean gain of rounds with a promise */
    ft_admit_behind behind; /* rounds with a promise (sched/admit.h) */
    bool failing;           /* the engine fails (health.h) */
    int64_t test_us;        /* while it fails: the time of the next self-test */
    struct {
        ft_tenant *first;
        double served_rows; /* rows computed recently for all tenants */
        uint8_t salt[16];   /* for the cache scopes of credentials */
    } tenants;
    ft_server_msg answer; /* the answer that is being given */
    int64_t began_us;     /* when the engine thread began */
    ft_verifier_stats stats;
    struct {
        ft_verifier_stats stats;
        ft_key_count *keys; /* [n_keys] one a key name that was used */
        size_t n_keys;
        ft_error failure; /* why the engine fails; FT_OK: it works */
    } published;          /* guarded by inbox.lock */
    ft_inbox inbox;
    bool started; /* the engine thread was started */
};

#endif
