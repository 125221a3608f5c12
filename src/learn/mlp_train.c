// SPDX-License-Identifier: Apache-2.0
// Training by ggml-opt. Its graph has one output for each of the two classes; their difference is
// the log-odds. So its softmax cross-entropy is the binary one, and the two columns become one when
// the weights are copied. Invariant: after each epoch that was better than all before, `mlp` holds
// the weights of that epoch. Order and initial weights come from the seed; ggml's own shuffling is
// not used. All tensors are in the CPU backend's memory and are written and read there. One thread
// calls; ggml uses threads of its own during a step.
#include "learn/mlp_train.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml-opt.h>
#include <ggml.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define CLASSES  2
#define PATIENCE 8 /* epochs without improvement before training ends */

typedef struct trainer {
    ft_mlp_train_opts opts;
    ft_mlp *mlp;
    ft_rng rng;
    struct ggml_opt_optimizer_params adamw;
    ggml_backend_t cpu;
    ggml_backend_sched_t sched;
    struct ggml_context *params, *graph;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *inputs, *outputs;
    struct ggml_tensor *weight[FT_MLP_LAYERS], *bias[FT_MLP_LAYERS]; /* [in, out] in ggml's order */
    ggml_opt_context_t opt;
    uint32_t *order; /* [n] of the training data */
} trainer;

static uint32_t outputs_of(const trainer *t, uint32_t layer)
{
    const ft_mlp_shape *shape = &t->mlp->shape;
    return layer + 1 == shape->n_layers ? CLASSES : shape->width[layer + 1];
}

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "mlp: out of memory");
}

/* ---- the graph ---- */

static ft_status make_params(trainer *t, ft_error *err)
{
    const ft_mlp_shape *shape = &t->mlp->shape;
    const struct ggml_init_params room = {
        .mem_size = (2 * FT_MLP_LAYERS + 1) * ggml_tensor_overhead(), .no_alloc = true};
    t->params = ggml_init(room);
    if (!t->params)
        return no_memory(err);
    t->inputs =
        ggml_new_tensor_2d(t->params, GGML_TYPE_F32, shape->width[0], (int64_t)t->opts.batch);
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        t->weight[i] =
            ggml_new_tensor_2d(t->params, GGML_TYPE_F32, shape->width[i], outputs_of(t, i));
        t->bias[i] = ggml_new_tensor_1d(t->params, GGML_TYPE_F32, outputs_of(t, i));
        ggml_set_param(t->weight[i]);
        ggml_set_param(t->bias[i]);
    }
    t->buffer = ggml_backend_alloc_ctx_tensors(t->params, t->cpu);
    return t->buffer ? FT_OK : no_memory(err);
}

static ft_status make_graph(trainer *t, ft_error *err)
{
    const struct ggml_init_params room = {
        .mem_size = GGML_DEFAULT_GRAPH_SIZE * ggml_tensor_overhead() +
                    3 * ggml_graph_overhead_custom(GGML_DEFAULT_GRAPH_SIZE, true),
        .no_alloc = true};
    t->graph = ggml_init(room);
    if (!t->graph)
        return no_memory(err);
    struct ggml_tensor *at = t->inputs;
    for (uint32_t i = 0; i < t->mlp->shape.n_layers; i++) {
        at = ggml_add(t->graph, ggml_mul_mat(t->graph, t->weight[i], at), t->bias[i]);
        if (i + 1 < t->mlp->shape.n_layers)
            at = ggml_relu(t->graph, at);
    }
    t->outputs = at;
    return FT_OK;
}

static struct ggml_opt_optimizer_params adamw_of(void *ctx)
{
    return ((trainer *)ctx)->adamw;
}

static ft_status make_optimizer(trainer *t, ft_error *err)
{
    ggml_backend_t backends[] = {t->cpu};
    t->sched = ggml_backend_sched_new(backends, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, false);
    if (!t->sched)
        return no_memory(err);
    t->adamw = ggml_opt_get_default_optimizer_params(NULL);
    t->adamw.adamw.alpha = t->opts.rate;
    struct ggml_opt_params params =
        ggml_opt_default_params(t->sched, GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    params.ctx_compute = t->graph;
    params.inputs = t->inputs;
    params.outputs = t->outputs;
    params.get_opt_pars = adamw_of;
    params.get_opt_pars_ud = t;
    t->opt = ggml_opt_init(params);
    return FT_OK;
}

/* He's initialisation, and biases of 0. */
static void first_weights(trainer *t)
{
    for (uint32_t i = 0; i < t->mlp->shape.n_layers; i++) {
        const double deviation = sqrt(2.0 / t->mlp->shape.width[i]);
        float *weight = t->weight[i]->data;
        for (int64_t k = 0; k < ggml_nelements(t->weight[i]); k++)
            weight[k] = (float)(ft_rng_normal(&t->rng) * deviation);
        memset(t->bias[i]->data, 0, ggml_nbytes(t->bias[i]));
    }
}

static ft_status trainer_init(trainer *t, const ft_mlp_data *train, ft_error *err)
{
    ft_rng_init(&t->rng, t->opts.seed);
    t->order = calloc(train->n, sizeof *t->order);
    t->cpu = ggml_backend_cpu_init();
    if (!t->order || !t->cpu)
        return ft_error_set(err, FT_NOMEM, "mlp: out of memory for %zu samples", train->n);
    ggml_backend_cpu_set_n_threads(t->cpu, t->opts.n_threads);
    for (size_t i = 0; i < train->n; i++)
        t->order[i] = (uint32_t)i;
    ft_status status = make_params(t, err);
    if (status == FT_OK)
        status = make_graph(t, err);
    if (status == FT_OK)
        status = make_optimizer(t, err);
    if (status == FT_OK)
        first_weights(t);
    return status;
}

static void trainer_deinit(trainer *t)
{
    ggml_opt_free(t->opt);
    ggml_backend_sched_free(t->sched);
    ggml_free(t->graph);
    ggml_backend_buffer_free(t->buffer);
    ggml_free(t->params);
    ggml_backend_free(t->cpu);
    free(t->order);
}

/* ---- epochs ---- */

static void shuffle(trainer *t, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        const size_t k = ft_rng_below(&t->rng, (uint32_t)i);
        const uint32_t swapped = t->order[i - 1];
        t->order[i - 1] = t->order[k];
        t->order[k] = swapped;
    }
}

static void step(trainer *t, const ft_mlp_data *data, const uint32_t *which, ggml_opt_result_t sum)
{
    const uint32_t n_in = t->mlp->shape.width[0];
    ggml_opt_alloc(t->opt, true);
    float *x = ggml_opt_inputs(t->opt)->data, *label = ggml_opt_labels(t->opt)->data;
    for (uint32_t i = 0; i < t->opts.batch; i++) {
        memcpy(x + (size_t)i * n_in, data->x + (size_t)which[i] * n_in, n_in * sizeof *x);
        label[i * CLASSES] = data->y[which[i]] ? 0 : 1;
        label[i * CLASSES + 1] = data->y[which[i]] ? 1 : 0;
    }
    ggml_opt_eval(t->opt, sum);
}

/* Mean loss of the steps. Samples that do not fill the last batch are left for other epochs. */
static double epoch(trainer *t, const ft_mlp_data *train)
{
    double loss, uncertainty;
    ggml_opt_result_t sum = ggml_opt_result_init();
    shuffle(t, train->n);
    for (size_t i = 0; i + t->opts.batch <= train->n; i += t->opts.batch)
        step(t, train, t->order + i, sum);
    ggml_opt_result_loss(sum, &loss, &uncertainty);
    ggml_opt_result_free(sum);
    return loss;
}

/* Copies weights and biases; of the last layer, the difference of the classes. */
static void get_weights(const trainer *t, ft_mlp *out)
{
    for (uint32_t i = 0; i < out->shape.n_layers; i++) {
        const uint32_t n_in = out->shape.width[i], n_out = out->shape.width[i + 1];
        const bool last = i + 1 == out->shape.n_layers;
        const float *weight = t->weight[i]->data, *bias = t->bias[i]->data;
        for (uint32_t in = 0; in < n_in; in++)
            for (uint32_t o = 0; o < n_out; o++) {
                const float w = weight[(size_t)o * n_in + in];
                out->weight[i][(size_t)in * n_out + o] = last ? weight[n_in + in] - w : w;
            }
        for (uint32_t o = 0; o < n_out; o++)
            out->bias[i][o] = last ? bias[1] - bias[0] : bias[o];
    }
}

double ft_mlp_loss(const ft_mlp *mlp, const ft_mlp_data *data)
{
    const uint32_t n_in = mlp->shape.width[0];
    double sum = 0;
    for (size_t i = 0; i < data->n; i++) {
        float odds;
        ft_mlp_run(mlp, data->x + i * n_in, 1, &odds);
        const double wrong = data->y[i] ? -(double)odds : (double)odds;
        sum += wrong > 0 ? wrong + log1p(exp(-wrong)) : log1p(exp(wrong));
    }
    return data->n > 0 ? sum / (double)data->n : 0;
}

/* `now`: a network for the present weights. */
static void train_all(trainer *t, const ft_mlp_data *train, const ft_mlp_data *validation,
                      ft_mlp *now, ft_mlp_training *out)
{
    const size_t bytes = ft_mlp_n_params(&now->shape) * sizeof(float);
    out->loss = INFINITY;
    while (out->epochs < t->opts.max_epochs && out->epochs - out->best < PATIENCE) {
        const double train_loss = epoch(t, train);
        get_weights(t, now);
        const double loss = ft_mlp_loss(now, validation);
        out->epochs++;
        if (loss < out->loss) {
            out->best = out->epochs;
            out->loss = loss;
            out->train_loss = train_loss;
            memcpy(t->mlp->weight[0], now->weight[0], bytes);
        }
        ft_progress_report(&t->opts.progress, out->epochs, t->opts.max_epochs);
    }
    ft_progress_report(&t->opts.progress, t->opts.max_epochs, t->opts.max_epochs);
}

ft_status ft_mlp_train(const ft_mlp_train_opts *opts, const ft_mlp_data *train,
                       const ft_mlp_data *validation, ft_error *err, ft_mlp *mlp,
                       ft_mlp_training *out)
{
    trainer t = {.opts = *opts, .mlp = mlp};
    ft_mlp now = {0};
    *out = (ft_mlp_training){0};
    if (mlp->shape.width[mlp->shape.n_layers] != 1)
        return ft_error_set(err, FT_INVALID, "mlp: a network for two classes has one output");
    if (train->n < t.opts.batch || train->n > UINT32_MAX || validation->n == 0)
        return ft_error_set(err, FT_INVALID,
                            "mlp: %zu samples to train on and %zu to validate with are too few",
                            train->n, validation->n);
    ft_status status = ft_mlp_init(&mlp->shape, err, &now);
    if (status == FT_OK)
        status = trainer_init(&t, train, err);
    if (status == FT_OK)
        train_all(&t, train, validation, &now, out);
    if (status == FT_OK && out->best == 0)
        status = ft_error_set(err, FT_INVALID, "mlp: training diverged at a rate of %g",
                              (double)t.opts.rate);
    trainer_deinit(&t);
    ft_mlp_deinit(&now);
    return status;
}
