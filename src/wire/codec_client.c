// SPDX-License-Identifier: Apache-2.0
// Open, Draft, Cancel and Close: from bytes, with every check, and to bytes. Anybody who can reach
// the server can send such bytes. So nothing is allocated from a count before it is checked: first
// the message's size is bounded, then it is unpacked within a budget, then its counts are checked
// against the limits, then the result is allocated. Pure functions.
#include <stdlib.h>
#include <string.h>

#include "foretoken.pb-c.h"
#include "wire/codec.h"
#include "wire/early.h"
#include "wire/tree_bits.h"

/* Room for all fields except prompt, constraint and evidence, in any encoding. */
#define FIXED_MAX_BYTES (64 * 1024)
/* A uint32 varint is at most 5 bytes long. */
#define TOKEN_MAX_BYTES 5
/* Far above what makes sense, and far below what overflows. */
#define TEMPERATURE_MAX 100.0f
#define SLO_MAX         1e6f

typedef Foretoken__V1__ClientMessage client_pb;
typedef Foretoken__V1__Open open_pb;
typedef Foretoken__V1__Draft draft_pb;
typedef Foretoken__V1__Penalties penalties_pb;
typedef Foretoken__V1__Constraint constraint_pb;

size_t ft_client_msg_max_bytes(const ft_wire_limits *limits)
{
    return FIXED_MAX_BYTES + FT_CONSTRAINT_MAX_BYTES +
           (size_t)TOKEN_MAX_BYTES * limits->max_context + limits->max_evidence_bytes;
}

static void check_tokens(ft_codec *codec, const uint32_t *token, size_t n, uint32_t n_vocab,
                         const char *field)
{
    for (size_t i = 0; i < n; i++)
        if (token[i] >= n_vocab)
            ft_codec_refuse(codec, FT_INVALID,
                            "%s[%zu]: token %u, but the served vocabulary has %u tokens: use a "
                            "model of the same family",
                            field, i, token[i], n_vocab);
}

static void check_text_len(ft_codec *codec, uint32_t n, const ft_wire_limits *limits,
                           const char *field)
{
    if (n > limits->max_context)
        ft_codec_refuse(codec, FT_INVALID, "%s: %u, at most %u", field, n, limits->max_context);
}

static void move_sampling(ft_codec *codec, ft_msg_sampling *ours, Foretoken__V1__Sampling *pb)
{
    ft_codec_number(codec, &ours->temperature, &pb->temperature, TEMPERATURE_MAX,
                    "Open.sampling.temperature");
    ft_codec_number(codec, &ours->top_p, &pb->top_p, 1, "Open.sampling.top_p");
    ft_codec_number(codec, &ours->min_p, &pb->min_p, 1, "Open.sampling.min_p");
    FT_CODEC_MOVE(codec, ours->top_k, pb->top_k);
    FT_CODEC_MOVE(codec, ours->seed, pb->seed);
}

static void move_signed(ft_codec *codec, float *ours, float *theirs, float most, const char *field)
{
    FT_CODEC_MOVE(codec, *ours, *theirs);
    if (!codec->writing && !(*ours >= -most && *ours <= most)) /* nor is NaN */
        ft_codec_refuse(codec, FT_INVALID, "%s: %g, must be within [-%g, %g]", field, (double)*ours,
                        (double)most, (double)most);
    *ours += 0.0f; /* no minus zero */
}

/* Without biases. */
static void move_penalties(ft_codec *codec, ft_msg_open *ours, penalties_pb *pb)
{
    ft_penalties *p = &ours->penalties;
    move_signed(codec, &p->presence, &pb->presence, FT_PENALTY_MOST, "Penalties.presence");
    move_signed(codec, &p->frequency, &pb->frequency, FT_PENALTY_MOST, "Penalties.frequency");
    ft_codec_number(codec, &p->repetition, &pb->repetition, FT_REPETITION_MOST,
                    "Penalties.repetition");
    FT_CODEC_MOVE(codec, ours->n_answer, pb->answer);
}

static void move_resume(ft_codec *codec, ft_msg_open *ours, Foretoken__V1__Resume *pb)
{
    FT_CODEC_MOVE(codec, ours->base, pb->text_len);
    ft_codec_id(codec, &ours->session, &pb->session, "Open.resume.session");
    ft_codec_id(codec, &ours->secret, &pb->secret, "Open.resume.secret");
}

/* Without sampling, prompt and resume. */
static void move_open(ft_codec *codec, ft_msg_open *ours, open_pb *pb)
{
    ft_codec_string(codec, ours->model, sizeof ours->model, &pb->model, "Open.model");
    ft_codec_number(codec, &ours->slo_tokens_per_s, &pb->slo_tokens_per_s, SLO_MAX,
                    "Open.slo_tokens_per_s");
    FT_CODEC_MOVE(codec, ours->protocol, pb->protocol);
    FT_CODEC_MOVE(codec, ours->vocab_fingerprint, pb->vocab_fingerprint);
    FT_CODEC_MOVE(codec, ours->rule, pb->rule);
    FT_CODEC_MOVE(codec, ours->max_tokens, pb->max_tokens);
    FT_CODEC_MOVE(codec, ours->logprobs, pb->logprobs);
    FT_CODEC_MOVE(codec, ours->top_logprobs, pb->top_logprobs);
    FT_CODEC_MOVE(codec, ours->target, pb->target);
    FT_CODEC_MOVE(codec, ours->no_drafts, pb->no_drafts);
    if (!codec->writing)
        ours->has_nonce = pb->nonce.len > 0;
    if (ours->has_nonce)
        ft_codec_id(codec, &ours->nonce, &pb->nonce, "Open.nonce");
}

/* Without tree, evidence and under. */
static void move_draft(ft_codec *codec, ft_msg_draft *ours, draft_pb *pb)
{
    FT_CODEC_MOVE(codec, ours->round, pb->round);
    FT_CODEC_MOVE(codec, ours->base, pb->text_len);
    FT_CODEC_MOVE(codec, ours->n, pb->nodes);
    FT_CODEC_MOVE(codec, ours->run, pb->run);
    FT_CODEC_MOVE(codec, ours->draft_us, pb->draft_us);
    FT_CODEC_MOVE(codec, ours->rtt_us, pb->rtt_us);
    FT_CODEC_MOVE(codec, ours->together, pb->together);
    FT_CODEC_MOVE(codec, ours->batch, pb->batch);
}

/* ---- from bytes ---- */

/* The prompt is not copied yet. */
static void read_prompt(ft_codec *codec, const open_pb *pb, const ft_wire_limits *limits,
                        ft_msg_open *out)
{
    if (!pb->n_prompt)
        ft_codec_refuse(codec, FT_INVALID, "Open.prompt: empty, needs at least one token");
    if (pb->n_prompt > limits->max_context)
        ft_codec_refuse(codec, FT_TOO_LARGE,
                        "Open.prompt: %zu tokens, the server's context holds %u: shorten it",
                        pb->n_prompt, limits->max_context);
    check_tokens(codec, pb->prompt, pb->n_prompt, limits->n_vocab, "Open.prompt");
    out->n_prompt = (uint32_t)pb->n_prompt;
    out->prompt = (const int32_t *)pb->prompt;
}

static void read_penalties(ft_codec *codec, penalties_pb *pb, const ft_wire_limits *limits,
                           ft_msg_open *out)
{
    ft_penalties *p = &out->penalties;
    move_penalties(codec, out, pb);
    if (p->repetition != 0 && p->repetition < FT_REPETITION_LEAST)
        ft_codec_refuse(codec, FT_INVALID, "Penalties.repetition: %g, at least %g",
                        (double)p->repetition, (double)FT_REPETITION_LEAST);
    if (out->n_answer > out->n_prompt)
        ft_codec_refuse(codec, FT_INVALID, "Penalties.answer: %u of %u tokens", out->n_answer,
                        out->n_prompt);
    if (pb->n_bias != pb->n_bias_token || pb->n_bias > FT_BIAS_MAX) {
        ft_codec_refuse(codec, FT_INVALID, "Penalties: %zu biases for %zu tokens, at most %d",
                        pb->n_bias, pb->n_bias_token, FT_BIAS_MAX);
        return;
    }
    check_tokens(codec, pb->bias_token, pb->n_bias, limits->n_vocab, "Penalties.bias_token");
    for (p->n_bias = 0; p->n_bias < pb->n_bias; p->n_bias++) {
        const uint32_t i = p->n_bias;
        p->bias_token[i] = (int32_t)pb->bias_token[i];
        move_signed(codec, &p->bias[i], &pb->bias[i], FT_BIAS_MOST, "Penalties.bias");
        if (i > 0 && pb->bias_token[i] <= pb->bias_token[i - 1])
            ft_codec_refuse(codec, FT_INVALID, "Penalties.bias_token[%u]: not above the one before",
                            i);
    }
    if (!ft_penalties_any(p)) {
        *p = (ft_penalties){0};
        out->n_answer = 0;
    }
}

/* The data are not copied yet. `answer` is one number for a text, wherever it is said. */
static void read_constraint(ft_codec *codec, const constraint_pb *pb, ft_msg_open *out)
{
    const int kind = (int)pb->kind;
    const bool plain = kind == FT_CONSTRAINT_JSON_OBJECT;
    if (kind <= FT_CONSTRAINT_NONE || kind >= FT_CONSTRAINT_KINDS)
        ft_codec_refuse(codec, FT_INVALID, "Constraint.kind: %d is unknown here", kind);
    else if (pb->data.len > FT_CONSTRAINT_MAX_BYTES || (pb->data.len == 0) != plain)
        ft_codec_refuse(codec, FT_INVALID, "Constraint.data: %zu bytes, %s", pb->data.len,
                        plain ? "and the kind needs none" : "must be 1 to 65536");
    else if (pb->answer > out->n_prompt ||
             (ft_penalties_any(&out->penalties) && out->n_answer != pb->answer))
        ft_codec_refuse(codec, FT_INVALID, "Constraint.answer: %u of %u tokens, penalties: %u",
                        pb->answer, out->n_prompt, out->n_answer);
    out->constraint = (ft_constraint){
        .kind = (ft_constraint_kind)kind, .data = (const char *)pb->data.data, .n = pb->data.len};
    out->n_answer = pb->answer;
}

static void read_open(ft_codec *codec, open_pb *pb, const ft_wire_limits *limits, ft_msg_open *out)
{
    out->resume = pb->resume != NULL;
    if (pb->resume && pb->n_prompt)
        ft_codec_refuse(codec, FT_INVALID, "Open: either prompt or resume, not both");
    if (pb->resume) {
        check_text_len(codec, pb->resume->text_len, limits, "Open.resume.text_len");
        move_resume(codec, out, pb->resume);
    } else {
        read_prompt(codec, pb, limits, out);
    }
    move_open(codec, out, pb);
    if (pb->sampling)
        move_sampling(codec, &out->sampling, pb->sampling);
    if (pb->sampling && pb->sampling->penalties && !pb->resume)
        read_penalties(codec, pb->sampling->penalties, limits, out);
    if (pb->constraint && !pb->resume)
        read_constraint(codec, pb->constraint, out);
    if (out->top_logprobs > FT_WIRE_TOP_MAX)
        ft_codec_refuse(codec, FT_INVALID, "Open.top_logprobs: %u, at most %d", out->top_logprobs,
                        FT_WIRE_TOP_MAX);
}

/* What holds for every draft, whatever a server's limits. */
static void check_draft(ft_codec *codec, const ft_msg_draft *draft)
{
    if (draft->n_evidence && (draft->n == 0 || draft->n_under))
        ft_codec_refuse(codec, FT_INVALID, "Draft.evidence: %u bytes %s", draft->n_evidence,
                        draft->n ? "in an early draft" : "without nodes");
    if (draft->run > FT_WIRE_RUN_MAX)
        ft_codec_refuse(codec, FT_INVALID, "Draft.run: %u tokens, at most %d", draft->run,
                        FT_WIRE_RUN_MAX);
    if (draft->run && draft->n)
        ft_codec_refuse(codec, FT_INVALID, "Draft: either nodes or a run, not both");
    if (draft->together > FT_WIRE_JOINT_MAX)
        ft_codec_refuse(codec, FT_INVALID, "Draft.together: %u drafts, at most %d", draft->together,
                        FT_WIRE_JOINT_MAX);
    if (draft->together && draft->n_under)
        ft_codec_refuse(codec, FT_INVALID, "Draft.together: %u in an early draft", draft->together);
}

static void read_tree(ft_codec *codec, const draft_pb *pb, const ft_wire_limits *limits,
                      ft_msg_draft *out)
{
    if (pb->nodes && (pb->token_bits < 1 || pb->token_bits > FT_TREE_BITS_TOKEN_MAX))
        ft_codec_refuse(codec, FT_INVALID, "Draft.token_bits: %u, 1 to %d", pb->token_bits,
                        FT_TREE_BITS_TOKEN_MAX);
    if (codec->status == FT_OK)
        codec->status =
            ft_tree_bits_read(pb->tree.data, pb->tree.len, pb->token_bits, out, codec->err);
    check_tokens(codec, (const uint32_t *)out->token, out->n, limits->n_vocab, "Draft.tree");
}

static void read_under(ft_codec *codec, const draft_pb *pb, ft_msg_draft *out)
{
    if (pb->n_under > out->n) {
        ft_codec_refuse(codec, FT_INVALID, "Draft.under: %zu entries for %u nodes", pb->n_under,
                        out->n);
        return;
    }
    for (size_t i = 0; i < pb->n_under; i++) {
        if (pb->under[i] >= FT_WIRE_TREE_MAX)
            ft_codec_refuse(codec, FT_INVALID, "Draft.under[%zu]: node %u", i, pb->under[i]);
        out->under[i] = (uint8_t)pb->under[i];
    }
    if (codec->status == FT_OK)
        codec->status = ft_early_check(out, FT_WIRE_TREE_MAX, codec->err);
}

/* The evidence is not copied yet. The rule checks its content, which depends on the session. */
static void read_draft(ft_codec *codec, draft_pb *pb, const ft_wire_limits *limits,
                       ft_msg_draft *out)
{
    uint32_t max_tree = limits->max_tree < FT_WIRE_TREE_MAX ? limits->max_tree : FT_WIRE_TREE_MAX;
    move_draft(codec, out, pb);
    out->n_evidence = (uint32_t)pb->evidence.len;
    out->evidence = pb->evidence.data;
    out->n_under = (uint32_t)pb->n_under;
    if (out->round == 0)
        ft_codec_refuse(codec, FT_INVALID, "Draft.round: 0, rounds count from 1");
    check_text_len(codec, out->base, limits, "Draft.text_len");
    if (pb->evidence.len > limits->max_evidence_bytes)
        ft_codec_refuse(codec, FT_INVALID, "Draft.evidence: %zu bytes, at most %u",
                        pb->evidence.len, limits->max_evidence_bytes);
    check_draft(codec, out);
    if (out->n > max_tree)
        ft_codec_refuse(codec, FT_TOO_LARGE, "Draft.nodes: %u, at most %u", out->n, max_tree);
    if (codec->status != FT_OK)
        return;
    read_tree(codec, pb, limits, out);
    if (pb->n_under)
        read_under(codec, pb, out);
}

/* What *out points to belongs to pb. */
static void read_kind(ft_codec *codec, client_pb *pb, const ft_wire_limits *limits,
                      ft_client_msg *out)
{
    switch (pb->kind_case) {
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_OPEN:
        out->kind = FT_CLIENT_OPEN;
        read_open(codec, pb->open, limits, &out->open);
        break;
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_DRAFT:
        out->kind = FT_CLIENT_DRAFT;
        read_draft(codec, pb->draft, limits, &out->draft);
        break;
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_CANCEL:
        out->kind = FT_CLIENT_CANCEL;
        break;
    case FORETOKEN__V1__CLIENT_MESSAGE__KIND_CLOSE:
        out->kind = FT_CLIENT_CLOSE;
        break;
    default:
        ft_codec_refuse(codec, FT_INVALID, "ClientMessage: no kind");
    }
}

ft_client_msg *ft_client_msg_dup(const ft_client_msg *msg)
{
    const void *tail = NULL, *last = NULL;
    size_t n_tail = 0, n_last = 0;
    if (msg->kind == FT_CLIENT_OPEN) {
        tail = msg->open.prompt;
        n_tail = msg->open.n_prompt * sizeof *msg->open.prompt;
        last = msg->open.constraint.data;
        n_last = msg->open.constraint.n;
    } else if (msg->kind == FT_CLIENT_DRAFT) {
        tail = msg->draft.evidence;
        n_tail = msg->draft.n_evidence;
    }
    ft_client_msg *copy = malloc(sizeof *copy + n_tail + n_last);
    if (!copy)
        return NULL;
    *copy = *msg;
    last = n_last ? memcpy((char *)(copy + 1) + n_tail, last, n_last) : NULL;
    tail = n_tail ? memcpy(copy + 1, tail, n_tail) : NULL;
    if (msg->kind == FT_CLIENT_OPEN) {
        copy->open.prompt = tail;
        copy->open.constraint.data = last;
    } else if (msg->kind == FT_CLIENT_DRAFT) {
        copy->draft.evidence = tail;
    }
    return copy;
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
    /* an id of 1 byte unpacks to 4; ids that are sent in two parts are copied once more */
    ft_codec_memory memory;
    ft_codec_memory_init(&memory, 8 * n + 16 * 1024);
    client_pb *pb = foretoken__v1__client_message__unpack(&memory.allocator, n, data);
    if (!pb)
        return ft_error_set(err, FT_INVALID, "ClientMessage: not a protobuf message");
    ft_client_msg msg = {0};
    ft_codec codec = {.err = err};
    read_kind(&codec, pb, limits, &msg);
    if (codec.status == FT_OK && !(*out = ft_client_msg_dup(&msg)))
        ft_codec_refuse(&codec, FT_NOMEM, "no memory for a message of %zu bytes", n);
    foretoken__v1__client_message__free_unpacked(pb, &memory.allocator);
    return codec.status;
}

void ft_client_msg_free(ft_client_msg *msg)
{
    free(msg);
}

/* ---- to bytes ---- */

/* The encoders set their kind of *message and pack it. */
static ft_status encode_open(ft_msg_open *open, client_pb *message, ft_error *err, uint8_t **data,
                             size_t *n)
{
    ft_codec codec = {.writing = true, .err = err};
    open_pb pb = FORETOKEN__V1__OPEN__INIT;
    Foretoken__V1__Sampling sampling = FORETOKEN__V1__SAMPLING__INIT;
    Foretoken__V1__Resume resume = FORETOKEN__V1__RESUME__INIT;
    penalties_pb penalties = FORETOKEN__V1__PENALTIES__INIT;
    constraint_pb constraint = FORETOKEN__V1__CONSTRAINT__INIT;
    ft_penalties *p = &open->penalties;
    if (!open->resume && ft_penalties_any(p)) {
        move_penalties(&codec, open, &penalties);
        penalties.n_bias = penalties.n_bias_token = p->n_bias;
        penalties.bias = p->bias;
        penalties.bias_token = (uint32_t *)p->bias_token;
        sampling.penalties = &penalties;
    }
    if (!open->resume && open->constraint.kind != FT_CONSTRAINT_NONE) {
        constraint.kind = (Foretoken__V1__Constraint__Kind)open->constraint.kind;
        constraint.data.data = (uint8_t *)open->constraint.data;
        constraint.data.len = open->constraint.n;
        constraint.answer = open->n_answer;
        pb.constraint = &constraint;
    }
    move_open(&codec, open, &pb);
    move_sampling(&codec, &open->sampling, &sampling);
    move_resume(&codec, open, &resume);
    pb.sampling = &sampling;
    if (open->resume) {
        pb.resume = &resume;
    } else {
        pb.n_prompt = open->n_prompt;
        pb.prompt = (uint32_t *)open->prompt;
    }
    message->kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_OPEN;
    message->open = &pb;
    return ft_codec_pack(&message->base, err, data, n);
}

static ft_status encode_draft(ft_msg_draft *draft, client_pb *message, ft_error *err,
                              uint8_t **data, size_t *n)
{
    uint8_t tree[FT_TREE_BITS_MAX_BYTES];
    uint32_t under[FT_WIRE_TREE_MAX];
    if (draft->n > FT_WIRE_TREE_MAX)
        return ft_error_set(err, FT_TOO_LARGE, "Draft: %u nodes, at most %d", draft->n,
                            FT_WIRE_TREE_MAX);
    ft_codec codec = {.writing = true, .err = err};
    check_draft(&codec, draft);
    for (uint32_t i = 0; i < draft->n; i++)
        if (draft->parent[i] < -1 || draft->parent[i] >= (int32_t)i || draft->token[i] < 0)
            ft_codec_refuse(&codec, FT_INVALID, "Draft: node %u is token %d below %d", i,
                            draft->token[i], draft->parent[i]);
    if (codec.status == FT_OK && draft->n_under)
        codec.status = ft_early_check(draft, FT_WIRE_TREE_MAX, err);
    if (codec.status != FT_OK)
        return codec.status;
    draft_pb pb = FORETOKEN__V1__DRAFT__INIT;
    move_draft(&codec, draft, &pb);
    for (; pb.n_under < draft->n_under; pb.n_under++)
        under[pb.n_under] = draft->under[pb.n_under];
    pb.under = under;
    pb.tree.data = tree;
    pb.tree.len = ft_tree_bits_write(draft, tree, &pb.token_bits);
    pb.evidence.data = (uint8_t *)draft->evidence;
    pb.evidence.len = draft->n_evidence;
    message->kind_case = FORETOKEN__V1__CLIENT_MESSAGE__KIND_DRAFT;
    message->draft = &pb;
    return ft_codec_pack(&message->base, err, data, n);
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
        return encode_open((ft_msg_open *)&msg->open, &message, err, data, n);
    case FT_CLIENT_DRAFT:
        return encode_draft((ft_msg_draft *)&msg->draft, &message, err, data, n);
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
