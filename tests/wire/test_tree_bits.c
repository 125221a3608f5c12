// SPDX-License-Identifier: Apache-2.0
// The packed form of trees: what docs/PROTOCOL.md shows, back and forth, its size, and that
// whatever else comes is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "wire/client.h"
#include "wire/tree_bits.h"

enum { ROUNDS = 2000, BUDGET = 32, UPLINK_MAX_BYTES = 150 };

static void add(ft_msg_draft *draft, int32_t parent, int32_t token)
{
    draft->token[draft->n] = token;
    draft->parent[draft->n++] = parent;
}

/* The example of docs/PROTOCOL.md: 5 and 6 below the text, 7 and 3 below 5, 1 below 6. */
static void test_example(void **state)
{
    static const uint8_t expected[] = {0xca, 0xbb, 0x55, 0x00};
    uint8_t bytes[FT_TREE_BITS_MAX_BYTES];
    ft_msg_draft draft = {0}, back = {.n = 5};
    uint32_t token_bits = 0;
    ft_error err = {0};
    (void)state;
    add(&draft, -1, 5);
    add(&draft, -1, 6);
    add(&draft, 0, 7);
    add(&draft, 0, 3);
    add(&draft, 1, 1);
    assert_int_equal(ft_tree_bits_write(&draft, bytes, &token_bits), sizeof expected);
    assert_int_equal(token_bits, 3);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_int_equal(ft_tree_bits_read(bytes, sizeof expected, 3, &back, &err), FT_OK);
    assert_memory_equal(&back, &draft, sizeof back);
}

/* Parents anywhere, in groups of siblings as a drafter has them, or a chain. */
static void random_tree(ft_rng *rng, ft_msg_draft *draft, uint32_t n, uint32_t n_vocab)
{
    uint32_t shape = ft_rng_below(rng, 3);
    memset(draft, 0, sizeof *draft);
    draft->round = 1 + ft_rng_below(rng, 10000);
    draft->base = ft_rng_below(rng, 16384);
    draft->draft_us = ft_rng_below(rng, 2000000);
    draft->rtt_us = ft_rng_below(rng, 2000000);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t parent = shape == 0 ? i : ft_rng_below(rng, i + 1);
        if (shape == 1 && i > 0 && ft_rng_below(rng, 4))
            parent = (uint32_t)(draft->parent[i - 1] + 1);
        add(draft, (int32_t)parent - 1, (int32_t)ft_rng_below(rng, n_vocab));
    }
}

static void test_round_trip(void **state)
{
    uint8_t bytes[FT_TREE_BITS_MAX_BYTES];
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 1);
    for (int i = 0; i < ROUNDS; i++) {
        ft_msg_draft draft, back;
        ft_error err = {0};
        uint32_t token_bits = 0, vocab = 1u << ft_rng_below(&rng, 32);
        random_tree(&rng, &draft, ft_rng_below(&rng, FT_WIRE_TREE_MAX + 1), vocab);
        if (draft.n && vocab > 1u << 30)
            draft.token[0] = INT32_MAX;
        size_t n = ft_tree_bits_write(&draft, bytes, &token_bits);
        assert_true(token_bits <= FT_TREE_BITS_TOKEN_MAX && (token_bits == 0) == (draft.n == 0));
        back = draft;
        memset(back.token, 0, sizeof back.token);
        memset(back.parent, 0, sizeof back.parent);
        assert_int_equal(ft_tree_bits_read(bytes, n, token_bits, &back, &err), FT_OK);
        assert_memory_equal(&back, &draft, sizeof back);
        /* nothing shorter or longer is taken for it */
        for (size_t k = 0; k < n; k++)
            assert_int_equal(ft_tree_bits_read(bytes, k, token_bits, &back, &err), FT_INVALID);
        if (n < sizeof bytes)
            assert_int_equal(ft_tree_bits_read(bytes, n + 1, token_bits, &back, &err), FT_INVALID);
    }
}

/* A round's uplink at budget 32, with gRPC's and HTTP/2's framing. */
static void test_uplink(void **state)
{
    static const uint32_t vocabularies[] = {32000, 49152, 151936};
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 2);
    for (size_t v = 0; v < sizeof vocabularies / sizeof vocabularies[0]; v++) {
        uint64_t most = 0, sum = 0;
        for (int i = 0; i < ROUNDS; i++) {
            ft_client_msg msg = {.kind = FT_CLIENT_DRAFT};
            uint8_t *data = NULL;
            size_t n = 0;
            ft_error err = {0};
            random_tree(&rng, &msg.draft, BUDGET, vocabularies[v]);
            msg.draft.token[0] = (int32_t)vocabularies[v] - 1;
            assert_int_equal(ft_client_msg_encode(&msg, &err, &data, &n), FT_OK);
            free(data);
            uint64_t bytes = ft_wire_message_bytes(n);
            most = bytes > most ? bytes : most;
            sum += bytes;
        }
        print_message("vocabulary %u: %llu bytes a round, %llu at most\n", vocabularies[v],
                      (unsigned long long)(sum / ROUNDS), (unsigned long long)most);
        assert_true(most <= UPLINK_MAX_BYTES);
    }
}

static void refuse(const uint8_t *bytes, size_t n, uint32_t nodes, uint32_t token_bits,
                   const char *part)
{
    ft_msg_draft draft = {.n = nodes};
    ft_error err = {0};
    assert_int_equal(ft_tree_bits_read(bytes, n, token_bits, &draft, &err), FT_INVALID);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
}

static void test_refused(void **state)
{
    static const uint8_t zeros[FT_TREE_BITS_MAX_BYTES + 1] = {0};
    (void)state;
    refuse(zeros, sizeof zeros, FT_WIRE_TREE_MAX, 31, "at most");
    refuse(zeros, 0, 1, 1, "0 bytes end in node 0 of 1");
    refuse(zeros, 4, 2, 16, "end in node 1 of 2");
    refuse(zeros, 6, 2, 16, "bits behind node 2");
    refuse((const uint8_t *)"\x80", 1, 1, 6, "bits behind"); /* padding that is not 0 */
    refuse((const uint8_t *)"\xc0\x01", 2, 3, 2, "parent 3 of node 2");
}

/* Any bytes, of exactly their size, are safe, and what is taken is a tree. */
static void test_any_bytes(void **state)
{
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 3);
    uint32_t taken = 0;
    for (int i = 0; i < 20000; i++) {
        size_t n = ft_rng_below(&rng, 24);
        uint8_t *bytes = malloc(n + 1);
        ft_msg_draft draft = {.n = ft_rng_below(&rng, 40)};
        ft_error err = {0};
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)ft_rng_u32(&rng);
        uint32_t token_bits = 1 + ft_rng_below(&rng, FT_TREE_BITS_TOKEN_MAX);
        if (ft_tree_bits_read(bytes, n, token_bits, &draft, &err) == FT_OK) {
            taken += draft.n > 0;
            for (uint32_t k = 0; k < draft.n; k++)
                assert_true(draft.parent[k] >= -1 && draft.parent[k] < (int32_t)k &&
                            draft.token[k] >= 0);
        }
        free(bytes);
    }
    assert_true(taken > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),   cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_uplink),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
