// SPDX-License-Identifier: Apache-2.0
// Added layers: libllama's logits stay bit for bit, for each family and every weight type; the old
// layers' bytes are all there, in order; metadata follows; bad calls leave nothing behind
// (new_file). tests/engine/test_inflated.c says the same of our engine.
#include "model/inflate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "gguf.h"
#include "model/model.h"
#include "model/vocab.h"
#include "support/oracle.h"
#include "support/sanitized.h"
#include "support/tiny_gguf.h"

#define N 24

static void inflate(const char *in, const char *out, uint32_t n_layer)
{
    ft_error err = {0};
    ft_inflate_opts opts = {.in = in, .out = out, .n_layer = n_layer};
    if (ft_model_inflate(&opts, &err, NULL) != FT_OK)
        fail_msg("%s", err.message);
}

static void check_logits(const tiny_gguf_opts *opts, uint32_t n_layer, bool flash)
{
    char *in = tiny_gguf_temp(opts), *out = tiny_temp_path();
    int32_t tokens[N];
    uint32_t n_vocab = 0, n_vocab_out = 0;
    const oracle_way way = {.device = "none", .flash = flash};
    ft_rng rng;
    ft_rng_init(&rng, 5);
    for (int i = 0; i < N; i++)
        tokens[i] = (int32_t)ft_rng_below(&rng, 259);
    inflate(in, out, n_layer);
    float *a = oracle_logits(in, way, tokens, N, &n_vocab);
    float *b = oracle_logits(out, way, tokens, N, &n_vocab_out);
    assert_int_equal(n_vocab, n_vocab_out);
    for (size_t i = 0; i < (size_t)N * n_vocab; i++)
        if (a[i] != b[i])
            fail_msg("%s %s, %u layers: logit %zu is %.9g, was %.9g", opts->arch,
                     ggml_type_name(opts->type), n_layer, i, (double)b[i], (double)a[i]);
    assert_true(a[0] != a[n_vocab]); /* they are of the text, not constant */
    free(a);
    free(b);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

static void test_families(void **state)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (uint32_t n_layer = 4; n_layer <= 8; n_layer += FT_TIMES(1, 3)) {
            tiny_gguf_opts opts = {.arch = families[i], .n_layer = 3, .seed = 20 + i};
            opts.rope_freqs = opts.output_bias = i == 0;
            check_logits(&opts, n_layer, n_layer % 2 == 0);
        }
}

/* All that ft_model_load takes. */
static void test_types(void **state)
{
    (void)state;
    int n = 0;
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        tiny_gguf_opts opts = {
            .arch = "llama", .type = (enum ggml_type)t, .n_layer = 1, .n_ff = 256, .seed = 30};
        bool plain = t == GGML_TYPE_F32 || t == GGML_TYPE_F16 || t == GGML_TYPE_BF16;
        if (!ggml_type_name(t) || ggml_blck_size(t) == 0 || (!plain && !ggml_is_quantized(t)) ||
            t == GGML_TYPE_Q8_1 || t == GGML_TYPE_Q8_K)
            continue;
        check_logits(&opts, 3, true);
        n++;
    }
    assert_true(n >= 20);
    tiny_gguf_opts mixed = {
        .arch = "llama", .type = GGML_TYPE_Q4_K, .finer = GGML_TYPE_Q6_K, .tied = true, .seed = 31};
    check_logits(&mixed, 3, true);
}

static struct gguf_context *open_all(const char *path, struct ggml_context **tensors)
{
    struct gguf_init_params params = {.no_alloc = false, .ctx = tensors};
    struct gguf_context *gguf = gguf_init_from_file(path, params);
    assert_non_null(gguf);
    return gguf;
}

static const struct ggml_tensor *part(struct ggml_context *ctx, unsigned layer, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, suffix);
    return ggml_get_tensor(ctx, name);
}

static bool all_zero(const struct ggml_tensor *t)
{
    const char *data = t->data;
    for (size_t i = 0; i < ggml_nbytes(t); i++)
        if (data[i])
            return false;
    return true;
}

/* 3 layers to 8: the old ones are the last of each third. */
static void test_layers(void **state)
{
    static const unsigned source[] = {0, 0, 0, 1, 1, 1, 2, 2};
    static const bool added[] = {true, true, false, true, true, false, true, false};
    static const char *const same[] = {"attn_norm.weight", "attn_q.weight",   "attn_k.weight",
                                       "attn_v.weight",    "ffn_norm.weight", "ffn_gate.weight",
                                       "ffn_up.weight"};
    static const char *const output[] = {"attn_output.weight", "attn_output.bias",
                                         "ffn_down.weight"};
    struct ggml_context *a, *b;
    (void)state;
    tiny_gguf_opts opts = {.n_layer = 3, .output_bias = true, .seed = 1};
    char *in = tiny_gguf_temp(&opts), *out = tiny_temp_path();
    inflate(in, out, 8);
    struct gguf_context *old = open_all(in, &a), *new = open_all(out, &b);
    assert_int_equal(gguf_get_n_tensors(new), gguf_get_n_tensors(old) + 5 * 10);
    for (unsigned i = 0; i < 8; i++)
        for (size_t j = 0; j < 10; j++) {
            const char *suffix = j < 7 ? same[j] : output[j - 7];
            const struct ggml_tensor *x = part(a, source[i], suffix), *y = part(b, i, suffix);
            assert_true(x && y && x->type == y->type && ggml_are_same_shape(x, y));
            if (j >= 7 && added[i])
                assert_true(all_zero(y) && !all_zero(x));
            else
                assert_memory_equal(x->data, y->data, ggml_nbytes(x));
        }
    gguf_free(old);
    gguf_free(new);
    ggml_free(a);
    ggml_free(b);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

/* A file with keys that tiny_gguf does not write. */
static char *with_keys(void)
{
    static const int32_t sections[] = {1, 2, 3};
    const char *labels[] = {"a", "b", "c"};
    tiny_gguf_opts opts = {.n_layer = 3, .seed = 2};
    struct ggml_context *tensors;
    char *path = tiny_gguf_temp(&opts);
    struct gguf_context *old = open_all(path, &tensors), *gguf = gguf_init_empty();
    gguf_set_kv(gguf, old);
    gguf_set_val_u32(gguf, "general.alignment", 32);
    gguf_set_val_str(gguf, "general.size_label", "1K");
    gguf_set_arr_data(gguf, "llama.rope.some_sections", GGUF_TYPE_INT32, sections, 3);
    gguf_set_arr_data(gguf, "other.numbers", GGUF_TYPE_INT32, sections, 3);
    gguf_set_arr_str(gguf, "llama.labels", labels, 3);
    for (int64_t i = 0; i < gguf_get_n_tensors(old); i++)
        gguf_add_tensor(gguf, ggml_get_tensor(tensors, gguf_get_tensor_name(old, i)));
    assert_true(gguf_write_to_file(gguf, path, false));
    gguf_free(old);
    gguf_free(gguf);
    ggml_free(tensors);
    return path;
}

static size_t length(const struct gguf_context *gguf, const char *key)
{
    int64_t id = gguf_find_key(gguf, key);
    assert_true(id >= 0);
    return gguf_get_arr_n(gguf, id);
}

static void test_metadata(void **state)
{
    (void)state;
    char *in = with_keys(), *out = tiny_temp_path();
    struct ggml_context *tensors;
    ft_error err = {0};
    ft_vocab *a = NULL, *b = NULL;
    ft_model_info info;
    inflate(in, out, 5);
    ft_model_opts opts = {.path = out};
    assert_int_equal(ft_model_inspect(&opts, &err, &info), FT_OK);
    assert_int_equal(info.hp.n_layer, 5);
    assert_string_equal(info.name, "tiny random, inflated from 3 to 5 layers");
    struct gguf_context *gguf = open_all(out, &tensors);
    assert_true(gguf_find_key(gguf, "general.size_label") < 0);
    assert_int_equal(length(gguf, "llama.rope.some_sections"), 3);
    assert_int_equal(length(gguf, "other.numbers"), 3);
    assert_int_equal(length(gguf, "llama.labels"), 3);
    assert_int_equal(ft_vocab_load(in, &err, &a), FT_OK);
    assert_int_equal(ft_vocab_load(out, &err, &b), FT_OK);
    assert_true(ft_vocab_fingerprint(a) == ft_vocab_fingerprint(b));
    ft_vocab_destroy(a);
    ft_vocab_destroy(b);
    gguf_free(gguf);
    ggml_free(tensors);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

static ft_status try(const char *in, const char *out, uint32_t n_layer, const char *says)
{
    ft_error err = {0};
    ft_inflate_opts opts = {.in = in, .out = out, .n_layer = n_layer};
    ft_status st = ft_model_inflate(&opts, &err, NULL);
    assert_int_equal(err.code, st);
    if (!strstr(err.message, says))
        fail_msg("'%s' does not say '%s'", err.message, says);
    return st;
}

static void test_bad_calls(void **state)
{
    char dir[] = "/tmp/foretoken-inflate-XXXXXX", out[64], junk[64];
    struct stat before, after;
    (void)state;
    tiny_gguf_opts opts = {.n_layer = 3}, strange = {.arch = "gptx"};
    char *in = tiny_gguf_temp(&opts), *gptx = tiny_gguf_temp(&strange);
    assert_non_null(mkdtemp(dir));
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(junk, sizeof junk, "%s/junk", dir);
    FILE *file = fopen(junk, "w");
    assert_true(file && fputs("GGUF, or not", file) >= 0 && fclose(file) == 0);
    assert_int_equal(stat(in, &before), 0);
    assert_int_equal(try(in, out, 3, "has 3 layers"), FT_INVALID);
    assert_int_equal(try(in, out, 2, "has 3 layers"), FT_INVALID);
    assert_int_equal(try(in, out, 0, "has 3 layers"), FT_INVALID);
    assert_int_equal(try(in, out, 513, "512"), FT_INVALID);
    assert_int_equal(try(in, in, 6, "same file"), FT_INVALID);
    assert_int_equal(try(gptx, out, 6, "'gptx'"), FT_UNSUPPORTED);
    assert_int_equal(try(junk, out, 6, junk), FT_UNSUPPORTED); /* a version that is text */
    assert_int_equal(try("/nonexistent", out, 6, "/nonexistent"), FT_NOT_FOUND);
    assert_int_equal(try(in, "/nonexistent/out", 6, "/nonexistent/out"), FT_IO);
    assert_int_equal(try(in, dir, 6, dir), FT_IO); /* a folder cannot be replaced */
    assert_int_equal(stat(in, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_true(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    assert_int_equal(unlink(junk), 0);
    assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
    unlink(in);
    unlink(gptx);
    free(in);
    free(gptx);
}

/* No room on the disk, here a limit on the file's size: what was written goes, what was there
 * stays. */
static void test_full_disk(void **state)
{
    char dir[] = "/tmp/foretoken-inflate-XXXXXX", out[64];
    struct rlimit old, limit;
    (void)state;
    tiny_gguf_opts opts = {0};
    char *in = tiny_gguf_temp(&opts);
    assert_non_null(mkdtemp(dir));
    snprintf(out, sizeof out, "%s/out", dir);
    inflate(in, out, 3);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){.rlim_cur = 300000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(try(in, out, 64, out), FT_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    ft_model_info info;
    ft_model_opts model = {.path = out};
    assert_int_equal(ft_model_inspect(&model, NULL, &info), FT_OK);
    assert_int_equal(info.hp.n_layer, 3);
    assert_int_equal(unlink(out), 0);
    assert_int_equal(rmdir(dir), 0);
    unlink(in);
    free(in);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),  cmocka_unit_test(test_types),
        cmocka_unit_test(test_layers),    cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_bad_calls), cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
