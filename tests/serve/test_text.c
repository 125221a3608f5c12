// SPDX-License-Identifier: Apache-2.0
// Texts that grow (serve/text.c), and the record of their last verdict (serve/record.c).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/record.h"

static void test_grow(void **state)
{
    const int32_t prompt[] = {3, 1, 4};
    const uint32_t max_len = 5 * FT_TEXT_ROOM;
    uint32_t grown = 0;
    ft_sess_text t;
    (void)state;
    assert_int_equal(ft_sess_text_init(&t, prompt, 3, max_len), FT_OK);
    assert_int_equal(t.len, 3);
    assert_int_equal(t.room, FT_TEXT_ROOM);
    for (uint32_t i = 3; i < max_len; i++) {
        const uint32_t room = t.room;
        assert_int_equal(ft_sess_text_reserve(&t, (uint64_t)t.len + 1), FT_OK);
        grown += t.room != room;
        assert_int_equal(ft_sess_text_append(&t, (int32_t)i, false), i + 1 == max_len);
    }
    assert_int_equal(grown, 3); /* to 2, 4 and 5 times */
    assert_int_equal(t.room, max_len);
    assert_int_equal(t.finish, FT_FINISH_LENGTH);
    assert_memory_equal(t.token, prompt, sizeof prompt);
    for (uint32_t i = 3; i < max_len; i++)
        assert_int_equal(t.token[i], i);
    ft_sess_text_deinit(&t);
}

/* Room is for no more than the text may hold, and for all that is asked for at once. */
static void test_room(void **state)
{
    int32_t prompt[2 * FT_TEXT_ROOM] = {0};
    ft_sess_text t;
    (void)state;
    assert_int_equal(ft_sess_text_init(&t, prompt, 8, 10), FT_OK);
    assert_int_equal(t.room, 10);
    assert_int_equal(ft_sess_text_reserve(&t, 1000), FT_OK);
    assert_int_equal(t.room, 10);
    ft_sess_text_deinit(&t);
    assert_int_equal(ft_sess_text_init(&t, prompt, 2 * FT_TEXT_ROOM, 100 * FT_TEXT_ROOM), FT_OK);
    assert_int_equal(t.room, 2 * FT_TEXT_ROOM);
    assert_int_equal(ft_sess_text_reserve(&t, 9 * FT_TEXT_ROOM), FT_OK);
    assert_int_equal(t.room, 16 * FT_TEXT_ROOM);
    ft_sess_text_deinit(&t);
}

static void test_stop(void **state)
{
    const int32_t prompt[] = {3};
    ft_sess_text t;
    (void)state;
    assert_int_equal(ft_sess_text_init(&t, prompt, 1, 9), FT_OK);
    assert_false(ft_sess_text_append(&t, 5, false));
    assert_true(ft_sess_text_append(&t, 2, true));
    assert_int_equal(t.finish, FT_FINISH_STOP);
    assert_int_equal(t.len, 3);
    ft_sess_text_deinit(&t);
}

/* What is given again is what was given. */
static void test_record(void **state)
{
    const int32_t prompt[] = {3, 1, 4};
    ft_token_logprob logprobs[4] = {{.logprob = -1}};
    ft_msg_verdict given = {.round = 7,
                            .n_path = 2,
                            .path = {0, 255},
                            .n_next = 1,
                            .next = {43},
                            .length = 6,
                            .n_logprobs = 3,
                            .logprobs = logprobs,
                            .queue_us = 1,
                            .verify_us = 2,
                            .others_us = 3,
                            .read_tok = 6,
                            .read_us = 7,
                            .hints.no_trees = true,
                            .hints.row_price = 4,
                            .hints.token_us = 5};
    ft_msg_verdict *again = malloc(sizeof *again);
    ft_sess_record r = {.round = 0};
    ft_sess_text t;
    (void)state;
    assert_false(ft_sess_record_holds(&r, 0, 0));
    assert_int_equal(ft_sess_text_init(&t, prompt, 3, 100), FT_OK);
    for (int32_t i = 41; i <= 43; i++)
        (void)ft_sess_text_append(&t, i, false);
    ft_sess_record_keep(&r, &given, 3, 5, true);
    assert_int_equal(r.n_drafted, 5);
    assert_true(ft_sess_record_holds(&r, 7, 3));
    assert_false(ft_sess_record_holds(&r, 7, 4) || ft_sess_record_holds(&r, 6, 3));
    ft_sess_record_verdict(&r, &t, logprobs, again);
    assert_memory_equal(again, &given, sizeof given);
    ft_sess_record_verdict(&r, &t, NULL, again);
    assert_int_equal(again->n_logprobs, 0);
    given.finish = t.finish = FT_FINISH_STOP;
    ft_sess_record_verdict(&r, &t, logprobs, again);
    assert_int_equal(again->finish, FT_FINISH_STOP);
    ft_sess_record_keep(&r, &given, 3, 5, false);
    assert_false(ft_sess_record_holds(&r, 7, 3));
    ft_sess_text_deinit(&t);
    free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grow), cmocka_unit_test(test_room),
                                       cmocka_unit_test(test_stop), cmocka_unit_test(test_record)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
