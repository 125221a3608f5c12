// SPDX-License-Identifier: Apache-2.0
// Bad model files: cut anywhere, with false counts, lengths, offsets, types, keys and shapes. Each
// is refused with an error that says what is wrong; none reaches the libraries' asserts.
// (gguf_check, gguf_file, hparams, sources and tokenizer_check together.)
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/gguf_file.h"
#include "model/vocab.h"
#include "support/tiny_gguf.h"

typedef struct bytes {
    uint8_t *data;
    size_t n;
} bytes;

static bytes read_all(const char *path)
{
    bytes b = {.data = malloc(1 << 22)};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    b.n = fread(b.data, 1, 1 << 22, file);
    fclose(file);
    return b;
}

static void write_all(const char *path, const uint8_t *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    fclose(file);
}

static bytes tiny(const tiny_gguf_opts *opts)
{
    char *path = tiny_gguf_temp(opts);
    bytes b = read_all(path);
    unlink(path);
    free(path);
    return b;
}

/* A file of every kind of value; the fuzzer's seed. */
static bytes kinds(void)
{
    char path[4096];
    const char *root = getenv("FT_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/tests/fuzz/seeds/fuzz_gguf/kinds.gguf", root ? root : ".");
    return read_all(path);
}

/* Checks a copy of exactly n bytes, so that the sanitizer sees reads behind it. */
static ft_status check(const uint8_t *data, size_t n, uint64_t file_size, ft_error *err)
{
    uint8_t *exact = malloc(n ? n : 1);
    memcpy(exact, data, n);
    bool short_data = false;
    ft_status st = ft_gguf_scan(exact, n, file_size, err, &short_data);
    free(exact);
    return st;
}

static void assert_bad(const bytes *b, ft_status code, const char *says)
{
    ft_error err = {0};
    assert_int_equal(check(b->data, b->n, b->n, &err), code);
    if (!strstr(err.message, says))
        fail_msg("'%s' does not say '%s'", err.message, says);
}

static size_t find(const bytes *b, const char *text)
{
    uint8_t *at = memmem(b->data, b->n, text, strlen(text));
    assert_non_null(at);
    return (size_t)(at - b->data);
}

static void put(bytes *b, size_t at, uint64_t value, size_t width)
{
    memcpy(b->data + at, &value, width);
}

static void test_good_files(void **state)
{
    (void)state;
    ft_error err = {0};
    tiny_gguf_opts opts = {0};
    bytes b[] = {kinds(), tiny(&opts)};
    for (size_t i = 0; i < 2; i++) {
        if (check(b[i].data, b[i].n, b[i].n, &err) != FT_OK)
            fail_msg("%s", err.message);
        free(b[i].data);
    }
}

/* Every prefix is refused; so is a prefix of the metadata in a file that goes on. */
static void test_truncations(void **state)
{
    (void)state;
    bytes b = kinds();
    ft_error err = {0};
    for (size_t n = 0; n < b.n; n++) {
        /* The last tensor needs no padding behind it. */
        ft_status want = n + 50 >= b.n ? FT_OK : FT_CORRUPT;
        if (check(b.data, n, n, &err) != want)
            fail_msg("%zu of %zu bytes: %s", n, b.n, err.message);
        if (n < 900)
            assert_int_equal(check(b.data, n, b.n, &err), FT_CORRUPT);
    }
    free(b.data);
}

/* Offsets within the fixed header, and behind names that are found by their text. */
static void test_numbers(void **state)
{
    (void)state;
    struct {
        const char *behind; /* NULL: from the beginning */
        size_t skip, width;
        uint64_t value;
        ft_status code;
        const char *says;
    } cases[] = {
        {NULL, 0, 4, 0x46554746, FT_CORRUPT, "not a GGUF"},
        {NULL, 4, 4, 1, FT_UNSUPPORTED, "version 1"},
        {NULL, 4, 4, 4, FT_UNSUPPORTED, "version 4"},
        {NULL, 4, 4, 3 << 24, FT_UNSUPPORTED, "byte order"},
        {NULL, 8, 8, UINT64_MAX, FT_CORRUPT, "do not fit"},
        {NULL, 8, 8, 1 << 20, FT_CORRUPT, "do not fit"},
        {NULL, 16, 8, INT64_MAX, FT_CORRUPT, "do not fit"},
        {NULL, 24, 8, UINT64_MAX, FT_CORRUPT, "a key"},
        {NULL, 24, 8, 0, FT_CORRUPT, "empty"},
        {"general.architecture", 0, 4, 99, FT_CORRUPT, "unknown type 99"},
        {"general.architecture", 4, 8, 1ull << 40, FT_CORRUPT, "a string"},
        {"general.alignment", 0, 4, GGUF_TYPE_INT32, FT_CORRUPT, "general.alignment"},
        {"general.alignment", 4, 4, 0, FT_CORRUPT, "alignment 0"},
        {"general.alignment", 4, 4, 48, FT_CORRUPT, "alignment 48"},
        {"general.alignment", 4, 4, 1u << 31, FT_CORRUPT, "alignment"},
        {"words", 4, 4, GGUF_TYPE_ARRAY, FT_CORRUPT, "unknown type 9"},
        {"words", 8, 8, 1ull << 61, FT_CORRUPT, "words"},
        {"many.4", 8, 8, 1ull << 62, FT_CORRUPT, "many.4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bytes b = kinds();
        size_t at = cases[i].behind ? find(&b, cases[i].behind) + strlen(cases[i].behind) : 0;
        put(&b, at + cases[i].skip, cases[i].value, cases[i].width);
        assert_bad(&b, cases[i].code, cases[i].says);
        free(b.data);
    }
}

/* The second tensor, "b", of dims 32, 2, 2, 1 and type Q8_0, begins with its name's length. */
static void test_tensor_numbers(void **state)
{
    (void)state;
    static const uint8_t head[] = {1, 0, 0, 0, 0, 0, 0, 0, 'b', 4, 0, 0, 0, 32};
    struct {
        size_t skip, width;
        uint64_t value;
        const char *says;
    } cases[] = {
        {0, 8, 64, "a tensor name"},
        {8, 1, 'a', "'a' occurs twice"},
        {9, 4, 0, "dimensions"},
        {9, 4, 5, "dimensions"},
        {13, 8, 0, "out of range"},
        {13, 8, UINT64_MAX, "out of range"},
        {13, 8, 1ull << 62, "out of range"},
        {13, 8, 33, "whole blocks"},
        {21, 8, 1ull << 32, "larger than the file"},
        {21, 8, 1ull << 40, "larger"},
        {45, 4, 4, "unknown type 4"},
        {45, 4, 1000, "unknown type 1000"},
        {45, 4, 0xffffffff, "unknown type"},
        {49, 8, 0, "offset"},
        {49, 8, 32, "offset"},
        {49, 8, UINT64_MAX - 63, "offset"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bytes b = kinds();
        uint8_t *at = memmem(b.data, b.n, head, sizeof head);
        assert_non_null(at);
        put(&b, (size_t)(at - b.data) + cases[i].skip, cases[i].value, cases[i].width);
        assert_bad(&b, FT_CORRUPT, cases[i].says);
        free(b.data);
    }
}

static void test_twice(void **state)
{
    (void)state;
    bytes b = kinds();
    memcpy(b.data + find(&b, "many.0"), "many.1", 6);
    assert_bad(&b, FT_CORRUPT, "key 'many.1' occurs twice");
    b.data[find(&b, "one.0") + 1] = 0;
    assert_bad(&b, FT_CORRUPT, "control character");
    free(b.data);
}

/* What loading a changed tiny model says. */
static void assert_load(bytes *b, ft_status code, const char *says)
{
    char *path = tiny_temp_path();
    ft_error err = {0};
    ft_model *model = NULL;
    write_all(path, b->data, b->n);
    ft_model_opts opts = {.path = path};
    ft_status st = ft_model_load(&opts, &err, &model);
    if (st != code || !strstr(err.message, says))
        fail_msg("%s '%s', not %s '%s'", ft_status_name(st), err.message, ft_status_name(code),
                 says);
    assert_null(model);
    assert_non_null(strstr(err.message, path));
    unlink(path);
    free(path);
}

/* Keys behind whose name a type (4 bytes) and a value lie. */
static void test_hparams(void **state)
{
    (void)state;
    struct {
        const char *key;
        uint64_t value;
        ft_status code;
        const char *says;
    } cases[] = {
        {"llama.block_count", 0, FT_CORRUPT, "block_count"},
        {"llama.block_count", 3, FT_CORRUPT, "blk.2.attn_norm.weight' is missing"},
        {"llama.block_count", 1, FT_UNSUPPORTED, "blk.1"},
        {"llama.block_count", 0xffffffff, FT_CORRUPT, "block_count"},
        {"llama.embedding_length", 64, FT_CORRUPT, "token_embd.weight' has shape"},
        {"llama.embedding_length", 1u << 30, FT_CORRUPT, "embedding_length"},
        {"llama.feed_forward_length", 255, FT_CORRUPT, "ffn_gate.weight' has shape"},
        {"llama.attention.head_count_kv", 3, FT_CORRUPT, "no multiple"},
        {"llama.attention.head_count_kv", 0, FT_CORRUPT, "head_count_kv"},
        {"llama.attention.key_length", 31, FT_CORRUPT, "even"},
        {"llama.attention.value_length", 16, FT_UNSUPPORTED, "values"},
        {"llama.rope.dimension_count", 16, FT_UNSUPPORTED, "RoPE"},
        {"llama.vocab_size", 319, FT_CORRUPT, "320 tokens"},
        {"llama.attention.layer_norm_rms_epsilon", 0x7fc00000, FT_CORRUPT, "not finite"},
        {"llama.attention.layer_norm_rms_epsilon", 0xbf800000, FT_CORRUPT, "epsilon"},
        {"llama.rope.freq_base", 0, FT_CORRUPT, "freq_base"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_gguf_opts opts = {0};
        bytes b = tiny(&opts);
        /* The key's length goes before it: no other key that it is the beginning of. */
        char key[128];
        uint64_t n = strlen(cases[i].key);
        memcpy(key, &n, 8);
        memcpy(key + 8, cases[i].key, n);
        uint8_t *at = memmem(b.data, b.n, key, n + 8);
        assert_non_null(at);
        put(&b, (size_t)(at - b.data) + n + 12, cases[i].value, 4);
        assert_load(&b, cases[i].code, cases[i].says);
        free(b.data);
    }
}

/* Keys and tensors under other names. */
static void test_meanings(void **state)
{
    (void)state;
    struct {
        const char *from, *to; /* equally long */
        ft_status code;
        const char *says;
    } cases[] = {
        {"general.architecture", "general.architecturf", FT_CORRUPT, "general.architecture"},
        {"llama.context_length", "llama.context_lengtg", FT_CORRUPT, "context_length' is missing"},
        {"blk.1.ffn_up.weight", "blk.1.ffn_uq.weight", FT_CORRUPT, "ffn_up.weight' is missing"},
        {"output.weight", "outpux.weight", FT_UNSUPPORTED, "outpux.weight' has no place"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tiny_gguf_opts opts = {0};
        bytes b = tiny(&opts);
        memcpy(b.data + find(&b, cases[i].from), cases[i].to, strlen(cases[i].to));
        assert_load(&b, cases[i].code, cases[i].says);
        free(b.data);
    }
}

/* Files made with ggml's writer from a tiny one, with one key set. */
static void assert_with_key(const char *key, enum gguf_type type, double value, const char *text,
                            ft_status code, const char *says)
{
    tiny_gguf_opts opts = {0};
    char *path = tiny_gguf_temp(&opts);
    struct ggml_context *ctx = NULL;
    struct gguf_init_params params = {.ctx = &ctx};
    struct gguf_context *old = gguf_init_from_file(path, params), *gguf = gguf_init_empty();
    assert_non_null(old);
    gguf_set_kv(gguf, old);
    for (int64_t i = 0; i < gguf_get_n_tensors(old); i++)
        gguf_add_tensor(gguf, ggml_get_tensor(ctx, gguf_get_tensor_name(old, i)));
    gguf_free(old);
    gguf_remove_key(gguf, key);
    if (type == GGUF_TYPE_STRING)
        gguf_set_val_str(gguf, key, text);
    else if (type == GGUF_TYPE_FLOAT32)
        gguf_set_val_f32(gguf, key, (float)value);
    else if (type == GGUF_TYPE_ARRAY)
        gguf_set_arr_data(gguf, key, GGUF_TYPE_UINT32, (uint32_t[]){4, 4}, 2);
    else
        gguf_set_val_u32(gguf, key, (uint32_t)value);
    assert_true(gguf_write_to_file(gguf, path, false));
    gguf_free(gguf);
    ggml_free(ctx);
    ft_error err = {0};
    ft_model *model = NULL;
    ft_model_opts load_opts = {.path = path};
    ft_status st = ft_model_load(&load_opts, &err, &model);
    if (st != code || !strstr(err.message, says))
        fail_msg("%s: %s '%s', not %s '%s'", key, ft_status_name(st), err.message,
                 ft_status_name(code), says);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

static void test_unsupported(void **state)
{
    (void)state;
    const enum gguf_type U32 = GGUF_TYPE_UINT32, F32 = GGUF_TYPE_FLOAT32, STR = GGUF_TYPE_STRING;
    assert_with_key("general.architecture", STR, 0, "mamba", FT_UNSUPPORTED, "'mamba'");
    assert_with_key("general.architecture", U32, 7, NULL, FT_CORRUPT, "not a string");
    assert_with_key("llama.expert_count", U32, 8, NULL, FT_UNSUPPORTED, "expert_count");
    assert_with_key("llama.expert_count", U32, 0, NULL, FT_OK, "");
    assert_with_key("llama.logit_scale", F32, 0.5, NULL, FT_UNSUPPORTED, "logit_scale");
    assert_with_key("llama.attn_logit_softcapping", F32, 50, NULL, FT_UNSUPPORTED, "softcapping");
    assert_with_key("llama.attention.sliding_window", U32, 512, NULL, FT_UNSUPPORTED, "512");
    assert_with_key("llama.attention.sliding_window", U32, 4096, NULL, FT_OK, "");
    assert_with_key("llama.rope.scaling.type", STR, 0, "yarn", FT_UNSUPPORTED, "'yarn'");
    assert_with_key("llama.rope.scaling.type", STR, 0, "none", FT_OK, "");
    assert_with_key("llama.rope.scaling.factor", F32, 0, NULL, FT_CORRUPT, "factor");
    assert_with_key("llama.attention.head_count", GGUF_TYPE_ARRAY, 0, NULL, FT_UNSUPPORTED,
                    "layer");
    assert_with_key("llama.attention.head_count", F32, 4, NULL, FT_CORRUPT, "whole number");
    assert_with_key("split.count", U32, 3, NULL, FT_UNSUPPORTED, "split");
    assert_with_key("tokenizer.ggml.tokens", U32, 3, NULL, FT_CORRUPT, "tokens");
}

/* Vocabularies that libllama would assert on. */
static void test_bad_vocabularies(void **state)
{
    (void)state;
    struct {
        const char *from, *to, *says;
    } cases[] = {
        {"zz", "ab", "same text"},
        {"longer-two", "longer-one", "same text"},
        {"gpt2", "bert", "'bert'"},
        {"tokenizer.ggml.merges", "tokenizer.ggml.mergez", "merges' is missing"},
        {"tokenizer.ggml.tokens", "tokenizer.ggml.tokenz", "tokens' is missing"},
        {"smollm", "strang", "refuses"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const char *const longer[] = {"<|longer-one|>", "<|longer-two|>", NULL};
        tiny_gguf_opts opts = {.n_vocab = 1000, .type = GGML_TYPE_Q4_0, .control = longer};
        bytes b = tiny(&opts);
        char *path = tiny_temp_path();
        ft_error err = {0};
        ft_vocab *vocab = NULL;
        memcpy(b.data + find(&b, cases[i].from), cases[i].to, strlen(cases[i].to));
        write_all(path, b.data, b.n);
        ft_status st = ft_vocab_load(path, &err, &vocab);
        assert_true(st == FT_CORRUPT || st == FT_UNSUPPORTED);
        if (!strstr(err.message, cases[i].says))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].says);
        assert_null(vocab);
        free(b.data);
        unlink(path);
        free(path);
    }
}

static void test_no_file(void **state)
{
    (void)state;
    ft_error err = {0};
    ft_model *model = NULL;
    ft_model_opts opts = {.path = "/nonexistent/model.gguf"};
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/model.gguf"));
    opts.path = "/";
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_IO);
    char *path = tiny_temp_path(); /* empty */
    opts.path = path;
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_CORRUPT);
    unlink(path);
    free(path);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_files),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_tensor_numbers),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_hparams),
        cmocka_unit_test(test_meanings),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_bad_vocabularies),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
