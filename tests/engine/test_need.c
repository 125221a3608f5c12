// SPDX-License-Identifier: Apache-2.0
// What need.h says before an engine exists is no less than what the engine then takes, and not far
// above it.
#include "engine/need.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/graph.h"
#include "support/tiny_gguf.h"

/* Beyond the bytes that an engine counts: its lists, and descriptions of graphs. */
#define UNCOUNTED (14ull << 20)

static void check(const tiny_gguf_opts *file, ft_kv_type kv_type, uint32_t rows, uint32_t out)
{
    ft_error err = {0};
    ft_model *model = NULL;
    ft_engine *engine = NULL;
    ft_engine_stats stats;
    char *path = tiny_gguf_temp(file);
    const ft_model_opts opts = {.path = path};
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_OK);
    const ft_engine_opts how = {.model = model,
                                .kv_tok = 1000,
                                .max_batch_tok = rows,
                                .max_logits = out,
                                .n_threads = 2,
                                .kv_type = kv_type};
    const ft_engine_size size = {.hp = ft_model_hparams(model),
                                 .kv_type = kv_type,
                                 .kv_tok = 1000,
                                 .rows = rows,
                                 .out = out,
                                 .n_threads = 2};
    assert_int_equal(ft_engine_create(&how, &err, &engine), FT_OK);
    ft_engine_get_stats(engine, &stats);
    assert_int_equal(ft_engine_kv_bytes(&size), stats.kv_bytes);
    const uint64_t need = ft_engine_pass_bytes(&size);
    assert_true(need >= stats.compute_bytes);
    assert_true(need <= 2 * stats.compute_bytes + UNCOUNTED);
    ft_engine_destroy(engine);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

static void test_need(void **state)
{
    (void)state;
    for (uint32_t rows = 32; rows <= 512; rows *= 4) {
        check(&(tiny_gguf_opts){.seed = 1}, FT_KV_F16, rows, rows);
        check(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .n_layer = 6, .seed = 2}, FT_KV_Q8_0, rows,
              16);
        check(
            &(tiny_gguf_opts){.arch = "qwen3", .type = GGML_TYPE_Q4_K, .n_vocab = 30000, .seed = 3},
            FT_KV_BF16, rows, 32);
        check(&(tiny_gguf_opts){.type = GGML_TYPE_IQ3_S, .n_ff = 2048, .seed = 4}, FT_KV_F16, rows,
              32);
    }
}

static uint64_t need_of(uint32_t n_layer)
{
    const ft_hparams hp = {.n_layer = n_layer,
                           .n_embd = 64,
                           .n_head = 4,
                           .n_head_kv = 2,
                           .head_dim = 16,
                           .n_rot = 16,
                           .n_ff = 128,
                           .n_vocab = 256};
    const ft_engine_size size = {.hp = &hp, .kv_tok = 64, .rows = 32, .out = 32, .n_threads = 1};
    return ft_engine_pass_bytes(&size);
}

/* Descriptions of a deep model's graphs take 64 MiB, or those of eight graphs. */
static void test_deep(void **state)
{
    (void)state;
    assert_int_equal(ft_graph_slots(1000), FT_GRAPH_SLOTS);
    assert_int_equal(ft_graph_slots(FT_GRAPH_BYTES / 20), 20);
    assert_int_equal(ft_graph_slots(FT_GRAPH_BYTES), FT_GRAPH_SLOTS_LEAST);
    assert_true(need_of(80) - need_of(1) <= FT_GRAPH_BYTES);
    assert_true(need_of(400) - need_of(1) <= FT_GRAPH_BYTES + (FT_GRAPH_BYTES >> 3));
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_need), cmocka_unit_test(test_deep)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
