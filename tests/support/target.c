// SPDX-License-Identifier: Apache-2.0
// The small target model of tests of the server, verifiers of it, and their clocks.
#include "support/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "llama.h"
#include "support/clear.h"
#include "support/device.h"
#include "support/tiny_gguf.h"

test_target target;

static void drop_log(enum ggml_log_level level, const char *text, void *ctx) {}

int test_target_setup(void **state)
{
    const tiny_gguf_opts opts = {
        .type = test_device() ? GGML_TYPE_F32 : GGML_TYPE_Q4_0, .embd_as_type = true, .seed = 7};
    char *path = tiny_gguf_temp(&opts);
    const ft_model_opts load = {.path = path};
    ft_error err = {0};
    (void)state;
    llama_log_set(drop_log, NULL);
    ft_log_set_level(FT_LOG_WARN);
    if (ft_model_load(&load, &err, &target.model) != FT_OK ||
        ft_vocab_load(path, &err, &target.vocab) != FT_OK)
        fail_msg("%s", err.message);
    target.n_vocab = (uint32_t)ft_vocab_size(target.vocab);
    if (test_device())
        target.clear = test_clear_create(path);
    unlink(path);
    free(path);
    return 0;
}

int test_target_teardown(void **state)
{
    (void)state;
    test_clear_destroy(target.clear);
    ft_vocab_destroy(target.vocab);
    ft_model_destroy(target.model);
    return 0;
}

float test_rounding(void)
{
    return target.clear ? test_clear_rounding(target.clear) : 0;
}

bool test_prompt_clear(const struct test_text *prompt, const ft_msg_sampling *s, uint32_t max_tok)
{
    return !target.clear || test_clear_prompt(target.clear, prompt, s, max_tok);
}

ft_verifier_opts test_verifier_opts(ft_verifier_opts opts)
{
    opts.model = target.model;
    opts.vocab = target.vocab;
    if (!opts.clock.now_us)
        opts.clock = ft_clock_monotonic();
    if (!opts.n_threads)
        opts.n_threads = 1;
    if (!opts.max_context)
        opts.max_context = 512;
    return opts;
}

ft_verifier *test_verifier_start(ft_verifier_opts opts)
{
    ft_error err = {0};
    ft_verifier *v = NULL;
    opts = test_verifier_opts(opts);
    if (ft_verifier_create(&opts, &err, &v) != FT_OK)
        fail_msg("%s", err.message);
    return v;
}

ft_verifier_stats test_verifier_stats(ft_verifier *v)
{
    ft_verifier_stats s;
    ft_verifier_tick(v);
    ft_verifier_get_stats(v, &s);
    return s;
}

void test_verifier_expect_empty(ft_verifier *v)
{
    ft_verifier_stats s = test_verifier_stats(v);
    assert_int_equal(s.sessions, 0);
    assert_int_equal(s.sessions_detached, 0);
    assert_int_equal(s.kv_blocks_free, s.kv_blocks);
}

static int64_t work_us(void *ctx)
{
    test_work_clock *clock = ctx;
    ft_verifier_stats s = {0};
    ft_verifier *v = atomic_load(&clock->verifier);
    if (v)
        ft_verifier_get_stats(v, &s);
    return 1 + (int64_t)s.passes.n * clock->pass_us + (int64_t)s.passes.sum * clock->row_us +
           atomic_fetch_add(&clock->looks, 1) * clock->look_us;
}

ft_clock test_work_clock_of(test_work_clock *clock)
{
    return (ft_clock){.now_us = work_us, .ctx = clock};
}

static int64_t shared_us(void *ctx)
{
    return atomic_load((_Atomic int64_t *)ctx);
}

ft_clock test_shared_clock(_Atomic int64_t *now_us)
{
    return (ft_clock){.now_us = shared_us, .ctx = now_us};
}
