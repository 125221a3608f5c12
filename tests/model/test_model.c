// SPDX-License-Identifier: Apache-2.0
// Model loading: every family and weight type loads, weights hold the file's values, repacked types
// are used where the backend has them (placement.c), tied heads are shared or copied, failures are
// clean.
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf.h"
#include "llama.h"
#include "model/pack.h"
#include "model/vocab.h"
#include "support/tiny_gguf.h"

static const enum ggml_type types[] = {
    GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
    GGML_TYPE_Q4_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL};
static const char *const arches[] = {"llama", "qwen2", "qwen3"};

typedef enum layout { PACKED, REPACKED, PLAIN } layout;

static ft_model *load(const tiny_gguf_opts *opts, layout which)
{
    char *path = tiny_gguf_temp(opts);
    ft_error err = {0};
    ft_model *model = NULL;
    ft_model_opts load_opts = {
        .path = path, .no_pack = which == REPACKED, .no_repack = which == PLAIN};
    ft_status st = ft_model_load(&load_opts, &err, &model);
    if (st != FT_OK)
        fail_msg("%s", err.message);
    assert_string_equal(ft_model_path(model), path);
    unlink(path);
    free(path);
    return model;
}

static void check_layer(const ft_hparams *hp, const ft_layer *layer)
{
    int64_t q = (int64_t)hp->n_head * hp->head_dim, kv = (int64_t)hp->n_head_kv * hp->head_dim;
    assert_non_null(layer->wqkv);
    assert_null(layer->wq);
    assert_int_equal(layer->wqkv->ne[0], hp->n_embd);
    assert_int_equal(layer->wqkv->ne[1], q + 2 * kv);
    assert_int_equal(layer->wo->ne[0], q);
    assert_int_equal(layer->wo->ne[1], hp->n_embd);
    assert_non_null(layer->wgate_up);
    assert_int_equal(layer->wgate_up->ne[1], 2 * hp->n_ff);
    assert_int_equal(layer->wdown->ne[0], hp->n_ff);
    assert_int_equal(layer->attn_norm->ne[0], hp->n_embd);
    assert_int_equal(layer->bq != NULL, hp->family == FT_FAMILY_QWEN2);
    assert_int_equal(layer->bv != NULL, hp->family == FT_FAMILY_QWEN2);
    assert_int_equal(layer->q_norm != NULL, hp->family == FT_FAMILY_QWEN3);
}

static void test_families_and_types(void **state)
{
    (void)state;
    for (size_t a = 0; a < 3; a++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            tiny_gguf_opts opts = {.arch = arches[a], .type = types[t]};
            ft_model *model = load(&opts, PACKED);
            const ft_hparams *hp = ft_model_hparams(model);
            assert_int_equal(hp->family, a);
            assert_int_equal(hp->n_layer, 2);
            assert_int_equal(hp->n_vocab, 320);
            assert_int_equal(hp->n_head % hp->n_head_kv, 0);
            assert_int_equal(hp->rope_type, a ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL);
            check_layer(hp, &ft_model_weights(model)->layers[1]);
            assert_int_equal(ft_model_weights(model)->layers[0].wo->type, types[t]);
            assert_true(ft_model_bytes_on(model, 0) > 0);
            ft_model_destroy(model);
        }
    }
}

/* Joined rows are the parts' rows, in order, byte for byte. */
static void test_values(void **state)
{
    (void)state;
    tiny_gguf_opts opts = {.arch = "qwen2", .type = GGML_TYPE_Q8_0};
    char *path = tiny_gguf_temp(&opts);
    ft_error err = {0};
    ft_model *model = NULL;
    ft_model_opts load_opts = {.path = path, .no_repack = true};
    assert_int_equal(ft_model_load(&load_opts, &err, &model), FT_OK);
    struct ggml_context *ctx = NULL;
    struct gguf_init_params params = {.no_alloc = false, .ctx = &ctx};
    struct gguf_context *gguf = gguf_init_from_file(path, params);
    const ft_layer *layer = &ft_model_weights(model)->layers[1];
    const char *at = layer->wqkv->data;
    const char *const names[] = {"blk.1.attn_q.weight", "blk.1.attn_k.weight",
                                 "blk.1.attn_v.weight"};
    for (int i = 0; i < 3; i++) {
        struct ggml_tensor *t = ggml_get_tensor(ctx, names[i]);
        assert_memory_equal(at, t->data, ggml_nbytes(t));
        at += ggml_nbytes(t);
    }
    struct ggml_tensor *up = ggml_get_tensor(ctx, "blk.1.ffn_up.weight");
    assert_memory_equal((char *)layer->wgate_up->data + ggml_nbytes(up), up->data, ggml_nbytes(up));
    struct ggml_tensor *bk = ggml_get_tensor(ctx, "blk.1.attn_k.bias");
    assert_memory_equal(layer->bk->data, bk->data, ggml_nbytes(bk));
    gguf_free(gguf);
    ggml_free(ctx);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

/* y = W x for one vector, by the CPU backend. */
static void multiply(struct ggml_tensor *w, const float *x, float *y)
{
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    struct ggml_init_params params = {.mem_size = 1 << 20, .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_tensor *in = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, w->ne[0], 1);
    struct ggml_tensor *out = ggml_mul_mat(ctx, w, in);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, cpu);
    ggml_backend_tensor_set(in, x, 0, ggml_nbytes(in));
    assert_int_equal(ggml_backend_graph_compute(cpu, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(out, y, 0, ggml_nbytes(out));
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(cpu);
}

/* Where repacked weights are used they give the plain ones' products up to rounding. */
static void test_repacked(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        tiny_gguf_opts opts = {.type = types[t], .embd_as_type = true, .tied = true};
        ft_model *fast = load(&opts, REPACKED), *plain = load(&opts, PLAIN);
        const ft_weights *f = ft_model_weights(fast), *p = ft_model_weights(plain);
        float x[256], y[2][1024];
        for (int i = 0; i < 256; i++)
            x[i] = (float)((i * 37) % 101) / 50.0f - 1.0f;
        multiply(f->layers[0].wgate_up, x, y[0]);
        multiply(p->layers[0].wgate_up, x, y[1]);
        for (int64_t i = 0; i < p->layers[0].wgate_up->ne[1]; i++)
            assert_true(y[0][i] - y[1][i] < 1e-2f && y[1][i] - y[0][i] < 1e-2f);
        multiply(f->output, x, y[0]);
        multiply(p->output, x, y[1]);
        for (int64_t i = 0; i < p->output->ne[1]; i++)
            assert_true(y[0][i] - y[1][i] < 1e-2f && y[1][i] - y[0][i] < 1e-2f);
        assert_false(ft_model_repacked(plain));
        assert_ptr_equal(p->output, p->tok_embd);
        assert_true(ggml_backend_buffer_is_host(f->tok_embd->buffer));
        /* A tied head is shared unless it was repacked. */
        assert_int_equal(f->output == f->tok_embd, !ft_model_repacked(fast));
        ft_model_destroy(fast);
        ft_model_destroy(plain);
    }
}

static void check_packed(const struct ggml_tensor *packed, const struct ggml_tensor *plain)
{
    size_t bytes = ggml_nbytes(plain);
    assert_int_equal(ft_is_packed(packed), ft_pack_fits(plain->type, plain->ne[0], plain->ne[1]));
    assert_false(ft_is_packed(plain));
    if (!ft_is_packed(packed))
        return;
    void *expected = malloc(bytes);
    ft_pack(plain->type, plain->ne[0], plain->ne[1], plain->data, expected);
    assert_memory_equal(packed->data, expected, bytes);
    free(expected);
}

/* Our own layout, where the build has a kernel for it, holds the plain one's values; the embedding
 * stays plain, but for float types. */
static void test_packed(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        tiny_gguf_opts opts = {.type = types[t], .embd_as_type = true, .tied = true};
        ft_model *packed = load(&opts, PACKED), *plain = load(&opts, PLAIN);
        const ft_weights *f = ft_model_weights(packed), *p = ft_model_weights(plain);
        check_packed(f->layers[0].wqkv, p->layers[0].wqkv);
        check_packed(f->layers[1].wdown, p->layers[1].wdown);
        check_packed(f->output, p->output);
        if (ft_pack_has_rows(types[t])) { /* one tensor for both */
            assert_ptr_equal(f->output, f->tok_embd);
        } else {
            assert_false(ft_is_packed(f->tok_embd));
            assert_memory_equal(f->tok_embd->data, p->tok_embd->data, ggml_nbytes(p->tok_embd));
        }
        ft_model_destroy(packed);
        ft_model_destroy(plain);
    }
}

/* Parts of different types stay parts. */
static void test_mixed_types(void **state)
{
    (void)state;
    tiny_gguf_opts opts = {.type = GGML_TYPE_Q4_0, .mixed_qkv = true, .rope_freqs = true};
    ft_model *model = load(&opts, PACKED);
    const ft_layer *layer = &ft_model_weights(model)->layers[0];
    assert_null(layer->wqkv);
    assert_int_equal(layer->wq->type, GGML_TYPE_Q4_0);
    assert_int_equal(layer->wv->type, GGML_TYPE_F16);
    assert_non_null(layer->wgate_up);
    assert_non_null(ft_model_weights(model)->rope_freqs);
    assert_string_equal(ft_model_type_name(model), "Q4_0");
    ft_model_destroy(model);
}

static uint64_t fingerprint(const tiny_gguf_opts *opts, bool no_repack)
{
    char *path = tiny_gguf_temp(opts);
    const ft_model_opts how = {.path = path, .no_pack = no_repack, .no_repack = no_repack};
    ft_model_info info;
    ft_model *model = NULL;
    ft_error err = {0};
    assert_int_equal(ft_model_load(&how, &err, &model), FT_OK);
    uint64_t of_model = ft_model_fingerprint(model);
    assert_int_equal(ft_model_inspect(&how, &err, &info), FT_OK);
    assert_true(info.fingerprint.model == of_model && of_model != 0);
    assert_true(info.fingerprint.weights == ft_model_fingerprints(model).weights);
    assert_true(info.n_params > 100000);
    ft_model_destroy(model);
    unlink(path);
    free(path);
    return of_model;
}

/* Changes a byte in the middle of a tensor of this file. */
static void change_middle(const char *path, const char *tensor)
{
    struct gguf_context *gguf =
        gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true});
    assert_non_null(gguf);
    const int64_t id = gguf_find_tensor(gguf, tensor);
    assert_true(id >= 0);
    const size_t at = gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, id) +
                      gguf_get_tensor_size(gguf, id) / 2;
    gguf_free(gguf);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_true(fputc(byte ^ 1, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

/* It is the content's: not the path's, not how weights are placed; one other value, token or type
 * shows. */
static void test_fingerprint(void **state)
{
    const tiny_gguf_opts base = {.type = GGML_TYPE_Q8_0, .seed = 3};
    const tiny_gguf_opts others[] = {
        {.type = GGML_TYPE_Q8_0, .seed = 4},
        {.type = GGML_TYPE_Q4_0, .seed = 3},
        {.type = GGML_TYPE_Q8_0, .seed = 3, .n_layer = 3},
        {.type = GGML_TYPE_Q8_0, .seed = 3, .n_ctx_train = 1024},
        {.type = GGML_TYPE_Q8_0, .seed = 3, .rope_linear = 2},
        {.type = GGML_TYPE_Q8_0, .seed = 3, .last_token = "zzz"},
        {.type = GGML_TYPE_Q8_0, .seed = 3, .arch = "qwen3"},
    };
    uint64_t first = fingerprint(&base, false);
    assert_true(first == fingerprint(&base, true));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (fingerprint(&others[i], false) == first)
            fail_msg("file %zu has the same fingerprint", i);
}

/* One byte in the middle of a tensor: the weights' fingerprint shows it, the model's does not. */
static void test_fingerprint_of_weights(void **state)
{
    char *path = tiny_gguf_temp(&(tiny_gguf_opts){.seed = 3, .n_vocab = 1024, .tied = true});
    ft_fingerprints found[2];
    for (int i = 0; i < 2; i++) {
        const ft_model_opts how = {.path = path};
        ft_model_info info;
        ft_error err = {0};
        assert_int_equal(ft_model_inspect(&how, &err, &info), FT_OK);
        found[i] = info.fingerprint;
        change_middle(path, "token_embd.weight");
    }
    assert_true(found[0].model == found[1].model);
    assert_true(found[0].weights != found[1].weights);
    unlink(path);
    free(path);
}

static void test_linear_rope(void **state)
{
    (void)state;
    tiny_gguf_opts opts = {.rope_linear = 4.0f};
    ft_model *model = load(&opts, PACKED);
    assert_true(ft_model_hparams(model)->rope_scale == 0.25f);
    ft_model_destroy(model);
}

static void count_progress(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *seen = ctx;
    assert_true(done > seen[0] && done <= total);
    seen[0] = done;
    seen[1] = total;
}

static void test_progress(void **state)
{
    (void)state;
    uint64_t seen[2] = {0};
    tiny_gguf_opts opts = {0};
    char *path = tiny_gguf_temp(&opts);
    ft_model *model = NULL;
    ft_error err = {0};
    ft_model_opts load_opts = {.path = path, .progress = {count_progress, seen}};
    assert_int_equal(ft_model_load(&load_opts, &err, &model), FT_OK);
    assert_true(seen[0] > 0 && seen[0] == seen[1]);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

/* The files are good for oracle tests: libllama loads and computes them, with sensible logits. */
static const char *exchange_at, *exchange_for;

/* Another file takes the path while the model is planned: its file was checked by then. */
static bool exchange(enum ggml_type type, int64_t n_in, int64_t n_out)
{
    if (exchange_for)
        assert_int_equal(rename(exchange_for, exchange_at), 0);
    exchange_for = NULL;
    return false;
}

/* Weights and vocabulary are those of the file that was checked. */
static void test_exchanged_file(void **state)
{
    const tiny_gguf_opts first = {.seed = 1}, second = {.seed = 2, .last_token = "other"};
    char *at = tiny_gguf_temp(&first), *other = tiny_gguf_temp(&second);
    ft_model *model[3] = {NULL};
    ft_vocab *vocab[3] = {NULL};
    ft_error err = {0};
    for (int i = 0; i < 3; i++) {
        const ft_model_opts opts = {.path = at, .choose = exchange, .vocab = &vocab[i]};
        exchange_at = at;
        exchange_for = i == 1 ? other : NULL;
        assert_int_equal(ft_model_load(&opts, &err, &model[i]), FT_OK);
    }
    assert_true(ft_model_fingerprint(model[0]) == ft_model_fingerprint(model[1]));
    assert_true(ft_vocab_fingerprint(vocab[0]) == ft_vocab_fingerprint(vocab[1]));
    assert_true(ft_model_fingerprint(model[0]) != ft_model_fingerprint(model[2]));
    assert_true(ft_vocab_fingerprint(vocab[0]) != ft_vocab_fingerprint(vocab[2]));
    for (int i = 0; i < 3; i++) {
        ft_vocab_destroy(vocab[i]);
        ft_model_destroy(model[i]);
    }
    unlink(at);
    free(at);
    free(other);
}

static void test_libllama_takes_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        tiny_gguf_opts opts = {
            .arch = arches[i % 3], .type = types[i], .tied = i % 2, .rope_freqs = i % 3 == 0};
        char *path = tiny_gguf_temp(&opts);
        struct llama_model_params mp = llama_model_default_params();
        struct llama_model *model = llama_model_load_from_file(path, mp);
        assert_non_null(model);
        struct llama_context_params cp = llama_context_default_params();
        cp.n_ctx = 64;
        cp.n_threads = cp.n_threads_batch = 1;
        struct llama_context *ctx = llama_init_from_model(model, cp);
        llama_token tokens[4] = {5, 100, 7, 300};
        assert_int_equal(llama_decode(ctx, llama_batch_get_one(tokens, 4)), 0);
        const float *logits = llama_get_logits_ith(ctx, -1);
        float sum = 0, squares = 0;
        for (int j = 0; j < 320; j++) {
            sum += logits[j] / 320;
            squares += logits[j] * logits[j] / 320;
        }
        assert_true(squares - sum * sum > 0.3f && squares < 100.0f);
        llama_free(ctx);
        llama_model_free(model);
        unlink(path);
        free(path);
    }
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_and_types),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_repacked),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_mixed_types),
        cmocka_unit_test(test_exchanged_file),
        cmocka_unit_test(test_libllama_takes_them),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_fingerprint_of_weights),
        cmocka_unit_test(test_linear_rope),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
