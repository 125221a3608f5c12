// SPDX-License-Identifier: Apache-2.0
// The sizes of messages that docs/PROTOCOL.md states: of a session in its hundredth round, with
// tokens spread over a vocabulary of 49,152.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/messages.h"

#define VOCAB 49152

static int32_t token(uint32_t i)
{
    return (int32_t)((i * 40503u + 12345u) % VOCAB);
}

/* The bytes of an encoded message, which it frees. */
static size_t freed(ft_status status, uint8_t *data, size_t n)
{
    assert_int_equal(status, FT_OK);
    free(data);
    return n;
}

static size_t client_bytes(const ft_client_msg *msg)
{
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err = {0};
    const ft_status status = ft_client_msg_encode(msg, &err, &data, &n);
    return freed(status, data, n);
}

/* width 1: a chain; else each node has so many children. */
static size_t draft_bytes(uint32_t n, uint32_t width)
{
    ft_client_msg msg = {
        .kind = FT_CLIENT_DRAFT,
        .draft = {.round = 100, .base = 500, .n = n, .draft_us = 12000, .rtt_us = 15000}};
    for (uint32_t i = 0; i < n; i++) {
        msg.draft.token[i] = token(i);
        msg.draft.parent[i] = (int32_t)((i + width - 1) / width) - 1;
    }
    return client_bytes(&msg);
}

static size_t verdict_bytes(uint32_t n_path)
{
    ft_server_msg msg = {.kind = FT_SERVER_VERDICT,
                         .verdict = {.round = 100,
                                     .n_path = n_path,
                                     .n_next = 1,
                                     .next = {token(0)},
                                     .length = 500,
                                     .queue_us = 2000,
                                     .verify_us = 40000,
                                     .others_us = 20000}};
    uint8_t *data = NULL;
    size_t n = 0;
    ft_error err = {0};
    for (uint32_t i = 0; i < n_path; i++)
        msg.verdict.path[i] = i;
    const ft_status status = ft_server_msg_encode(&msg, &err, &data, &n);
    return freed(status, data, n);
}

static size_t open_bytes(uint32_t n_prompt)
{
    int32_t *prompt = malloc(n_prompt * sizeof *prompt);
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN, .open = {.n_prompt = n_prompt, .prompt = prompt}};
    for (uint32_t i = 0; i < n_prompt; i++)
        prompt[i] = token(i);
    size_t n = client_bytes(&msg);
    free(prompt);
    return n;
}

static void test_drafts(void **state)
{
    assert_int_equal(draft_bytes(0, 1), 13);
    assert_int_equal(draft_bytes(1, 1), 21);
    assert_int_equal(draft_bytes(8, 1), 39);
    assert_int_equal(draft_bytes(8, 3), 37);
    assert_int_equal(draft_bytes(32, 1), 104);
    assert_int_equal(draft_bytes(32, 3), 93);
}

static void test_verdicts(void **state)
{
    assert_int_equal(verdict_bytes(0), 22);
    assert_int_equal(verdict_bytes(2), 26);
    assert_int_equal(verdict_bytes(5), 29);
}

/* A token takes 2 to 3 bytes. */
static void test_open(void **state)
{
    const size_t more = open_bytes(1100) - open_bytes(100);
    assert_in_range(more, 2000, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drafts),
                                       cmocka_unit_test(test_verdicts),
                                       cmocka_unit_test(test_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
