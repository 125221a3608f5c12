// SPDX-License-Identifier: Apache-2.0
// Logits against libllama on the same file and device, for each family and weight type, by both
// attention routes and on a device. F32: NMSE below 1e-6. Quantized types: from one of libllama's
// two ways (flash and plain attention) no further than these are from each other, or 1e-6,
// whichever is more; and from the same weights in F32 no further than TRUTH of the distance of
// libllama's worse way. Of K-quants only the last: what they are multiplied with is rounded in
// other blocks than libllama's. On test_device(), whose products depend on the batch, libllama has
// a third way: flash attention, PIECE tokens at a time. CUDA sums products with F16 weights in F16,
// in an order that depends on the matrix, and ours are joined. Two such sums are independent, so
// from libllama's way ours may be twice as far as its worse way is from F32.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "model/quantize.h"
#include "support/device.h"
#include "support/oracle.h"
#include "support/rpc_server.h"
#include "support/tiny_gguf.h"

#define N     40
#define PIECE 7
#define TRUTH 1.25 /* 40 rows of a tiny model: the distances themselves scatter by a tenth */

/* Ways to compute them. */
static struct way {
    const char *name, *device; /* an RPC server on loopback stands for a GPU, unless there is one */
    ft_attn_route route;
} ways[] = {{"cpu", "none", FT_ATTN_CPU},
            {"portable", "none", FT_ATTN_PORTABLE},
            {"device", "RPC0", FT_ATTN_AUTO}};
static size_t n_ways = 3; /* without the device where this ggml has no RPC */

static float *our_logits(const char *path, const int32_t *tokens, const struct way *way,
                         uint32_t n_vocab)
{
    ft_error err = {0};
    ft_model *model = NULL;
    ft_engine *engine = NULL;
    ft_seq *seq = NULL;
    ft_devices devices;
    if (ft_devices_find(way->device, &err, &devices) != FT_OK)
        fail_msg("%s", err.message);
    ft_model_opts opts = {.path = path, .devices = &devices, .n_gpu_layers = -1};
    if (ft_model_load(&opts, &err, &model) != FT_OK)
        fail_msg("%s", err.message);
    ft_engine_opts engine_opts = {
        .model = model, .kv_tok = 128, .max_batch_tok = 64, .n_threads = 2, .route = way->route};
    if (ft_engine_create(&engine_opts, &err, &engine) != FT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(ft_seq_create(engine, &err, &seq), FT_OK);
    float *out = malloc(sizeof(float) * N * n_vocab);
    uint64_t want = ~0ull;
    ft_segment segment = {.seq = seq, .n = N, .tokens = tokens, .want = &want};
    if (ft_engine_forward(engine, &segment, 1, &err) != FT_OK)
        fail_msg("%s", err.message);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < n_vocab; j++)
            out[i * n_vocab + j] = ft_engine_logits(engine, segment.first_row + i)[j];
    ft_seq_destroy(seq);
    ft_engine_destroy(engine);
    ft_model_destroy(model);
    return out;
}

/* A file, and what is asked of its logits. */
typedef struct file_case {
    const char *label;
    char *path;
    int32_t tokens[N];
    float *exact; /* logits of the same weights in F32 */
    uint32_t n_vocab;
    double limit; /* of the distance from libllama; 0: its own spread */
    double floor; /* of limits that libllama sets */
} file_case;

/* libllama's logits on one device, by each of its ways. */
enum { PLAIN, FLASH, PIECES, WAYS };
typedef struct theirs {
    float *by[WAYS];
    int n;
} theirs;

static float *exact_logits(const char *path, const int32_t *tokens, uint32_t *n_vocab)
{
    ft_error err = {0};
    char *exact = tiny_temp_path();
    if (ft_model_quantize(path, exact, "f32", 2, &err) != FT_OK)
        fail_msg("%s", err.message);
    float *out = oracle_logits(exact, (oracle_way){.device = "none"}, tokens, N, n_vocab);
    unlink(exact);
    free(exact);
    return out;
}

static double more(double a, double b)
{
    return a > b ? a : b;
}

static theirs theirs_on(const file_case *c, const char *device)
{
    const oracle_way by[WAYS] = {[PLAIN] = {.device = device},
                                 [FLASH] = {.device = device, .flash = true},
                                 [PIECES] = {.device = device, .flash = true, .batch = PIECE}};
    theirs t = {.n = test_device() && strcmp(device, "none") != 0 ? WAYS : PIECES};
    uint32_t n_vocab;
    for (int i = 0; i < t.n; i++)
        t.by[i] = oracle_logits(c->path, by[i], c->tokens, N, &n_vocab);
    return t;
}

static void theirs_free(theirs *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->by[i]);
}

/* The largest distance between two of its ways. */
static double spread_of(const theirs *t, uint64_t n)
{
    double most = 0;
    for (int i = 0; i < t->n; i++)
        for (int j = 0; j < i; j++)
            most = more(most, oracle_nmse(t->by[i], t->by[j], n));
    return most;
}

static void check_way(const file_case *c, const struct way *way, const theirs *t)
{
    const uint64_t n = (uint64_t)N * c->n_vocab;
    float *ours = our_logits(c->path, c->tokens, way, c->n_vocab);
    double spread = spread_of(t, n), nmse = INFINITY, error = 0;
    double limit = c->limit > 0 ? c->limit : more(spread, c->floor);
    for (int i = 0; i < t->n; i++) {
        error = more(error, oracle_nmse(t->by[i], c->exact, n));
        nmse = fmin(nmse, oracle_nmse(ours, t->by[i], n));
    }
    if (t->n == WAYS && c->limit == 0)
        limit = more(limit, 2 * error);
    error = more(TRUTH * error, c->floor);
    double nmse_exact = oracle_nmse(ours, c->exact, n);
    print_message("%-22s %-8s nmse %.2e (libllama's spread %.2e, limit %.2e), from F32 "
                  "%.2e (limit %.2e)\n",
                  c->label, way->name, nmse, spread, limit, nmse_exact, error);
    assert_true(nmse < limit);
    assert_true(nmse_exact < error || error == 0);
    free(ours);
}

static void check_file(const char *label, const tiny_gguf_opts *opts, double limit, double floor)
{
    file_case c = {.label = label, .path = tiny_gguf_temp(opts), .limit = limit, .floor = floor};
    ft_rng rng;
    ft_rng_init(&rng, 7);
    for (int i = 0; i < N; i++)
        c.tokens[i] = (int32_t)ft_rng_below(&rng, 259);
    c.exact = exact_logits(c.path, c.tokens, &c.n_vocab);
    theirs t = {0};
    for (size_t i = 0; i < n_ways; i++) {
        if (i == 0 || strcmp(ways[i].device, ways[i - 1].device) != 0) {
            theirs_free(&t);
            t = theirs_on(&c, ways[i].device);
        }
        check_way(&c, &ways[i], &t);
    }
    theirs_free(&t);
    free(c.exact);
    unlink(c.path);
    free(c.path);
}

static void test_types(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL,
                                           GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
    static const char *const families[] = {"llama", "qwen2", "qwen3"};
    for (size_t f = 0; f < 3; f++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char label[64];
            tiny_gguf_opts opts = {.arch = families[f], .type = types[t], .seed = 11 + f};
            snprintf(label, sizeof label, "%s %s", families[f], ggml_type_name(types[t]));
            bool k_quant = ggml_blck_size(types[t]) > 32;
            check_file(label, &opts, types[t] == GGML_TYPE_F32 ? 1e-6 : k_quant ? 1 : 0, 1e-6);
        }
}

static void test_variants(void **state)
{
    tiny_gguf_opts factors = {.arch = "llama", .rope_freqs = true, .seed = 3};
    tiny_gguf_opts linear = {.arch = "qwen2", .rope_linear = 4, .seed = 4};
    tiny_gguf_opts mixed = {.arch = "llama", .mixed_qkv = true, .tied = true, .seed = 5};
    tiny_gguf_opts mha = {.arch = "qwen3", .n_head = 4, .n_head_kv = 4, .head_dim = 48, .seed = 6};
    tiny_gguf_opts mqa = {.arch = "llama", .n_embd = 512, .n_head = 32, .n_head_kv = 1, .seed = 8};
    if (test_device()) { /* sizes that CUDA has */
        mha.head_dim = 80;
        mqa.head_dim = 64;
    }
    check_file("rope factors", &factors, 1e-6, 0);
    check_file("rope linear", &linear, 1e-6, 0);
    check_file("mixed qkv, tied", &mixed, 1e-6, 0);
    check_file("no groups, odd heads", &mha, 1e-6, 0);
    check_file("one KV head for 32", &mqa, 1e-6, 0);
    tiny_gguf_opts q4_k_m = {.type = GGML_TYPE_Q4_K, .finer = GGML_TYPE_Q6_K, .seed = 9};
    check_file("Q4_K_M", &q4_k_m, 1, 0);
}

int main(void)
{
    ft_error err = {0};
    tiny_quiet();
    const char *gpu = test_device() && strcmp(test_device(), "RPC0") != 0 ? test_device() : NULL;
    const char *endpoints = gpu ? NULL : rpc_servers_start();
    if (gpu)
        ways[2].device = gpu;
    else if (!endpoints)
        n_ways = 2;
    else if (ft_devices_add_rpc(endpoints, &err) != FT_OK)
        return fprintf(stderr, "%s\n", err.message), 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
