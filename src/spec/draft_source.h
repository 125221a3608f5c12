/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a drafter's candidates come from. A source holds one text: n_past committed tokens, and
 * behind them *pending* nodes, numbered from 0 in the order in which they were computed, as in a
 * sequence of the engine (engine.h). For each token that it computes, it names the tokens that may
 * follow, best first.
 *
 * The draft model is a source (draft_engine.h), and so are the text's own n-grams (lookup.h), and
 * what a constraint forces (forced.h).
 * Benches have two others: one replays recorded drafts (bench/recording.h), one takes a slower
 * device's time (bench/paced.h).
 *
 * Owned by one thread at a time. Sources that share an engine are its owner thread's, all of them.
 */
#ifndef FT_SPEC_DRAFT_SOURCE_H
#define FT_SPEC_DRAFT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "spec/sampling.h"

#define FT_DRAFT_RANKED  16   /* children a source gives of a node at most */
#define FT_DRAFT_LEAVES  64   /* nodes of one request at most */
#define FT_DRAFT_FEED    2048 /* text tokens of one request at most */
#define FT_DRAFT_PENDING 512  /* pending nodes of a source at most */
#define FT_DRAFT_BATCH   256  /* requests of one forward at most */

/* A token that may follow, and the log of the chance that the target chooses it there, <= 0. */
typedef struct ft_draft_child {
    int32_t token;
    float logp;
} ft_draft_child;

typedef struct ft_draft_children {
    uint32_t n;          /* in falling order of logp */
    uint32_t n_evidence; /* bytes that go with each of them (rule.h) */
    ft_shape shape;      /* of the distribution that they are of; all-zero: not known */
    bool counted;        /* their chances are counts of what came, not a model's word */
    ft_draft_child at[FT_DRAFT_RANKED];
} ft_draft_children;

typedef struct ft_draft_source ft_draft_source;

/* One source's share of a forward. */
typedef struct ft_draft_request {
    ft_draft_source *source;
    uint32_t n;            /* tokens, 0 < n <= max_text or max_leaves of the source */
    const int32_t *tokens; /* [n] */
    /* NULL: the text's next tokens, which are committed at once; no node may be pending. Else [n]:
     * leaves that become pending; parents are pending numbers (new ones count on from n_pending),
     * less than the leaf's own, or -1: the text's last token. */
    const int32_t *parents;
    const uint16_t *depths; /* [n] of leaves: 0 where the parent is -1, else the parent's + 1 */
    /* out: [n] of leaves; [1] of text: behind its last token; NULL (text only): not wanted */
    ft_draft_children *children;
    /* Of leaves: bit i: nobody wants the children of leaf i, and they need not be filled in. */
    uint64_t unwanted;
    /* Only of a source that `forces`: answer the leaves, or the text, whose children need no
     * model. */
    bool forced_only;
    /* out: with forced_only: bit i: leaf i (of text: 0) was answered; the others were not computed:
     * those that were become pending in their order. */
    uint64_t answered;
    uint32_t round, resolution; /* as in ft_draw (rule.h) */
    /* out: where children are wanted, [n or 1, evidence_bytes of the source]; NULL where that is
     * 0 */
    uint8_t *evidence;
    ft_status
        status; /* out: FT_OK, or FT_EXHAUSTED: no room for this one, nothing of it happened */
} ft_draft_request;

typedef struct ft_draft_source_ops {
    void (*destroy)(ft_draft_source *source);
    /* One forward over n requests, 1 to FT_DRAFT_BATCH, of different sources of one group. Each
     * says in `status` what became of it; anything but FT_OK and FT_EXHAUSTED is the whole
     * call's. */
    ft_status (*forward)(ft_draft_request *requests, size_t n, ft_error *err);
    /* As ft_seq_commit. */
    ft_status (*commit)(ft_draft_source *source, const uint32_t *path, uint32_t n_path,
                        const uint32_t *keep, uint32_t n_keep, ft_error *err);
    /* As ft_seq_truncate. */
    void (*truncate)(ft_draft_source *source, uint32_t n_past);
    /* How many more tokens could be computed now; UINT32_MAX: no limit. Memory that others share
     * may go to them first. */
    uint32_t (*room_tok)(const ft_draft_source *source);
} ft_draft_source_ops;

/* What every kind begins with; filled in by its create, then read by the drafter. The kind keeps
 * n_past and n_pending up to date. */
struct ft_draft_source {
    const ft_draft_source_ops *ops;
    const void *group; /* sources of one group can share a forward */
    uint32_t n_ctx;    /* tokens of text that can be read */
    uint32_t n_vocab;
    uint32_t max_text, max_leaves; /* of one request; at most FT_DRAFT_FEED, FT_DRAFT_LEAVES */
    uint32_t evidence_bytes;       /* of a node at most; 0: there is none */
    bool by_round;                 /* draws depend on round and resolution (rule.h) */
    bool sparse;                   /* a token may have no children */
    bool forces;                   /* it knows forced_only */
    uint32_t total_tok;            /* what room_tok is when nothing is held */
    uint32_t n_past, n_pending;
};

/* NULL is legal. */
static inline void ft_draft_source_destroy(ft_draft_source *source)
{
    if (source)
        source->ops->destroy(source);
}

typedef struct ft_rule ft_rule;

/* Makes sources for drafters that draw by `rule` (borrowed, outlives them) and as `s` says; the
 * caller destroys them. Which threads may use them at once is the factory's to say; with an engine
 * behind it, one. */
typedef struct ft_draft_source_factory {
    void *ctx;
    ft_status (*create)(void *ctx, const ft_rule *rule, const ft_sampling *s, ft_error *err,
                        ft_draft_source **out);
    uint32_t n_ctx;     /* of its sources */
    int64_t forward_us; /* of a forward of theirs, where it is known beforehand; 0: it is not */
} ft_draft_source_factory;

#endif
