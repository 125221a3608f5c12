// SPDX-License-Identifier: Apache-2.0
// Opened, Verdict and InfoReply: from bytes, with every check, and to bytes. An edge need not trust
// its server: sizes, counts and numbers are checked before anything is allocated from them. Pure
// functions.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "foretoken.pb-c.h"
#include "wire/codec.h"

/* The largest legal Verdict (257 entries of 20 alternatives) is about 70 KB on the wire, and
 * unpacks to under 600 KB of protobuf-c structs. */
#define UNPACK_BUDGET_BYTES (1024 * 1024)
#define INFO_MAX_BYTES      4096

typedef Foretoken__V1__ServerMessage server_pb;
typedef Foretoken__V1__Verdict verdict_pb;
typedef Foretoken__V1__TokenLogprob logprob_pb;
typedef Foretoken__V1__TopLogprob top_pb;

/* rules: [FT_WIRE_RULES_MAX], for writing: pb borrows it. Takes the first rules when it reads. */
static void move_limits(ft_codec *codec, ft_msg_limits *ours, Foretoken__V1__Limits *pb,
                        Foretoken__V1__Rule *rules)
{
    FT_CODEC_MOVE(codec, ours->max_tree, pb->max_tree);
    FT_CODEC_MOVE(codec, ours->max_context, pb->max_context);
    FT_CODEC_MOVE(codec, ours->session_ttl_s, pb->session_ttl_s);
    FT_CODEC_MOVE(codec, ours->max_top_logprobs, pb->max_top_logprobs);
    FT_CODEC_MOVE(codec, ours->early_drafts, pb->early_drafts);
    FT_CODEC_MOVE(codec, ours->penalties, pb->penalties);
    FT_CODEC_MOVE(codec, ours->constraints, pb->constraints);
    FT_CODEC_MOVE(codec, ours->max_evidence_bytes, pb->max_evidence);
    if (codec->writing) {
        pb->rules = rules;
        pb->n_rules = ft_min_u32(ours->n_rules, FT_WIRE_RULES_MAX);
    } else {
        ours->n_rules = pb->n_rules < FT_WIRE_RULES_MAX ? (uint32_t)pb->n_rules : FT_WIRE_RULES_MAX;
    }
    for (size_t i = 0; i < pb->n_rules && i < FT_WIRE_RULES_MAX; i++)
        FT_CODEC_MOVE(codec, ours->rules[i], pb->rules[i]);
}

/* Without limits. */
static void move_opened(ft_codec *codec, ft_msg_opened *ours, Foretoken__V1__Opened *pb)
{
    ft_codec_id(codec, &ours->session, &pb->session, "Opened.session");
    ft_codec_id(codec, &ours->secret, &pb->secret, "Opened.secret");
    ft_codec_string(codec, ours->model, sizeof ours->model, &pb->model, "Opened.model");
    FT_CODEC_MOVE(codec, ours->cached_tokens, pb->cached_tokens);
    FT_CODEC_MOVE(codec, ours->length, pb->length);
    FT_CODEC_MOVE(codec, ours->last_round, pb->last_round);
    FT_CODEC_MOVE(codec, ours->target, pb->target);
    FT_CODEC_MOVE(codec, ours->queue_us, pb->queue_us);
}

/* Without tokens, logprobs, hints and finish. */
static void move_verdict(ft_codec *codec, ft_msg_verdict *ours, verdict_pb *pb)
{
    FT_CODEC_MOVE(codec, ours->round, pb->round);
    FT_CODEC_MOVE(codec, ours->more, pb->more);
    FT_CODEC_MOVE(codec, ours->length, pb->length);
    FT_CODEC_MOVE(codec, ours->queue_us, pb->queue_us);
    FT_CODEC_MOVE(codec, ours->verify_us, pb->verify_us);
    FT_CODEC_MOVE(codec, ours->others_us, pb->others_us);
    FT_CODEC_MOVE(codec, ours->early_taken, pb->early_taken);
    FT_CODEC_MOVE(codec, ours->together, pb->together);
    FT_CODEC_MOVE(codec, ours->read_tok, pb->read_tok);
    FT_CODEC_MOVE(codec, ours->read_us, pb->read_us);
}

static void move_hints(ft_codec *codec, ft_msg_hints *ours, Foretoken__V1__Hints *pb)
{
    FT_CODEC_MOVE(codec, ours->no_trees, pb->no_trees);
    FT_CODEC_MOVE(codec, ours->row_price, pb->row_price);
    FT_CODEC_MOVE(codec, ours->token_us, pb->token_us);
}

/* Without limits. */
static void move_info(ft_codec *codec, ft_msg_info *ours, Foretoken__V1__InfoReply *pb)
{
    ft_codec_string(codec, ours->version, sizeof ours->version, &pb->version, "InfoReply.version");
    ft_codec_string(codec, ours->model, sizeof ours->model, &pb->model, "InfoReply.model");
    ft_codec_string(codec, ours->kernels, sizeof ours->kernels, &pb->kernels, "InfoReply.kernels");
    FT_CODEC_MOVE(codec, ours->protocol, pb->protocol);
    FT_CODEC_MOVE(codec, ours->vocab_fingerprint, pb->vocab_fingerprint);
    FT_CODEC_MOVE(codec, ours->sessions, pb->sessions);
    FT_CODEC_MOVE(codec, ours->kv_blocks, pb->kv_blocks);
    FT_CODEC_MOVE(codec, ours->kv_blocks_free, pb->kv_blocks_free);
    FT_CODEC_MOVE(codec, ours->target, pb->target);
}

/* ---- from bytes ---- */

static void read_logprob(ft_codec *codec, const logprob_pb *pb, ft_token_logprob *out)
{
    if (!isfinite(pb->logprob))
        ft_codec_refuse(codec, FT_INVALID, "Verdict.logprobs: not a number");
    if (pb->n_top > FT_WIRE_TOP_MAX) {
        ft_codec_refuse(codec, FT_INVALID, "Verdict.logprobs.top: %zu, at most %d", pb->n_top,
                        FT_WIRE_TOP_MAX);
        return;
    }
    out->logprob = pb->logprob;
    out->n_top = (uint32_t)pb->n_top;
    for (uint32_t i = 0; i < out->n_top; i++) {
        if (!isfinite(pb->top[i]->logprob) || pb->top[i]->token > INT32_MAX)
            ft_codec_refuse(codec, FT_INVALID, "Verdict.logprobs.top[%u]: token %u, logprob %g", i,
                            pb->top[i]->token, (double)pb->top[i]->logprob);
        out->top[i].token = (int32_t)pb->top[i]->token;
        out->top[i].logprob = pb->top[i]->logprob;
    }
}

static void check_counts(ft_codec *codec, size_t n_path, size_t n_next, size_t n_logprobs)
{
    if (n_path > FT_WIRE_PATH_MAX)
        ft_codec_refuse(codec, FT_INVALID, "Verdict.path: %zu nodes, at most %d", n_path,
                        FT_WIRE_PATH_MAX);
    else if (n_next > FT_WIRE_NEXT_MAX - n_path)
        ft_codec_refuse(codec, FT_INVALID, "Verdict.next: %zu tokens behind %zu nodes", n_next,
                        n_path);
    else if (n_logprobs && n_logprobs != n_path + n_next)
        ft_codec_refuse(codec, FT_INVALID, "Verdict.logprobs: %zu for %zu tokens", n_logprobs,
                        n_path + n_next);
}

/* The nodes and tokens, whose counts are checked. */
static void read_tokens(ft_codec *codec, const verdict_pb *pb, ft_msg_verdict *out)
{
    out->n_path = (uint32_t)pb->n_path;
    for (size_t i = 0; i < pb->n_path; i++) {
        if (pb->path[i] >= FT_WIRE_TREE_MAX || (i && pb->path[i] <= pb->path[i - 1]))
            ft_codec_refuse(codec, FT_INVALID, "Verdict.path[%zu]: node %u", i, pb->path[i]);
        out->path[i] = pb->path[i];
    }
    out->n_next = (uint32_t)pb->n_next;
    for (size_t i = 0; i < pb->n_next; i++) {
        if (pb->next[i] > INT32_MAX)
            ft_codec_refuse(codec, FT_INVALID, "Verdict.next[%zu]: token %u", i, pb->next[i]);
        out->next[i] = (int32_t)pb->next[i];
    }
}

/* A Verdict without its logprobs, whose count is checked. */
static void read_verdict(ft_codec *codec, verdict_pb *pb, ft_msg_verdict *out)
{
    check_counts(codec, pb->n_path, pb->n_next, pb->n_logprobs);
    if (codec->status != FT_OK)
        return;
    read_tokens(codec, pb, out);
    if ((int)pb->finish < FT_FINISH_NONE || (int)pb->finish > FT_FINISH_LENGTH)
        ft_codec_refuse(codec, FT_INVALID, "Verdict.finish: %d is not known", (int)pb->finish);
    if (pb->more && pb->finish)
        ft_codec_refuse(codec, FT_INVALID, "Verdict.more: behind the end of the text");
    if (pb->early_taken && (pb->more || pb->finish))
        ft_codec_refuse(codec, FT_INVALID, "Verdict.early_taken: where no round can follow");
    move_verdict(codec, out, pb);
    if (pb->hints)
        move_hints(codec, &out->hints, pb->hints);
    out->finish = (ft_finish)pb->finish;
    out->n_logprobs = (uint32_t)pb->n_logprobs;
}

static void read_kind(ft_codec *codec, server_pb *pb, ft_server_msg *out)
{
    switch (pb->kind_case) {
    case FORETOKEN__V1__SERVER_MESSAGE__KIND_OPENED:
        out->kind = FT_SERVER_OPENED;
        move_opened(codec, &out->opened, pb->opened);
        if (pb->opened->limits)
            move_limits(codec, &out->opened.limits, pb->opened->limits, NULL);
        if (pb->opened->hints)
            move_hints(codec, &out->opened.hints, pb->opened->hints);
        break;
    case FORETOKEN__V1__SERVER_MESSAGE__KIND_VERDICT:
        out->kind = FT_SERVER_VERDICT;
        read_verdict(codec, pb->verdict, &out->verdict);
        break;
    default:
        ft_codec_refuse(codec, FT_INVALID, "ServerMessage: no kind");
    }
}

static ft_status build(server_pb *pb, ft_error *err, ft_server_msg **out)
{
    ft_server_msg head = {0};
    ft_codec codec = {.err = err};
    read_kind(&codec, pb, &head);
    if (codec.status != FT_OK)
        return codec.status;
    size_t n_logprobs = head.kind == FT_SERVER_VERDICT ? head.verdict.n_logprobs : 0;
    ft_server_msg *msg = calloc(1, sizeof *msg + n_logprobs * sizeof(ft_token_logprob));
    if (!msg)
        return ft_error_set(err, FT_NOMEM, "no memory for a message");
    *msg = head;
    if (n_logprobs)
        msg->verdict.logprobs = (ft_token_logprob *)(msg + 1);
    for (size_t i = 0; i < n_logprobs; i++)
        read_logprob(&codec, pb->verdict->logprobs[i], &msg->verdict.logprobs[i]);
    if (codec.status != FT_OK)
        free(msg);
    else
        *out = msg;
    return codec.status;
}

ft_status ft_server_msg_decode(const uint8_t *data, size_t n, ft_error *err, ft_server_msg **out)
{
    *out = NULL;
    if (n > FT_SERVER_MSG_MAX_BYTES)
        return ft_error_set(err, FT_TOO_LARGE, "ServerMessage: %zu bytes, at most %d", n,
                            FT_SERVER_MSG_MAX_BYTES);
    ft_status status =
        ft_codec_scan(data, n, FORETOKEN__V1__SERVER_MESSAGE__KIND_VERDICT, "ServerMessage", err);
    if (status != FT_OK)
        return status;
    ft_codec_memory memory;
    ft_codec_memory_init(&memory, UNPACK_BUDGET_BYTES);
    server_pb *pb = foretoken__v1__server_message__unpack(&memory.allocator, n, data);
    if (!pb)
        return ft_error_set(err, FT_INVALID, "ServerMessage: not a protobuf message");
    status = build(pb, err, out);
    foretoken__v1__server_message__free_unpacked(pb, &memory.allocator);
    return status;
}

void ft_server_msg_free(ft_server_msg *msg)
{
    free(msg);
}

/* ---- to bytes ---- */

static bool has_hints(const ft_msg_hints *h)
{
    return h->row_price > 0 || h->token_us > 0 || h->no_trees;
}

/* The encoders set their kind of *message and pack it. */
static ft_status encode_opened(ft_msg_opened *opened, server_pb *message, ft_error *err,
                               uint8_t **data, size_t *n)
{
    ft_codec codec = {.writing = true, .err = err};
    Foretoken__V1__Rule rules[FT_WIRE_RULES_MAX];
    Foretoken__V1__Limits limits = FORETOKEN__V1__LIMITS__INIT;
    Foretoken__V1__Hints hints = FORETOKEN__V1__HINTS__INIT;
    Foretoken__V1__Opened pb = FORETOKEN__V1__OPENED__INIT;
    move_opened(&codec, opened, &pb);
    move_limits(&codec, &opened->limits, &limits, rules);
    move_hints(&codec, &opened->hints, &hints);
    pb.limits = &limits;
    if (has_hints(&opened->hints))
        pb.hints = &hints;
    message->kind_case = FORETOKEN__V1__SERVER_MESSAGE__KIND_OPENED;
    message->opened = &pb;
    return ft_codec_pack(&message->base, err, data, n);
}

/* Minus infinity is sent as -9999, as OpenAI does. */
static float finite_logprob(float logprob)
{
    return logprob == -INFINITY ? -9999.0f : logprob;
}

/* The protobuf-c structs of one token's logprobs, which point into each other. */
typedef struct logprob_pbs {
    logprob_pb entry;
    top_pb top[FT_WIRE_TOP_MAX], *pointer[FT_WIRE_TOP_MAX];
} logprob_pbs;

static void write_logprob(ft_codec *codec, const ft_token_logprob *from, logprob_pbs *out)
{
    foretoken__v1__token_logprob__init(&out->entry);
    out->entry.logprob = finite_logprob(from->logprob);
    out->entry.top = out->pointer;
    if (from->n_top > FT_WIRE_TOP_MAX) {
        ft_codec_refuse(codec, FT_INVALID, "Verdict: %u alternatives", from->n_top);
        return;
    }
    for (; out->entry.n_top < from->n_top; out->entry.n_top++) {
        size_t k = out->entry.n_top;
        foretoken__v1__top_logprob__init(&out->top[k]);
        out->top[k].token = (uint32_t)from->top[k].token;
        out->top[k].logprob = finite_logprob(from->top[k].logprob);
        out->pointer[k] = &out->top[k];
    }
}

static ft_status encode_verdict(ft_msg_verdict *verdict, server_pb *message, ft_error *err,
                                uint8_t **data, size_t *n)
{
    ft_codec codec = {.writing = true, .err = err};
    check_counts(&codec, verdict->n_path, verdict->n_next, verdict->n_logprobs);
    if (codec.status != FT_OK)
        return codec.status;
    Foretoken__V1__Hints hints = FORETOKEN__V1__HINTS__INIT;
    verdict_pb pb = FORETOKEN__V1__VERDICT__INIT;
    move_verdict(&codec, verdict, &pb);
    move_hints(&codec, &verdict->hints, &hints);
    pb.n_path = verdict->n_path;
    pb.path = verdict->path;
    pb.n_next = verdict->n_next;
    pb.next = (uint32_t *)verdict->next;
    pb.finish = (Foretoken__V1__Finish)verdict->finish;
    if (has_hints(&verdict->hints))
        pb.hints = &hints;
    logprob_pb *entry[FT_WIRE_NEXT_MAX];
    logprob_pbs *logprobs = NULL;
    pb.n_logprobs = verdict->n_logprobs;
    pb.logprobs = entry;
    if (pb.n_logprobs && !(logprobs = calloc(pb.n_logprobs, sizeof *logprobs)))
        return ft_error_set(err, FT_NOMEM, "no memory for a verdict");
    for (size_t i = 0; i < pb.n_logprobs; i++) {
        write_logprob(&codec, &verdict->logprobs[i], &logprobs[i]);
        entry[i] = &logprobs[i].entry;
    }
    message->kind_case = FORETOKEN__V1__SERVER_MESSAGE__KIND_VERDICT;
    message->verdict = &pb;
    if (codec.status == FT_OK)
        codec.status = ft_codec_pack(&message->base, err, data, n);
    free(logprobs);
    return codec.status;
}

ft_status ft_server_msg_encode(const ft_server_msg *msg, ft_error *err, uint8_t **data, size_t *n)
{
    server_pb message = FORETOKEN__V1__SERVER_MESSAGE__INIT;
    *data = NULL;
    *n = 0;
    switch (msg->kind) {
    case FT_SERVER_OPENED:
        return encode_opened((ft_msg_opened *)&msg->opened, &message, err, data, n);
    case FT_SERVER_VERDICT:
        return encode_verdict((ft_msg_verdict *)&msg->verdict, &message, err, data, n);
    }
    return ft_error_set(err, FT_INVALID, "ServerMessage: unknown kind %d", (int)msg->kind);
}

ft_status ft_info_decode(const uint8_t *data, size_t n, ft_error *err, ft_msg_info *out)
{
    *out = (ft_msg_info){0};
    if (n > INFO_MAX_BYTES)
        return ft_error_set(err, FT_TOO_LARGE, "InfoReply: %zu bytes, at most %d", n,
                            INFO_MAX_BYTES);
    ft_codec_memory memory;
    ft_codec_memory_init(&memory, 8 * INFO_MAX_BYTES);
    Foretoken__V1__InfoReply *pb = foretoken__v1__info_reply__unpack(&memory.allocator, n, data);
    if (!pb)
        return ft_error_set(err, FT_INVALID, "InfoReply: not a protobuf message");
    ft_codec codec = {.err = err};
    move_info(&codec, out, pb);
    if (pb->limits)
        move_limits(&codec, &out->limits, pb->limits, NULL);
    foretoken__v1__info_reply__free_unpacked(pb, &memory.allocator);
    return codec.status;
}

ft_status ft_info_encode(const ft_msg_info *info, ft_error *err, uint8_t **data, size_t *n)
{
    ft_codec codec = {.writing = true, .err = err};
    ft_msg_info *ours = (ft_msg_info *)info;
    Foretoken__V1__Rule rules[FT_WIRE_RULES_MAX];
    Foretoken__V1__Limits limits = FORETOKEN__V1__LIMITS__INIT;
    Foretoken__V1__InfoReply pb = FORETOKEN__V1__INFO_REPLY__INIT;
    move_info(&codec, ours, &pb);
    move_limits(&codec, &ours->limits, &limits, rules);
    pb.limits = &limits;
    return ft_codec_pack(&pb.base, err, data, n);
}
