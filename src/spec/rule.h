/* SPDX-License-Identifier: Apache-2.0
 *
 * Verification rules. A rule says how a draft's tokens are drawn, what goes with each of them to
 * the server (its *evidence*), and which of them the text keeps. The rooms know rules through this
 * header alone, and are told which rules there are (ft_verifier_opts.rules, ft_edge_opts.rule).
 * rule_exact.c is the rule that every server and edge has.
 *
 * All of a rule is constant and all of its functions are pure: the outcome depends on the arguments
 * only. Any thread may call them; a workspace belongs to one thread at a time.
 */
#ifndef FT_SPEC_RULE_H
#define FT_SPEC_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "spec/draft_source.h"
#include "spec/sampling.h"
#include "spec/tree.h"

/* What a rule allows and promises for one text. It may depend on the text's sampling: a greedy text
 * needs no evidence, for instance. */
typedef struct ft_rule_terms {
    bool trees; /* false: each node hangs on the node before it */
    /* Tokens that were drawn may decide which of them are sent, and how many: by a predictor, a
     * depth that follows them, an early draft, a choice among what was drafted ahead. False: how
     * many are sent is fixed before the first of them is drawn, and all are sent. */
    bool adaptive;
    /* A text that is opened anew goes on with the tokens that it would have had. False: with tokens
     * of the same law. */
    bool same_tokens;
    bool by_round;           /* draws depend on ft_draw.round and resolution */
    uint32_t evidence_bytes; /* of a node at most; 0: there is no evidence */
} ft_rule_terms;

/* A workspace for draws and walks, for one vocabulary. */
typedef struct ft_rule_work {
    uint32_t n_vocab;
    ft_sampler *sampler;
    void *scratch; /* as large as the rule asks for; NULL: nothing was asked for */
} ft_rule_work;

/* Where draft tokens are drawn. */
typedef struct ft_draw {
    const ft_sampling *sampling;
    const float *logits; /* [n_vocab] of the draft model */
    uint32_t position;   /* of the drawn token in the text */
    uint32_t round;      /* the draft's; fixed, as the resolution, before its first draw */
    uint32_t resolution; /* of what goes into the evidence, in the rule's unit; 0: its default */
} ft_draw;

/* A draft behind a text, as the server has it. All of it is borrowed. */
typedef struct ft_drafted {
    const ft_tree *tree;
    const uint8_t *evidence; /* [n_evidence] of all nodes, see ft_evidence_append */
    uint32_t n_evidence;
    const ft_sampling *sampling;
    uint32_t position; /* of the first drafted token in the text, i.e. the text's length */
} ft_drafted;

/* How far a walk has come. All-zero: it has not begun. */
typedef struct ft_verified {
    uint32_t n_path;
    uint32_t path[FT_TREE_MAX]; /* accepted nodes from the root down */
    int32_t next;               /* the target's own token behind the path */
    const char
        *refused; /* NULL, or what is wrong with the evidence that the walk came to; static */
} ft_verified;

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
    /* The edge: the tokens to draft behind these logits, best first, with the log of the chance
     * that the target takes each. One evidence goes with all of them: evidence
     * [terms.evidence_bytes], of which out->n_evidence are written. No allocation. */
    void (*draw)(const ft_rule *rule, ft_rule_work *work, const ft_draw *draw,
                 ft_draft_children *out, uint8_t *evidence);
    /* The server: NULL, or what is wrong with the form of a node's evidence [n], n <=
     * evidence_bytes; static. Cheap: it runs on the thread of all sessions. NULL: any bytes are
     * well formed. */
    const char *(*check)(const ft_rule *rule, const ft_drafted *draft, const uint8_t *evidence,
                         uint32_t n);
    /* The server: goes on from where `found` stands, over a draft that passed ft_rule_check. True:
     * the walk is over, with `next` or with `refused`. False: the logits of the node that it has
     * come to, the last of its path, are not there: call again when they are. No allocation. */
    bool (*walk)(const ft_rule *rule, ft_rule_work *work, const ft_drafted *draft, ft_rows rows,
                 ft_verified *found);
};

/* The target's token at each position is drawn as if there were no draft; the text follows the tree
 * while a child equals it. The text depends on prompt, sampling and seed alone. */
extern const ft_rule ft_rule_exact;

/* Lists of rules end with NULL. This one: ft_rule_exact alone. */
extern const ft_rule *const ft_rules_default[];

/* The rule of this id; NULL: not in the list. */
const ft_rule *ft_rule_find(const ft_rule *const *rules, uint32_t id);

/* Early drafts hold tokens that were drawn beside those that are sent, and no evidence. */
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

/* A draft's evidence is that of its nodes in order, each behind its length, a varint of at most
 * three bytes. Appends a node's. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_evidence_append(ft_buf *out, const uint8_t *evidence, uint32_t n);
/* A node's, in a draft that passed ft_rule_check. NULL: there is none. */
const uint8_t *ft_evidence_of(const ft_drafted *draft, uint32_t node, uint32_t *n);
/* Bytes of a draft of so many nodes at most; under any of the rules, whatever the sampling. */
size_t ft_evidence_most(const ft_rule *const *rules, uint32_t n_vocab, uint32_t n_nodes);
/* Nodes whose evidence surely fits into so many bytes. */
uint32_t ft_evidence_nodes(const ft_rule_terms *terms, uint32_t max_bytes);

/* What a server asks of a draft before it computes anything from it: the tree's shape, the
 * evidence's size and form. The tree passed ft_tree_check. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_rule_check(const ft_rule *rule, const ft_rule_terms *terms,
                                       const ft_drafted *draft, ft_error *err);

#endif
