// SPDX-License-Identifier: Apache-2.0
// Opened, Verdict and InfoReply: from bytes, with every check, and to bytes. An edge need not trust
// its server: sizes, counts and numbers are checked before anything is allocated from them. Pure
// functions.
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Takes the first FT_WIRE_RULES_MAX rules. */
static void read_limits(const Foretoken__V1__Limits *pb, ft_msg_limits *out)
{
    if (!pb)
        return;
    out->max_tree = pb->max_tree;
    out->max_context = pb->max_context;
    out->session_ttl_s = pb->session_ttl_s;
    out->max_top_logprobs = pb->max_top_logprobs;
    out->early_drafts = pb->early_drafts;
    out->max_evidence_bytes = pb->max_evidence;
    for (size_t i = 0; i < pb->n_rules && out->n_rules < FT_WIRE_RULES_MAX; i++)
        out->rules[out->n_rules++] = (uint32_t)pb->rules[i];
}

/* rules: [FT_WIRE_RULES_MAX], borrowed by what is returned. */
static Foretoken__V1__Limits encode_limits(const ft_msg_limits *limits, Foretoken__V1__Rule *rules)
{
    Foretoken__V1__Limits pb = FORETOKEN__V1__LIMITS__INIT;
    for (uint32_t i = 0; i < limits->n_rules && i < FT_WIRE_RULES_MAX; i++)
        rules[pb.n_rules++] = (Foretoken__V1__Rule)limits->rules[i];
    pb.rules = rules;
    pb.max_evidence = limits->max_evidence_bytes;
    pb.max_tree = limits->max_tree;
    pb.max_context = limits->max_context;
    pb.session_ttl_s = limits->session_ttl_s;
    pb.max_top_logprobs = limits->max_top_logprobs;
    pb.early_drafts = limits->early_drafts;
    return pb;
}

static void read_opened(ft_codec_check *check, const Foretoken__V1__Opened *pb, ft_msg_opened *out)
{
    ft_codec_id(check, &pb->session, "Opened.session", &out->session);
    ft_codec_id(check, &pb->secret, "Opened.secret", &out->secret);
    ft_codec_string(check, pb->model, "Opened.model", out->model, sizeof out->model);
    out->cached_tokens = pb->cached_tokens;
    out->length = pb->length;
    out->last_round = pb->last_round;
    read_limits(pb->limits, &out->limits);
}

static void read_logprob(ft_codec_check *check, const logprob_pb *pb, ft_token_logprob *out)
{
    if (!isfinite(pb->logprob))
        ft_codec_refuse(check, FT_INVALID, "Verdict.logprobs: not a number");
    if (pb->n_top > FT_WIRE_TOP_MAX) {
        ft_codec_refuse(check, FT_INVALID, "Verdict.logprobs.top: %zu, at most %d", pb->n_top,
                        FT_WIRE_TOP_MAX);
        return;
    }
    out->logprob = pb->logprob;
    out->n_top = (uint32_t)pb->n_top;
    for (uint32_t i = 0; i < out->n_top; i++) {
        if (!isfinite(pb->top[i]->logprob) || pb->top[i]->token > INT32_MAX)
            ft_codec_refuse(check, FT_INVALID, "Verdict.logprobs.top[%u]: token %u, logprob %g", i,
                            pb->top[i]->token, (double)pb->top[i]->logprob);
        out->top[i].token = (int32_t)pb->top[i]->token;
        out->top[i].logprob = pb->top[i]->logprob;
    }
}

static void check_counts(ft_codec_check *check, size_t n_path, size_t n_next, size_t n_logprobs)
{
    if (n_path > FT_WIRE_PATH_MAX)
        ft_codec_refuse(check, FT_INVALID, "Verdict.path: %zu nodes, at most %d", n_path,
                        FT_WIRE_PATH_MAX);
    else if (n_next > FT_WIRE_NEXT_MAX - n_path)
        ft_codec_refuse(check, FT_INVALID, "Verdict.next: %zu tokens behind %zu nodes", n_next,
                        n_path);
    else if (n_logprobs && n_logprobs != n_path + n_next)
        ft_codec_refuse(check, FT_INVALID, "Verdict.logprobs: %zu for %zu tokens", n_logprobs,
                        n_path + n_next);
}

/* The nodes and tokens, whose counts are checked. */
static void read_tokens(ft_codec_check *check, const verdict_pb *pb, ft_msg_verdict *out)
{
    out->n_path = (uint32_t)pb->n_path;
    for (size_t i = 0; i < pb->n_path; i++) {
        if (pb->path[i] >= FT_WIRE_TREE_MAX || (i && pb->path[i] <= pb->path[i - 1]))
            ft_codec_refuse(check, FT_INVALID, "Verdict.path[%zu]: node %u", i, pb->path[i]);
        out->path[i] = pb->path[i];
    }
    out->n_next = (uint32_t)pb->n_next;
    for (size_t i = 0; i < pb->n_next; i++) {
        if (pb->next[i] > INT32_MAX)
            ft_codec_refuse(check, FT_INVALID, "Verdict.next[%zu]: token %u", i, pb->next[i]);
        out->next[i] = (int32_t)pb->next[i];
    }
}

/* A Verdict without its logprobs, whose count is checked. */
static void read_verdict(ft_codec_check *check, const verdict_pb *pb, ft_msg_verdict *out)
{
    check_counts(check, pb->n_path, pb->n_next, pb->n_logprobs);
    if (check->status != FT_OK)
        return;
    read_tokens(check, pb, out);
    if ((int)pb->finish < FT_FINISH_NONE || (int)pb->finish > FT_FINISH_LENGTH)
        ft_codec_refuse(check, FT_INVALID, "Verdict.finish: %d is not known", (int)pb->finish);
    if (pb->more && pb->finish)
        ft_codec_refuse(check, FT_INVALID, "Verdict.more: behind the end of the text");
    if (pb->early_taken && (pb->more || pb->finish))
        ft_codec_refuse(check, FT_INVALID, "Verdict.early_taken: where no round can follow");
    out->round = pb->round;
    out->more = pb->more;
    out->length = pb->length;
    out->queue_us = pb->queue_us;
    out->verify_us = pb->verify_us;
    out->others_us = pb->others_us;
    out->finish = (ft_finish)pb->finish;
    out->early_taken = pb->early_taken;
    out->n_logprobs = (uint32_t)pb->n_logprobs;
    if (!pb->hints)
        return;
    out->hint_no_trees = pb->hints->no_trees;
    out->hint_row_price = pb->hints->row_price;
    out->hint_token_us = pb->hints->token_us;
}

static void read_kind(ft_codec_check *check, const server_pb *pb, ft_server_msg *out)
{
    switch (pb->kind_case) {
    case FORETOKEN__V1__SERVER_MESSAGE__KIND_OPENED:
        out->kind = FT_SERVER_OPENED;
        read_opened(check, pb->opened, &out->opened);
        break;
    case FORETOKEN__V1__SERVER_MESSAGE__KIND_VERDICT:
        out->kind = FT_SERVER_VERDICT;
        read_verdict(check, pb->verdict, &out->verdict);
        break;
    default:
        ft_codec_refuse(check, FT_INVALID, "ServerMessage: no kind");
    }
}

static ft_status build(const server_pb *pb, ft_error *err, ft_server_msg **out)
{
    ft_server_msg head = {0};
    ft_codec_check check = {.err = err};
    read_kind(&check, pb, &head);
    if (check.status != FT_OK)
        return check.status;
    size_t n_logprobs = head.kind == FT_SERVER_VERDICT ? head.verdict.n_logprobs : 0;
    ft_server_msg *msg = calloc(1, sizeof *msg + n_logprobs * sizeof(ft_token_logprob));
    if (!msg)
        return ft_error_set(err, FT_NOMEM, "no memory for a message");
    *msg = head;
    if (n_logprobs)
        msg->verdict.logprobs = (ft_token_logprob *)(msg + 1);
    for (size_t i = 0; i < n_logprobs; i++)
        read_logprob(&check, pb->verdict->logprobs[i], &msg->verdict.logprobs[i]);
    if (check.status != FT_OK)
        free(msg);
    else
        *out = msg;
    return check.status;
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

/* The encoders set their kind of *message and pack it. */
static ft_status encode_opened(const ft_msg_opened *opened, server_pb *message, ft_error *err,
                               uint8_t **data, size_t *n)
{
    Foretoken__V1__Rule rules[FT_WIRE_RULES_MAX];
    Foretoken__V1__Limits limits = encode_limits(&opened->limits, rules);
    Foretoken__V1__Opened pb = FORETOKEN__V1__OPENED__INIT;
    pb.session.len = pb.secret.len = FT_SESSION_ID_LEN;
    pb.session.data = (uint8_t *)opened->session.bytes;
    pb.secret.data = (uint8_t *)opened->secret.bytes;
    pb.cached_tokens = opened->cached_tokens;
    pb.limits = &limits;
    pb.length = opened->length;
    pb.last_round = opened->last_round;
    pb.model = (char *)opened->model;
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

static void write_logprob(ft_codec_check *check, const ft_token_logprob *from, logprob_pbs *out)
{
    foretoken__v1__token_logprob__init(&out->entry);
    out->entry.logprob = finite_logprob(from->logprob);
    out->entry.top = out->pointer;
    if (from->n_top > FT_WIRE_TOP_MAX) {
        ft_codec_refuse(check, FT_INVALID, "Verdict: %u alternatives", from->n_top);
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

static ft_status encode_verdict(const ft_msg_verdict *verdict, server_pb *message, ft_error *err,
                                uint8_t **data, size_t *n)
{
    ft_codec_check check = {.err = err};
    check_counts(&check, verdict->n_path, verdict->n_next, verdict->n_logprobs);
    if (check.status != FT_OK)
        return check.status;
    Foretoken__V1__Hints hints = FORETOKEN__V1__HINTS__INIT;
    hints.token_us = verdict->hint_token_us;
    hints.no_trees = verdict->hint_no_trees;
    hints.row_price = verdict->hint_row_price;
    verdict_pb pb = FORETOKEN__V1__VERDICT__INIT;
    pb.round = verdict->round;
    pb.n_path = verdict->n_path;
    pb.path = (uint32_t *)verdict->path;
    pb.n_next = verdict->n_next;
    pb.next = (uint32_t *)verdict->next;
    pb.more = verdict->more;
    pb.length = verdict->length;
    pb.queue_us = verdict->queue_us;
    pb.verify_us = verdict->verify_us;
    pb.others_us = verdict->others_us;
    pb.finish = (Foretoken__V1__Finish)verdict->finish;
    pb.early_taken = verdict->early_taken;
    bool hint = verdict->hint_token_us || verdict->hint_no_trees || verdict->hint_row_price;
    pb.hints = hint ? &hints : NULL;
    logprob_pb *entry[FT_WIRE_NEXT_MAX];
    logprob_pbs *logprobs = NULL;
    pb.n_logprobs = verdict->n_logprobs;
    pb.logprobs = entry;
    if (pb.n_logprobs && !(logprobs = calloc(pb.n_logprobs, sizeof *logprobs)))
        return ft_error_set(err, FT_NOMEM, "no memory for a verdict");
    for (size_t i = 0; i < pb.n_logprobs; i++) {
        write_logprob(&check, &verdict->logprobs[i], &logprobs[i]);
        entry[i] = &logprobs[i].entry;
    }
    message->kind_case = FORETOKEN__V1__SERVER_MESSAGE__KIND_VERDICT;
    message->verdict = &pb;
    if (check.status == FT_OK)
        check.status = ft_codec_pack(&message->base, err, data, n);
    free(logprobs);
    return check.status;
}

ft_status ft_server_msg_encode(const ft_server_msg *msg, ft_error *err, uint8_t **data, size_t *n)
{
    server_pb message = FORETOKEN__V1__SERVER_MESSAGE__INIT;
    *data = NULL;
    *n = 0;
    switch (msg->kind) {
    case FT_SERVER_OPENED:
        return encode_opened(&msg->opened, &message, err, data, n);
    case FT_SERVER_VERDICT:
        return encode_verdict(&msg->verdict, &message, err, data, n);
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
    ft_codec_check check = {.err = err};
    ft_codec_string(&check, pb->version, "InfoReply.version", out->version, sizeof out->version);
    ft_codec_string(&check, pb->model, "InfoReply.model", out->model, sizeof out->model);
    ft_codec_string(&check, pb->kernels, "InfoReply.kernels", out->kernels, sizeof out->kernels);
    out->protocol = pb->protocol;
    out->vocab_fingerprint = pb->vocab_fingerprint;
    read_limits(pb->limits, &out->limits);
    out->sessions = pb->sessions;
    out->kv_blocks = pb->kv_blocks;
    out->kv_blocks_free = pb->kv_blocks_free;
    foretoken__v1__info_reply__free_unpacked(pb, &memory.allocator);
    return check.status;
}

ft_status ft_info_encode(const ft_msg_info *info, ft_error *err, uint8_t **data, size_t *n)
{
    Foretoken__V1__Rule rules[FT_WIRE_RULES_MAX];
    Foretoken__V1__Limits limits = encode_limits(&info->limits, rules);
    Foretoken__V1__InfoReply pb = FORETOKEN__V1__INFO_REPLY__INIT;
    pb.protocol = info->protocol;
    pb.version = (char *)info->version;
    pb.model = (char *)info->model;
    pb.vocab_fingerprint = info->vocab_fingerprint;
    pb.limits = &limits;
    pb.sessions = info->sessions;
    pb.kv_blocks = info->kv_blocks;
    pb.kv_blocks_free = info->kv_blocks_free;
    pb.kernels = (char *)info->kernels;
    return ft_codec_pack(&pb.base, err, data, n);
}
