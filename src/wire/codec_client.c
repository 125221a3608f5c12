// SPDX-License-Identifier: Apache-2.0
// Open, Draft, Cancel and Close: from bytes, with every check, and to bytes. The bytes come from
// whoever can reach the server, so nothing is allocated from a count that was not checked against
// the message's size first: the message's size is bounded, then unpacking runs under a budget, then
// counts meet the limits, then the result is allocated. No state, no threads.
#include <stdlib.h>
#include <string.h>

#include "foretoken.pb-c.h"
#include "wire/codec.h"
#include "wire/early.h"
#include "wire/tree_bits.h"

/* Room for every field but an Open's prompt and a Draft's evidence, however it was encoded. */
#define FIXED_MAX_BYTES (64 * 1024)
/* A uint32 varint is at most 5 bytes long. */
#define TOKEN_MAX_BYTES 5
/* Top values that make sense; they keep arithmetic on them far from overflow. */
#define TEMPERATURE_MAX 100.0f
#define SLO_MAX         1e6f

typedef Foretoken__V1__ClientMessage client_pb;
typedef Foretoken__V1__Open open_pb;
typedef Foretoken__V1__Draft draft_pb;

size_t ft_client_msg_max_bytes(const ft_wire_limits *limits)
{
    return FIXED_MAX_BYTES + (size_t)TOKEN_MAX_BYTES * limits->max_context +
           limits->max_evidence_bytes;
}

static ft_status check_id(uint32_t id, uint32_t n_vocab, const char *field, size_t i, ft_error *err)
{
    if (id < n_vocab)
        return FT_OK;
    return ft_error_set(
        err, FT_INVALID,
        "%s[%zu]: token %u, but the served vocabulary has %u tokens: use a model of "
        "the same family",
        field, i, id, n_vocab);
}

static ft_status decode_sampling(const Foretoken__V1__Sampling *pb, ft_msg_sampling *out,
                                 ft_error *err)
{
    *out = (ft_msg_sampling){0};
    if (!pb)
        return FT_OK;
    ft_status status =
        ft_codec_range(pb->temperature, 0, TEMPERATURE_MAX, "Open.sampling.temperature", err);
    if (status == FT_OK)
        status = ft_codec_range(pb->top_p, 0, 1, "Open.sampling.top_p", err);
    if (status == FT_OK)
        status = ft_codec_range(pb->min_p, 0, 1, "Open.sampling.min_p", err);
    if (status != FT_OK)
        return status;
    out->temperature = pb->temperature;
    out->top_p = pb->top_p;
    out->min_p = pb->min_p;
    out->top_k = pb->top_k;
    out->seed = pb->seed;
    return FT_OK;
}

static ft_status decode_resume(const open_pb *pb, const ft_wire_limits *limits, ft_msg_open *out,
                               ft_error *err)
{
    if (pb->n_prompt)
        return ft_error_set(err, FT_INVALID, "Open: either prompt or resume, not both");
    out->resume = true;
    out->base = pb->resume->text_len;
    if (out->base > limits->max_context)
        return ft_error_set(err, FT_INVALID, "Open.resume.text_len: %u, at most %u", out->base,
                            limits->max_context);
    ft_status status = ft_codec_id(&pb->resume->session, "Open.resume.session", &out->session, err);
    if (status == FT_OK)
        status = ft_codec_id(&pb->resume->secret, "Open.resume.secret", &out->secret, err);
    return status;
}

static ft_status check_prompt(const open_pb *pb, const ft_wire_limits *limits, ft_error *err)
{
    if (!pb->n_prompt)
        return ft_error_set(err, FT_INVALID, "Open.prompt: empty, needs at least one token");
    if (pb->n_prompt > limits->max_context)
        return ft_error_set(err, FT_TOO_LARGE,
                            "Open.prompt: %zu tokens, the server's context holds %u: shorten it",
                            pb->n_prompt, limits->max_context);
    ft_status status = FT_OK;
    for (size_t i = 0; i < pb->n_prompt && status == FT_OK; i++)
        status = check_id(pb->prompt[i], limits->n_vocab, "Open.prompt", i, err);
    return status;
}

/* Everything of an Open but the prompt's ids. */
static ft_status decode_open(const open_pb *pb, const ft_wire_limits *limits, ft_msg_open *out,
                             ft_error *err)
{
    ft_status status =
        pb->resume ? decode_resume(pb, limits, out, err) : check_prompt(pb, limits, err);
    if (status == FT_OK)
        status = ft_codec_string(pb->model, "Open.model", out->model, sizeof out->model, err);
    if (status == FT_OK)
        status = decode_sampling(pb->sampling, &out->sampling, err);
    if (status == FT_OK)
        status = ft_codec_range(pb->slo_tokens_per_s, 0, SLO_MAX, "Open.slo_tokens_per_s", err);
    if (status != FT_OK)
        return status;
    if (pb->top_logprobs > FT_WIRE_TOP_MAX)
        return ft_error_set(err, FT_INVALID, "Open.top_logprobs: %u, at most %d", pb->top_logprobs,
                            FT_WIRE_TOP_MAX);
    out->protocol = pb->protocol;
    out->vocab_fingerprint = pb->vocab_fingerprint;
    out->slo_tokens_per_s = pb->slo_tokens_per_s;
    out->rule = (uint32_t)pb->rule;
    out->max_tokens = pb->max_tokens;
    out->logprobs = pb->logprobs;
    out->top_logprobs = pb->top_logprobs;
    return FT_OK;
}

static ft_status decode_tree(const draft_pb *pb, const ft_wire_limits *limits, ft_msg_draft *out,
                             ft_error *err)
{
    uint32_t max_tree = limits->max_tree < FT_WIRE_TREE_MAX ? limits->max_tree : FT_WIRE_TREE_MAX;
    if (pb->nodes > max_tree)
        return ft_error_set(err, FT_TOO_LARGE, "Draft.nodes: %u, at most %u", pb->nodes, max_tree);
    if (pb->nodes && (pb->token_bits < 1 || pb->token_bits > FT_TREE_BITS_TOKEN_MAX))
        return ft_error_set(err, FT_INVALID, "Draft.token_bits: %u, 1 to %d", pb->token_bits,
                            FT_TREE_BITS_TOKEN_MAX);
    out->n = pb->nodes;
    ft_status status = ft_tree_bits_read(pb->tree.data, pb->tree.len, pb->token_bits, out, err);
    for (uint32_t i = 0; i < out->n && status == FT_OK; i++)
        status = check_id((uint32_t)out->token[i], limits->n_vocab, "Draft.tree", i, err);
    return status;
}

static ft_status decode_under(const draft_pb *pb, ft_msg_draft *out, ft_error *err)
{
    if (pb->n_under > out->n)
        return ft_error_set(err, FT_INVALID, "Draft.under: %zu entries for %u nodes", pb->n_under,
                            out->n);
    for (size_t i = 0; i < pb->n_under; i++) {
        if (pb->under[i] >= FT_WIRE_TREE_MAX)
            return ft_error_set(err, FT_INVALID, "Draft.under[%zu]: node %u", i, pb->under[i]);
        out->under[i] = (uint8_t)pb->under[i];
    }
    out->n_under = (uint32_t)pb->n_under;
    return ft_early_check(out, FT_WIRE_TREE_MAX, err);
}

/* What is in it is the rule's to check, which knows the session. */
static ft_status check_evidence(const draft_pb *pb, const ft_wire_limits *limits, ft_error *err)
{
    if (pb->evidence.len > limits->max_evidence_bytes)
        return ft_error_set(err, FT_INVALID, "Draft.evidence: %zu bytes, at most %u",
                            pb->evidence.len, limits->max_evidence_bytes);
    if (pb->evidence.len && (pb->nodes == 0 || pb->n_under))
        return ft_error_set(err, FT_INVALID, "Draft.evidence: %zu bytes %s", pb->evidence.len,
                            pb->nodes ? "in an early draft" : "without nodes");
    return FT_OK;
}

static ft_status decode_draft(const draft_pb *pb, const ft_wire_limits *limits, ft_msg_draft *out,
                              ft_error *err)
{
    if (pb->round == 0)
        return ft_error_set(err, FT_INVALID, "Draft.round: 0, rounds count from 1");
    if (pb->text_len > limits->max_context)
        return ft_error_set(err, FT_INVALID, "Draft.text_len: %u, at most %u", pb->text_len,
                            limits->max_context);
    ft_status status = check_evidence(pb, limits, err);
    if (status != FT_OK)
        return status;
    if (pb->run > FT_WIRE_RUN_MAX)
        return ft_error_set(err, FT_INVALID, "Draft.run: %u tokens, at most %d", pb->run,
                            FT_WIRE_RUN_MAX);
    if (pb->run && pb->nodes)
        return ft_error_set(err, FT_INVALID, "Draft: either nodes or a run, not both");
    out->round = pb->round;
    out->run = pb->run;
    out->base = pb->text_len;
    out->draft_us = pb->draft_us;
    out->rtt_us = pb->rtt_us;
    status = decode_tree(pb, limits, out, err);
    return status == FT_OK && pb->n_under ? decode_under(pb, out, err) : status;
}

static ft_status decode_kind(const client_pb *pb, const ft_wire_limits *limits, ft_client_msg *out,
                             ft_error *err)
{
    switch (pb->kind_case) {
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_OPEN:
        out->kind = FT_CLIENT_OPEN;
        return decode_open(pb->open, limits, &out->open, err);
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_DRAFT:
        out->kind = FT_CLIENT_DRAFT;
        return decode_draft(pb->draft, limits, &out->draft, err);
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_CANCEL:
        out->kind = FT_CLIENT_CANCEL;
        return FT_OK;
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_CLOSE:
        out->kind = FT_CLIENT_CLOSE;
        return FT_OK;
    default:
        return ft_error_set(err, FT_INVALID, "ClientMessage: no kind");
    }
}

/* The message with what it points to behind it, in one block. */
static ft_client_msg *gather(const client_pb *pb, const ft_client_msg *head)
{
    const void *tail = NULL;
    size_t n_tail = 0;
    if (head->kind == FT_CLIENT_OPEN && !head->open.resume) {
        tail = pb->open->prompt;
        n_tail = pb->open->n_prompt * sizeof(int32_t);
    } else if (head->kind == FT_CLIENT_DRAFT) {
        tail = pb->draft->evidence.data;
        n_tail = pb->draft->evidence.len;
    }
    ft_client_msg *msg = malloc(sizeof *msg + n_tail);
    if (!msg)
        return NULL;
    *msg = *head;
    if (n_tail == 0)
        return msg;
    memcpy(msg + 1, tail, n_tail);
    if (msg->kind == FT_CLIENT_OPEN) {
        msg->open.prompt = (const int32_t *)(msg + 1);
        msg->open.n_prompt = (uint32_t)pb->open->n_prompt;
    } else {
        msg->draft.evidence = (const uint8_t *)(msg + 1);
        msg->draft.n_evidence = (uint32_t)n_tail;
    }
    return msg;
}

ft_status ft_client_msg_decode(const uint8_t *data, size_t n, const ft_wire_limits *limits,
                               ft_error *err, ft_client_msg **out)
{
    *out = NULL;
    if (n > ft_client_msg_max_bytes(limits))
        return ft_error_set(err, FT_TOO_LARGE, "ClientMessage: %zu bytes, at most %zu", n,
                            ft_client_msg_max_bytes(limits));
    ft_status status =
        ft_codec_scan(data, n, FORETOKEN__V1__CLIENT_MESSAGE__KIND_CLOSE, "ClientMessage", err);
    if (status != FT_OK)
        return status;
    /* ids unpack to 4 bytes from at least 1; twice that for ids sent in two runs */
    ft_codec_memory memory;
    ft_codec_memory_init(&memory, 8 * n + 16 * 1024);
    client_pb *pb = foretoken__v1__client_message__unpack(&memory.allocator, n, data);
    if (!pb)
        return ft_error_set(err, FT_INVALID, "ClientMessage: not a protobuf message");
    ft_client_msg head = {0};
    status = decode_kind(pb, limits, &head, err);
    if (status == FT_OK && !(*out = gather(pb, &head)))
        status = ft_error_set(err, FT_NOMEM, "no memory for a message of %zu bytes", n);
    foretoken__v1__client_message__free_unpacked(pb, &memory.allocator);
    return status;
}

void ft_client_msg_free(ft_client_msg *msg)
{
    free(msg);
}

ft_client_msg *ft_draft_msg_dup(const ft_msg_draft *draft)
{
    ft_client_msg *msg = malloc(sizeof *msg + draft->n_evidence);
    if (!msg)
        return NULL;
    msg->kind = FT_CLIENT_DRAFT;
    msg->draft = *draft;
    msg->draft.evidence = NULL;
    if (draft->n_evidence > 0) {
        memcpy(msg + 1, draft->evidence, draft->n_evidence);
        msg->draft.evidence = (const uint8_t *)(msg + 1);
    }
    return msg;
}

static ft_status encode_open(const ft_msg_open *open, ft_error *err, uint8_t **data, size_t *n)
{
    Foretoken__V1__Sampling sampling = FORETOKEN__V1__SAMPLING__INIT;
    sampling.temperature = open->sampling.temperature;
    sampling.top_k = open->sampling.top_k;
    sampling.top_p = open->sampling.top_p;
    sampling.min_p = open->sampling.min_p;
    sampling.seed = open->sampling.seed;
    Foretoken__V1__Resume resume = FORETOKEN__V1__RESUME__INIT;
    resume.session.len = resume.secret.len = FT_SESSION_ID_LEN;
    resume.session.data = (uint8_t *)open->session.bytes;
    resume.secret.data = (uint8_t *)open->secret.bytes;
    resume.text_len = open->base;
    open_pb pb = FORETOKEN__V1__OPEN__INIT;
    pb.protocol = open->protocol;
    pb.vocab_fingerprint = open->vocab_fingerprint;
    pb.model = (char *)open->model;
    pb.sampling = &sampling;
    pb.slo_tokens_per_s = open->slo_tokens_per_s;
    pb.rule = (Foretoken__V1__Rule)open->rule;
    if (open->resume) {
        pb.resume = &resume;
    } else {
        pb.n_prompt = open->n_prompt;
        pb.prompt = (uint32_t *)open->prompt;
    }
    pb.max_tokens = open->max_tokens;
    pb.logprobs = open->logprobs;
    pb.top_logprobs = open->top_logprobs;
    client_pb message = FORETOKEN__V1__CLIENT_MESSAGE__INIT;
    message.kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_OPEN;
    message.open = &pb;
    return ft_codec_pack(&message.base, err, data, n);
}

static ft_status encode_draft(const ft_msg_draft *draft, ft_error *err, uint8_t **data, size_t *n)
{
    uint8_t tree[FT_TREE_BITS_MAX_BYTES];
    uint32_t under[FT_WIRE_TREE_MAX];
    if (draft->n > FT_WIRE_TREE_MAX)
        return ft_error_set(err, FT_TOO_LARGE, "Draft: %u nodes, at most %d", draft->n,
                            FT_WIRE_TREE_MAX);
    if (draft->run > FT_WIRE_RUN_MAX || (draft->run && draft->n))
        return ft_error_set(err, FT_INVALID, "Draft: a run of %u tokens beside %u nodes",
                            draft->run, draft->n);
    for (uint32_t i = 0; i < draft->n; i++)
        if (draft->parent[i] < -1 || draft->parent[i] >= (int32_t)i || draft->token[i] < 0)
            return ft_error_set(err, FT_INVALID, "Draft: node %u is token %d below %d", i,
                                draft->token[i], draft->parent[i]);
    if (draft->n_evidence && (draft->n == 0 || draft->n_under))
        return ft_error_set(err, FT_INVALID, "Draft: evidence without nodes or in an early draft");
    ft_status status = draft->n_under ? ft_early_check(draft, FT_WIRE_TREE_MAX, err) : FT_OK;
    if (status != FT_OK)
        return status;
    for (uint32_t i = 0; i < draft->n_under; i++)
        under[i] = draft->under[i];
    draft_pb pb = FORETOKEN__V1__DRAFT__INIT;
    pb.n_under = draft->n_under;
    pb.under = under;
    pb.round = draft->round;
    pb.run = draft->run;
    pb.text_len = draft->base;
    pb.nodes = draft->n;
    pb.tree.data = tree;
    pb.tree.len = ft_tree_bits_write(draft, tree, &pb.token_bits);
    pb.evidence.data = (uint8_t *)draft->evidence;
    pb.evidence.len = draft->n_evidence;
    pb.draft_us = draft->draft_us;
    pb.rtt_us = draft->rtt_us;
    client_pb message = FORETOKEN__V1__CLIENT_MESSAGE__INIT;
    message.kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_DRAFT;
    message.draft = &pb;
    return ft_codec_pack(&message.base, err, data, n);
}

ft_status ft_client_msg_encode(const ft_client_msg *msg, ft_error *err, uint8_t **data, size_t *n)
{
    client_pb message = FORETOKEN__V1__CLIENT_MESSAGE__INIT;
    Foretoken__V1__Cancel cancel = FORETOKEN__V1__CANCEL__INIT;
    Foretoken__V1__Close close = FORETOKEN__V1__CLOSE__INIT;
    *data = NULL;
    *n = 0;
    switch (msg->kind) {
    case FT_CLIENT_OPEN:
        return encode_open(&msg->open, err, data, n);
    case FT_CLIENT_DRAFT:
        return encode_draft(&msg->draft, err, data, n);
    case FT_CLIENT_CANCEL:
        message.kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_CANCEL;
        message.cancel = &cancel;
        return ft_codec_pack(&message.base, err, data, n);
    case FT_CLIENT_CLOSE:
        message.kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_CLOSE;
        message.close = &close;
        return ft_codec_pack(&message.base, err, data, n);
    }
    return ft_error_set(err, FT_INVALID, "ClientMessage: unknown kind %d", (int)msg->kind);
}
