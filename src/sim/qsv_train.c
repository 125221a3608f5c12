// SPDX-License-Identifier: Apache-2.0
// Training of draft policies. The world of the DQN is a walk: text after text, each on an uplink of
// its own.
//
// The reward of a round is eq. (13): its expected tokens over its time. The expectation, eq. (14)
// and (15), is over drafts from q^; on the target's text it is the sum of the products of the
// chances of acceptance (sim/qsv_walk.h says why), and one more token, which the target adds. The
// paper sums rewards over rounds, so a policy would gain by making many short rounds. Here a round
// earns its reward while it lasts, and what comes later is discounted by time: of a round of T ms
// and a horizon of H ms counts 1 - exp(-T / H), of all behind it exp(-T / H). So a value is a mean
// of the throughput ahead, eq. (12), and with H = 0 it is the reward of the round alone. Throughput
// is told in multiples of plain decoding, so that values are near 1.
//
// A mean of ratios is not the ratio of sums, eq. (12). The other reward is for that ratio: the
// tokens of a round less those that the best fixed pair brings in its time (Dinkelbach, On
// nonlinear fractional programming, 1967: the policy that maximizes this at the highest ratio
// maximizes the ratio). What a round leaves to the next is the same whatever its length, but for
// where it ends; so the next round alone is looked at.
#include "sim/qsv_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sim/qsv_table.h"

#define VALIDATION_SHARE 5 /* a text of so many */
/* A round that brings so many tokens less than a pair would is never the best. How bad it is
 * exactly would only make the errors of good ones look small. */
#define GAIN_LEAST (-1)
/* Chance is the same for a policy and the pairs it is compared with, so a few replays tell. */
#define CHECK_REPLAYS 2

/* Some texts, by temperature, and what the best fixed pairs reach on them. */
typedef struct part {
    uint32_t *texts[FT_POSITIONS_TEMPS]; /* [n_texts] of each temperature */
    size_t n_texts[FT_POSITIONS_TEMPS];
    double best[FT_POSITIONS_TEMPS][FT_QSV_LINKS]; /* tokens/s */
} part;

enum { TRAIN, VALIDATION, PARTS };

typedef struct school {
    const ft_qsv_train_opts *opts;
    ft_qsv_setting setting;
    part part[PARTS];
    uint32_t *order; /* [texts] all texts; the parts' lists lie in it */
    ft_rng rng;      /* of texts and uplinks */
    ft_qsv_walk walk;
    ft_qsv_link link;
    double pair_per_ms; /* tokens that the best fixed pair brings here */
    ft_policy *policy;  /* that is trained */
    ft_policy kept;     /* the best so far */
    ft_qsv_training *out;
    bool stopped;
} school;

/* ---- texts ---- */

static void shuffle(ft_rng *rng, uint32_t *array, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        const size_t k = ft_rng_below(rng, (uint32_t)i);
        const uint32_t swapped = array[i - 1];
        array[i - 1] = array[k];
        array[k] = swapped;
    }
}

static ft_status divide(school *s, ft_error *err)
{
    const ft_positions *all = s->opts->positions;
    size_t at = 0;
    s->order = malloc(all->n_texts * sizeof *s->order);
    if (!s->order)
        return ft_error_set(err, FT_NOMEM, "train policy: out of memory");
    for (uint32_t t = 0; t < all->n_temperatures; t++) {
        uint32_t *texts = s->order + at;
        size_t n = 0;
        for (uint32_t i = 0; i < all->n_texts; i++)
            if (all->texts[i].temperature == t)
                texts[n++] = i;
        if (n < 2)
            return ft_error_set(err, FT_INVALID,
                                "train policy: %zu texts of temperature %g are too few: record two "
                                "at least, one to train on and one to check with",
                                n, (double)all->temperature[t]);
        shuffle(&s->rng, texts, n);
        const size_t checked = n < VALIDATION_SHARE ? 1 : n / VALIDATION_SHARE;
        s->part[VALIDATION].texts[t] = texts;
        s->part[VALIDATION].n_texts[t] = checked;
        s->part[TRAIN].texts[t] = texts + checked;
        s->part[TRAIN].n_texts[t] = n - checked;
        s->out->validation_texts += checked;
        s->out->train_texts += n - checked;
        at += n;
    }
    return FT_OK;
}

/* ---- the world ---- */

static uint32_t n_constant_links(const ft_qsv_config *c)
{
    uint32_t n = 0;
    while (n < c->n_links && c->link[n].rate.step_ns == 0)
        n++;
    return n;
}

/* What the best fixed pair reaches at a constant rate that is not among the setting's, tokens/s: on
 * the line between its neighbours, by order of magnitude. */
static double pair_at(const school *s, uint32_t temperature, double bits_per_s)
{
    const ft_qsv_link *link = s->opts->config->link;
    const double *best = s->part[TRAIN].best[temperature];
    const uint32_t n = n_constant_links(s->opts->config);
    uint32_t above = 1;
    if (n < 2)
        return best[0];
    while (above + 1 < n && link[above].rate.bits_per_s[0] < bits_per_s)
        above++;
    const double low = link[above - 1].rate.bits_per_s[0], high = link[above].rate.bits_per_s[0];
    const double share = log(bits_per_s / low) / log(high / low);
    return best[above - 1] + share * (best[above] - best[above - 1]);
}

/* A text of the training part, each temperature as often; a chain or a constant rate, evenly by
 * order of magnitude between the setting's least and most. */
static void begin_text(school *s)
{
    const ft_qsv_config *c = s->opts->config;
    const uint32_t t = ft_rng_below(&s->rng, s->opts->positions->n_temperatures);
    const part *p = &s->part[TRAIN];
    const uint32_t n_constant = n_constant_links(c);
    const double least = c->link[0].rate.bits_per_s[0];
    const double most = c->link[n_constant - 1].rate.bits_per_s[0];
    const uint32_t text = p->texts[t][ft_rng_below(&s->rng, (uint32_t)p->n_texts[t])];
    const uint32_t replay = ft_rng_u32(&s->rng);
    const bool chain = n_constant < c->n_links && ft_rng_unit(&s->rng) < 0.5;
    if (chain) {
        const uint32_t link = n_constant + ft_rng_below(&s->rng, c->n_links - n_constant);
        s->link = c->link[link];
        s->pair_per_ms = p->best[t][link] / 1000;
    } else {
        const double rate = least * pow(most / least, ft_rng_unit(&s->rng));
        s->link = (ft_qsv_link){"constant", {.bits_per_s = {rate}}};
        s->pair_per_ms = pair_at(s, t, rate) / 1000;
    }
    ft_qsv_walk_init(&s->walk, &s->setting, &s->link, s->opts->dqn.seed, replay);
    ft_qsv_walk_text(&s->walk, text);
}

/* A text can be recognized by its last 64 confidences, and the network would learn texts by heart.
 * So half of them are hidden at random, and the others count twice (dropout: Srivastava et al.,
 * JMLR 15, 2014). Their mean and the last one stay. */
static void see(void *ctx, float *state)
{
    school *s = ctx;
    ft_qsv_walk_state(&s->walk, state);
    for (uint32_t i = 0; i < FT_POLICY_WINDOW; i++)
        state[i] = ft_rng_u32(&s->rng) & 1 ? 2 * state[i] : 0;
}

static void round_by(const school *s, uint32_t action, ft_qsv_walk *walk, ft_qsv_round *out)
{
    const uint32_t n_l = s->opts->config->n_l;
    const ft_qsv_draft draft = {
        .kind = FT_QSV_QS, .length = 1 + action / n_l, .i_l = action % n_l, .width = 1};
    ft_qsv_walk_round(walk, &draft, out);
}

/* Each action on a walk of its own. Behind the end of a text another begins; none of its tokens is
 * known yet. */
static void look(void *ctx, float *reward, float *discount, float *next)
{
    const school *s = ctx;
    const uint32_t n = s->policy->n_lengths * s->policy->n_l;
    for (uint32_t a = 0; a < n; a++) {
        ft_qsv_walk walk = s->walk;
        ft_qsv_round r;
        round_by(s, a, &walk, &r);
        const double ms = r.draft_ms + r.up_ms + r.verify_ms + r.down_ms;
        const double later = s->opts->horizon_ms > 0 ? exp(-ms / s->opts->horizon_ms) : 0;
        if (s->opts->reward == FT_QSV_REWARD_GAIN)
            reward[a] = (float)fmax(r.expected - s->pair_per_ms * ms, GAIN_LEAST);
        else
            reward[a] =
                (float)(r.expected / ms * s->opts->config->k[FT_QSV_VERIFY_MS] * (1 - later));
        discount[a] = (float)later;
        if (later > 0) {
            if (!ft_qsv_walk_more(&walk))
                ft_qsv_walk_text(&walk, walk.text);
            ft_qsv_walk_state(&walk, next + (size_t)a * FT_POLICY_INPUTS);
        }
    }
}

static void act(void *ctx, uint32_t action)
{
    school *s = ctx;
    ft_qsv_round r;
    round_by(s, action, &s->walk, &r);
    if (!ft_qsv_walk_more(&s->walk))
        begin_text(s);
}

/* ---- checks ---- */

static ft_qsv_opts opts_of(const school *s, const part *p, uint32_t t, uint32_t link)
{
    return (ft_qsv_opts){.setting = &s->setting,
                         .link = &s->opts->config->link[link],
                         .texts = p->texts[t],
                         .n_texts = p->n_texts[t],
                         .replays = CHECK_REPLAYS,
                         .seed = s->opts->dqn.seed};
}

static void find_best_pairs(school *s, part *p)
{
    const ft_qsv_way fixed = {.method = FT_QSV_METHOD_FIXED};
    for (uint32_t t = 0; t < s->opts->positions->n_temperatures; t++)
        for (uint32_t link = 0; link < s->opts->config->n_links; link++) {
            const ft_qsv_opts opts = opts_of(s, p, t, link);
            ft_qsv_way way;
            ft_qsv_result r;
            ft_qsv_best(&opts, &fixed, &way, &r);
            p->best[t][link] = ft_qsv_tokens_per_s(&r);
        }
}

static ft_qsv_score score(const school *s, const part *p)
{
    const ft_qsv_way way = {.method = FT_QSV_METHOD_POLICY, .policy = s->policy};
    const uint32_t n_t = s->opts->positions->n_temperatures, n_links = s->opts->config->n_links;
    ft_qsv_score out = {.least = INFINITY};
    for (uint32_t t = 0; t < n_t; t++)
        for (uint32_t link = 0; link < n_links; link++) {
            const ft_qsv_opts opts = opts_of(s, p, t, link);
            ft_qsv_result r;
            ft_qsv_run(&opts, &way, &r);
            const double share = ft_qsv_tokens_per_s(&r) / p->best[t][link];
            out.mean += share / (n_t * n_links);
            out.least = fmin(out.least, share);
        }
    return out;
}

static bool check(void *ctx, uint32_t step, const ft_mlp *net)
{
    school *s = ctx;
    ft_qsv_training *out = s->out;
    out->curve[out->n].step = step;
    out->curve[out->n].train = score(s, &s->part[TRAIN]);
    out->curve[out->n].validation = score(s, &s->part[VALIDATION]);
    if (out->n == 0 || out->curve[out->n].validation.mean > out->curve[out->best].validation.mean) {
        out->best = out->n;
        memcpy(s->kept.net.weight[0], net->weight[0], ft_mlp_n_params(&net->shape) * sizeof(float));
    }
    out->n++;
    ft_progress_report(&s->opts->progress, step, s->opts->dqn.steps);
    s->stopped = s->opts->stop && s->opts->stop();
    return !s->stopped && out->n < FT_QSV_CHECKS;
}

/* ---- training ---- */

static ft_status train(school *s, ft_error *err)
{
    const size_t n = ft_mlp_n_params(&s->policy->net.shape);
    const ft_dqn_world world = {.ctx = s, .see = see, .look = look, .act = act, .check = check};
    uint8_t *mask = malloc(n);
    if (!mask)
        return ft_error_set(err, FT_NOMEM, "train policy: out of memory");
    ft_policy_mask(s->policy, mask);
    for (int p = 0; p < PARTS; p++)
        find_best_pairs(s, &s->part[p]);
    begin_text(s);
    ft_status status = ft_dqn_train(&s->opts->dqn, &world, mask, err, &s->policy->net);
    if (status == FT_OK && s->stopped)
        status = ft_error_set(err, FT_CANCELLED, "train policy: stopped");
    if (status == FT_OK)
        memcpy(s->policy->net.weight[0], s->kept.net.weight[0], n * sizeof(float));
    free(mask);
    return status;
}

ft_status ft_qsv_train(const ft_qsv_train_opts *opts, ft_error *err, ft_policy *policy,
                       ft_qsv_training *out)
{
    const ft_qsv_config *c = opts->config;
    ft_policy like = {.n_lengths = (uint32_t)c->k[FT_QSV_LENGTH_MOST],
                      .n_l = c->n_l,
                      .draft = opts->positions->draft,
                      .target = opts->positions->target};
    memcpy(like.l, c->l, c->n_l * sizeof *c->l);
    school s = {.opts = opts, .policy = policy, .out = out};
    *out = (ft_qsv_training){0};
    *policy = (ft_policy){0};
    ft_rng_init(&s.rng, opts->dqn.seed);
    ft_status status = ft_qsv_setting_init(c, opts->positions, err, &s.setting);
    if (status == FT_OK)
        status = divide(&s, err);
    if (status == FT_OK)
        status = ft_policy_init(&like, err, policy);
    if (status == FT_OK)
        status = ft_policy_init(&like, err, &s.kept);
    if (status == FT_OK)
        status = train(&s, err);
    if (status != FT_OK)
        ft_policy_deinit(policy);
    ft_policy_deinit(&s.kept);
    free(s.order);
    return status;
}
