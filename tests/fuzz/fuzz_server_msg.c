// SPDX-License-Identifier: Apache-2.0
// What an edge reads from a server: messages of the stream, and the reply to Info.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wire/messages.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_verdict(const ft_msg_verdict *verdict)
{
    require(verdict->n_path <= FT_WIRE_PATH_MAX);
    require(verdict->n_path + verdict->n_next <= FT_WIRE_NEXT_MAX);
    require(!verdict->more || verdict->finish == FT_FINISH_NONE);
    require(!verdict->early_taken || (verdict->finish == FT_FINISH_NONE && !verdict->more));
    for (uint32_t i = 0; i < verdict->n_next; i++)
        require(verdict->next[i] >= 0);
    for (uint32_t i = 0; i < verdict->n_path; i++)
        require(verdict->path[i] < FT_WIRE_TREE_MAX &&
                (i == 0 || verdict->path[i] > verdict->path[i - 1]));
    require(verdict->n_logprobs == 0 || verdict->n_logprobs == verdict->n_path + verdict->n_next);
    for (uint32_t i = 0; i < verdict->n_logprobs; i++) {
        require(isfinite(verdict->logprobs[i].logprob));
        require(verdict->logprobs[i].n_top <= FT_WIRE_TOP_MAX);
    }
}

static void check_limits(const ft_msg_limits *limits)
{
    require(limits->n_rules <= FT_WIRE_RULES_MAX);
}

static void check_stream(const uint8_t *data, size_t n)
{
    ft_server_msg *msg = NULL, *again = NULL;
    uint8_t *wire = NULL;
    size_t wire_len = 0;
    ft_error err;
    if (ft_server_msg_decode(data, n, &err, &msg) != FT_OK) {
        require(msg == NULL);
        return;
    }
    if (msg->kind == FT_SERVER_VERDICT)
        check_verdict(&msg->verdict);
    else
        check_limits(&msg->opened.limits);
    require(ft_server_msg_encode(msg, &err, &wire, &wire_len) == FT_OK);
    require(ft_server_msg_decode(wire, wire_len, &err, &again) == FT_OK);
    require(again->kind == msg->kind);
    if (msg->kind == FT_SERVER_OPENED)
        require(memcmp(&msg->opened, &again->opened, sizeof msg->opened) == 0);
    else
        require(msg->verdict.n_path == again->verdict.n_path &&
                msg->verdict.n_next == again->verdict.n_next &&
                memcmp(msg->verdict.next, again->verdict.next, sizeof msg->verdict.next) == 0);
    free(wire);
    ft_server_msg_free(again);
    ft_server_msg_free(msg);
}

static void check_info(const uint8_t *data, size_t n)
{
    ft_msg_info info;
    ft_error err;
    if (ft_info_decode(data, n, &err, &info) == FT_OK) {
        require(memchr(info.model, 0, sizeof info.model) != NULL);
        check_limits(&info.limits);
        require(memchr(info.version, 0, sizeof info.version) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    check_stream(data, n);
    check_info(data, n);
    return 0;
}
