// SPDX-License-Identifier: Apache-2.0
// This engine's logits compared with libllama's on the same file and prompts, beside libllama's own
// spread between flash and plain attention, and between devices and the CPU. Quantized files differ
// by the noise of rounding activations, and the spread shows how large that is. It is not the whole
// of that noise, since libllama's two ways share every rounding but attention's. With --exact, the
// same weights in F32, each side's distance from unrounded arithmetic is measured.
#include "bench/logits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/libllama.h"
#include "bench/prompts.h"
#include "engine/engine.h"
#include "engine/products.h"
#include "model/vocab.h"

#define MAX_TOK 512

enum { CPU, PORTABLE, DEVICE, FLASH, PLAIN, DEVICE_FLASH, DEVICE_PLAIN, EXACT, N_SIDES };
static const char *const side_names[N_SIDES] = {
    "foretoken/cpu",  "foretoken/portable",    "foretoken/device",      "libllama/flash",
    "libllama/plain", "libllama/device-flash", "libllama/device-plain", "F32"};

/* Sums over prompts. */
typedef struct diff {
    int a, b; /* sides; b is the reference */
    double max, error, power;
    int argmax_differs; /* rows */
} diff;

typedef struct bench {
    const ft_bench_logits_opts *o;
    ft_model *model, *on_devices; /* the second where there are devices */
    ft_vocab *vocab;
    ft_engine *engine[FLASH]; /* by side */
    ft_seq *seq[FLASH];
    ft_bench_llama llama[N_SIDES]; /* from FLASH on */
    float *logits[N_SIDES];        /* [MAX_TOK, n_vocab] */
    uint32_t n_vocab;
    int n_rows, n_skipped; /* rows compared; prompts that are too long */
    diff diffs[2 * N_SIDES];
    int n_diffs;
} bench;

/* ---- the sides ---- */

static bool is_on_device(int side)
{
    return side == DEVICE || side == DEVICE_FLASH || side == DEVICE_PLAIN;
}

static ft_status open_ours(bench *b, int side, ft_error *err)
{
    const ft_attn_route routes[FLASH] = {FT_ATTN_CPU, FT_ATTN_PORTABLE, FT_ATTN_AUTO};
    ft_engine_opts opts = {.model = side == DEVICE ? b->on_devices : b->model,
                           .kv_tok = MAX_TOK,
                           .max_batch_tok = MAX_TOK,
                           .route = routes[side],
                           .kv_type = b->o->kv};
    ft_status status = ft_engine_create(&opts, err, &b->engine[side]);
    return status == FT_OK ? ft_seq_create(b->engine[side], err, &b->seq[side]) : status;
}

static ft_status open_theirs(bench *b, int side, ft_error *err)
{
    ft_bench_llama_opts opts = {.path = side == EXACT ? b->o->exact : b->o->path,
                                .n_ctx = MAX_TOK,
                                .n_streams = 1,
                                .max_batch_tok = MAX_TOK,
                                .like = is_on_device(side) ? b->on_devices : NULL,
                                .flash = side == FLASH || side == DEVICE_FLASH};
    ft_status status = ft_bench_llama_open(&opts, err, &b->llama[side]);
    if (status == FT_OK && (uint32_t)b->llama[side].n_vocab != b->n_vocab)
        status = ft_error_set(err, FT_INVALID, "bench logits: %s is another model", opts.path);
    return status;
}

static ft_status load_models(bench *b, ft_error *err)
{
    ft_devices devices;
    ft_model_opts opts = {.path = b->o->path, .choose = ft_products_choose, .vocab = &b->vocab};
    ft_status status = ft_model_load(&opts, err, &b->model);
    if (status == FT_OK)
        status = ft_devices_open(&b->o->device, err, &devices);
    if (status != FT_OK || devices.n == 0)
        return status;
    opts.vocab = NULL;
    opts.devices = &devices;
    opts.n_gpu_layers = (int)b->o->device.n_gpu_layers;
    return ft_model_load(&opts, err, &b->on_devices);
}

static bool takes_part(const bench *b, int side)
{
    return is_on_device(side) ? b->on_devices != NULL : side != EXACT || b->o->exact;
}

static ft_status open_all(bench *b, ft_error *err)
{
    ft_status status = load_models(b, err);
    if (status != FT_OK)
        return status;
    b->n_vocab = ft_model_hparams(b->model)->n_vocab;
    for (int side = 0; side < N_SIDES && status == FT_OK; side++) {
        if (!takes_part(b, side))
            continue;
        b->logits[side] = malloc((size_t)MAX_TOK * b->n_vocab * sizeof(float));
        if (!b->logits[side])
            return ft_error_set(err, FT_NOMEM, "out of memory");
        status = side < FLASH ? open_ours(b, side, err) : open_theirs(b, side, err);
    }
    for (int side = CPU; side < EXACT; side++)
        if (side != PLAIN && takes_part(b, side))
            b->diffs[b->n_diffs++] = (diff){.a = side, .b = PLAIN};
    for (int side = CPU; side < EXACT && b->o->exact; side++)
        if (takes_part(b, side))
            b->diffs[b->n_diffs++] = (diff){.a = side, .b = EXACT};
    return status;
}

static void close_all(bench *b)
{
    for (int side = 0; side < N_SIDES; side++) {
        if (side < FLASH) {
            ft_seq_destroy(b->seq[side]);
            ft_engine_destroy(b->engine[side]);
        } else {
            ft_bench_llama_close(&b->llama[side]);
        }
        free(b->logits[side]);
    }
    ft_vocab_destroy(b->vocab);
    ft_model_destroy(b->on_devices);
    ft_model_destroy(b->model);
}

static ft_status our_logits(bench *b, int side, const ft_tokens *tokens, ft_error *err)
{
    uint64_t want[MAX_TOK / 64];
    memset(want, 0xff, sizeof want);
    ft_segment s = {
        .seq = b->seq[side], .n = (uint32_t)tokens->n, .tokens = tokens->id, .want = want};
    ft_seq_truncate(s.seq, 0);
    ft_status status = ft_engine_forward(b->engine[side], &s, 1, err);
    for (uint32_t i = 0; i < s.n && status == FT_OK; i++)
        memcpy(b->logits[side] + (size_t)i * b->n_vocab,
               ft_engine_logits(b->engine[side], s.first_row + i), b->n_vocab * sizeof(float));
    return status;
}

static ft_status their_logits(bench *b, int side, const ft_tokens *tokens, ft_error *err)
{
    ft_bench_llama *llama = &b->llama[side];
    llama_memory_clear(llama_get_memory(llama->ctx), false);
    ft_bench_llama_clear(llama);
    for (size_t i = 0; i < tokens->n; i++)
        ft_bench_llama_add(llama, tokens->id[i], (int32_t)i, 0, true);
    ft_status status = ft_bench_llama_run(llama, err);
    if (status == FT_OK)
        memcpy(b->logits[side], llama_get_logits(llama->ctx),
               tokens->n * b->n_vocab * sizeof(float));
    return status;
}

/* ---- comparing ---- */

static void compare(const bench *b, uint32_t n, diff *d)
{
    const float *x = b->logits[d->a], *y = b->logits[d->b];
    for (size_t i = 0; i < (size_t)n * b->n_vocab; i++) {
        double e = (double)x[i] - y[i];
        d->max = fabs(e) > d->max ? fabs(e) : d->max;
        d->error += e * e;
        d->power += (double)y[i] * y[i];
    }
    for (size_t r = 0; r < n; r++)
        d->argmax_differs += ft_bench_argmax(x + r * b->n_vocab, b->n_vocab) !=
                             ft_bench_argmax(y + r * b->n_vocab, b->n_vocab);
}

static ft_status run_prompt(bench *b, const char *text, size_t n_text, ft_error *err)
{
    ft_tokens tokens = {0};
    ft_status status = ft_vocab_tokenize(b->vocab, text, n_text, NULL, err, &tokens);
    if (status == FT_OK && (tokens.n == 0 || tokens.n > MAX_TOK)) {
        b->n_skipped++;
        goto out;
    }
    for (int side = 0; side < N_SIDES && status == FT_OK; side++)
        if (b->logits[side])
            status = side < FLASH ? our_logits(b, side, &tokens, err)
                                  : their_logits(b, side, &tokens, err);
    if (status != FT_OK)
        goto out;
    b->n_rows += (int)tokens.n;
    for (int i = 0; i < b->n_diffs; i++)
        compare(b, (uint32_t)tokens.n, &b->diffs[i]);
out:
    ft_tokens_deinit(&tokens);
    return status;
}

static ft_status run_all(bench *b, ft_error *err)
{
    const ft_bench_logits_opts *a = b->o;
    ft_bench_prompts prompts = {0};
    ft_status status = open_all(b, err);
    if (status == FT_OK && !a->prompts)
        status = run_prompt(b, a->prompt, strlen(a->prompt), err);
    else if (status == FT_OK)
        status = ft_bench_prompts_load(a->prompts, (size_t)a->limit, err, &prompts);
    for (size_t i = 0; i < prompts.n && status == FT_OK; i++)
        status = run_prompt(b, prompts.items[i].text, strlen(prompts.items[i].text), err);
    ft_bench_prompts_deinit(&prompts);
    if (status == FT_OK && b->n_rows == 0)
        status =
            ft_error_set(err, FT_INVALID, "bench logits: no prompt of 1 to %d tokens", MAX_TOK);
    return status;
}

/* ---- the report ---- */

static json_t *rows_json(const bench *b)
{
    json_t *rows = json_array();
    for (int i = 0; i < b->n_diffs; i++) {
        const diff *d = &b->diffs[i];
        char pair[64];
        snprintf(pair, sizeof pair, "%s - %s", side_names[d->a], side_names[d->b]);
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:i}", "pair", pair, "max_error",
                                              d->max, "nmse", d->error / d->power, "argmax_differs",
                                              d->argmax_differs));
    }
    return rows;
}

ft_status ft_bench_logits(const ft_bench_logits_opts *opts, ft_error *err, json_t **report)
{
    bench b = {.o = opts};
    *report = NULL;
    ft_status status = run_all(&b, err);
    if (status == FT_OK)
        *report = json_pack("{s:s, s:i, s:i, s:o}", "model", opts->path, "rows_compared", b.n_rows,
                            "skipped_too_long", b.n_skipped, "rows", rows_json(&b));
    close_all(&b);
    return status;
}
