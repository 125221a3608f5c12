// SPDX-License-Identifier: Apache-2.0
// foretoken train policy: trains a draft policy in the simulator (sim/qsv_train.h), and shows how
// it got better. Main thread only.
#include <stdio.h>

#include "base/plot.h"
#include "cmd/cmd.h"
#include "sim/qsv_train.h"

typedef struct training {
    const char *config_path, *positions_path, *out, *plot;
    int64_t seed;
    bool json;
    ft_qsv_train_opts how;
    ft_qsv_config config;
    ft_positions positions;
    ft_policy policy;
    ft_qsv_training done;
} training;

#define X(id, text) [FT_QSV_REWARD_##id] = text,
static const char *const reward_choices[] = {FT_QSV_REWARD_LIST(X) NULL};
#undef X

static json_t *score_json(const ft_qsv_score *s)
{
    return json_pack("{s:f, s:f}", "mean", s->mean, "least", s->least);
}

static json_t *report_of(const training *t)
{
    const ft_qsv_training *d = &t->done;
    json_t *curve = json_array();
    for (uint32_t i = 0; i < d->n; i++)
        json_array_append_new(curve,
                              json_pack("{s:I, s:o, s:o}", "step", (json_int_t)d->curve[i].step,
                                        "train", score_json(&d->curve[i].train), "validation",
                                        score_json(&d->curve[i].validation)));
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:f, s:I, s:I, s:I, s:I, s:o}", "command", "train policy",
        "config", t->config_path, "positions", t->positions_path, "seed", (json_int_t)t->seed,
        "reward", reward_choices[t->how.reward], "horizon_ms", t->how.horizon_ms, "parameters",
        (json_int_t)ft_mlp_n_params(&t->policy.net.shape), "train_texts",
        (json_int_t)d->train_texts, "validation_texts", (json_int_t)d->validation_texts,
        "kept_step", (json_int_t)d->curve[d->best].step, "curve", curve);
}

static void print_report(const training *t)
{
    const ft_qsv_training *d = &t->done;
    printf("%zu texts to train on, %zu to check with\n\n"
           "tokens/s over the best fixed pair's\n%10s %9s %9s %12s %9s\n",
           d->train_texts, d->validation_texts, "step", "train", "least", "validation", "least");
    for (uint32_t i = 0; i < d->n; i++)
        printf("%10u %9.4f %9.4f %12.4f %9.4f%s\n", d->curve[i].step, d->curve[i].train.mean,
               d->curve[i].train.least, d->curve[i].validation.mean, d->curve[i].validation.least,
               i == d->best ? "   kept" : "");
}

/* The learning curve. */
static ft_status plot(const training *t, ft_error *err)
{
    const ft_qsv_training *d = &t->done;
    ft_plot p = {.command = "train policy", .path = t->plot, .width = 720, .height = 480};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set key right bottom\nset xlabel 'steps'\n"
                       "set ylabel 'tokens/s over the best fixed pair'\n"
                       "plot 1 title 'best fixed pair' with lines dashtype 2, "
                       "'-' title 'texts to train on' with linespoints, "
                       "'-' title 'texts to check with' with linespoints, "
                       "'-' title 'the worst uplink and temperature there' with linespoints\n");
    for (int line = 0; line < 3; line++) {
        for (uint32_t i = 0; i < d->n; i++)
            fprintf(p.gnuplot, "%u %g\n", d->curve[i].step,
                    line == 0   ? d->curve[i].train.mean
                    : line == 1 ? d->curve[i].validation.mean
                                : d->curve[i].validation.least);
        fprintf(p.gnuplot, "e\n");
    }
    return ft_plot_close(&p, err);
}

static ft_status train(training *t, ft_error *err)
{
    if (t->how.reward == FT_QSV_REWARD_GAIN && t->how.horizon_ms > 0)
        return ft_error_set(err, FT_INVALID, "train policy: --horizon-ms goes with --reward round");
    ft_status status = ft_qsv_config_load(t->config_path, err, &t->config);
    if (status == FT_OK)
        status = ft_positions_load(t->positions_path, err, &t->positions);
    if (status != FT_OK)
        return status;
    const uint32_t checks = FT_QSV_CHECKS / 2;
    t->how.config = &t->config;
    t->how.positions = &t->positions;
    t->how.dqn.seed = (uint64_t)t->seed;
    t->how.dqn.check_every = (t->how.dqn.steps + checks - 1) / checks;
    t->how.progress = ft_progress_terminal("training");
    t->how.stop = ft_cmd_stopped;
    status = ft_qsv_train(&t->how, err, &t->policy, &t->done);
    if (status == FT_OK) {
        json_t *file = ft_policy_json(&t->policy);
        status = ft_cmd_write_json("train policy", t->out, file,
                                   JSON_REAL_PRECISION(9) | JSON_COMPACT, err);
        json_decref(file);
    }
    return status == FT_OK && t->plot ? plot(t, err) : status;
}

static const ft_flag rows[] = {
    {"--positions", NULL, FT_FLAG(training, positions_path), "FILE",
     "what both models said of the target's texts", .required = true},
    {"--config", NULL, FT_FLAG(training, config_path), "FILE",
     "setting of simulate qsv: times, uplinks, lengths and l (JSON)", .required = true},
    {"--out", "-o", FT_FLAG(training, out), "FILE", "write the policy there", .required = true},
    {"--seed", "-s", FT_FLAG(training, seed), "N", "of weights, texts, uplinks and acceptance", 0,
     1e9},
    {"--steps", NULL, FT_FLAG(training, how.dqn.steps), "N", "steps of the network", 1, 10000000},
    {"--batch", NULL, FT_FLAG(training, how.dqn.batch), "N", "states of a step", 1, 4096},
    {"--rate", NULL, FT_FLAG(training, how.dqn.rate), "R",
     "learning rate, which falls to a hundredth", 1e-7, 1},
    {"--reward", NULL, FT_FLAG_ENUM(training, how.reward, reward_choices), "WHICH",
     "of a round: its throughput, or its gain of tokens over the best fixed pair"},
    {"--horizon-ms", NULL, FT_FLAG(training, how.horizon_ms), "MS",
     "with --reward round: how far ahead throughput counts; 0: the next round alone", 0, 1e6},
    {"--plot", NULL, FT_FLAG(training, plot), "FILE",
     "learning curve, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--json", NULL, FT_FLAG(training, json), NULL, "print one JSON object"},
};

static const training defaults = {.seed = 1,
                                  .how = {.dqn = {.steps = 10000,
                                                  .batch = 64,
                                                  .memory = 8000,
                                                  .acts = 4,
                                                  .target_every = 500,
                                                  .rate = 1e-3f,
                                                  .explore_last = 0.2f},
                                          .horizon_ms = 0}};

static int run(void *options, int n_words, char **words)
{
    training *t = options;
    ft_error err = {0};
    ft_cmd_catch_signals();
    ft_status status = train(t, &err);
    json_t *report = status == FT_OK ? report_of(t) : NULL;
    if (status == FT_OK && !t->json)
        print_report(t);
    ft_policy_deinit(&t->policy);
    ft_positions_deinit(&t->positions);
    return ft_cmd_report(status, &err, report, t->json, NULL);
}

const ft_command ft_cmd_train_policy = {
    .name = "train policy",
    .summary = "train a draft policy for thin uplinks in the simulator",
    .usage = "--positions FILE --config FILE -o FILE [flags]",
    .about = "Trains a draft policy (Quantize-Sample-and-Verify, section IV): it chooses how many "
             "tokens a draft has and how finely their distributions are quantized, from how sure "
             "the draft model was of the last tokens and from the uplink's rate. Double DQN, on "
             "rounds that are replayed on positions as in simulate qsv. A fifth of the texts is "
             "not trained on; the policy that does best on them is written. The same files and "
             "seed give the same policy, byte for byte.",
    FT_CMD_OPTIONS(rows, defaults),
    .run = run};
