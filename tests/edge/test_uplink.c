// SPDX-License-Identifier: Apache-2.0
// An edge learns the rate of its uplink from its rounds, over several texts. The link in between is
// virtual: sending and receiving move the edge's clock, and the server takes no time. So nothing
// depends on the machine.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "edge/edge_internal.h"
#include "support/tiny_model.h"
#include "support/virtual_way.h"

enum { N_TOKENS = 60, N_TEXTS = 3, MAX_CONTEXT = 512 };

static bool on_text(void *ctx, const char *piece, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    (void)ctx, (void)piece, (void)n, (void)tokens, (void)n_tokens;
    return true;
}

typedef struct found {
    uint64_t estimate;   /* as the statistics of the last of some texts say */
    ft_uplink_rate used; /* to count with */
} found;

typedef struct world {
    double bits_per_s, given; /* given: as the edge was told, 0: it was not */
    int64_t busy_us;
} world;

static found rate_after_texts(ft_verifier *v, ft_vocab *vocab, const ft_model *draft, world of)
{
    virtual_way w = virtual_way_to(v, of.bits_per_s);
    int32_t prompt[20];
    ft_error err = {0};
    ft_edge *edge = NULL;
    ft_gen_stats stats = {0};
    w.busy_us = of.busy_us;
    const ft_edge_opts opts = {.vocab = vocab,
                               .draft_model = draft,
                               .draft = ft_draft_params_tree(24, 4, 6),
                               .source = virtual_way_source(&w),
                               .clock = virtual_way_clock(&w),
                               .uplink_bits_per_s = of.given};
    assert_int_equal(ft_edge_create(&opts, &err, &edge), FT_OK);
    for (int i = 0; i < N_TEXTS; i++) {
        for (int32_t j = 0; j < 20; j++)
            prompt[j] = 3 + (j * 37 + i) % 250;
        const ft_gen_request request = {.prompt = prompt,
                                        .n_prompt = 20,
                                        .sampling = ft_sampling_default(),
                                        .max_tokens = N_TOKENS};
        const ft_gen_sink sink = {.on_text = on_text};
        if (ft_edge_generate(edge, &request, &sink, &err, &stats) != FT_OK)
            fail_msg("%s", err.message);
    }
    const found f = {stats.uplink_bits_per_s, ft_edge_rate(edge)};
    ft_edge_destroy(edge);
    return f;
}

/* Rates at which a microsecond, the clock's unit, is little. */
static void test_rate(void **state)
{
    static const double rates[] = {2e4, 2e5, 1e6};
    const tiny_gguf_opts target = {.type = GGML_TYPE_Q4_0, .seed = 1};
    const tiny_gguf_opts bad = {.type = GGML_TYPE_Q4_0, .seed = 2, .n_layer = 1};
    ft_vocab *vocab;
    ft_verifier *v = NULL;
    ft_error err = {0};
    (void)state;
    tiny_quiet();
    ft_model *model = tiny_model(&target, &vocab), *draft = tiny_model(&bad, NULL);
    const ft_verifier_opts opts = {.model = model,
                                   .vocab = vocab,
                                   .clock = ft_clock_monotonic(),
                                   .n_threads = 1,
                                   .max_context = MAX_CONTEXT};
    assert_int_equal(ft_verifier_create(&opts, &err, &v), FT_OK);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const found f = rate_after_texts(v, vocab, draft, (world){.bits_per_s = rates[i]});
        if (fabs((double)f.estimate / rates[i] - 1) > 0.1)
            fail_msg("%g bits/s taken for %llu", rates[i], (unsigned long long)f.estimate);
        assert_true(f.used.known && (uint64_t)f.used.bits_per_s == f.estimate);
        /* A rate that is given counts; what is measured stands in the statistics. */
        const found told =
            rate_after_texts(v, vocab, draft, (world){.bits_per_s = rates[i], .given = 5e6});
        assert_true(told.used.known && told.used.bits_per_s == 5e6);
        assert_true(told.used.empty_us > 2 * VIRTUAL_HALF_RTT_US);
        assert_int_equal(told.estimate, f.estimate);
        /* What counts is when an answer came, and not when the edge read it. */
        const found busy =
            rate_after_texts(v, vocab, draft, (world){.bits_per_s = rates[i], .busy_us = 70000});
        assert_int_equal(busy.estimate, f.estimate);
    }
    ft_verifier_destroy(v);
    ft_model_destroy(model);
    ft_model_destroy(draft);
    ft_vocab_destroy(vocab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
