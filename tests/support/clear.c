// SPDX-License-Identifier: Apache-2.0
// Decodes behind a prompt and ranks the tokens at each position as the server does. Owned by the
// test.
#include "support/clear.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "spec/sampling.h"
#include "support/device.h"
#include "support/oracle.h"
#include "support/target.h"

enum { MEASURED = 96, CHUNK = 64 };

struct test_clear {
    ft_engine *engine;
    ft_seq *seq;
    ft_sampler *sampler;
    float rounding;
};

static float largest_error(const float *a, const float *b, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

static float measure(const char *path)
{
    const oracle_way ways[] = {{.device = test_device()},
                               {.device = test_device(), .flash = true},
                               {.device = test_device(), .batch = 1},
                               {.device = test_device(), .flash = true, .batch = 1}};
    float most = 0;
    uint32_t n_vocab;
    test_text text;
    test_text_random(&text, MEASURED, 1);
    float *cpu =
        oracle_logits(path, (oracle_way){.device = "none"}, text.token, MEASURED, &n_vocab);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float *theirs = oracle_logits(path, ways[i], text.token, MEASURED, &n_vocab);
        most = fmaxf(most, largest_error(theirs, cpu, (size_t)MEASURED * n_vocab));
        free(theirs);
    }
    free(cpu);
    print_message("rounding on %s: %.2e\n", test_device(), (double)most);
    assert_true(most > 0); /* else this device is none */
    return most;
}

test_clear *test_clear_create(const char *path)
{
    const ft_engine_opts opts = {
        .model = target.model, .kv_tok = TEST_TEXT_MAX, .max_batch_tok = CHUNK, .n_threads = 1};
    test_clear *clear = calloc(1, sizeof *clear);
    ft_error err = {0};
    assert_non_null(clear);
    clear->rounding = measure(path);
    if (ft_engine_create(&opts, &err, &clear->engine) != FT_OK ||
        ft_seq_create(clear->engine, &err, &clear->seq) != FT_OK ||
        ft_sampler_create(target.n_vocab, &err, &clear->sampler) != FT_OK)
        fail_msg("%s", err.message);
    return clear;
}

void test_clear_destroy(test_clear *clear)
{
    if (!clear)
        return;
    ft_sampler_destroy(clear->sampler);
    ft_seq_destroy(clear->seq);
    ft_engine_destroy(clear->engine);
    free(clear);
}

float test_clear_rounding(const test_clear *clear)
{
    return clear->rounding;
}

/* Adds tokens to the sequence; returns the logits behind the last one. */
static const float *add(test_clear *clear, const int32_t *token, uint32_t n)
{
    uint32_t path[CHUNK];
    uint64_t want;
    ft_segment seg = {.seq = clear->seq, .want = &want};
    ft_error err = {0};
    for (; n > 0; n -= seg.n) {
        seg.n = n < CHUNK ? n : CHUNK;
        seg.tokens = token;
        want = UINT64_C(1) << (seg.n - 1);
        token += seg.n;
        for (uint32_t i = 0; i < seg.n; i++)
            path[i] = i;
        if (ft_engine_forward(clear->engine, &seg, 1, &err) != FT_OK ||
            ft_seq_commit(clear->seq, path, seg.n, NULL, 0, &err) != FT_OK)
            fail_msg("%s", err.message);
    }
    return ft_engine_logits(clear->engine, seg.first_row);
}

bool test_clear_prompt(test_clear *clear, const test_text *prompt, const ft_msg_sampling *wanted,
                       uint32_t max_tok)
{
    const ft_sampling s = {.temperature = wanted->temperature, .top_p = 1, .seed = wanted->seed};
    const float apart = 2 * clear->rounding / (s.temperature > 0 ? s.temperature : 1);
    ft_candidate best[2] = {{0}};
    assert_true(wanted->top_k == 0 && wanted->top_p == 1 && wanted->min_p == 0);
    ft_seq_truncate(clear->seq, 0);
    const float *logits = add(clear, prompt->token, prompt->n_prompt);
    for (uint32_t i = 0; i < max_tok; i++) {
        if (ft_sampler_rank(clear->sampler, &s, logits, prompt->n_prompt + i, best, 2) == 2 &&
            best[0].score - best[1].score <= apart)
            return false;
        if (ft_vocab_is_eog(target.vocab, best[0].token))
            break;
        logits = add(clear, &best[0].token, 1);
    }
    return true;
}
