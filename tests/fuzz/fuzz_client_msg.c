// SPDX-License-Identifier: Apache-2.0
// What a server reads from an edge. Whatever decodes must keep the promises of the header, and must
// be the same message after another trip over the wire.
#include <stdlib.h>
#include <string.h>

#include "spec/penalties.h"
#include "wire/early.h"
#include "wire/messages.h"

static const ft_wire_limits limits = {
    .n_vocab = 3000, .max_context = 256, .max_tree = 32, .max_evidence_bytes = 100};

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_open(const ft_msg_open *open)
{
    require(open->n_prompt <= limits.max_context);
    require(open->resume == (open->n_prompt == 0));
    for (uint32_t i = 0; i < open->n_prompt; i++)
        require((uint32_t)open->prompt[i] < limits.n_vocab);
    require(open->sampling.temperature >= 0 && open->sampling.top_p <= 1);
    ft_error err;
    require(ft_penalties_check(&open->penalties, limits.n_vocab, &err) == FT_OK);
    require(open->n_answer <= open->n_prompt);
    const ft_constraint *c = &open->constraint;
    require(c->kind < FT_CONSTRAINT_KINDS && c->n <= FT_CONSTRAINT_MAX_BYTES);
    require((c->n > 0) == (c->kind > FT_CONSTRAINT_JSON_OBJECT));
    require(c->n == 0 || memchr(c->data, c->data[c->n - 1], c->n)); /* all of it is there */
    require(memchr(open->model, 0, sizeof open->model) != NULL);
}

/* Whatever a verdict says, what is cut out is a tree. */
static void check_early(const ft_msg_draft *early)
{
    ft_msg_draft out;
    ft_error err;
    require(early->n > 0 && early->n_under <= early->n);
    for (uint32_t i = 0, top = 0; i < early->n; i++) {
        if (early->parent[i] >= 0)
            continue;
        out = (ft_msg_draft){0};
        ft_early_behind(early, early->under[top++], early->token[i], &out);
        require(out.n < early->n);
        for (uint32_t k = 0; k < out.n; k++)
            require(out.parent[k] >= -1 && out.parent[k] < (int32_t)k);
    }
    out = (ft_msg_draft){0};
    if (ft_early_check(early, 40, &err) == FT_OK)
        for (uint32_t i = 0; i < early->n_under; i++)
            require(early->under[i] < 40);
}

static void check_draft(const ft_msg_draft *draft)
{
    require(draft->round > 0 && draft->n <= limits.max_tree);
    require(draft->run <= FT_WIRE_RUN_MAX && (draft->run == 0 || draft->n == 0));
    for (uint32_t i = 0; i < draft->n; i++) {
        require((uint32_t)draft->token[i] < limits.n_vocab);
        require(draft->parent[i] >= -1 && draft->parent[i] < (int32_t)i);
    }
    require(draft->n_evidence <= limits.max_evidence_bytes);
    require((draft->n_evidence == 0) == (draft->evidence == NULL));
    require(draft->n_evidence == 0 || (draft->n > 0 && draft->n_under == 0));
    require(draft->together <= FT_WIRE_JOINT_MAX);
    require(draft->together == 0 || draft->n_under == 0);
    if (draft->n_under > 0)
        check_early(draft);
}

static void check_same_draft(ft_msg_draft a, ft_msg_draft b)
{
    require(a.n_evidence == b.n_evidence);
    require(a.n_evidence == 0 || memcmp(a.evidence, b.evidence, a.n_evidence) == 0);
    a.evidence = b.evidence = NULL;
    require(memcmp(&a, &b, sizeof a) == 0);
}

static void check_same(const ft_client_msg *a, const ft_client_msg *b)
{
    require(a->kind == b->kind);
    if (a->kind == FT_CLIENT_DRAFT)
        check_same_draft(a->draft, b->draft);
    if (a->kind == FT_CLIENT_OPEN) {
        require(a->open.n_prompt == b->open.n_prompt);
        for (uint32_t i = 0; i < a->open.n_prompt; i++)
            require(a->open.prompt[i] == b->open.prompt[i]);
        require(a->open.rule == b->open.rule);
        require(a->open.target == b->open.target);
        require(strcmp(a->open.model, b->open.model) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_client_msg *msg = NULL, *again = NULL;
    uint8_t *wire = NULL;
    size_t wire_len = 0;
    ft_error err;
    if (ft_client_msg_decode(data, n, &limits, &err, &msg) != FT_OK) {
        require(msg == NULL);
        return 0;
    }
    if (msg->kind == FT_CLIENT_OPEN)
        check_open(&msg->open);
    if (msg->kind == FT_CLIENT_DRAFT)
        check_draft(&msg->draft);
    require(ft_client_msg_encode(msg, &err, &wire, &wire_len) == FT_OK);
    require(ft_client_msg_decode(wire, wire_len, &limits, &err, &again) == FT_OK);
    check_same(msg, again);
    free(wire);
    ft_client_msg_free(again);
    ft_client_msg_free(msg);
    return 0;
}
