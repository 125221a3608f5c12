/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification rules. A rule says how a draft's tokens are drawn, which bytes go to the server with
 * each of them (its *evidence*), and which of them the text keeps. The rooms know rules only
 * through this header, and are told which rules there are (ft_verifier_opts.rules,
 * ft_edge_opts.rule). Every server and edge has rule_exact.c.
 *
 * A rule is constant, and its functions are pure: the outcome depends only on the arguments. Any
 * thread may call them; a workspace belongs to one thread at a time.
 */
#ifndef FT_SPEC_RULE_H
#define FT_SPEC_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "spec/draft_source.h"
#include "spec/penalties.h"
#include "spec/sampling.h"
#include "spec/tree.h"

/* What a rule allows and promises for one text. It may depend on the text's sampling: for instance,
 * a greedy text needs no evidence. */
typedef struct ft_rule_terms {
    bool trees; /* false: chains only, each node is the child of the node before it */
    /* The tokens that were drawn may decide which and how many of them are sent: by a predictor, a
     * depth that depends on them, an early draft, or a choice of proactively drafted nodes. False:
     * the number is fixed before the first token is drawn, and all of them are sent. */
    bool adaptive;
    /* A text that is opened anew continues with the same tokens. False: with tokens of the same
     * distribution. */
    bool same_tokens;
    bool by_round;           /* draws depend on ft_draw.round and resolution */
    uint32_t resolution;     /* of draws, unless somebody chooses another; 0: they have none */
    uint32_t evidence_bytes; /* of a node at most; 0: there is no evidence */
} ft_rule_terms;

/* A workspace for draws and walks, for one vocabulary. */
typedef struct ft_rule_work {
    uint32_t n_vocab;
    ft_sampler *sampler;
    ft_penalizer penalizer;
    float *room;   /* [n_vocab] for draws under a constraint */
    void *scratch; /* as large as the rule asks for; NULL: nothing was asked for */
} ft_rule_work;

/* Where draft tokens are drawn. */
typedef struct ft_draw {
    const ft_sampling *sampling;
    const float *logits; /* [n_vocab] of the draft model */
    ft_past past;        /* with penalties or a constraint: the tokens before `position` */
    uint32_t position;   /* of the drawn token in the text */
    uint32_t round;      /* the draft's; fixed, as the resolution, before its first draw */
    uint32_t resolution; /* of what goes into the evidence, in the rule's unit; 0: the terms' */
} ft_draw;

/* A draft behind a text, as the server has it. All of it is borrowed. */
typedef struct ft_drafted {
    const ft_tree *tree;
    const uint8_t *evidence; /* [n_evidence] of all nodes, see ft_evidence_append */
    uint32_t n_evidence;
    const ft_sampling *sampling;
    uint32_t position;   /* of the first drafted token in the text, i.e. the text's length */
    const int32_t *text; /* with penalties or a constraint: [position] */
} ft_drafted;

/* The state of a walk. All-zero: it has not begun. */
typedef struct ft_verified {
    uint32_t n_path;
    uint32_t path[FT_TREE_MAX]; /* accepted nodes from the root down */
    int32_t next;               /* the target's own token behind the path */
    const char
        *refused; /* what is wrong with the evidence that the walk met, static; NULL: nothing */
} ft_verified;

/* The logits of a draw, penalties applied, without what a constraint does not allow. The workspace
 * has them until its next use. */
const float *ft_rule_draw_logits(ft_rule_work *work, const ft_draw *draw);
/* Where a walk stands: the logits, penalties applied. */
const float *ft_rule_walk_logits(ft_rule_work *work, const ft_drafted *draft,
                                 const ft_verified *found, const float *logits);
/* Where a walk stands: the token that the target draws from these logits, under the constraint if
 * there is one. */
int32_t ft_rule_walk_token(ft_rule_work *work, const ft_drafted *draft, const ft_verified *found,
                           const float *logits);

/* Where the walk finds the target's logits: of(ctx, -1) for the text's last token, of(ctx, i) for
 * node i; [n_vocab] each; NULL: not yet computed. */
typedef struct ft_rows {
    const float *(*of)(void *ctx, int32_t node);
    void *ctx;
} ft_rows;

struct ft_rule {
    uint32_t id;      /* Open.rule on the wire */
    const char *name; /* in flags, logs and messages */
    /* s: NULL: of any sampling, with the largest evidence_bytes. */
    ft_rule_terms (*terms)(const ft_rule *rule, uint32_t n_vocab, const ft_sampling *s);
    /* Bytes of ft_rule_work.scratch; NULL: 0. */
    size_t (*scratch_bytes)(const ft_rule *rule, uint32_t n_vocab);
    /* The edge: the tokens to draft behind these logits, best first, each with the log of the
     * chance that the target takes it. All of them share one evidence [terms.evidence_bytes], of
     * which out->n_evidence bytes are written. No allocation. */
    void (*draw)(const ft_rule *rule, ft_rule_work *work, const ft_draw *draw,
                 ft_draft_children *out, uint8_t *evidence);
    /* The server: what is wrong with the form of a node's evidence [n], n <= evidence_bytes, as a
     * static string, or NULL. Must be cheap: it runs on the engine thread. A NULL pointer here: any
     * bytes are well formed. */
    const char *(*check)(const ft_rule *rule, const ft_drafted *draft, const uint8_t *evidence,
                         uint32_t n);
    /* The server: continues the walk `found` over a draft that passed ft_rule_check. True: the walk
     * is over, with `next` or with `refused`. False: the logits of the last node of its path are
     * missing: call again when they are there. No allocation. */
    bool (*walk)(const ft_rule *rule, ft_rule_work *work, const ft_drafted *draft, ft_rows rows,
                 ft_verified *found);
    /* The edge: the probability that the distribution in a node's evidence, which `draw` wrote,
     * gives to a token; below 0: the evidence does not say. NULL: it never does. No allocation. */
    float (*said)(const ft_rule *rule, ft_rule_work *work, const uint8_t *evidence, uint32_t n,
                  int32_t token);
};

/* The target's token at each position is drawn as if there were no draft. The text follows the tree
 * as long as some child is that token. It depends only on prompt, sampling and seed. */
extern const ft_rule ft_rule_exact;

/* Draft tokens are drawn from a lattice point (lattice.h), which is the evidence, and accepted with
 * probability min(1, p / q). Chains only. ft_draw.resolution is the point's l, at most
 * FT_RATIO_L_MAX. A server must trust its edges: one that lies about q steers its own text. */
extern const ft_rule ft_rule_ratio;
/* Bounds what a node's evidence takes, 0.9 KB with 49,152 tokens, and the time to decode it. */
#define FT_RATIO_L_MAX     1024u
#define FT_RATIO_L_DEFAULT 240u /* the smaller one of the paper's actions */

/* The bytes that a node's evidence takes in a draft, its length included, if its point takes so
 * many bits in code `index` and in code `adaptive`. Where both are about as long it may be a few
 * more. */
uint32_t ft_ratio_sent_bytes(uint32_t l, uint32_t index_bits, uint32_t adaptive_bits);

/* Lists of rules end with NULL: ft_rule_exact alone; all that there are. */
extern const ft_rule *const ft_rules_default[], *const ft_rules_all[];

#define FT_RULES_MAX 2 /* rules in ft_rules_all */

/* The rule of this id; NULL: not in the list. */
const ft_rule *ft_rule_find(const ft_rule *const *rules, uint32_t id);
/* The rule of this name [n]; NULL: not in the list. */
const ft_rule *ft_rule_named(const ft_rule *const *rules, const char *name, size_t n);

/* An early draft is a choice among drawn tokens, and carries no evidence. */
static inline bool ft_rule_takes_early(const ft_rule_terms *terms)
{
    return terms->adaptive && terms->evidence_bytes == 0;
}

/* A workspace for any of the rules. FT_NOMEM leaves *out NULL. */
FT_WARN_UNUSED ft_status ft_rule_work_create(const ft_rule *const *rules, uint32_t n_vocab,
                                             ft_error *err, ft_rule_work **out);
/* NULL is legal. */
void ft_rule_work_destroy(ft_rule_work *work);

/* ---- evidence ---- */

/* A draft's evidence is that of its nodes in order. Before each stands its length, a varint of at
 * most three bytes. Appends one node's evidence. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_evidence_append(ft_buf *out, const uint8_t *evidence, uint32_t n);
/* A node's, in a draft that passed ft_rule_check. NULL: there is none. */
const uint8_t *ft_evidence_of(const ft_drafted *draft, uint32_t node, uint32_t *n);
/* The most bytes of a draft of so many nodes, under any of the rules and any sampling. */
size_t ft_evidence_most(const ft_rule *const *rules, uint32_t n_vocab, uint32_t n_nodes);
/* So many nodes' evidence always fits into max_bytes. */
uint32_t ft_evidence_nodes(const ft_rule_terms *terms, uint32_t max_bytes);

/* What a server checks before it computes anything from a draft: the tree's shape, and size and
 * form of the evidence. The tree passed ft_tree_check. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_rule_check(const ft_rule *rule, const ft_rule_terms *terms,
                                       const ft_drafted *draft, ft_error *err);

#endif
