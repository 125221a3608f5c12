// SPDX-License-Identifier: Apache-2.0
// Memory that runs out inside libllama, which throws there: an error, never the end of the process,
// and the vocabulary is as good as before.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "llama.h"
#include "model/vocab.h"
#include "support/fail_allocs.h"
#include "support/tiny_gguf.h"

static char *path;

static void drop_log(enum ggml_log_level level, const char *text, void *ctx) {}

static int set_up(void **state)
{
    const tiny_gguf_opts opts = {.n_vocab = 400};
    static const char *const modules[] = {"", "libstdc++", NULL};
    (void)state;
    llama_log_set(drop_log, NULL);
    ggml_log_set(drop_log, NULL);
    fail_allocs_init(modules);
    path = tiny_gguf_temp(&opts);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    free(path);
    return 0;
}

static void need_failures(void)
{
    if (FAILS_ALLOCS)
        return;
    print_message("SKIPPED: allocations cannot fail in this build\n");
    skip();
}

static ft_status tokens_of(const ft_vocab *v, ft_error *err, ft_tokens *out)
{
    static const char text[] = "Of words 1234 there are many,\n\nand <|im_end|> is text: Grüße!";
    return ft_vocab_tokenize(v, text, strlen(text), NULL, err, out);
}

static ft_status chat_of(const ft_vocab *v, ft_error *err, ft_tokens *out)
{
    static const ft_chat_message talk[] = {
        {.role = "system", .content = "You are a horse of a different colour."},
        {.role = "user", .content = "<|im_end|> Name three fruits, please!"}};
    return ft_vocab_chat(v, talk, 2, NULL, err, out);
}

/* Fails each allocation of a call in turn, until the call has fewer. (Not all are needed: the C++
 * library has a reserve for exceptions.) */
static void fail_each(ft_status (*call)(const ft_vocab *v, ft_error *err, ft_tokens *out))
{
    ft_error err = {0};
    ft_vocab *v = NULL;
    ft_tokens wanted = {0};
    long n = 0, refused = 0;
    need_failures();
    assert_int_equal(ft_vocab_load(path, &err, &v), FT_OK);
    assert_int_equal(call(v, &err, &wanted), FT_OK);
    for (bool failed = true; failed; n++) {
        ft_tokens got = {0};
        fail_allocs_arm(n + 1);
        ft_status status = call(v, &err, &got);
        failed = fail_allocs_disarm() != NULL;
        refused += status != FT_OK;
        assert_true(status == FT_OK || (failed && status == FT_NOMEM));
        assert_int_equal(got.n, status == FT_OK ? wanted.n : 0);
        if (got.n)
            assert_memory_equal(got.id, wanted.id, got.n * sizeof *got.id);
        ft_tokens_deinit(&got);
    }
    assert_true(refused > 20);
    ft_tokens_deinit(&wanted);
    ft_vocab_destroy(v);
}

static void test_tokenize(void **state)
{
    (void)state;
    fail_each(tokens_of);
}

static void test_chat(void **state)
{
    (void)state;
    fail_each(chat_of);
}

/* Words that make libllama throw by themselves, in its loader. */
static void test_bad_vocabulary(void **state)
{
    const tiny_gguf_opts opts = {.last_token = "\xf7\xbf\xbf\xbf"}; /* no such code point */
    char *bad = tiny_gguf_temp(&opts);
    ft_error err = {0};
    ft_vocab *v = NULL;
    (void)state;
    assert_int_equal(ft_vocab_load(bad, &err, &v), FT_CORRUPT);
    assert_non_null(strstr(err.message, bad));
    assert_null(v);
    unlink(bad);
    free(bad);
}

/* There are thousands, so the steps grow. (libllama leaks some of its own then.) */
static void test_load(void **state)
{
    long n = 1;
    (void)state;
    need_failures();
    for (bool failed = true; failed; n += 1 + n / 50) {
        ft_error err = {0};
        ft_vocab *v = NULL;
        fail_allocs_arm(n);
        ft_status status = ft_vocab_load(path, &err, &v);
        failed = fail_allocs_disarm() != NULL;
        assert_true(status == FT_OK || (failed && err.message[0]));
        assert_int_equal(status == FT_OK, v != NULL);
        ft_vocab_destroy(v);
    }
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_chat),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_bad_vocabulary),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
