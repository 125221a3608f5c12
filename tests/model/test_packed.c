// SPDX-License-Identifier: Apache-2.0
// Packed files (pack_file, packed_file): their layout and keys; every changed byte is found; what
// the checksums cannot find is refused, too; what cannot take them says so. That they compute the
// same is in tests/engine/test_packed.c.
#include "model/pack_file.h"

#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf.h"
#include "llama.h"
#include "model/extents.h"
#include "model/inflate.h"
#include "model/packed_file.h"
#include "model/quantize.h"
#include "model/vocab.h"
#include "support/packed_seal.h"
#include "support/tiny_gguf.h"

typedef struct bytes {
    uint8_t *data;
    size_t n;
} bytes;

static bytes read_all(const char *path)
{
    bytes b = {.data = malloc(1 << 24)};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    b.n = fread(b.data, 1, 1 << 24, file);
    assert_true(b.n < 1 << 24);
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

static void pack(const char *in, const char *out)
{
    ft_error err = {0};
    const ft_pack_file_opts opts = {.in = in, .out = out};
    if (ft_model_pack(&opts, &err) != FT_OK)
        fail_msg("%s", err.message);
}

/* A tiny model, packed. The caller unlinks and frees. */
static char *packed_temp(const tiny_gguf_opts *opts)
{
    char *in = tiny_gguf_temp(opts), *out = tiny_temp_path();
    pack(in, out);
    unlink(in);
    free(in);
    return out;
}

static ft_status load(const char *path, ft_error *err)
{
    ft_model *model = NULL;
    const ft_model_opts opts = {.path = path};
    ft_status st = ft_model_load(&opts, err, &model);
    assert_int_equal(model != NULL, st == FT_OK);
    ft_model_destroy(model);
    return st;
}

/* ---- layout ---- */

static struct gguf_context *open_meta(const char *path)
{
    struct gguf_init_params params = {.no_alloc = true};
    struct gguf_context *gguf = gguf_init_from_file(path, params);
    assert_non_null(gguf);
    return gguf;
}

static void check_order(const char *path, const char *const *names, size_t n)
{
    struct gguf_context *gguf = open_meta(path);
    assert_int_equal(gguf_get_n_tensors(gguf), n);
    assert_int_equal(gguf_get_alignment(gguf), 4096);
    assert_int_equal(gguf_get_data_offset(gguf) % 4096, 0);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(gguf_get_tensor_name(gguf, (int64_t)i), names[i]);
        assert_int_equal(gguf_get_tensor_offset(gguf, (int64_t)i) % 4096, 0);
    }
    gguf_free(gguf);
}

/* Vectors first, then the layers' matrices, then the head; each type of name. */
static void test_order(void **state)
{
    static const char *const joined[] = {
        "token_embd.weight",        "output_norm.weight",       "blk.0.attn_norm.weight",
        "blk.0.attn_q.bias",        "blk.0.attn_k.bias",        "blk.0.attn_v.bias",
        "blk.0.ffn_norm.weight",    "blk.1.attn_norm.weight",   "blk.1.attn_q.bias",
        "blk.1.attn_k.bias",        "blk.1.attn_v.bias",        "blk.1.ffn_norm.weight",
        "blk.0.attn_qkv.packed",    "blk.0.attn_output.packed", "blk.0.ffn_gate_up.packed",
        "blk.0.ffn_down.packed",    "blk.1.attn_qkv.packed",    "blk.1.attn_output.packed",
        "blk.1.ffn_gate_up.packed", "blk.1.ffn_down.packed",    "output_tied.packed"};
    static const char *const split[] = {
        "token_embd.weight",        "output_norm.weight",    "rope_freqs.weight",
        "blk.0.attn_norm.weight",   "blk.0.ffn_norm.weight", "blk.0.attn_q.weight",
        "blk.0.attn_k.weight",      "blk.0.attn_v.packed",   "blk.0.attn_output.weight",
        "blk.0.ffn_gate_up.joined", "blk.0.ffn_down.weight", "output.packed"};
    static const char *const one[] = {"token_embd.packed",        "output_norm.weight",
                                      "blk.0.attn_norm.weight",   "blk.0.ffn_norm.weight",
                                      "blk.0.attn_qkv.packed",    "blk.0.attn_output.packed",
                                      "blk.0.ffn_gate_up.packed", "blk.0.ffn_down.packed"};
    (void)state;
    char *path =
        packed_temp(&(tiny_gguf_opts){.arch = "qwen2", .type = GGML_TYPE_Q8_0, .tied = true});
    check_order(path, joined, sizeof joined / sizeof *joined);
    unlink(path);
    free(path);
    path = packed_temp(&(tiny_gguf_opts){
        .type = GGML_TYPE_IQ3_S, .n_layer = 1, .mixed_qkv = true, .rope_freqs = true});
    check_order(path, split, sizeof split / sizeof *split);
    unlink(path);
    free(path);
    path = packed_temp(&(tiny_gguf_opts){.n_layer = 1, .tied = true});
    check_order(path, one, sizeof one / sizeof *one);
    unlink(path);
    free(path);
}

static ft_status stream_all(void *ctx, const ft_model *model, ft_error *err, ft_stream_choice *out)
{
    (void)ctx;
    (void)model;
    (void)err;
    *out = (ft_stream_choice){.layers = {UINT64_MAX}, .head = true, .embedding = true};
    return FT_OK;
}

static ft_status load_streamed(const char *path, ft_error *err, ft_model **out)
{
    const ft_model_opts opts = {.path = path, .stream = stream_all};
    return ft_model_load(&opts, err, out);
}

static bool read_matches(const ft_model *model, const ft_extent *extent)
{
    void *data = malloc(extent->bytes);
    assert_true(pread(ft_model_fd(model), data, extent->bytes, (off_t)extent->offset) ==
                (ssize_t)extent->bytes);
    bool matches = ft_extent_matches(extent, data);
    free(data);
    return matches;
}

/* A layer's matrices lie one behind the other, and their hashes are told. */
static void test_extents(void **state)
{
    ft_matrix m[FT_LAYER_MATRICES];
    ft_model *model = NULL;
    ft_error err = {0};
    uint64_t end = 0;
    (void)state;
    char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .n_layer = 3});
    assert_int_equal(load_streamed(path, &err, &model), FT_OK);
    for (uint32_t layer = 0; layer < 3; layer++) {
        size_t n = ft_model_layer_matrices(model, layer, m);
        assert_int_equal(n, 4);
        for (size_t i = 0; i < n; i++) {
            const ft_extent *e = &m[i].part[0];
            assert_true(m[i].hashed && m[i].n_parts == 1 && m[i].way == FT_EXTENT_AS_IS);
            assert_true(m[i].packed && ft_is_packed(m[i].tensor));
            assert_int_equal(e->offset % 4096, 0);
            if (end)
                assert_int_equal(e->offset, (end + 4095) / 4096 * 4096);
            assert_true(read_matches(model, e));
            end = e->offset + e->bytes;
        }
    }
    ft_matrix head = ft_model_head_matrix(model);
    assert_int_equal(head.part[0].offset, (end + 4095) / 4096 * 4096);
    assert_true(read_matches(model, &head.part[0]));
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

/* Keys are copied; the vocabulary is the original's. */
static void test_keys(void **state)
{
    ft_vocab *a = NULL, *b = NULL;
    ft_error err = {0};
    ft_model *model = NULL;
    (void)state;
    char *in = tiny_gguf_temp(&(tiny_gguf_opts){.spm = true}), *out = tiny_temp_path();
    pack(in, out);
    struct gguf_context *old = open_meta(in), *new = open_meta(out);
    assert_int_equal(gguf_get_n_kv(new), gguf_get_n_kv(old) + 5);
    for (int64_t i = 0; i < gguf_get_n_kv(old); i++) {
        assert_string_equal(gguf_get_key(new, i), gguf_get_key(old, i));
        assert_int_equal(gguf_get_kv_type(new, i), gguf_get_kv_type(old, i));
    }
    gguf_free(old);
    gguf_free(new);
    assert_int_equal(ft_vocab_load(in, &err, &a), FT_OK);
    const ft_model_opts opts = {.path = out, .vocab = &b};
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_OK);
    assert_true(ft_vocab_fingerprint(a) == ft_vocab_fingerprint(b));
    ft_vocab_destroy(a);
    ft_vocab_destroy(b);
    ft_model_destroy(model);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

/* ---- damage ---- */

/* In the padding behind a tensor, or behind the metadata. */
static bool is_padding(const struct gguf_context *gguf, size_t meta_end, size_t at)
{
    size_t data = gguf_get_data_offset(gguf);
    if (at < data)
        return at >= meta_end;
    for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
        size_t begin = data + gguf_get_tensor_offset(gguf, i);
        if (at >= begin && at < begin + gguf_get_tensor_size(gguf, i))
            return false;
    }
    return true;
}

/* Behind the last tensor's description, which ends with its type and offset. */
static size_t find_meta_end(const bytes *b, const struct gguf_context *gguf)
{
    const char *last = gguf_get_tensor_name(gguf, gguf_get_n_tensors(gguf) - 1);
    const uint8_t *at = memmem(b->data, b->n, last, strlen(last));
    assert_non_null(at);
    return (size_t)(at - b->data) + strlen(last) + 4 + 2 * 8 + 4 + 8;
}

/* A changed bit is found, wherever it is. */
static void test_bits(void **state)
{
    size_t n_found = 0, n_padding = 0;
    (void)state;
    char *path = packed_temp(&(tiny_gguf_opts){
        .type = GGML_TYPE_Q8_0, .n_layer = 1, .n_embd = 32, .n_head = 1, .n_vocab = 280});
    bytes b = read_all(path);
    struct gguf_context *gguf = open_meta(path);
    size_t meta_end = find_meta_end(&b, gguf);
    for (size_t at = 0; at < b.n; at += at < meta_end ? 11 : 127) {
        ft_error err = {0};
        b.data[at] ^= (uint8_t)(1u << at % 8);
        write_all(path, b.data, b.n);
        b.data[at] ^= (uint8_t)(1u << at % 8);
        ft_status st = load(path, &err);
        bool padding = is_padding(gguf, meta_end, at);
        if ((st == FT_OK) != padding)
            fail_msg("byte %zu of %zu: %s", at, b.n, st == FT_OK ? "not found" : err.message);
        n_found += !padding;
        n_padding += padding;
    }
    assert_true(n_found > 500 && n_padding > 10);
    gguf_free(gguf);
    unlink(path);
    free(path);
    free(b.data);
}

/* Every length that is too short is refused. */
static void test_truncated(void **state)
{
    (void)state;
    char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0, .n_layer = 1});
    bytes b = read_all(path);
    struct gguf_context *gguf = open_meta(path);
    size_t last = (size_t)gguf_get_n_tensors(gguf) - 1;
    size_t end = gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, (int64_t)last) +
                 gguf_get_tensor_size(gguf, (int64_t)last);
    for (size_t n = 0; n <= end; n += n + 997 < end || n == end ? 997 : end - n) {
        ft_error err = {0};
        write_all(path, b.data, n);
        assert_int_equal(load(path, &err) == FT_OK, n == end);
    }
    gguf_free(gguf);
    unlink(path);
    free(path);
    free(b.data);
}

/* A name, or the beginning of one. */
static size_t find(const bytes *b, const char *text)
{
    uint8_t name[96], *at;
    uint64_t n = strlen(text);
    memcpy(name, &n, sizeof n);
    memcpy(name + sizeof n, text, n);
    at = memmem(b->data, b->n, name, sizeof n + n);
    at = at ? at + sizeof n : memmem(b->data, b->n, text, n);
    if (!at)
        fail_msg("no '%s' in the file", text);
    return (size_t)(at - b->data);
}

/* Gives it right checksums first, if seal is set. */
static void assert_bytes(const bytes *b, bool seal, ft_status code, const char *says)
{
    char *path = tiny_temp_path();
    ft_error err = {0};
    write_all(path, b->data, b->n);
    if (seal)
        (void)packed_seal(path);
    ft_status st = load(path, &err);
    if (st != code || !strstr(err.message, says))
        fail_msg("%s '%s', not %s '%s'", ft_status_name(st), err.message, ft_status_name(code),
                 says);
    assert_non_null(strstr(err.message, path));
    unlink(path);
    free(path);
}

/* Files that say false things with right checksums. A text is replaced by one of its length. */
static void test_false(void **state)
{
    static const struct {
        enum ggml_type type;
        const char *from, *to;
        ft_status code;
        const char *says;
    } cases[] = {
        {GGML_TYPE_Q8_0, "foretoken.pack.sums", "foretoken.pack.sumx", FT_CORRUPT, "sums' is miss"},
        {GGML_TYPE_Q8_0, "foretoken.pack.hash", "foretoken.pack.hasx", FT_CORRUPT, "hash' is miss"},
        {GGML_TYPE_Q8_0, "foretoken.pack.header", "foretoken.pack.headex", FT_CORRUPT, "64-bit"},
        {GGML_TYPE_Q8_0, "foretoken.pack.version", "foretoken.pack.versiox", FT_CORRUPT, "missing"},
        {GGML_TYPE_Q8_0, "general.alignment", "general.alignmenx", FT_CORRUPT, "offset"},
        {GGML_TYPE_Q8_0, "blk.0.attn_qkv.packed", "blk.0.attn_qkv.packex", FT_CORRUPT, "missing"},
        {GGML_TYPE_Q8_0, "blk.0.attn_qkv.packed", "blk.0.attn_qkw.packed", FT_CORRUPT, "missing"},
        {GGML_TYPE_Q8_0, "blk.1.attn_norm", "blk.2.attn_norm", FT_CORRUPT, "missing"},
        {GGML_TYPE_Q8_0, "output.packed", "oxtput.packed", FT_UNSUPPORTED, "no place"},
        {GGML_TYPE_Q8_0, "token_embd.weight", "token_embd.packed", FT_CORRUPT, "looked up"},
        {GGML_TYPE_F32, "token_embd.weight", "token_embd.packed", FT_UNSUPPORTED, "'output.pack"},
        {GGML_TYPE_IQ3_S, "blk.0.attn_qkv.joined", "blk.0.attn_qkv.packed", FT_CORRUPT, "cannot"},
        {GGML_TYPE_IQ3_S, "blk.0.ffn_down.weight", "blk.0.ffn_down.packed", FT_CORRUPT, "cannot"},
        {GGML_TYPE_F16, "output.weight", "output.packed", FT_CORRUPT, "[128, 331] cannot"},
        {GGML_TYPE_Q8_0, "blk.0.attn_qkv.packed", "blk.0.attn_qkv.joined", FT_INVALID, "ggml when"},
        {GGML_TYPE_Q8_0, "output.packed", "output.weight", FT_INVALID, "ggml when"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool odd = cases[i].type == GGML_TYPE_F16; /* no whole tiles */
        char *path =
            packed_temp(&(tiny_gguf_opts){.type = cases[i].type, .n_vocab = odd ? 331 : 320});
        bytes b = read_all(path);
        memcpy(b.data + find(&b, cases[i].from), cases[i].to, strlen(cases[i].to));
        assert_bytes(&b, true, cases[i].code, cases[i].says);
        unlink(path);
        free(path);
        free(b.data);
    }
}

/* Two tensors of one shape whose places are exchanged. */
static void test_exchanged(void **state)
{
    static const char a[] = "blk.0.attn_output.packed", b[] = "blk.1.attn_output.packed";
    ft_vocab *vocab = NULL;
    ft_error err = {0};
    (void)state;
    char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0});
    bytes file = read_all(path);
    size_t at = find(&file, a), other = find(&file, b);
    memcpy(file.data + at, b, strlen(b));
    memcpy(file.data + other, a, strlen(a));
    assert_bytes(&file, true, FT_CORRUPT, "order");
    assert_bytes(&file, false, FT_CORRUPT, "metadata is damaged");
    write_all(path, file.data, file.n);
    assert_int_equal(ft_vocab_load(path, &err, &vocab), FT_CORRUPT);
    assert_null(vocab);
    unlink(path);
    free(path);
    free(file.data);
}

/* Numbers behind the names of keys: skip bytes of types and counts. */
static void test_numbers(void **state)
{
    static const struct {
        const char *key;
        size_t skip, width;
        uint64_t value;
        bool seal;
        ft_status code;
        const char *says;
    } cases[] = {
        {"foretoken.pack.version", 4, 4, 2, true, FT_UNSUPPORTED, "version 2"},
        {"foretoken.pack.version", 4, 4, 0, true, FT_UNSUPPORTED, "version 0"},
        {"foretoken.pack.version", 0, 4, GGUF_TYPE_FLOAT32, true, FT_CORRUPT, "whole number"},
        {"foretoken.pack.sums", 4, 4, GGUF_TYPE_INT64, true, FT_CORRUPT, "not an array of u64"},
        {"foretoken.pack.sums", 16, 8, 1, false, FT_CORRUPT, "metadata is damaged"},
        {"foretoken.pack.hash", 4, 4, GGUF_TYPE_FLOAT64, true, FT_CORRUPT, "not an array of u64"},
        {"foretoken.pack.hash", 16, 8, 1, false, FT_CORRUPT, "metadata is damaged"},
        {"foretoken.pack.header", 0, 4, GGUF_TYPE_INT64, true, FT_CORRUPT, "64-bit number"},
        {"foretoken.pack.header", 4, 8, 1, false, FT_CORRUPT, "metadata is damaged"},
        {"llama.rope.freq_base", 4, 4, 0x461c4001, false, FT_CORRUPT, "metadata is damaged"},
    };
    (void)state;
    char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = read_all(path);
        size_t at = find(&b, cases[i].key) + strlen(cases[i].key) + cases[i].skip;
        memcpy(b.data + at, &cases[i].value, cases[i].width);
        assert_bytes(&b, cases[i].seal, cases[i].code, cases[i].says);
        free(b.data);
    }
    unlink(path);
    free(path);
}

/* An array that is one short: the number that is cut off becomes a key of its own. */
static void test_short_array(void **state)
{
    static const char *const keys[] = {"foretoken.pack.sums", "foretoken.pack.hash"};
    static const uint8_t key[] = {1, 0, 0, 0, 0, 0, 0, 0, 'x', GGUF_TYPE_UINT8, 0, 0, 0, 7};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0, .n_layer = 3});
        bytes b = read_all(path);
        size_t at = find(&b, keys[i]) + strlen(keys[i]) + 8;
        uint64_t n, n_keys;
        memcpy(&n, b.data + at, sizeof n);
        memcpy(&n_keys, b.data + 16, sizeof n_keys);
        n -= 2; /* 16 bytes: a key takes 14, so an array of its elements is cut further below */
        n_keys++;
        memcpy(b.data + at, &n, sizeof n);
        memcpy(b.data + 16, &n_keys, sizeof n_keys);
        size_t cut = at + 8 + n * 8;
        memcpy(b.data + cut, key, sizeof key);
        memmove(b.data + cut + sizeof key, b.data + cut + 16, b.n - cut - 16);
        assert_bytes(&b, true, FT_CORRUPT, keys[i]);
        unlink(path);
        free(path);
        free(b.data);
    }
}

static bool choose_all(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    return true;
}

/* The fuzzer's seeds are refused only because they have no checksums. */
static void test_seeds(void **state)
{
    static const char *const seeds[] = {"packed.gguf", "packed_f16.gguf"};
    const char *root = getenv("FT_SOURCE_DIR");
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char from[4096], *path = tiny_temp_path();
        ft_error err = {0};
        ft_model *model = NULL;
        snprintf(from, sizeof from, "%s/tests/fuzz/seeds/fuzz_model/%s", root ? root : ".",
                 seeds[i]);
        bytes b = read_all(from);
        write_all(path, b.data, b.n);
        const ft_model_opts opts = {.path = path, .choose = choose_all};
        assert_int_equal(ft_model_load(&opts, &err, &model), FT_CORRUPT);
        assert_non_null(strstr(err.message, "metadata is damaged"));
        assert_true(packed_seal(path));
        if (ft_model_load(&opts, &err, &model) != FT_OK)
            fail_msg("%s", err.message);
        ft_model_destroy(model);
        unlink(path);
        free(path);
        free(b.data);
    }
}

/* What stays in the file is checked by who reads it, but the embedding at once: single rows of it
 * are read. */
static void test_streamed_damage(void **state)
{
    ft_model *model = NULL;
    ft_error err = {0};
    ft_matrix m[FT_LAYER_MATRICES];
    (void)state;
    char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0});
    bytes b = read_all(path);
    assert_int_equal(load_streamed(path, &err, &model), FT_OK);
    uint64_t row = ft_model_embedding_matrix(model).part[0].offset + 100;
    ft_model_layer_matrices(model, 1, m);
    ft_model_destroy(model);
    b.data[m[2].part[0].offset] ^= 1;
    write_all(path, b.data, b.n);
    assert_int_equal(load(path, &err), FT_CORRUPT);
    assert_non_null(strstr(err.message, "'blk.1.ffn_gate_up.packed' is damaged"));
    assert_int_equal(load_streamed(path, &err, &model), FT_OK);
    assert_true(read_matches(model, &m[1].part[0]));
    assert_false(read_matches(model, &m[2].part[0]));
    ft_model_destroy(model);
    b.data[row] ^= 1;
    write_all(path, b.data, b.n);
    assert_int_equal(load_streamed(path, &err, &model), FT_CORRUPT);
    assert_non_null(strstr(err.message, "'token_embd.weight' is damaged"));
    unlink(path);
    free(path);
    free(b.data);
}

/* ---- who cannot take them ---- */

static void test_devices(void **state)
{
    ft_devices devices = {.n = 1};
    ft_model *model = NULL;
    ft_error err = {0};
    (void)state;
    devices.dev[0] = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0});
    ft_model_opts opts = {.path = path, .devices = &devices, .n_gpu_layers = 1};
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_UNSUPPORTED);
    assert_non_null(strstr(err.message, "--device none"));
    opts.n_gpu_layers = 0;
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_OK);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

static void no_log(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)level;
    (void)text;
    (void)ctx;
}

/* libllama finds no tensor of a name that it knows. */
static void test_libllama(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_Q8_0, GGML_TYPE_IQ3_S};
    (void)state;
    llama_log_set(no_log, NULL);
    for (int i = 0; i < 6; i++) {
        char *path = packed_temp(&(tiny_gguf_opts){.type = types[i / 2], .tied = i % 2 == 1});
        struct llama_model *model = llama_model_load_from_file(path, llama_model_default_params());
        assert_null(model);
        unlink(path);
        free(path);
    }
    tiny_quiet();
}

static void test_plain_wanted(void **state)
{
    ft_error err = {0};
    (void)state;
    char *path = packed_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0}), *out = tiny_temp_path();
    const ft_pack_file_opts again = {.in = path, .out = out};
    const ft_inflate_opts inflate = {.in = path, .out = out, .n_layer = 9};
    assert_int_equal(ft_model_pack(&again, &err), FT_UNSUPPORTED);
    assert_non_null(strstr(err.message, "a packed file"));
    assert_int_equal(ft_model_inflate(&inflate, &err, NULL), FT_UNSUPPORTED);
    assert_non_null(strstr(err.message, "a packed file"));
    assert_int_equal(ft_model_quantize(path, out, "q4_0", 1, &err), FT_UNSUPPORTED);
    assert_non_null(strstr(err.message, "a packed file"));
    unlink(path);
    unlink(out);
    free(path);
    free(out);
}

/* ---- writing ---- */

static void test_bad_calls(void **state)
{
    char dir[] = "/tmp/foretoken-pack-XXXXXX", out[64];
    struct rlimit old, limit;
    ft_error err = {0};
    (void)state;
    char *in = tiny_gguf_temp(&(tiny_gguf_opts){.n_layer = 3});
    assert_non_null(mkdtemp(dir));
    snprintf(out, sizeof out, "%s/out", dir);
    ft_pack_file_opts opts = {.in = in, .out = in};
    assert_int_equal(ft_model_pack(&opts, &err), FT_INVALID);
    opts.out = "/nonexistent/out";
    assert_int_equal(ft_model_pack(&opts, &err), FT_IO);
    opts = (ft_pack_file_opts){.in = "/nonexistent", .out = out};
    assert_int_equal(ft_model_pack(&opts, &err), FT_NOT_FOUND);
    opts.in = in;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = (struct rlimit){.rlim_cur = 300000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(ft_model_pack(&opts, &err), FT_IO); /* as on a full disk */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
    assert_int_equal(load(in, &err), FT_OK);
    unlink(in);
    free(in);
}

/* A killed process leaves no temporary file PATH.XXXXXX. */
static void expect_no_parts(const char *path)
{
    char pattern[512];
    glob_t parts;
    snprintf(pattern, sizeof pattern, "%s.??????", path);
    assert_int_equal(glob(pattern, 0, NULL, &parts), GLOB_NOMATCH);
}

static void kill_at(void *ctx, uint64_t done, uint64_t total)
{
    int *left = ctx;
    (void)done;
    (void)total;
    if ((*left)-- == 0)
        raise(SIGKILL);
}

/* Killed behind any of its tensors, it leaves nothing. */
static void test_killed(void **state)
{
    (void)state;
    char *in = tiny_gguf_temp(&(tiny_gguf_opts){.n_layer = 1}), *out = tiny_temp_path();
    assert_int_equal(unlink(out), 0);
    for (int i = 0; i <= 9; i++) { /* embedding, 3 vectors, 4 matrices, head: 9 reports */
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            const ft_pack_file_opts opts = {.in = in, .out = out, .progress = {kill_at, &i}};
            _exit(ft_model_pack(&opts, NULL) == FT_OK ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WIFSIGNALED(status), i < 9);
        assert_int_equal(access(out, F_OK) == 0, i == 9);
    }
    expect_no_parts(out);
    unlink(in);
    unlink(out);
    free(in);
    free(out);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_extents),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_false),
        cmocka_unit_test(test_exchanged),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_short_array),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_streamed_damage),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_libllama),
        cmocka_unit_test(test_plain_wanted),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
