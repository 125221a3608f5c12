// SPDX-License-Identifier: Apache-2.0
// bench/load_chats: chats grow by turns, each prompt has the one before in it, users go through
// their chats, and what cannot be read is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/load_chats.h"
#include "support/tiny_gguf.h"

#define CHATS 20
#define TURNS 3

static char *model, *path;
static ft_vocab *vocab;
static ft_error err;

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.seed = 3};
    model = tiny_gguf_temp(&opts);
    path = tiny_temp_path();
    tiny_quiet();
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < CHATS + 3; i++)
        fprintf(f, "{\"prompt\": \"words of number %d\"}\n", i);
    if (!f || fclose(f) != 0)
        return -1;
    return ft_vocab_load(model, &err, &vocab) == FT_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    ft_vocab_destroy(vocab);
    unlink(model);
    unlink(path);
    free(model);
    free(path);
    return 0;
}

static ft_bench_load_chats_opts opts(void)
{
    return (ft_bench_load_chats_opts){
        .path = path, .vocab = vocab, .n = CHATS, .turns = TURNS, .seed = 5};
}

/* Tells all texts: chat i's turn k gets i + k + 1 tokens. */
static void tell(ft_bench_load_chats *chats)
{
    ft_bench_load_user user = {.chats = chats};
    for (uint32_t i = 0; i < chats->n; i++)
        for (ft_bench_load_user_begin(&user, i, false); user.chat; ft_bench_load_user_next(&user)) {
            ft_bench_load_prompt *prompt;
            const uint32_t turn = user.turn;
            assert_int_equal(ft_bench_load_user_prompt(&user, &err, &prompt), FT_OK);
            for (uint32_t k = 0; k < i + turn + 1; k++) {
                const int32_t token = 40 + (int32_t)k % 20;
                assert_int_equal(ft_tokens_append(&prompt->text, &token, 1), FT_OK);
            }
        }
}

static void test_chats(void **state)
{
    ft_bench_load_chats chats;
    const ft_bench_load_chats_opts o = opts();
    uint32_t turns[2 * TURNS] = {0};
    assert_int_equal(ft_bench_load_chats_read(&o, &err, &chats), FT_OK);
    assert_int_equal(chats.n, CHATS);
    tell(&chats);
    for (uint32_t i = 0; i < CHATS; i++) {
        const ft_bench_load_chat *c = &chats.chats[i];
        assert_true(c->n_turns >= 1 && c->n_turns < 2 * TURNS);
        turns[c->n_turns]++;
        for (uint32_t k = 0; k < i; k++)
            assert_true(chats.chats[k].prefix != c->prefix);
        for (uint32_t k = 1; k < c->n_turns; k++) { /* with its last tokens a prompt asks */
            const ft_tokens *a = &c->turns[k - 1].tokens, *b = &c->turns[k].tokens;
            assert_true(b->n > a->n + c->turns[k - 1].text.n);
            assert_memory_equal(a->id, b->id, a->n * sizeof *a->id);
        }
    }
    for (uint32_t n = 1; n < 2 * TURNS; n++)
        assert_true(turns[n] > 0);
    const ft_bench_load_chats_shape shape = ft_bench_load_chats_shape_of(&chats);
    assert_true(shape.first > 10 && shape.more > 10 && shape.text > 1 && shape.text < CHATS + 5);
    ft_bench_load_chats_deinit(&chats);
}

static void test_user(void **state)
{
    ft_bench_load_chats chats;
    const ft_bench_load_chats_opts o = opts();
    ft_bench_load_user user = {.chats = &chats};
    ft_bench_load_prompt *prompt;
    uint32_t midway = 0;
    double sum = 0;
    assert_int_equal(ft_bench_load_chats_read(&o, &err, &chats), FT_OK);
    tell(&chats);
    ft_rng_init(&user.rng, 7);
    for (uint32_t i = 0; i < CHATS; i++) {
        ft_bench_load_user_begin(&user, i, true);
        assert_true(user.turn < user.chat->n_turns);
        midway += user.turn > 0;
        for (; user.chat; ft_bench_load_user_next(&user)) {
            const ft_bench_load_prompt *turns = user.chat->turns;
            assert_int_equal(ft_bench_load_user_prompt(&user, &err, &prompt), FT_OK);
            assert_ptr_equal(prompt, &turns[user.turn]);
            assert_int_equal(ft_bench_load_user_before(&user),
                             user.turn ? prompt[-1].tokens.n + prompt[-1].text.n : 0);
        }
    }
    assert_true(midway > 0 && midway < CHATS);
    for (int i = 0; i < 4000; i++) {
        const int64_t us = ft_bench_load_user_think_us(&user, 2);
        assert_true(us >= 0);
        sum += (double)us / 4000;
    }
    assert_true(sum > 1.8e6 && sum < 2.2e6);
    ft_bench_load_chats_deinit(&chats);
}

static void test_refused(void **state)
{
    ft_bench_load_chats chats;
    ft_bench_load_chats_opts o = opts();
    o.n = CHATS + 4;
    assert_int_equal(ft_bench_load_chats_read(&o, &err, &chats), FT_INVALID);
    assert_non_null(strstr(err.message, "too few"));
    assert_null(chats.chats);
    o = opts();
    o.path = "/nonexistent";
    assert_int_equal(ft_bench_load_chats_read(&o, &err, &chats), FT_IO);
    ft_bench_load_chats_deinit(&chats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chats),
        cmocka_unit_test(test_user),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
