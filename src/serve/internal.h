/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the verifier share: verifier.c (thread, events, callbacks), vsession.c (session
 * states), drafts.c (what edges ask for: rounds and runs), slo.c (what they were promised), keys.c (what a key may have), kv_room.c
 * (who gives way when blocks are short), groups.c (how many verifications a pass holds), own_draft.c
 * (the server's own drafts for runs), round.c (batches and verdicts) and judge.c (walks down the trees
 * of a pass).
 * Nothing outside src/serve includes this.
 *
 * Two lives: a *handle* (ft_vsession) is a client's stream, a *session* (ft_sess) is the text and its
 * KV. They part at detach and a resume joins a session with a new handle.
 *
 * Lock: `lock` of ft_verifier guards the fields that say so, in handles too. Everything else belongs
 * to the engine thread. No callback and no engine call is made under the lock.
 */
#ifndef FT_SERVE_INTERNAL_H
#define FT_SERVE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "sched/sched.h"
#include "serve/judge.h"
#include "serve/verifier.h"
#include "spec/sampling.h"
#include "spec/tree.h"

/* Prompt tokens still missing in KV that ride in one segment with the tree behind them at most, so
 * that a short prompt and its first round take one pass where no other session has to wait for it;
 * with a tree they stay below the pending nodes an engine allows. */
#define FT_LEAD_MAX (FT_PENDING_MAX - FT_TREE_MAX - 1)

/* Open texts may need this many times the pool: they rarely all need it at once, and one that gave
 * way is computed again. Beyond, recomputing would eat the server. */
#define FT_KV_OVERCOMMIT 4

/* An idle session whose last verdict or arrival is no older than this may send its draft any time:
 * prompts make room for it. Edges draft within a fraction of that. */
#define FT_ACTIVE_US 2000000

/* For refusals that other sessions' progress cures. */
#define FT_RETRY_AFTER_MS 1000

typedef enum event_kind { EVENT_OPEN, EVENT_DRAFT, EVENT_CLOSE, EVENT_DETACH } event_kind;

/* Lives in its handle: queueing never allocates. */
typedef struct event {
    struct event *next; /* guarded by lock while queued */
    ft_vsession *handle;
    event_kind kind;
    int64_t at_us;
} event;

typedef struct draft_slot {
    event ev;
    bool used; /* guarded by lock */
    bool seen; /* engine thread: handled before its event's turn */
    ft_msg_draft draft;
} draft_slot;

/* The next one and one ahead of it, each perhaps beside an early one whose event is not yet over; a client
 * waits for verdicts. */
#define FT_DRAFT_SLOTS 4

typedef struct ft_sess ft_sess;
typedef struct ft_own ft_own;
typedef struct ft_own_sess ft_own_sess;
typedef struct ft_tenant ft_tenant; /* a credential with open sessions */

struct ft_vsession {
    ft_verifier *verifier;
    ft_vclient client;
    char *credential;
    ft_key key; /* as it was then, or nobody's */
    ft_msg_open open;
    int32_t *prompt; /* [open.n_prompt], taken by the session */
    event open_ev, close_ev, detach_ev;
    draft_slot drafts[FT_DRAFT_SLOTS];
    bool closed, detached, flooded; /* guarded by lock */
    bool in_callback;               /* guarded by lock */
    ft_vsession *prev, *next;       /* guarded by lock */
    ft_sess *session;               /* NULL: not open yet, or gone */
};

/* State of a session, from its fields (ft_sess_state):
 *
 *   ENDED     finish is set; it holds no KV
 *   DETACHED  no handle; no work
 *   WAITING   a draft is pending, or a run goes on; KV may still miss tokens (prompt, or it gave way)
 *   PREFILL   wants its KV filled although no draft is there yet
 *   IDLE      otherwise; its KV may give way
 *
 * Invariants (ft_sess_check): 1 <= len <= max_len; outside a forward the sequence has no pending nodes
 * and n_past <= len - 1, since the text's last token is computed as the root of the next tree.
 *
 * A *run* is a round without an edge's tree: passes of one session, each with a verdict of that round, until
 * the text is run_end long or ends. Between two of them it is WAITING with base = len, and its place
 * in the order of service is new each time, so that runs and rounds take turns. One draft that fits
 * its end may wait behind it (`ahead`). A run's `tree` is empty or the server's own (own_draft.c).
 *
 * An *early* draft extends the tree whose verdict is awaited; it waits in `early` while the round is
 * pending and no longer: the verdict takes its part behind itself for the next round, or drops it. */
typedef enum sess_state {
    SESS_ENDED,
    SESS_DETACHED,
    SESS_WAITING,
    SESS_PREFILL,
    SESS_IDLE
} sess_state;

struct ft_sess {
    ft_verifier *verifier;
    ft_sess *prev, *next;
    uint64_t serial; /* names it in logs */
    ft_session_id id, secret;
    char *credential;
    ft_key key;          /* as it was when the session was opened, or nobody's */
    ft_vsession *handle; /* NULL: detached */
    ft_seq *seq;
    int32_t *text; /* [max_len]; pages that no token has reached cost nothing */
    uint32_t len, n_prompt;
    uint32_t max_len;    /* of the text, by max_tokens and context */
    bool prefix_counted; /* in the statistics of the prefix cache, since its KV was empty */
    ft_sampling sampling;
    uint32_t n_top; /* top_logprobs */
    bool want_kv;   /* fill the KV even without a draft */
    bool pending;   /* `tree` waits for its verdict */
    ft_tree tree;
    uint32_t round, base; /* of the pending draft; in a run the base moves along with the text */
    uint32_t draft_base;  /* where the round's draft hung */
    uint32_t run_end; /* of the text at the end of this or the last round's run; 0: had a tree */
    struct {
        bool kept;
        uint32_t run;
    } ahead;               /* the draft behind this run */
    uint32_t n_drafted;    /* nodes that the round's draft had... */
    uint32_t last_drafted; /* ...and that of the last answered round */
    ft_msg_draft early;    /* n = 0: none */
    uint32_t early_round;  /* that the last early draft was for; 0: none came */
    int64_t draft_at_us;   /* since when the pending draft or the run's next pass could have run */
    int64_t waits_at_us;   /* since when it waits for the engine: order of service */
    int64_t used_at_us;    /* last verdict or arrival */
    int64_t verdict_at_us; /* of the last verdict that no draft has followed yet; 0: none */
    int64_t answered_us;   /* last verdict; 0: none */
    int64_t free_us; /* the engine had nothing to do since then for the first time; 0: it had */
    double think_us; /* smoothed: from a verdict to the next draft; 0: not known */
    int64_t detached_at_us;
    ft_tenant *tenant;
    struct {
        uint32_t class;     /* FT_SLO_NONE: no promise */
        double gain_tok[2]; /* what a round with a tree, and a pass of a run, brought lately */
        double rows, tok;  /* of either, lately: computed, and what they brought; 0: none was yet */
        int64_t due_us;    /* of the pending draft's verdict, for its text's sake; 0: no promise */
        int64_t owed_us;   /* when its text is owed more */
        int64_t budget_us; /* and by its round alone (WISP eq. (6)) */
        int64_t first_us;  /* of the first verdict, 0: there was none */
        uint32_t first_len; /* and the text's length behind it */
    } slo;
    ft_finish finish;
    ft_msg_verdict last; /* of round last.round, 0: none; logprobs: own memory if asked for */
    ft_token_logprob *logprobs; /* [max_tree + 1], or NULL: not asked for */
    uint32_t last_base;         /* where that round's draft hung */
    ft_own_sess *own;           /* NULL: the server drafts nothing for it */
    bool last_whole;            /* `last` is all of that round, not a run's last part */
};

/* One pass in the making; allocated once. */
typedef struct need {
    ft_sess *session;
    uint32_t rows; /* of its verification, the missing text's not counted; 0: none waits */
    bool out;      /* not in this pass */
} need;

typedef struct batch {
    need *needs;    /* [max_sessions] */
    ft_work *work;  /* [max_sessions] */
    ft_pick *picks; /* [max_sessions] */
    ft_sess **of;   /* [max_sessions] the session of a work */
    size_t n_needs, n_work;
    ft_segment *segments; /* [max_rows] */
    ft_sess **seg_of;     /* [max_rows] */
    ft_work_kind *kinds;  /* [max_rows] of each segment */
    int32_t *tokens;      /* [max_rows] */
    int32_t *parent;      /* [max_rows] */
    uint64_t *want;       /* [max_rows] words, at least one a segment */
    uint32_t *path;       /* [max_rows] */
    size_t n_segments, n_rows, n_want;
    ft_pass pass;    /* its shape */
    ft_pass prompts; /* of it the prompts' part */
    bool alone;      /* one session has work, and no other is about to */
} batch;

struct ft_verifier {
    ft_verifier_opts opts; /* defaults filled in */
    const ft_sched_policy *policy;
    const char *model_name;
    uint64_t fingerprint;
    uint32_t n_vocab;
    ft_engine *engine;
    ft_judge *judge;
    uint8_t tenant_key[16];
    ft_sess *sessions; /* oldest first */
    ft_sess *sessions_tail;
    uint64_t next_serial;
    batch batch;
    ft_cost cost; /* of passes on this machine */
    ft_spikes spikes;
    double row_price; /* sched/price.h, of recent passes */
    ft_own *own;      /* NULL: no draft model */
    ft_verifier_stats stats;
    int64_t began_us; /* the engine thread, its waits not counted */
    ft_tenant *tenants;
    double served_rows;       /* rows computed lately, for all tenants */
    ft_key_count *key_counts; /* [n_key_counts] of names that were seen, guarded by lock */
    size_t n_key_counts;      /* guarded by lock */
    struct {
        double rows, gain_tok; /* of promised texts' rounds lately; 0: there was none */
        double tree_gain_tok;  /* of those with trees */
        double behind;         /* share of them that the server was too slow for (slo.c) */
    } usual;

    pthread_t thread;
    bool thread_started, lock_ready;
    pthread_mutex_t lock;
    pthread_cond_t wake;         /* the engine thread: something to do */
    pthread_cond_t changed;      /* others: a callback returned, a tick is done */
    event *queue, **queue_tail;  /* guarded by lock */
    bool stop;                   /* guarded by lock */
    uint64_t ticks, ticks_done;  /* guarded by lock */
    ft_vsession *handles;        /* guarded by lock */
    ft_verifier_stats published; /* guarded by lock */
};

/* ---- verifier.c: answers; engine thread ---- */

/* Makes the present statistics those that others see. */
void ft_verifier_publish(ft_verifier *v);
/* What clients are told that it takes. */
ft_msg_limits ft_verifier_limits(const ft_verifier *v);
/* Tell the client, unless it has closed or detached. Messages are borrowed by the call. */
void ft_handle_opened(ft_vsession *handle, const ft_msg_opened *opened);
void ft_handle_verdict(ft_vsession *handle, const ft_msg_verdict *verdict);
/* An early draft that came while the pass ran is in time for its verdict: handles it before its turn.
 * False: it ended the session. */
bool ft_sess_look(ft_sess *s);
/* The last callback of a handle; its session must have been parted from it. */
void ft_handle_gone(ft_vsession *handle, ft_status code, const char *message,
                    uint32_t retry_after_ms);

/* ---- vsession.c ---- */

/* What the events ask for, each with its time; refusals and endings reach the handle. */
void ft_sess_open(ft_verifier *v, ft_vsession *handle, int64_t now_us);
void ft_sess_detach(ft_sess *s, int64_t now_us);
/* Frees the session; its handle, if any, hears the code. */
void ft_sess_end(ft_sess *s, ft_status code, const char *message);
void ft_sess_free(ft_sess *s);
/* Ends detached sessions whose ttl is over. Returns the us until the next may be, < 0: none waits. */
int64_t ft_sessions_expire(ft_verifier *v, int64_t now_us);
sess_state ft_sess_state(const ft_sess *s);
/* Tokens of the text that KV lacks before its last one. */
uint32_t ft_sess_missing(const ft_sess *s);
/* Asserts the invariants in debug builds. */
void ft_sess_check(const ft_sess *s);

/* ---- drafts.c ---- */

/* A draft came: begins a round, is answered from the record, is kept behind a run, or ends the session
 * with what was wrong. flooded: more came than may be under way. */
void ft_sess_draft(ft_sess *s, const ft_msg_draft *draft, bool flooded, int64_t at_us);
/* `last` is all of this round, whose draft hung there. */
bool ft_sess_recorded(const ft_sess *s, uint32_t round, uint32_t base);
/* A pass has answered the pending draft: the run goes on, the draft behind it is taken over, or the
 * session has no work. */
void ft_sess_answered(ft_sess *s, int64_t now_us);
/* No draft is pending or kept any more. */
void ft_sess_withdraw(ft_sess *s);

/* ---- groups.c ---- */

/* The engine has nothing to do. */
void ft_sessions_rest(ft_verifier *v, int64_t now_us);
/* A pass that began at started_us answers the session: for how long others kept the engine from it behind
 * the verdict before; 0: there was none. Counts anew from now on. */
uint32_t ft_sess_others_us(ft_sess *s, int64_t started_us, int64_t now_us);

/* A draft came: how long its edge took since the last verdict. */
void ft_sess_thought(ft_sess *s, const ft_msg_draft *draft, int64_t at_us);
/* Verifications that the pass in the making should hold at most; 0: any number. */
uint32_t ft_round_cap(ft_verifier *v, int64_t now_us);

/* ---- keys.c ---- */

/* FT_FORBIDDEN: the class that is as fast as what was asked for is faster than what the key may have. */
FT_WARN_UNUSED ft_status ft_keys_check_speed(const ft_verifier *v, const ft_key *key,
                                             float tokens_per_s, ft_error *err);
/* Whether it has as many sessions, detached ones included, as it may. */
bool ft_keys_full(const ft_verifier *v, const ft_key *key);
/* A session is there; is gone; none was made. Not under the lock; nothing without a key. */
void ft_keys_count_opened(const ft_sess *s);
void ft_keys_count_gone(const ft_sess *s);
void ft_keys_count_refused(ft_verifier *v, const ft_key *key, ft_status why);

/* ---- slo.c ---- */

/* FT_INVALID: faster than what is promised to anybody; FT_EXHAUSTED: than can be promised now. */
FT_WARN_UNUSED ft_status ft_slo_admit(const ft_verifier *v, float tokens_per_s, ft_error *err);
/* The speed of the class that serves one that asks for so much: the slowest that is as fast; 0: none is. */
float ft_slo_speed(const ft_verifier *v, float tokens_per_s);
/* Puts an admitted session into its class. */
void ft_slo_init(ft_sess *s, float tokens_per_s);
/* Makes it one of its credential's, until it leaves. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_slo_join(ft_sess *s, ft_error *err);
void ft_slo_leave(ft_sess *s);
/* A draft came, or a run's next pass is due: when its verdict is. */
void ft_slo_due(ft_sess *s, uint32_t draft_us, uint32_t rtt_us, int64_t at_us);
/* What the policy has to know of it. */
void ft_slo_describe(const ft_sess *s, ft_work *work);
/* `last` is out. */
void ft_slo_answered(ft_sess *s, int64_t now_us);
/* A pass was computed. */
void ft_slo_served(ft_verifier *v);

/* ---- kv_room.c ---- */

/* Whose prefix cache a session with this credential shares, never 0; 0 without a cache. */
uint64_t ft_kv_tenant(const ft_verifier *v, const char *credential);
/* Takes what the prefix cache has of the text, where the session holds no KV. */
void ft_kv_attach(ft_sess *s);

/* Blocks that a text of n_tok tokens with the largest tree needs. */
uint32_t ft_kv_blocks_for(const ft_verifier *v, uint32_t n_tok);
/* FT_EXHAUSTED: the open texts and one more of n_tok tokens would want too much of the pool. */
FT_WARN_UNUSED ft_status ft_kv_admit(const ft_verifier *v, uint32_t n_tok, ft_error *err);
/* Attaches what comes back to work, marks out of the pass (need.out) what does not fit; makes others
 * give way so that the oldest need, needs[0], always fits. needs: in order of service. Returns the
 * free blocks. */
uint32_t ft_kv_make_room(ft_verifier *v, need *needs, size_t n);

/* ---- own_draft.c ---- */

/* Draft engine and all else for the draft model in v->opts. FT_PRECONDITION: its vocabulary is not the
 * target's; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_own_create(const ft_verifier *v, ft_error *err, ft_own **out);
/* All sessions must be gone. NULL is legal. */
void ft_own_destroy(ft_own *own);
/* Drafts trees for the runs in the batch's needs, where that pays, and corrects their rows. Before that
 * it reads texts with the draft model, which delays the pass by read_budget_us at most, as far as one
 * block of tokens allows (0: no limit). Returns the time that the reading took. */
int64_t ft_own_before_pass(ft_verifier *v, int64_t read_budget_us);
/* The pass has run, its trees are walked. */
void ft_own_after_pass(ft_verifier *v, int64_t expected_us, int64_t us);
/* `last` is the verdict on a run's pass, in nodes of `tree`: the drafter follows, and the verdict
 * becomes one of tokens alone. Of sessions without an own tree it changes nothing. */
void ft_own_verdict(ft_sess *s);
/* Frees what the session has of it. */
void ft_own_drop(ft_sess *s);
/* What a token of a run takes with drafts; 0: not known, or they don't pay. */
uint32_t ft_own_token_us(const ft_verifier *v);

/* ---- round.c ---- */

/* The batch's arrays and the judge, by the limits in v->opts; the engine is there. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_round_init(ft_verifier *v, ft_error *err);
/* All-zero is legal. */
void ft_round_deinit(ft_verifier *v);
/* One forward pass over what waits, and its verdicts. False: nothing waits, or only verifications that
 * the policy does not start before *look_us from now (< 0: there are none). */
bool ft_round_run(ft_verifier *v, int64_t *look_us);

#endif
