// SPDX-License-Identifier: Apache-2.0
// The codec (codec_client.c, codec_server.c): random messages round-trip, drafts are compact, and
// everything an outsider can get wrong is refused with a reason that names the field.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "foretoken.pb-c.h"
#include "wire/early.h"
#include "wire/messages.h"

#define ROUNDS 300

static const ft_wire_limits limits = {
    .n_vocab = 49152, .max_context = 2048, .max_tree = 64, .max_evidence_bytes = 500};

typedef struct bytes {
    uint8_t *data;
    size_t n;
} bytes;

static bytes encode_client(const ft_client_msg *msg)
{
    bytes out = {0};
    ft_error err = {0};
    assert_int_equal(ft_client_msg_encode(msg, &err, &out.data, &out.n), FT_OK);
    return out;
}

static bytes pack_client(Foretoken__V1__ClientMessage *pb)
{
    bytes out;
    out.n = foretoken__v1__client_message__get_packed_size(pb);
    out.data = malloc(out.n + 1);
    foretoken__v1__client_message__pack(pb, out.data);
    return out;
}

static bytes pack_open(Foretoken__V1__Open *open)
{
    Foretoken__V1__ClientMessage message = FORETOKEN__V1__CLIENT_MESSAGE__INIT;
    message.kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_OPEN;
    message.open = open;
    return pack_client(&message);
}

static bytes pack_draft(Foretoken__V1__Draft *draft)
{
    Foretoken__V1__ClientMessage message = FORETOKEN__V1__CLIENT_MESSAGE__INIT;
    message.kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_DRAFT;
    message.draft = draft;
    return pack_client(&message);
}

static bytes pack_verdict(Foretoken__V1__Verdict *verdict)
{
    Foretoken__V1__ServerMessage message = FORETOKEN__V1__SERVER_MESSAGE__INIT;
    message.kind_case = FORETOKEN__V1__SERVER_MESSAGE__KIND_VERDICT;
    message.verdict = verdict;
    bytes out;
    out.n = foretoken__v1__server_message__get_packed_size(&message);
    out.data = malloc(out.n + 1);
    foretoken__v1__server_message__pack(&message, out.data);
    return out;
}

/* Takes the bytes; the decoder must refuse them with the code, and name the field. */
static void refuse_client(bytes in, ft_status code, const char *part)
{
    ft_client_msg *msg = NULL;
    ft_error err = {0};
    ft_status status = ft_client_msg_decode(in.data, in.n, &limits, &err, &msg);
    if (status != code || !strstr(err.message, part))
        fail_msg("wanted %s with \"%s\", got %s: %s", ft_status_name(code), part,
                 ft_status_name(status), err.message);
    assert_int_equal(err.code, code);
    assert_null(msg);
    free(in.data);
}

static void refuse_server(bytes in, ft_status code, const char *part)
{
    ft_server_msg *msg = NULL;
    ft_error err = {0};
    ft_status status = ft_server_msg_decode(in.data, in.n, &err, &msg);
    if (status != code || !strstr(err.message, part))
        fail_msg("wanted %s with \"%s\", got %s: %s", ft_status_name(code), part,
                 ft_status_name(status), err.message);
    assert_null(msg);
    free(in.data);
}

static void random_draft(ft_rng *rng, ft_msg_draft *draft, uint32_t n)
{
    memset(draft, 0, sizeof *draft);
    draft->round = 1 + ft_rng_below(rng, 1000);
    draft->base = ft_rng_below(rng, limits.max_context + 1);
    draft->n = n;
    bool chain = ft_rng_below(rng, 2);
    for (uint32_t i = 0; i < n; i++) {
        draft->token[i] = (int32_t)ft_rng_below(rng, limits.n_vocab);
        draft->parent[i] = (int32_t)(chain ? i : ft_rng_below(rng, i + 1)) - 1;
    }
    draft->run = n ? 0 : ft_rng_below(rng, FT_WIRE_RUN_MAX + 1);
    draft->draft_us = ft_rng_below(rng, 1000000);
    draft->rtt_us = ft_rng_below(rng, 1000000);
    draft->together = ft_rng_below(rng, 2) ? ft_rng_below(rng, FT_WIRE_JOINT_MAX + 1) : 0;
    draft->batch = ft_rng_u32(rng);
}

static void test_draft_round_trip(void **state)
{
    uint8_t evidence[500];
    ft_rng rng;
    ft_rng_init(&rng, 1);
    for (int round = 0; round < ROUNDS; round++) {
        ft_client_msg in = {.kind = FT_CLIENT_DRAFT}, *out = NULL;
        random_draft(&rng, &in.draft, ft_rng_below(&rng, limits.max_tree + 1));
        for (size_t i = 0; i < sizeof evidence; i++)
            evidence[i] = (uint8_t)ft_rng_u32(&rng);
        if (in.draft.n > 0 && ft_rng_below(&rng, 2))
            in.draft.n_evidence = 1 + ft_rng_below(&rng, limits.max_evidence_bytes);
        in.draft.evidence = in.draft.n_evidence ? evidence : NULL;
        bytes wire = encode_client(&in);
        ft_error err = {0};
        assert_int_equal(ft_client_msg_decode(wire.data, wire.n, &limits, &err, &out), FT_OK);
        assert_int_equal(out->kind, FT_CLIENT_DRAFT);
        if (in.draft.n_evidence)
            assert_memory_equal(out->draft.evidence, evidence, in.draft.n_evidence);
        out->draft.evidence = in.draft.evidence;
        assert_memory_equal(&out->draft, &in.draft, sizeof in.draft);
        ft_client_msg_free(out);
        free(wire.data);
    }
}

/* The first `n_under` nodes are the ones with no parent in it, and differ in token. */
static void random_early(ft_rng *rng, ft_msg_draft *draft)
{
    random_draft(rng, draft, 2 + ft_rng_below(rng, limits.max_tree - 1));
    draft->n_under = 1 + ft_rng_below(rng, draft->n);
    draft->together = 0;
    for (uint32_t i = 0; i < draft->n; i++) {
        draft->token[i] = (int32_t)(100 * i + ft_rng_below(rng, 100));
        draft->parent[i] = i < draft->n_under ? -1 : (int32_t)ft_rng_below(rng, i);
    }
    for (uint32_t i = 0; i < draft->n_under; i++)
        draft->under[i] = (uint8_t)ft_rng_below(rng, FT_WIRE_TREE_MAX);
}

static void test_early_round_trip(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 8);
    for (int round = 0; round < ROUNDS; round++) {
        ft_client_msg in = {.kind = FT_CLIENT_DRAFT}, *out = NULL;
        ft_error err = {0};
        random_early(&rng, &in.draft);
        bytes wire = encode_client(&in);
        assert_int_equal(ft_client_msg_decode(wire.data, wire.n, &limits, &err, &out), FT_OK);
        assert_memory_equal(&out->draft, &in.draft, sizeof in.draft);
        ft_client_msg_free(out);
        free(wire.data);
    }
}

/* Two tops of one token under different nodes; below one of them a chain, below the other two
 * siblings. */
static void test_early_behind(void **state)
{
    const ft_msg_draft early = {.n = 7,
                                .token = {5, 5, 6, 7, 8, 9, 5},
                                .parent = {-1, -1, 0, 2, 1, 1, 3},
                                .n_under = 2,
                                .under = {3, 4}};
    ft_msg_draft out = {.round = 9};
    ft_error err = {0};
    assert_int_equal(ft_early_check(&early, 5, &err), FT_OK);
    assert_int_equal(ft_early_check(&early, 4, &err), FT_INVALID);
    ft_early_behind(&early, 3, 5, &out);
    assert_int_equal(out.n, 3);
    assert_memory_equal(out.token, ((int32_t[]){6, 7, 5}), 3 * sizeof *out.token);
    assert_memory_equal(out.parent, ((int32_t[]){-1, 0, 1}), 3 * sizeof *out.parent);
    assert_int_equal(out.round, 9);
    ft_early_behind(&early, 4, 5, &out);
    assert_int_equal(out.n, 2);
    assert_memory_equal(out.token, ((int32_t[]){8, 9}), 2 * sizeof *out.token);
    assert_memory_equal(out.parent, ((int32_t[]){-1, -1}), 2 * sizeof *out.parent);
    ft_early_behind(&early, 3, 6, &out);
    assert_int_equal(out.n, 0);
    ft_early_behind(&early, 2, 5, &out);
    assert_int_equal(out.n, 0);
}

static void random_open(ft_rng *rng, ft_msg_open *open, int32_t *prompt)
{
    memset(open, 0, sizeof *open);
    open->protocol = ft_rng_below(rng, 3);
    open->vocab_fingerprint = ((uint64_t)ft_rng_u32(rng) << 32) | ft_rng_u32(rng);
    snprintf(open->model, sizeof open->model, "model-%u", ft_rng_u32(rng));
    open->sampling.temperature = (float)ft_rng_unit(rng);
    open->sampling.top_p = (float)ft_rng_unit(rng);
    open->sampling.min_p = (float)ft_rng_unit(rng);
    open->sampling.top_k = ft_rng_below(rng, 100);
    open->sampling.seed = ft_rng_u32(rng);
    open->slo_tokens_per_s = (float)(100 * ft_rng_unit(rng));
    open->rule = ft_rng_below(rng, 4) ? 0 : ft_rng_u32(rng) >> 1;
    open->max_tokens = ft_rng_below(rng, 1000);
    open->logprobs = ft_rng_below(rng, 2);
    open->top_logprobs = ft_rng_below(rng, FT_WIRE_TOP_MAX + 1);
    open->target = ft_rng_below(rng, 2) ? ((uint64_t)ft_rng_u32(rng) << 32) | ft_rng_u32(rng) : 0;
    open->no_drafts = ft_rng_below(rng, 2);
    open->has_nonce = ft_rng_below(rng, 2);
    for (int i = 0; i < FT_SESSION_ID_LEN && open->has_nonce; i++)
        open->nonce.bytes[i] = (uint8_t)ft_rng_u32(rng);
    open->resume = ft_rng_below(rng, 2);
    if (!open->resume && ft_rng_below(rng, 2)) {
        ft_penalties *p = &open->penalties;
        p->presence = (float)(4 * ft_rng_unit(rng) - 2);
        p->frequency = (float)(4 * ft_rng_unit(rng) - 2);
        p->repetition = ft_rng_below(rng, 2) ? 0 : 1 + (float)ft_rng_unit(rng);
        p->n_bias = ft_rng_below(rng, 4);
        for (uint32_t i = 0; i < p->n_bias; i++) {
            p->bias_token[i] = (int32_t)(2 * i + ft_rng_below(rng, 2));
            p->bias[i] = (float)(200 * ft_rng_unit(rng) - 100);
        }
        open->n_answer = ft_rng_below(rng, 2);
    }
    if (open->resume) {
        for (int i = 0; i < FT_SESSION_ID_LEN; i++) {
            open->session.bytes[i] = (uint8_t)ft_rng_u32(rng);
            open->secret.bytes[i] = (uint8_t)ft_rng_u32(rng);
        }
        open->base = ft_rng_below(rng, limits.max_context + 1);
        return;
    }
    open->n_prompt = 1 + ft_rng_below(rng, limits.max_context);
    for (uint32_t i = 0; i < open->n_prompt; i++)
        prompt[i] = (int32_t)ft_rng_below(rng, limits.n_vocab);
    open->prompt = prompt;
    if (ft_rng_below(rng, 2)) {
        const ft_constraint c[] = {{FT_CONSTRAINT_JSON_OBJECT, NULL, 0},
                                   {FT_CONSTRAINT_JSON_SCHEMA, "{}", 2},
                                   {FT_CONSTRAINT_REGEX, "a|b", 3},
                                   {FT_CONSTRAINT_CALL, "[]", 2}};
        open->constraint = c[ft_rng_below(rng, 4)];
    }
}

static void check_same_constraint(const ft_constraint *a, const ft_constraint *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->n, b->n);
    if (a->n)
        assert_memory_equal(a->data, b->data, a->n);
}

static void test_open_round_trip(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 2);
    static int32_t prompt[2048];
    for (int round = 0; round < ROUNDS; round++) {
        ft_client_msg in = {.kind = FT_CLIENT_OPEN}, *out = NULL;
        random_open(&rng, &in.open, prompt);
        bytes wire = encode_client(&in);
        ft_error err = {0};
        assert_int_equal(ft_client_msg_decode(wire.data, wire.n, &limits, &err, &out), FT_OK);
        free(wire.data);
        assert_int_equal(out->open.n_prompt, in.open.n_prompt);
        if (in.open.n_prompt)
            assert_memory_equal(out->open.prompt, prompt, in.open.n_prompt * sizeof *prompt);
        check_same_constraint(&out->open.constraint, &in.open.constraint);
        out->open.prompt = in.open.prompt;
        memcpy(&out->open.constraint, &in.open.constraint, sizeof in.open.constraint);
        assert_memory_equal(&out->open, &in.open, sizeof in.open);
        ft_client_msg_free(out);
    }
}

static void test_plain_kinds_round_trip(void **state)
{
    const ft_client_kind kinds[] = {FT_CLIENT_CANCEL, FT_CLIENT_CLOSE};
    for (size_t i = 0; i < 2; i++) {
        ft_client_msg in = {.kind = kinds[i]}, *out = NULL;
        bytes wire = encode_client(&in);
        ft_error err = {0};
        assert_int_equal(ft_client_msg_decode(wire.data, wire.n, &limits, &err, &out), FT_OK);
        assert_int_equal(out->kind, kinds[i]);
        ft_client_msg_free(out);
        free(wire.data);
    }
}

static void random_verdict(ft_rng *rng, ft_msg_verdict *verdict, ft_token_logprob *logprobs)
{
    memset(verdict, 0, sizeof *verdict);
    verdict->round = ft_rng_below(rng, 1000);
    uint32_t node = ft_rng_below(rng, 3);
    while (node < FT_WIRE_TREE_MAX && ft_rng_below(rng, 60)) {
        verdict->path[verdict->n_path++] = node;
        node += 1 + ft_rng_below(rng, 2);
    }
    verdict->n_next = ft_rng_below(rng, 4) ? ft_rng_below(rng, 4) : 0;
    if (ft_rng_below(rng, 10) == 0)
        verdict->n_next = FT_WIRE_NEXT_MAX - verdict->n_path;
    for (uint32_t i = 0; i < verdict->n_next; i++)
        verdict->next[i] = (int32_t)ft_rng_below(rng, limits.n_vocab);
    verdict->length = ft_rng_below(rng, 5000);
    verdict->queue_us = ft_rng_below(rng, 5000);
    verdict->verify_us = ft_rng_below(rng, 5000);
    verdict->others_us = ft_rng_below(rng, 3);
    verdict->finish = (ft_finish)ft_rng_below(rng, 3);
    verdict->hints.no_trees = ft_rng_below(rng, 2);
    verdict->hints.row_price = ft_rng_below(rng, 2) ? ft_rng_below(rng, 1001) : 0;
    verdict->hints.token_us = ft_rng_below(rng, 2) ? ft_rng_below(rng, 100000) : 0;
    verdict->more = !verdict->finish && ft_rng_below(rng, 2);
    verdict->together = ft_rng_below(rng, 20);
    verdict->read_tok = ft_rng_below(rng, 2) ? ft_rng_below(rng, 5000) : 0;
    verdict->read_us = ft_rng_below(rng, 5000);
    verdict->early_taken = !verdict->finish && !verdict->more && ft_rng_below(rng, 2);
    if (!ft_rng_below(rng, 2))
        return;
    verdict->n_logprobs = verdict->n_path + verdict->n_next;
    verdict->logprobs = verdict->n_logprobs ? logprobs : NULL;
    for (uint32_t i = 0; i < verdict->n_logprobs; i++) {
        logprobs[i].logprob = -(float)ft_rng_unit(rng);
        logprobs[i].n_top = ft_rng_below(rng, FT_WIRE_TOP_MAX + 1);
        for (uint32_t k = 0; k < logprobs[i].n_top; k++) {
            logprobs[i].top[k].token = (int32_t)ft_rng_below(rng, limits.n_vocab);
            logprobs[i].top[k].logprob = -(float)ft_rng_unit(rng);
        }
    }
}

static void assert_same_verdict(const ft_msg_verdict *a, const ft_msg_verdict *b)
{
    ft_msg_verdict x = *a, y = *b;
    assert_int_equal(x.n_logprobs, y.n_logprobs);
    for (uint32_t i = 0; i < x.n_logprobs; i++) {
        const ft_token_logprob *p = &x.logprobs[i], *q = &y.logprobs[i];
        assert_true(p->logprob == q->logprob);
        assert_int_equal(p->n_top, q->n_top);
        assert_memory_equal(p->top, q->top, p->n_top * sizeof p->top[0]);
    }
    x.logprobs = y.logprobs = NULL;
    assert_memory_equal(&x, &y, sizeof x);
}

static void test_server_round_trip(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 3);
    static ft_token_logprob logprobs[FT_WIRE_PATH_MAX + 1];
    for (int round = 0; round < ROUNDS; round++) {
        ft_server_msg in = {.kind = FT_SERVER_VERDICT}, *out = NULL;
        random_verdict(&rng, &in.verdict, logprobs);
        bytes wire = {0};
        ft_error err = {0};
        assert_int_equal(ft_server_msg_encode(&in, &err, &wire.data, &wire.n), FT_OK);
        assert_int_equal(ft_server_msg_decode(wire.data, wire.n, &err, &out), FT_OK);
        assert_same_verdict(&out->verdict, &in.verdict);
        ft_server_msg_free(out);
        free(wire.data);
    }
}

/* The largest verdict there is fits what a decoder takes. */
static void test_largest_verdict(void **state)
{
    static ft_token_logprob logprobs[FT_WIRE_PATH_MAX + 1];
    ft_server_msg in = {.kind = FT_SERVER_VERDICT}, *out = NULL;
    in.verdict.n_path = FT_WIRE_PATH_MAX;
    in.verdict.n_next = 1;
    in.verdict.next[0] = INT32_MAX;
    in.verdict.n_logprobs = FT_WIRE_PATH_MAX + 1;
    in.verdict.logprobs = logprobs;
    for (uint32_t i = 0; i < FT_WIRE_PATH_MAX; i++)
        in.verdict.path[i] = i;
    for (uint32_t i = 0; i <= FT_WIRE_PATH_MAX; i++) {
        logprobs[i].logprob = -INFINITY;
        logprobs[i].n_top = FT_WIRE_TOP_MAX;
        for (uint32_t k = 0; k < FT_WIRE_TOP_MAX; k++) {
            logprobs[i].top[k].token = INT32_MAX;
            logprobs[i].top[k].logprob = -1.25f;
        }
    }
    bytes wire = {0};
    ft_error err = {0};
    assert_int_equal(ft_server_msg_encode(&in, &err, &wire.data, &wire.n), FT_OK);
    assert_int_equal(ft_server_msg_decode(wire.data, wire.n, &err, &out), FT_OK);
    assert_int_equal(out->verdict.n_logprobs, FT_WIRE_PATH_MAX + 1);
    assert_true(out->verdict.logprobs[7].logprob == -9999.0f);
    assert_int_equal(out->verdict.logprobs[256].top[19].token, INT32_MAX);
    ft_server_msg_free(out);
    free(wire.data);
}

static void test_opened_and_info_round_trip(void **state)
{
    ft_server_msg in, *out = NULL;
    memset(&in, 0, sizeof in);
    in.kind = FT_SERVER_OPENED;
    for (int i = 0; i < FT_SESSION_ID_LEN; i++) {
        in.opened.session.bytes[i] = (uint8_t)i;
        in.opened.secret.bytes[i] = (uint8_t)(255 - i);
    }
    in.opened.cached_tokens = 16;
    in.opened.length = 40;
    in.opened.last_round = 3;
    in.opened.limits = (ft_msg_limits){64, 2048, 60, 20, true, 2, {0, 900}, 12345, true, true};
    strcpy(in.opened.model, "modèle");
    in.opened.target = 0xfedcba9876543211ull;
    in.opened.queue_us = 123456;
    in.opened.hints = (ft_msg_hints){.row_price = 250, .token_us = 7000, .no_trees = true};
    bytes wire = {0};
    ft_error err = {0};
    assert_int_equal(ft_server_msg_encode(&in, &err, &wire.data, &wire.n), FT_OK);
    assert_int_equal(ft_server_msg_decode(wire.data, wire.n, &err, &out), FT_OK);
    assert_memory_equal(&out->opened, &in.opened, sizeof in.opened);
    ft_server_msg_free(out);
    free(wire.data);

    ft_msg_info info, back;
    memset(&info, 0, sizeof info);
    info.protocol = 1;
    strcpy(info.version, "0.1.0");
    strcpy(info.model, "m");
    info.vocab_fingerprint = 0xfedcba9876543210ull;
    info.limits = (ft_msg_limits){1, 2, 3, 4, true, 1, {7}, 6, true, true};
    info.sessions = 5;
    info.kv_blocks = 6;
    info.kv_blocks_free = 7;
    strcpy(info.kernels, "packed q8_0, kv f16");
    info.target = 0xfedcba9876543212ull;
    assert_int_equal(ft_info_encode(&info, &err, &wire.data, &wire.n), FT_OK);
    assert_int_equal(ft_info_decode(wire.data, wire.n, &err, &back), FT_OK);
    assert_memory_equal(&back, &info, sizeof info);
    free(wire.data);
    assert_int_equal(ft_info_decode((const uint8_t *)"\xff\xff", 2, &err, &back), FT_INVALID);
}

static void test_refuses_bad_drafts(void **state)
{
    uint8_t tree[2] = {0xff, 0};
    Foretoken__V1__Draft good = FORETOKEN__V1__DRAFT__INIT, draft;
    good.round = 1;

    draft = good;
    draft.nodes = limits.max_tree + 1;
    draft.token_bits = 16;
    refuse_client(pack_draft(&draft), FT_TOO_LARGE, "Draft.nodes: 65, at most 64");
    draft.nodes = UINT32_MAX;
    refuse_client(pack_draft(&draft), FT_TOO_LARGE, "Draft.nodes");
    draft.nodes = 1;
    draft.token_bits = 0;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.token_bits: 0");
    draft.token_bits = 32;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.token_bits: 32");
    draft.token_bits = 16;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.tree: 0 bytes end in node 0");
    draft.nodes = 0;
    draft.tree = (ProtobufCBinaryData){1, tree};
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.tree: bits behind");
    draft = good;
    draft.round = 0;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.round");
    draft = good;
    draft.text_len = limits.max_context + 1;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.text_len");
    draft = good;
    draft.run = FT_WIRE_RUN_MAX + 1;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.run: 1025 tokens");
    draft = good;
    draft.run = 3;
    draft.nodes = 1;
    refuse_client(pack_draft(&draft), FT_INVALID, "either nodes or a run");
    draft = good;
    uint8_t evidence[501] = {0};
    draft.evidence = (ProtobufCBinaryData){1, evidence};
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.evidence: 1 bytes without nodes");
    draft.evidence.len = sizeof evidence;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.evidence: 501 bytes, at most 500");
}

static void test_refuses_bad_parents(void **state)
{
    Foretoken__V1__Draft draft = FORETOKEN__V1__DRAFT__INIT;
    uint32_t under[3] = {0, FT_WIRE_TREE_MAX, 0};
    uint8_t evidence[1] = {0};
    uint8_t two[5] = {10, 0, 24, 0, 0}; /* tokens 5 and 6 without a parent; 16 bits each */
    draft.round = 1;
    draft.nodes = 2;
    draft.token_bits = 16;
    draft.tree = (ProtobufCBinaryData){5, two};
    draft.under = under;
    draft.n_under = 3;
    draft.evidence = (ProtobufCBinaryData){1, evidence};
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.evidence: 1 bytes in an early draft");
    draft.evidence.len = 0;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.under: 3 entries for 2 nodes");
    draft.n_under = 2;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.under[1]: node 256");
    draft.together = FT_WIRE_JOINT_MAX + 1;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.together: 65537 drafts, at most 65536");
    draft.together = 2;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.together: 2 in an early draft");
    draft.together = 0;
    draft.n_under = 1;
    refuse_client(pack_draft(&draft), FT_INVALID, "but 2 of 2 nodes have no parent");
    draft.nodes = 0;
    draft.tree.len = 0;
    draft.run = 2;
    refuse_client(pack_draft(&draft), FT_INVALID, "Draft.under: 1 entries for 0 nodes");
}

static void test_refuses_foreign_tokens(void **state)
{
    ft_client_msg foreign = {.kind = FT_CLIENT_DRAFT};
    foreign.draft.round = 1;
    foreign.draft.n = 2;
    foreign.draft.parent[0] = foreign.draft.parent[1] = -1;
    foreign.draft.token[1] = (int32_t)limits.n_vocab;
    refuse_client(encode_client(&foreign), FT_INVALID, "Draft.tree[1]: token 49152");
    foreign.draft.token[1] = INT32_MAX;
    refuse_client(encode_client(&foreign), FT_INVALID, "Draft.tree[1]");
}

/* A draft that is fine must not be refused by the same path. */
static void test_accepts_the_limits(void **state)
{
    ft_client_msg in = {.kind = FT_CLIENT_DRAFT}, *out = NULL;
    in.draft.round = 1;
    in.draft.base = limits.max_context;
    in.draft.n = limits.max_tree;
    for (uint32_t i = 0; i < in.draft.n; i++) {
        in.draft.token[i] = (int32_t)limits.n_vocab - 1;
        in.draft.parent[i] = -1;
    }
    const uint8_t evidence[500] = {0};
    in.draft.evidence = evidence;
    in.draft.n_evidence = limits.max_evidence_bytes;
    bytes wire = encode_client(&in);
    ft_error err = {0};
    assert_int_equal(ft_client_msg_decode(wire.data, wire.n, &limits, &err, &out), FT_OK);
    ft_client_msg_free(out);
    free(wire.data);
}

static void test_refuses_bad_numbers(void **state)
{
    uint32_t prompt[1] = {5};
    Foretoken__V1__Sampling sampling = FORETOKEN__V1__SAMPLING__INIT;
    Foretoken__V1__Open open = FORETOKEN__V1__OPEN__INIT;
    open.n_prompt = 1;
    open.prompt = prompt;
    open.sampling = &sampling;
    const float bad[] = {NAN, INFINITY, -INFINITY, -1, 1e9f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sampling.temperature = bad[i];
        refuse_client(pack_open(&open), FT_INVALID, "temperature");
        sampling.temperature = 0;
        sampling.top_p = bad[i];
        refuse_client(pack_open(&open), FT_INVALID, "top_p");
        sampling.top_p = 0;
        sampling.min_p = bad[i];
        refuse_client(pack_open(&open), FT_INVALID, "min_p");
        sampling.min_p = 0;
        open.slo_tokens_per_s = bad[i];
        refuse_client(pack_open(&open), FT_INVALID, "slo_tokens_per_s");
        open.slo_tokens_per_s = 0;
    }
    open.top_logprobs = 21;
    refuse_client(pack_open(&open), FT_INVALID, "Open.top_logprobs");
}

static void test_refuses_bad_constraints(void **state)
{
    static uint8_t large[FT_CONSTRAINT_MAX_BYTES + 1];
    uint32_t prompt[2] = {5, 6};
    Foretoken__V1__Constraint c = FORETOKEN__V1__CONSTRAINT__INIT;
    Foretoken__V1__Open open = FORETOKEN__V1__OPEN__INIT;
    open.n_prompt = 2;
    open.prompt = prompt;
    open.constraint = &c;
    refuse_client(pack_open(&open), FT_INVALID, "Constraint.kind: 0");
    c.kind = 6;
    refuse_client(pack_open(&open), FT_INVALID, "Constraint.kind: 6");
    c.kind = 4;
    refuse_client(pack_open(&open), FT_INVALID, "Constraint.data: 0");
    c.data = (ProtobufCBinaryData){sizeof large, large};
    refuse_client(pack_open(&open), FT_INVALID, "must be 1 to 65536");
    c.data.len = 1;
    c.kind = 1;
    refuse_client(pack_open(&open), FT_INVALID, "needs none");
    c.kind = 2;
    c.answer = 3;
    refuse_client(pack_open(&open), FT_INVALID, "Constraint.answer: 3");
    Foretoken__V1__Penalties p = FORETOKEN__V1__PENALTIES__INIT;
    Foretoken__V1__Sampling sampling = FORETOKEN__V1__SAMPLING__INIT;
    p.presence = 1;
    p.answer = 1;
    c.answer = 2;
    sampling.penalties = &p;
    open.sampling = &sampling;
    refuse_client(pack_open(&open), FT_INVALID, "Constraint.answer: 2");
}

static void test_refuses_bad_penalties(void **state)
{
    uint32_t prompt[2] = {5, 6}, token[FT_BIAS_MAX + 1] = {0};
    float bias[FT_BIAS_MAX + 1] = {0};
    Foretoken__V1__Penalties p = FORETOKEN__V1__PENALTIES__INIT;
    Foretoken__V1__Sampling sampling = FORETOKEN__V1__SAMPLING__INIT;
    Foretoken__V1__Open open = FORETOKEN__V1__OPEN__INIT;
    open.n_prompt = 2;
    open.prompt = prompt;
    open.sampling = &sampling;
    sampling.penalties = &p;
    p.bias_token = token;
    p.bias = bias;
    const float bad[] = {NAN, INFINITY, -INFINITY, 2.5f, -2.5f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        p.presence = bad[i];
        refuse_client(pack_open(&open), FT_INVALID, "presence");
        p.presence = 0;
        p.frequency = bad[i];
        refuse_client(pack_open(&open), FT_INVALID, "frequency");
        p.frequency = 0;
        p.repetition = bad[i] == 2.5f ? 0.001f : bad[i];
        refuse_client(pack_open(&open), FT_INVALID, "repetition");
        p.repetition = 0;
    }
    p.answer = 3;
    refuse_client(pack_open(&open), FT_INVALID, "answer");
    p.answer = 0;
    p.n_bias_token = 1;
    refuse_client(pack_open(&open), FT_INVALID, "biases");
    p.n_bias = 1;
    bias[0] = 101;
    refuse_client(pack_open(&open), FT_INVALID, "Penalties.bias");
    bias[0] = 1;
    token[0] = limits.n_vocab;
    refuse_client(pack_open(&open), FT_INVALID, "bias_token[0]");
    token[0] = 0;
    p.n_bias_token = p.n_bias = 2; /* the same token twice */
    refuse_client(pack_open(&open), FT_INVALID, "bias_token[1]");
    p.n_bias_token = p.n_bias = FT_BIAS_MAX + 1;
    refuse_client(pack_open(&open), FT_INVALID, "at most 300");
}

static void test_refuses_bad_opens(void **state)
{
    uint32_t *prompt = calloc(4096, sizeof *prompt);
    uint8_t id[17] = {0};
    char model[200];
    Foretoken__V1__Resume resume = FORETOKEN__V1__RESUME__INIT;
    Foretoken__V1__Open open = FORETOKEN__V1__OPEN__INIT;
    open.prompt = prompt;
    refuse_client(pack_open(&open), FT_INVALID, "Open.prompt: empty");
    open.n_prompt = limits.max_context + 1;
    refuse_client(pack_open(&open), FT_TOO_LARGE, "2049 tokens, the server's context holds 2048");
    open.n_prompt = 3;
    prompt[2] = 0x80000000u;
    refuse_client(pack_open(&open), FT_INVALID, "Open.prompt[2]");
    prompt[2] = 0;
    memset(model, 'x', sizeof model);
    model[128] = 0;
    open.model = model;
    refuse_client(pack_open(&open), FT_INVALID, "Open.model: 128 bytes, at most 127");
    strcpy(model, "\xff\xfe");
    refuse_client(pack_open(&open), FT_INVALID, "Open.model: not UTF-8");
    open.model = NULL;
    open.nonce = (ProtobufCBinaryData){15, id};
    refuse_client(pack_open(&open), FT_INVALID, "Open.nonce: 15 bytes, must be 16");
    open.nonce.len = 0;
    open.resume = &resume;
    refuse_client(pack_open(&open), FT_INVALID, "either prompt or resume");
    open.n_prompt = 0;
    refuse_client(pack_open(&open), FT_INVALID, "Open.resume.session: 0 bytes");
    resume.session = (ProtobufCBinaryData){16, id};
    resume.secret = (ProtobufCBinaryData){17, id};
    refuse_client(pack_open(&open), FT_INVALID, "Open.resume.secret: 17 bytes, must be 16");
    resume.secret.len = 15;
    refuse_client(pack_open(&open), FT_INVALID, "Open.resume.secret: 15 bytes");
    resume.text_len = limits.max_context + 1;
    refuse_client(pack_open(&open), FT_INVALID, "Open.resume.text_len");
    free(prompt);
}

static bytes raw(const void *data, size_t n)
{
    bytes out = {.data = malloc(n + 1), .n = n};
    memcpy(out.data, data, n);
    return out;
}

static void test_refuses_bad_framing(void **state)
{
    refuse_client(raw("", 0), FT_INVALID, "empty message");
    refuse_client(raw("\x2a\x00", 2), FT_INVALID, "unknown kind 5");
    refuse_client(raw("\x08\x01", 2), FT_INVALID, "kind 1 is not a message");
    refuse_client(raw("\x22\x00\x22\x00", 4), FT_INVALID, "more than one kind");
    refuse_client(raw("\x22\x05\x00", 3), FT_INVALID, "cut");
    refuse_client(raw("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11), FT_INVALID,
                  "not a protobuf");
    refuse_client(raw("\x12\x03\x1a\x7f\x01", 5), FT_INVALID, "not a protobuf");
    refuse_server(raw("\x1a\x00", 2), FT_INVALID, "unknown kind 3");
    refuse_server(raw("", 0), FT_INVALID, "empty message");

    size_t n = ft_client_msg_max_bytes(&limits) + 1;
    bytes huge = {.data = calloc(1, n), .n = n};
    refuse_client(huge, FT_TOO_LARGE, "ClientMessage");
    huge =
        (bytes){.data = calloc(1, FT_SERVER_MSG_MAX_BYTES + 1), .n = FT_SERVER_MSG_MAX_BYTES + 1};
    refuse_server(huge, FT_TOO_LARGE, "ServerMessage");
}

/* Many two-byte fields unpack into twenty times their size: the budget stops that. */
static void test_unpacking_is_bounded(void **state)
{
    enum { BODY = 60000 };
    bytes in = {.data = malloc(BODY + 8), .n = 0};
    in.data[in.n++] = 0x0a;
    in.data[in.n++] = (BODY & 0x7f) | 0x80;
    in.data[in.n++] = (BODY >> 7 & 0x7f) | 0x80;
    in.data[in.n++] = BODY >> 14;
    for (int i = 0; i < BODY; i += 2) {
        in.data[in.n++] = 0x60; /* field 12, a varint: unknown */
        in.data[in.n++] = 1;
    }
    refuse_client(in, FT_INVALID, "not a protobuf");
}

/* Truncated at every length, and with every byte changed: refused or decoded, never a crash. */
static void test_mutations_never_crash(void **state)
{
    ft_rng rng;
    ft_rng_init(&rng, 5);
    static int32_t prompt[2048];
    for (int round = 0; round < 20; round++) {
        ft_client_msg in = {.kind = round % 2 ? FT_CLIENT_OPEN : FT_CLIENT_DRAFT}, *out;
        if (round % 2)
            random_open(&rng, &in.open, prompt);
        else
            random_draft(&rng, &in.draft, 24);
        if (in.kind == FT_CLIENT_OPEN && in.open.n_prompt > 40)
            in.open.n_prompt = 40;
        bytes wire = encode_client(&in);
        ft_error err;
        for (size_t cut = 0; cut < wire.n; cut++)
            assert_int_not_equal(ft_client_msg_decode(wire.data, cut, &limits, &err, &out), FT_OK);
        for (size_t i = 0; i < wire.n; i++) {
            uint8_t kept = wire.data[i];
            wire.data[i] = (uint8_t)ft_rng_u32(&rng);
            (void)!ft_client_msg_decode(wire.data, wire.n, &limits, &err, &out);
            ft_client_msg_free(out);
            wire.data[i] = kept;
        }
        free(wire.data);
    }
}

static void test_refuses_bad_verdicts(void **state)
{
    uint32_t path[300], next[2] = {1, 2};
    for (uint32_t i = 0; i < 300; i++)
        path[i] = i;
    Foretoken__V1__TokenLogprob entry = FORETOKEN__V1__TOKEN_LOGPROB__INIT, *entries[] = {&entry};
    Foretoken__V1__Verdict verdict = FORETOKEN__V1__VERDICT__INIT;
    verdict.path = path;
    verdict.next = next;
    verdict.logprobs = entries;
    verdict.n_path = 257;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.path: 257 nodes");
    verdict.n_path = 2;
    path[1] = 0;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.path[1]: node 0");
    path[1] = 256;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.path[1]: node 256");
    path[1] = 1;
    verdict.next = path;
    verdict.n_next = 256;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.next: 256 tokens behind 2 nodes");
    verdict.n_path = 0;
    verdict.n_next = 258;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.next: 258 tokens");
    verdict.next = next;
    verdict.n_next = 0;
    verdict.n_logprobs = 1;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "1 for 0 tokens");
    verdict.n_next = 1;
    entry.logprob = NAN;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "not a number");
    verdict.n_logprobs = 0;
    verdict.n_next = 2;
    next[1] = 0x80000000u;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.next[1]");
    verdict.n_next = 1;
    verdict.more = true;
    verdict.finish = FORETOKEN__V1__FINISH__FINISH_STOP;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.more");
    verdict.n_next = 0;
    verdict.finish = (Foretoken__V1__Finish)9;
    refuse_server(pack_verdict(&verdict), FT_INVALID, "Verdict.finish: 9");
}

static void test_encoders_refuse_our_bugs(void **state)
{
    ft_error err = {0};
    bytes wire = {0};
    ft_client_msg draft = {.kind = FT_CLIENT_DRAFT};
    draft.draft.n = 2;
    draft.draft.parent[0] = -1;
    draft.draft.parent[1] = 1;
    assert_int_equal(ft_client_msg_encode(&draft, &err, &wire.data, &wire.n), FT_INVALID);
    draft.draft.n = FT_WIRE_TREE_MAX + 1;
    assert_int_equal(ft_client_msg_encode(&draft, &err, &wire.data, &wire.n), FT_TOO_LARGE);
    draft.draft.n = 1;
    draft.draft.run = 2;
    assert_int_equal(ft_client_msg_encode(&draft, &err, &wire.data, &wire.n), FT_INVALID);
    draft.draft.n = 0;
    draft.draft.run = FT_WIRE_RUN_MAX + 1;
    assert_int_equal(ft_client_msg_encode(&draft, &err, &wire.data, &wire.n), FT_INVALID);
    ft_server_msg verdict = {.kind = FT_SERVER_VERDICT};
    verdict.verdict.n_logprobs = 1;
    assert_int_equal(ft_server_msg_encode(&verdict, &err, &wire.data, &wire.n), FT_INVALID);
    verdict.verdict.n_logprobs = 0;
    verdict.verdict.n_next = FT_WIRE_NEXT_MAX + 1;
    assert_int_equal(ft_server_msg_encode(&verdict, &err, &wire.data, &wire.n), FT_INVALID);
    assert_null(wire.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_round_trip),
        cmocka_unit_test(test_early_round_trip),
        cmocka_unit_test(test_early_behind),
        cmocka_unit_test(test_open_round_trip),
        cmocka_unit_test(test_plain_kinds_round_trip),
        cmocka_unit_test(test_server_round_trip),
        cmocka_unit_test(test_largest_verdict),
        cmocka_unit_test(test_opened_and_info_round_trip),
        cmocka_unit_test(test_refuses_bad_drafts),
        cmocka_unit_test(test_refuses_bad_parents),
        cmocka_unit_test(test_refuses_foreign_tokens),
        cmocka_unit_test(test_accepts_the_limits),
        cmocka_unit_test(test_refuses_bad_numbers),
        cmocka_unit_test(test_refuses_bad_penalties),
        cmocka_unit_test(test_refuses_bad_constraints),
        cmocka_unit_test(test_refuses_bad_opens),
        cmocka_unit_test(test_refuses_bad_framing),
        cmocka_unit_test(test_unpacking_is_bounded),
        cmocka_unit_test(test_mutations_never_crash),
        cmocka_unit_test(test_refuses_bad_verdicts),
        cmocka_unit_test(test_encoders_refuse_our_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
