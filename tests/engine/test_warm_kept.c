// SPDX-License-Identifier: Apache-2.0
// engine/warm_kept: the next process takes up the times of passes, while they are not old and are
// about the same model and machine; and a warm-up that knows them does not measure.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/warm_kept.h"
#include "support/tiny_model.h"

#define NOW 1700000000

static const ft_warm measured = {
    .n = 2, .rows = {1, 4}, .us = {700, 2000}, .all_us = {700, 2500}, .alone_us = {900, 2000}};

static void check(const ft_warm *a, const ft_warm *b)
{
    assert_int_equal(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_int_equal(a->rows[i], b->rows[i]);
        assert_true(a->us[i] == b->us[i]);
        assert_true(a->all_us[i] == b->all_us[i] && a->alone_us[i] == b->alone_us[i]);
    }
}

static ft_status read_text(const char *text, uint64_t subject, int64_t now_s, ft_warm *warm)
{
    ft_error err = {0};
    const ft_status status = ft_warm_kept_read(text, strlen(text), subject, now_s, &err, warm);
    assert_int_equal(status == FT_OK, err.message[0] == 0);
    return status;
}

static void test_text(void **state)
{
    ft_buf text = {0};
    ft_warm warm = {0};
    (void)state;
    assert_int_equal(ft_warm_kept_write(7, NOW, &measured, &text), FT_OK);
    assert_int_equal(read_text(text.data, 7, NOW + 60, &warm), FT_OK);
    check(&warm, &measured);
    assert_int_equal(read_text(text.data, 8, NOW + 60, &warm), FT_NOT_FOUND);
    assert_int_equal(read_text(text.data, 7, NOW + FT_WARM_KEPT_S, &warm), FT_OK);
    assert_int_equal(read_text(text.data, 7, NOW + FT_WARM_KEPT_S + 1, &warm), FT_NOT_FOUND);
    assert_int_equal(read_text(text.data, 7, NOW - 1, &warm), FT_NOT_FOUND); /* a clock set back */
    ft_buf_deinit(&text);
}

static void test_broken(void **state)
{
#define FILE_OF(passes) \
    "{\"version\":1,\"of\":\"0000000000000007\",\"at\":1700000000,\"passes\":" passes "}"
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "{\"version\":2,\"of\":\"0000000000000007\",\"at\":1}",
                                      FILE_OF("7"),
                                      FILE_OF("[]"),
                                      FILE_OF("[[1,5]]"),
                                      FILE_OF("[[2,5,5]]"),
                                      FILE_OF("[[1,-5,5]]"),
                                      FILE_OF("[[1,5.5,5]]"),
                                      FILE_OF("[[1,5,2000001]]"),
                                      FILE_OF("[[1,5,5],[4,5]]"),
                                      FILE_OF("[[1,5,5],[4,5,5],[16,5,5],[64,5,5],[256,5,5]]")};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ft_warm warm = measured;
        if (read_text(bad[i], 7, NOW, &warm) != FT_INVALID)
            fail_msg("taken: %s", bad[i]);
        check(&warm, &measured);
    }
    ft_warm warm;
    assert_int_equal(read_text(FILE_OF("[[1,5,0],[4,9,8]]"), 7, NOW, &warm), FT_OK);
    check(&warm,
          &(ft_warm){.n = 2, .rows = {1, 4}, .us = {5, 8}, .all_us = {5, 9}, .alone_us = {0, 8}});
#undef FILE_OF
}

/* A clock that makes every pass take the same, `step` us: who measures anew finds another time. */
typedef struct steps {
    int64_t now_us, step;
} steps;

static int64_t next_us(void *ctx)
{
    steps *s = ctx;
    return s->now_us += s->step;
}

static ft_warm warm_up(ft_model *model, const ft_kept_place *kept, int64_t step)
{
    ft_engine *engine = NULL;
    ft_warm warm;
    steps s = {0, step};
    const ft_clock clock = {.ctx = &s, .now_us = next_us};
    assert_int_equal(
        ft_engine_create(&(ft_engine_opts){.model = model, .kv_tok = 256}, NULL, &engine), FT_OK);
    assert_int_equal(ft_engine_warm(engine, &clock, kept, NULL, &warm), FT_OK);
    ft_engine_destroy(engine);
    return warm;
}

static void test_next_engine(void **state)
{
    char folder[] = "/tmp/foretoken-test-warm-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    const ft_kept_place here = {folder, "here"}, there = {folder, "there"};
    ft_model *model = tiny_model(&(tiny_gguf_opts){.arch = "qwen3", .seed = 1}, NULL);
    const ft_warm first = warm_up(model, &here, 100), again = warm_up(model, &here, 300);
    assert_true(first.n > 0 && first.us[0] == 100);
    check(&first, &again);
    assert_true(warm_up(model, &there, 300).us[0] == 300);
    assert_true(warm_up(model, NULL, 500).us[0] == 500);
    ft_model_destroy(model);
    for (int slot = 0; slot < 64; slot++) {
        snprintf(path, sizeof path, "%s/warm-%02d.json", folder, slot);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(folder), 0); /* no part of a file is left */
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_next_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
