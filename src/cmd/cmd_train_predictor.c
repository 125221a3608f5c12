// SPDX-License-Identifier: Apache-2.0
// foretoken train predictor: trains the rejection predictor of WISP 4.1 on traces, in two sizes.
// The texts are in three parts: to train on, to choose epoch, threshold and size with, and to test
// on. Main thread only.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/plot.h"
#include "bench/bench.h"
#include "cmd/cmd.h"
#include "cmd/predictor_quality.h"
#include "cmd/train_set.h"
#include "learn/mlp_train.h"
#include "learn/predictor.h"
#include "spec/draft_engine.h"

#define SIZES        2
#define EARNED       0.005 /* the larger size is kept if its balanced accuracy is higher by this */
#define TIMED_CALLS  4000
#define TIMED_DRAFTS 200

/* A size: what was trained, and its quality. */
typedef struct candidate {
    ft_mlp_shape shape;
    ft_predictor predictor;
    ft_mlp_training how;
    ft_binary_quality validated, tested;
    double warm_us; /* a call, of many in a row */
    double cold_us; /* a call after a draft forward; 0: not measured */
} candidate;

typedef struct training {
    const char *trace, *test, *out, *hidden, *small, *draft, *plot;
    int64_t seed;
    double max_fpr;
    bool json;
    ft_mlp_train_opts how;
    ft_train_set part[FT_TRAIN_PARTS];
    ft_train_models models;
    candidate size[SIZES];
    uint32_t n_sizes, kept;
    double forward_us; /* of the draft model; 0: not measured */
} training;

/* ---- what is asked for ---- */

/* "512,128,64": the hidden layers, between one input a feature and one output. "": none. */
static ft_status parse_shape(const char *flag, const char *list, ft_error *err, ft_mlp_shape *out)
{
    *out = (ft_mlp_shape){.n_layers = 1, .width = {FT_FEATURES}};
    for (const char *at = list; *at;) {
        char *end;
        const unsigned long n = strtoul(at, &end, 10);
        if (end == at || (*end && *end != ',') || n < 1 || n > FT_MLP_WIDTH ||
            out->n_layers == FT_MLP_LAYERS)
            return ft_error_set(err, FT_INVALID,
                                "%s %s: pass widths from 1 to %d, as in 512,128,64", flag, list,
                                FT_MLP_WIDTH);
        out->width[out->n_layers++] = (uint32_t)n;
        at = end + (*end == ',');
    }
    out->width[out->n_layers] = 1;
    return FT_OK;
}

static ft_status check(training *t, ft_error *err)
{
    t->how.seed = (uint64_t)t->seed;
    t->how.progress = ft_progress_terminal("training");
    t->n_sizes = strcmp(t->small, "none") == 0 ? 1 : 2;
    ft_status status = parse_shape("--hidden", t->hidden, err, &t->size[0].shape);
    if (status == FT_OK && t->n_sizes == 2)
        status = parse_shape("--small", t->small, err, &t->size[1].shape);
    return status;
}

/* ---- data ---- */

static ft_status read_parts(training *t, ft_error *err)
{
    const ft_train_split split = {
        .validate = 15, .test = t->test ? 0 : 15, .seed = (uint64_t)t->seed};
    ft_status status = ft_train_read(t->trace, &split, err, t->part, &t->models);
    if (status == FT_OK && t->test) {
        ft_train_models others;
        status = ft_train_read(t->test, &(ft_train_split){.test = 100}, err, t->part, &others);
    }
    for (int p = 0; p < FT_TRAIN_PARTS && status == FT_OK; p++)
        if (t->part[p].n < 100)
            status = ft_error_set(err, FT_INVALID,
                                  "train predictor: %zu samples to train on, %zu to validate and "
                                  "%zu to test with are too few: record more texts",
                                  t->part[FT_TRAIN_FIT].n, t->part[FT_TRAIN_VALIDATE].n,
                                  t->part[FT_TRAIN_TEST].n);
    return status;
}

/* Inputs get mean 0 and deviation 1 over the samples to train on. */
static void normalise(const ft_train_set *s, ft_predictor *p)
{
    for (int f = 0; f < FT_FEATURES; f++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < s->n; i++) {
            const double x = (double)s->at[i].x[f];
            sum += x;
            squares += x * x;
        }
        const double mean = sum / (double)s->n;
        const double deviation = sqrt(fmax(squares / (double)s->n - mean * mean, 0));
        p->mean[f] = (float)mean;
        p->scale[f] = (float)(1 / fmax(deviation, 1e-6));
    }
}

static float *inputs_of(const ft_train_set *s, const ft_predictor *p)
{
    float *x = malloc(s->n * FT_FEATURES * sizeof *x);
    for (size_t i = 0; x && i < s->n; i++)
        for (size_t f = 0; f < FT_FEATURES; f++)
            x[i * FT_FEATURES + f] = (s->at[i].x[f] - p->mean[f]) * p->scale[f];
    return x;
}

/* ---- one size ---- */

static ft_status fit(const training *t, candidate *c, ft_error *err)
{
    const ft_train_set *train = &t->part[FT_TRAIN_FIT], *validate = &t->part[FT_TRAIN_VALIDATE];
    ft_predictor *p = &c->predictor;
    normalise(train, p);
    p->draft = t->models.draft;
    p->target = t->models.target;
    ft_status status = ft_mlp_init(&c->shape, err, &p->mlp);
    if (status != FT_OK)
        return status;
    float *x = inputs_of(train, p), *checked = inputs_of(validate, p);
    const ft_mlp_data fit_on = {x, train->y, train->n},
                      check_on = {checked, validate->y, validate->n};
    if (x && checked)
        status = ft_mlp_train(&t->how, &fit_on, &check_on, err, &p->mlp, &c->how);
    else
        status = ft_error_set(err, FT_NOMEM, "out of memory for %zu samples", train->n);
    free(x);
    free(checked);
    return status;
}

static ft_status train_size(training *t, candidate *c, ft_error *err)
{
    ft_predictor *p = &c->predictor;
    const ft_train_set *validate = &t->part[FT_TRAIN_VALIDATE], *test = &t->part[FT_TRAIN_TEST];
    ft_status status = fit(t, c, err);
    if (status == FT_OK)
        status = ft_predictor_quality_choose(p, validate, t->max_fpr, err, &c->validated);
    return status == FT_OK ? ft_predictor_quality_measure(p, test, err, &c->tested) : status;
}

/* The larger one has to earn its cost. */
static void choose(training *t)
{
    const candidate *c = t->size;
    t->kept = t->n_sizes == 2 && c[0].validated.balanced < c[1].validated.balanced + EARNED;
}

/* ---- what a call costs ---- */

static volatile float sink; /* keeps calls whose result nobody wants */

/* In nanoseconds' resolution: a call takes less than a microsecond. */
static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void time_warm(const training *t, candidate *c)
{
    const ft_train_set *s = &t->part[FT_TRAIN_TEST];
    double begin = now_us();
    for (size_t i = 0; i < TIMED_CALLS; i++)
        sink = ft_predictor_odds(&c->predictor, s->at[i % s->n].x);
    c->warm_us = (now_us() - begin) / TIMED_CALLS;
}

/* Forwards of one token, each followed by a call of every size. As in drafting, the forward has
 * driven the predictor's weights out of the caches. */
static ft_status time_forwards(training *t, ft_draft_source *source, ft_error *err)
{
    const ft_train_set *s = &t->part[FT_TRAIN_TEST];
    double forward[TIMED_DRAFTS], call[SIZES][TIMED_DRAFTS];
    ft_draft_children children;
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < TIMED_DRAFTS && status == FT_OK; i++) {
        const int32_t token = 100 + (int32_t)i;
        ft_draft_request r = {.source = source, .n = 1, .tokens = &token, .children = &children};
        double begin = now_us();
        status = source->ops->forward(&r, 1, err);
        forward[i] = now_us() - begin;
        for (uint32_t k = 0; k < t->n_sizes; k++) {
            begin = now_us();
            sink = ft_predictor_odds(&t->size[k].predictor, s->at[i % s->n].x);
            call[k][i] = now_us() - begin;
        }
    }
    t->forward_us = ft_bench_median(forward, TIMED_DRAFTS);
    for (uint32_t k = 0; k < t->n_sizes; k++)
        t->size[k].cold_us = ft_bench_median(call[k], TIMED_DRAFTS);
    return status;
}

static ft_status time_draft(training *t, ft_error *err)
{
    const ft_model_opts opts = {.path = t->draft};
    const ft_sampling greedy = ft_sampling_default();
    ft_model *model = NULL;
    ft_engine *engine = NULL;
    ft_draft_source *source = NULL;
    ft_status status = ft_model_load(&opts, err, &model);
    if (status == FT_OK) {
        const ft_engine_opts eo = {.model = model,
                                   .kv_tok = 2 * TIMED_DRAFTS,
                                   .max_batch_tok = 16,
                                   .n_threads = t->how.n_threads};
        status = ft_engine_create(&eo, err, &engine);
    }
    if (status == FT_OK)
        status = ft_draft_engine_source(engine, &ft_rule_exact, NULL, &greedy, err, &source);
    if (status == FT_OK)
        status = time_forwards(t, source, err);
    ft_draft_source_destroy(source);
    if (engine)
        ft_engine_destroy(engine);
    ft_model_destroy(model);
    return status;
}

/* ---- the report ---- */

static json_t *size_json(const training *t, const candidate *c)
{
    json_t *hidden = json_array();
    for (uint32_t i = 1; i < c->shape.n_layers; i++)
        json_array_append_new(hidden, json_integer(c->shape.width[i]));
    json_t *out = json_pack("{s:o, s:I, s:i, s:f, s:f, s:f, s:o, s:o, s:f}", "hidden", hidden,
                            "parameters", (json_int_t)ft_mlp_n_params(&c->shape), "epochs",
                            (int)c->how.best, "train_loss", c->how.train_loss, "validation_loss",
                            c->how.loss, "threshold", 1 / (1 + exp(-(double)c->predictor.least)),
                            "validated", ft_predictor_quality_json(&c->validated), "tested",
                            ft_predictor_quality_json(&c->tested), "call_us", c->warm_us);
    if (t->forward_us > 0) {
        json_object_set_new(out, "call_after_forward_us", json_real(c->cold_us));
        json_object_set_new(out, "share_of_forward", json_real(c->cold_us / t->forward_us));
    }
    return out;
}

static json_t *part_json(const ft_train_set *s)
{
    size_t ones = 0;
    for (size_t i = 0; i < s->n; i++)
        ones += s->y[i];
    return json_pack("{s:I, s:I, s:f}", "texts", (json_int_t)ft_train_set_texts(s), "samples",
                     (json_int_t)s->n, "accepted", (double)ones / (double)s->n);
}

static json_t *report_of(const training *t)
{
    json_t *sizes = json_array();
    for (uint32_t k = 0; k < t->n_sizes; k++)
        json_array_append_new(sizes, size_json(t, &t->size[k]));
    json_t *out = json_pack("{s:s, s:o, s:o, s:o, s:f, s:o, s:i}", "command", "train predictor",
                            "train", part_json(&t->part[FT_TRAIN_FIT]), "validation",
                            part_json(&t->part[FT_TRAIN_VALIDATE]), "test",
                            part_json(&t->part[FT_TRAIN_TEST]), "max_fpr", t->max_fpr, "sizes",
                            sizes, "kept", (int)t->kept);
    if (t->forward_us > 0)
        json_object_set_new(out, "draft_forward_us", json_real(t->forward_us));
    return out;
}

static void print_shape(const ft_mlp_shape *shape)
{
    char name[FT_MLP_LAYERS * 6] = "";
    size_t n = 0;
    for (uint32_t i = 1; i < shape->n_layers && n < sizeof name; i++)
        n += (size_t)snprintf(name + n, sizeof name - n, "%s%u", i > 1 ? "-" : "", shape->width[i]);
    printf("%-14s", n ? name : "linear");
}

static void print_report(const training *t)
{
    printf("%zu samples to train on, %zu to validate with, %zu of unseen texts, %.1f %% of which "
           "are accepted\n\n",
           t->part[FT_TRAIN_FIT].n, t->part[FT_TRAIN_VALIDATE].n, t->part[FT_TRAIN_TEST].n,
           100 * (double)(t->size[0].tested.tp + t->size[0].tested.fn) /
               (double)t->part[FT_TRAIN_TEST].n);
    printf("%-14s ", "hidden layers");
    ft_predictor_quality_print_head();
    printf(" %7s %9s %12s\n", "epochs", "call us", "of a forward");
    for (uint32_t k = 0; k < t->n_sizes; k++) {
        const candidate *c = &t->size[k];
        print_shape(&c->shape);
        printf(" ");
        ft_predictor_quality_print(&c->tested);
        printf(" %7u %9.2f", c->how.best, t->forward_us > 0 ? c->cold_us : c->warm_us);
        if (t->forward_us > 0)
            printf(" %10.2f %%", 100 * c->cold_us / t->forward_us);
        printf("%s\n", t->n_sizes > 1 && k == t->kept ? "   kept" : "");
    }
    printf("%-14s ", "WISP table 4");
    ft_predictor_quality_print(&ft_predictor_quality_paper);
    printf("\n");
}

/* The reliability diagram. */
static ft_status plot(const training *t, ft_error *err)
{
    ft_plot p = {.command = "train predictor", .path = t->plot, .width = 640, .height = 600};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key left top\nset xrange [0:1]\nset yrange [0:1]\n"
                       "set xlabel 'predicted chance of acceptance'\n"
                       "set ylabel 'accepted, unseen texts'\n"
                       "plot x title 'calibrated' with lines dashtype 2");
    for (uint32_t k = 0; k < t->n_sizes; k++)
        fprintf(p.gnuplot, ", '-' title '%zu parameters%s' with linespoints",
                ft_mlp_n_params(&t->size[k].shape), k == t->kept ? ", kept" : "");
    fprintf(p.gnuplot, "\n");
    for (uint32_t k = 0; k < t->n_sizes; k++) {
        for (int b = 0; b < FT_BINARY_BINS; b++)
            if (t->size[k].tested.bin[b].n > 0)
                fprintf(p.gnuplot, "%g %g\n", t->size[k].tested.bin[b].predicted,
                        t->size[k].tested.bin[b].observed);
        fprintf(p.gnuplot, "e\n");
    }
    return ft_plot_close(&p, err);
}

static ft_status write_file(const training *t, ft_error *err)
{
    json_t *file = ft_predictor_json(&t->size[t->kept].predictor);
    ft_status status = ft_cmd_write_json("train predictor", t->out, file,
                                         JSON_REAL_PRECISION(9) | JSON_COMPACT, err);
    json_decref(file);
    return status;
}

/* ---- the command ---- */

static ft_status train_all(training *t, ft_error *err)
{
    ft_status status = check(t, err);
    if (status == FT_OK)
        status = read_parts(t, err);
    for (uint32_t k = 0; k < t->n_sizes && status == FT_OK; k++)
        status = train_size(t, &t->size[k], err);
    if (status != FT_OK)
        return status;
    choose(t);
    for (uint32_t k = 0; k < t->n_sizes; k++)
        time_warm(t, &t->size[k]);
    if (t->draft)
        status = time_draft(t, err);
    if (status == FT_OK)
        status = write_file(t, err);
    if (status == FT_OK && t->plot)
        status = plot(t, err);
    return status;
}

static const ft_flag rows[] = {
    {"--trace", NULL, FT_FLAG(training, trace), "FILE", "what edge --trace recorded",
     .required = true},
    {"--test", NULL, FT_FLAG(training, test), "FILE",
     "test with this trace of other prompts; default: with 15 % of the texts"},
    {"--out", "-o", FT_FLAG(training, out), "FILE",
     "write the predictor there, for edge --predictor", .required = true},
    {"--hidden", NULL, FT_FLAG(training, hidden), "LIST", "widths of the hidden layers"},
    {"--small", NULL, FT_FLAG(training, small), "LIST",
     "also train this smaller size, and keep it unless the larger one is clearly better; none"},
    {"--max-fpr", NULL, FT_FLAG(training, max_fpr), "P",
     "share of rejected tokens that may be let through, on validation texts", 0, 1},
    {"--epochs", NULL, FT_FLAG(training, how.max_epochs), "N", "epochs at most", 1, 10000},
    {"--batch", NULL, FT_FLAG(training, how.batch), "N", "samples of a step", 1, 65536},
    {"--rate", NULL, FT_FLAG(training, how.rate), "R", "learning rate", 1e-7, 1},
    {"--seed", "-s", FT_FLAG(training, seed), "N",
     "seed of the weights, their order and the division of the texts", 0, 1e9},
    {"--threads", "-t", FT_FLAG(training, how.n_threads), "N", "threads", 1, 512},
    {"--model-draft", "-md", FT_FLAG(training, draft), "MODEL",
     "compare the time of a call with a forward of this draft model", .model = true},
    {"--plot", NULL, FT_FLAG(training, plot), "FILE",
     "reliability diagram, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--json", NULL, FT_FLAG(training, json), NULL, "print one JSON object"},
};

static const training defaults = {
    .hidden = "512,128,64",
    .small = "32,16",
    .seed = 1,
    .max_fpr = 0.4,
    .how = {.max_epochs = 60, .batch = 128, .rate = 1e-3f, .n_threads = 1}};

static int run(void *options, int n_words, char **words)
{
    training *t = options;
    ft_error err = {0};
    ft_status status = train_all(t, &err);
    json_t *report = status == FT_OK ? report_of(t) : NULL;
    if (status == FT_OK && !t->json)
        print_report(t);
    for (int p = 0; p < FT_TRAIN_PARTS; p++)
        ft_train_set_deinit(&t->part[p]);
    for (int k = 0; k < SIZES; k++)
        ft_predictor_deinit(&t->size[k].predictor);
    return ft_cmd_report(status, &err, report, t->json, NULL);
}

const ft_command ft_cmd_train_predictor = {
    .name = "train predictor",
    .summary = "train a predictor of rejections from traces, for edge --predictor",
    .usage = "--trace FILE -o FILE [flags]",
    .about = "Trains a predictor (WISP 4.1): it tells from a draft model's logits whether the "
             "target will reject a token, so that a draft can end there. It is a perceptron, "
             "trained in two sizes. The texts are divided into those to train on, those that "
             "choose epoch and threshold (the highest balanced accuracy within --max-fpr), and "
             "those to test on.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
