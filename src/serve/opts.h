/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a verifier.
 */
#ifndef FT_SERVE_OPTS_H
#define FT_SERVE_OPTS_H

#include "base/clock.h"
#include "base/kept_file.h"
#include "base/timeline.h"
#include "engine/engine.h"
#include "model/model.h"
#include "model/vocab.h"
#include "sched/cost_file.h"
#include "sched/promise.h"
#include "sched/sched.h"
#include "serve/stats.h"
#include "spec/drafter.h"
#include "spec/rule.h"
#include "wire/keyring.h"

/* Of the server's own drafts: the most rows, and the most rows with logits, of one forward of the
 * draft model over all sessions. A level with more rows takes several forwards. A row with logits
 * costs 4 bytes of memory for each token of the vocabulary. 256 such rows are 8 leaves for each of
 * 32 sessions. */
#define FT_OWN_DRAFT_ROWS   512
#define FT_OWN_DRAFT_LOGITS 256

typedef struct ft_verifier_opts {
    const ft_model *model;         /* borrowed */
    const ft_vocab *vocab;         /* borrowed */
    const ft_sched_policy *policy; /* NULL: ft_sched_default */
    ft_clock clock;
    ft_kept_place kept;   /* where times of passes are kept for the next process */
    uint32_t max_context; /* the longest text in tokens; 0: the model's training context. Lowered to
                               that context, and to what the pool can hold for one session */
    ft_kv_type kv_type;
    uint32_t kv_tok;        /* pool size in tokens; 0: 16 times max_context */
    uint32_t max_batch_tok; /* 0: 512 */
    uint32_t max_logits;    /* most rows of a pass that want logits; 0: max_batch_tok */
    ft_streamed *streamed;  /* borrowed; as in ft_engine_opts */
    ft_turn *turn;          /* borrowed; as in ft_engine_opts */
    /* The most time by which prompt chunks may delay the rounds in a pass; 0: 50,000. A chunk of
     * the smallest size may take longer. */
    uint32_t prefill_budget_us;
    const ft_costs *costs; /* measured pass times to start with; borrowed in create; may be NULL */
    /* The token speeds that may be promised, one a class (Open.slo_tokens_per_s); n_slo 0: no
     * promises. */
    float slo_tokens_per_s[FT_SLO_CLASSES];
    uint32_t n_slo;
    ft_keyring *keys; /* keys and their limits; borrowed while the verifier lives; NULL: none */
    uint32_t static_batch, static_wait_us; /* of the policy `static`; 0: 8 verifications, 100,000 */
    /* A promised verdict is planned this long before it is due, because estimates are not exact
     * (WISP eq. (17)). */
    uint32_t guard_us;
    /* Rules that Open may name; ends with NULL; NULL: ft_rules_default. Borrowed while the verifier
     * lives. */
    const ft_rule *const *rules;
    uint32_t max_tree;      /* the most nodes of a tree; 0: 64 */
    uint32_t max_sessions;  /* 0: 1024 */
    uint32_t client_share;  /* percent of max_sessions that one client may have; 0: all */
    uint32_t session_ttl_s; /* how long detached sessions are kept */
    uint32_t idle_s; /* a session whose client has sent nothing for so long is detached; 0: never */
    ft_timeline *timeline; /* borrowed; gets every pass, with times of `clock`; NULL: none */
    int n_threads;
    bool portable_attention;
    bool no_prefix_cache; /* sessions do not take over KV from others of the same credential */
    /* With a draft model, the server drafts trees for runs where this saves time. */
    const ft_model *draft_model; /* borrowed; NULL: none */
    const ft_vocab
        *draft_vocab;      /* borrowed; from the draft model's file, to compare with `vocab` */
    ft_draft_params draft; /* for these trees; its budget is lowered to max_tree */
    uint32_t draft_kv_tok; /* the draft model's pool in tokens; 0: as the target's */
    bool draft_always;     /* for measurements: full trees even if that is slower */
} ft_verifier_opts;

#endif
