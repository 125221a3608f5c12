// SPDX-License-Identifier: Apache-2.0
// Matrices that stay in the file: they have tensors without memory, and the bytes that extents.h
// points at become the weights that a resident model has, bit for bit.
#include "model/extents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/tiny_gguf.h"

enum { N_LAYER = 3, STREAMED = 1 /* the layer that is streamed */ };

/* What to choose, and what was seen on being asked. */
typedef struct asked {
    ft_stream_choice choice;
    ft_status answer;
    int n;
    uint64_t bytes; /* of the layer that is streamed */
} asked;

static ft_status choose(void *ctx, const ft_model *model, ft_error *err, ft_stream_choice *out)
{
    asked *a = ctx;
    ft_matrix m[FT_LAYER_MATRICES];
    size_t n = ft_model_layer_matrices(model, STREAMED, m);
    a->n++;
    a->bytes = 0;
    assert_true(n >= 4);
    for (size_t i = 0; i < n; i++) {
        a->bytes += m[i].bytes;
        assert_null(m[i].tensor);
    }
    assert_int_equal(ft_model_hparams(model)->n_layer, N_LAYER);
    assert_true(ft_model_get_memory(model).bytes > a->bytes);
    *out = a->choice;
    return a->answer == FT_OK ? FT_OK : ft_error_set(err, a->answer, "too little memory");
}

static ft_model *load(const char *path, asked *a)
{
    ft_model *model = NULL;
    ft_error err = {0};
    ft_model_opts opts = {.path = path, .stream = a ? choose : NULL, .stream_ctx = a};
    if (ft_model_load(&opts, &err, &model) != FT_OK)
        fail_msg("%s", err.message);
    return model;
}

/* Bytes [at, at + n) of the matrix's parts. */
static void read_range(const ft_model *model, const ft_matrix *m, size_t at, size_t n, uint8_t *to)
{
    ft_extent from[FT_EXTENT_PARTS];
    size_t n_from = ft_matrix_range(m, at, n, from), sum = 0;
    for (size_t i = 0; i < n_from; i++) {
        assert_true(pread(ft_model_fd(model), to + sum, from[i].bytes, (off_t)from[i].offset) ==
                    (ssize_t)from[i].bytes);
        sum += from[i].bytes;
    }
    assert_int_equal(sum, n);
}

/* The weight that the matrix's extents give, as a buffer of its type; in two pieces if ggml does
 * not want it whole. */
static ggml_backend_buffer_t read_matrix(const ft_model *model, const ft_matrix *m)
{
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(m->buft, m->bytes);
    uint8_t *weight = ggml_backend_buffer_get_base(buffer), *whole = malloc(m->bytes);
    size_t unit = ft_matrix_unit(m), first = m->bytes / unit / 2 * unit;
    assert_int_equal(m->bytes % unit, 0);
    if (m->way != FT_EXTENT_GGML) {
        read_range(model, m, first, m->bytes - first, whole);
        ft_matrix_put(m, whole, first, m->bytes - first, weight);
        read_range(model, m, 0, first, whole);
        ft_matrix_put(m, whole, 0, first, weight);
    } else {
        read_range(model, m, 0, m->bytes, whole);
        assert_int_equal(ggml_backend_tensor_alloc(buffer, m->tensor, weight), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_set(m->tensor, whole, 0, m->bytes);
    }
    free(whole);
    return buffer;
}

static void check_matrix(const ft_model *model, const ft_matrix *m, const struct ggml_tensor *same)
{
    assert_ptr_equal(m->tensor->data, NULL);
    assert_null(m->tensor->buffer);
    assert_int_equal(m->tensor->type, same->type);
    assert_true(ggml_are_same_shape(m->tensor, same));
    assert_string_equal(m->tensor->name, same->name);
    assert_int_equal(ft_is_packed(m->tensor), ft_is_packed(same));
    assert_int_equal(m->packed, ft_is_packed(same));
    assert_int_equal(m->bytes, ggml_nbytes(same));
    ggml_backend_buffer_t buffer = read_matrix(model, m);
    assert_memory_equal(ggml_backend_buffer_get_base(buffer), same->data, m->bytes);
    ggml_backend_buffer_free(buffer);
}

static void check_layers(const ft_model *model, const ft_model *resident)
{
    for (uint32_t i = 0; i < N_LAYER; i++) {
        ft_matrix m[FT_LAYER_MATRICES], same[FT_LAYER_MATRICES];
        size_t n = ft_model_layer_matrices(model, i, m);
        assert_int_equal(ft_model_layer_matrices(resident, i, same), n);
        for (size_t j = 0; j < n; j++) {
            if (i == STREAMED)
                check_matrix(model, &m[j], same[j].tensor);
            else
                assert_memory_equal(m[j].tensor->data, same[j].tensor->data, m[j].bytes);
        }
        assert_non_null(ft_model_weights(model)->layers[i].ffn_norm->data);
    }
}

static void check_file(const tiny_gguf_opts *opts)
{
    char *path = tiny_gguf_temp(opts);
    asked a = {.choice = {.layers = {1ull << STREAMED}, .head = true, .embedding = true}};
    ft_model *model = load(path, &a), *resident = load(path, NULL);
    unlink(path); /* the model has the file itself */
    const ft_weights *w = ft_model_weights(model), *r = ft_model_weights(resident);
    assert_int_equal(a.n, 1);
    check_layers(model, resident);
    ft_matrix embedding = ft_model_embedding_matrix(model), head = ft_model_head_matrix(model);
    assert_ptr_equal(embedding.tensor, w->tok_embd);
    assert_ptr_equal(head.tensor, w->output);
    check_matrix(model, &embedding, r->tok_embd);
    if (head.tensor != embedding.tensor)
        check_matrix(model, &head, r->output);
    assert_int_equal(head.tensor == embedding.tensor, r->output == r->tok_embd);
    assert_true(ft_model_bytes_on(model, 0) + a.bytes < ft_model_bytes_on(resident, 0));
    assert_true(ft_model_fingerprints(model).weights == ft_model_fingerprints(resident).weights);
    assert_int_equal(ft_model_fd(resident), -1);
    ft_model_destroy(model);
    ft_model_destroy(resident);
    free(path);
}

static void test_weights(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL,
                                           GGML_TYPE_Q2_K, GGML_TYPE_IQ3_S};
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < 4; i++) {
            tiny_gguf_opts opts = {.arch = families[(t + (size_t)i) % 3],
                                   .type = types[t],
                                   .n_layer = N_LAYER,
                                   .tied = i % 2 == 1,
                                   .embd_as_type = i < 2,
                                   .seed = 5 + t};
            check_file(&opts);
        }
    check_file(&(tiny_gguf_opts){.n_layer = N_LAYER, .mixed_qkv = true, .rope_freqs = true});
    /* joined, 24 rows of K and V are not whole tiles */
    check_file(&(tiny_gguf_opts){
        .n_layer = N_LAYER, .n_embd = 96, .n_head = 4, .n_head_kv = 1, .head_dim = 24});
}

/* A weight that is head and embedding stays in the file only if both do. */
static void test_shared(void **state)
{
    tiny_gguf_opts opts = {.n_layer = N_LAYER, .tied = true, .embd_as_type = true};
    char *path = tiny_gguf_temp(&opts);
    for (int i = 0; i < 4; i++) {
        asked a = {.choice = {.head = i % 2 == 1, .embedding = i / 2 == 1}};
        ft_model *model = load(path, &a);
        const ft_weights *w = ft_model_weights(model);
        assert_ptr_equal(w->output, w->tok_embd);
        assert_int_equal(w->output->data == NULL, i == 3);
        ft_model_destroy(model);
    }
    unlink(path);
    free(path);
}

/* An answer that is an error is the loader's answer, and inspecting asks the same. */
static void test_refused(void **state)
{
    tiny_gguf_opts opts = {.n_layer = N_LAYER};
    char *path = tiny_gguf_temp(&opts);
    asked a = {.answer = FT_EXHAUSTED};
    ft_model_opts load_opts = {.path = path, .stream = choose, .stream_ctx = &a};
    ft_model *model = NULL;
    ft_model_info info;
    ft_error err = {0};
    assert_int_equal(ft_model_load(&load_opts, &err, &model), FT_EXHAUSTED);
    assert_string_equal(err.message, "too little memory");
    assert_null(model);
    assert_int_equal(ft_model_inspect(&load_opts, &err, &info), FT_EXHAUSTED);
    a.answer = FT_OK;
    assert_int_equal(ft_model_inspect(&load_opts, &err, &info), FT_OK);
    assert_int_equal(a.n, 3);
    unlink(path);
    free(path);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_weights),
                                       cmocka_unit_test(test_shared),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
