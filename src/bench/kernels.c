// SPDX-License-Identifier: Apache-2.0
// Matrix products and attention by themselves, ours and ggml's, interleaved on the same threads. A
// round runs the operator once for each layer; figures are of one operator.
#include "bench/kernels.h"

#include <stdlib.h>

#include "bench/attn.h"
#include "bench/machine.h"
#include "engine/gemm.h"
#include "model/pack.h"

#define MAX_ROWS 512
#define MAX_CTX  65536

typedef struct bench {
    const ft_bench_kernels_opts *o;
    ft_bench_list n_rows, n_ctx;
    const ft_model *model; /* as the engine loads it */
    ft_model *ggml_model;  /* ggml's own layouts: repacked where it can */
    ft_bench_machine machine;
    ft_bench_cpu cpu;
    json_t *rows;
} bench;

/* ---- matrices ---- */

typedef enum role { WQKV, WQ, WO, GATE_UP, GATE, DOWN, HEAD, N_ROLES } role;
static const char *const role_names[N_ROLES] = {"qkv", "q", "o", "gate_up", "gate", "down", "head"};

/* The matrix in a role; NULL: the model has none. The head belongs to no layer: it counts as layer
 * 0's. */
static struct ggml_tensor *matrix(const ft_model *model, role r, uint32_t layer)
{
    const ft_weights *w = ft_model_weights(model);
    const ft_layer *l = &w->layers[layer];
    struct ggml_tensor *const all[N_ROLES] = {
        l->wqkv, l->wq, l->wo, l->wgate_up, l->wgate, l->wdown, layer == 0 ? w->output : NULL};
    return all[r];
}

/* The product with the role's matrix in every layer whose matrix is of the first one's type. */
static ft_status make_products(const bench *b, const ft_model *model, role r, uint32_t n_rows,
                               ft_error *err, ft_bench_graph *g)
{
    uint32_t n_layer = ft_model_hparams(model)->n_layer;
    const struct ggml_tensor *first = matrix(model, r, 0);
    ft_status status = ft_bench_graph_open(&b->cpu, (size_t)n_layer * 4 + 8, err, g);
    if (status != FT_OK)
        return status;
    struct ggml_tensor *x = ggml_new_tensor_2d(g->inputs, GGML_TYPE_F32, first->ne[0], n_rows);
    status = ft_bench_graph_fill(g, err);
    for (uint32_t i = 0; i < n_layer && status == FT_OK; i++) {
        struct ggml_tensor *w = matrix(model, r, i);
        if (!w || w->type != first->type)
            continue;
        if (ft_is_packed(w)) {
            ft_gemm_rows rows = ft_gemm_make(g->ctx, ft_gemm_rows_type(w->type), x);
            ft_bench_graph_add(g, ft_gemm(g->ctx, w, &rows, NULL));
        } else {
            ft_bench_graph_add(g, ggml_mul_mat(g->ctx, w, x));
        }
    }
    return status == FT_OK ? ft_bench_graph_ready(g, err) : status;
}

static void matrix_work(const struct ggml_tensor *w, uint32_t n_rows, ft_bench_work *out)
{
    double macs = (double)ggml_nelements(w) * n_rows;
    bool quantized = ggml_is_quantized(w->type);
    *out = (ft_bench_work){.bytes = (double)ggml_nbytes(w),
                           .int8_macs = quantized ? macs : 0,
                           .f32_macs = quantized ? 0 : macs};
}

/* ---- rows ---- */

/* Interleaves both; adds what was measured (of one of n operators) to row. */
static ft_status compare(bench *b, ft_bench_graph *ours, ft_bench_graph *ggml,
                         const ft_bench_work *work, json_t *row, ft_error *err)
{
    const ft_bench_side sides[] = {{ours, ft_bench_graph_round, false},
                                   {ggml, ft_bench_graph_round, false}};
    double s[2];
    ft_bench_rounds rounds;
    ft_status status = ft_bench_interleave(b->o->common, sides, 2, err, s, &rounds);
    if (status != FT_OK)
        return status;
    double ours_us = s[0] * 1e6 / ours->n_ops, ggml_us = s[1] * 1e6 / ggml->n_ops;
    double bound_us = ft_bench_bound_s(&b->machine, work) * 1e6;
    json_object_set_new(row, "foretoken_us", json_real(ours_us));
    json_object_set_new(row, "ggml_us", json_real(ggml_us));
    json_object_set_new(row, "ratio", json_real(ggml_us / ours_us));
    json_object_set_new(row, "roofline", json_real(bound_us / ours_us));
    json_object_set_new(row, "roofline_best",
                        json_real(bound_us * ours->n_ops / (rounds.least_s[0] * 1e6)));
    ft_bench_row(b->o->common, row);
    return FT_OK;
}

static ft_status run_matrix(bench *b, role r, uint32_t n_rows, ft_error *err)
{
    const struct ggml_tensor *w = matrix(b->model, r, 0);
    ft_bench_graph ours = {0}, ggml = {0};
    ft_bench_work work;
    json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:b}", "op", "matmul", "weight",
                            role_names[r], "type", ggml_type_name(w->type), "n_in", (int)w->ne[0],
                            "n_out", (int)w->ne[1], "rows", (int)n_rows, "packed", ft_is_packed(w));
    json_array_append_new(b->rows, row);
    matrix_work(w, n_rows, &work);
    ft_status status = make_products(b, b->model, r, n_rows, err, &ours);
    if (status == FT_OK)
        status = make_products(b, b->ggml_model, r, n_rows, err, &ggml);
    if (status == FT_OK)
        status = compare(b, &ours, &ggml, &work, row, err);
    ft_bench_graph_close(&ours);
    ft_bench_graph_close(&ggml);
    return status;
}

static ft_status run_attention(bench *b, uint32_t n_ctx, uint32_t n_rows, ft_error *err)
{
    const ft_hparams *hp = ft_model_hparams(b->model);
    double seen = (double)n_rows * n_ctx + (double)n_rows * (n_rows + 1) / 2;
    const ft_bench_work work = {.bytes = (double)n_ctx *
                                         (double)ft_bench_kv_tok_bytes(b->model, b->o->common->kv) /
                                         hp->n_layer,
                                .f32_macs = 2 * seen * hp->n_head * hp->head_dim};
    const ft_bench_attn_opts opts = {.model = b->model,
                                     .cpu = &b->cpu,
                                     .n_threads = ft_bench_threads(b->o->common),
                                     .kv_type = b->o->common->kv,
                                     .n_ctx = n_ctx,
                                     .n_rows = n_rows};
    ft_bench_attn *attn = NULL;
    json_t *row =
        json_pack("{s:s, s:i, s:i}", "op", "attention", "ctx", (int)n_ctx, "rows", (int)n_rows);
    json_array_append_new(b->rows, row);
    ft_status status = ft_bench_attn_create(&opts, err, &attn);
    if (status == FT_OK)
        status = compare(b, ft_bench_attn_ours(attn), ft_bench_attn_ggml(attn), &work, row, err);
    ft_bench_attn_destroy(attn);
    return status;
}

static ft_status run_all(bench *b, ft_error *err)
{
    ft_status status = FT_OK;
    for (int r = 0; r < N_ROLES; r++)
        for (uint32_t i = 0; matrix(b->model, r, 0) && i < b->n_rows.n && status == FT_OK; i++)
            status = run_matrix(b, (role)r, b->n_rows.value[i], err);
    for (uint32_t c = 0; c < b->n_ctx.n; c++)
        for (uint32_t i = 0; i < b->n_rows.n && status == FT_OK; i++)
            status = run_attention(b, b->n_ctx.value[c], b->n_rows.value[i], err);
    return status;
}

ft_status ft_bench_kernels(const ft_bench_kernels_opts *o, const ft_model *model, json_t *report,
                           ft_error *err)
{
    bench state = {.o = o, .model = model, .rows = json_array()}, *b = &state;
    const ft_model_opts opts = {.path = b->o->common->path, .no_pack = true};
    json_object_set_new(report, "rows", b->rows);
    if (ft_model_n_gpu_layers(model) > 0)
        return ft_error_set(err, FT_INVALID,
                            "bench kernels measures the CPU's kernels: pass --device none");
    ft_status status = ft_bench_list_parse("--rows", b->o->rows, MAX_ROWS, err, &b->n_rows);
    if (status == FT_OK)
        status = ft_bench_list_parse("--ctx", b->o->ctx, MAX_CTX, err, &b->n_ctx);
    if (status == FT_OK)
        status = ft_bench_machine_measure(ft_bench_threads(b->o->common), err, &b->machine);
    if (status == FT_OK)
        status = ft_bench_cpu_open(ft_bench_threads(b->o->common), err, &b->cpu);
    if (status == FT_OK)
        status = ft_model_load(&opts, err, &b->ggml_model);
    json_object_set_new(report, "machine", ft_bench_machine_json(&b->machine));
    if (status == FT_OK)
        status = run_all(b, err);
    ft_model_destroy(b->ggml_model);
    ft_bench_cpu_close(&b->cpu);
    return status;
}
