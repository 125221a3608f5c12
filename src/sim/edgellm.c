// SPDX-License-Identifier: Apache-2.0
// Rounds of EdgeLLM and its baselines. A run owns a drafter, a clock and the state of the fallback;
// nothing else is remembered.
#include "sim/edgellm.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "sim/edgellm_world.h"
#include "spec/drafter.h"
#include "spec/fallback.h"

#define X(id, text) [FT_EDGELLM_##id] = text,
const char *const ft_edgellm_method_name[FT_EDGELLM_METHODS] = {FT_EDGELLM_METHOD_LIST(X)};
#undef X

#define NORMAL_95 1.96

typedef struct run {
    const ft_edgellm_opts *opts;
    const ft_edgellm_way *way;
    ft_edgellm_text text;
    uint64_t context; /* behind the text so far */
    uint32_t left;    /* tokens until the text ends */
    ft_edgellm_clock clock;
    ft_drafter *drafter;
    ft_draft_params params;
    ft_fallback fallback;
    bool ahead; /* proactive drafting */
    ft_edgellm_result *sum;
} run;

/* ---- methods ---- */

static ft_draft_params params_of(const ft_edgellm_config *config, const ft_edgellm_way *way)
{
    const uint32_t most = (uint32_t)config->k[FT_EDGELLM_TREE_MOST];
    ft_draft_params params = ft_draft_params_tree(most, most, 1);
    params.grow = FT_GROW_PACER;
    params.proactive = FT_PROACTIVE_LEAF;
    if (way->chain)
        params.branch = 1;
    switch (way->method) {
    case FT_EDGELLM_SP:
        params = ft_draft_params_chain(way->tok);
        break;
    case FT_EDGELLM_SPECINFER: /* a forward computes a level */
        params = ft_draft_params_tree(FT_TREE_MAX, FT_GROW_LEVELS, FT_DRAFT_LEAVES);
        params.branch = FT_DRAFT_RANKED;
        params.grow = FT_GROW_FIXED;
        for (uint32_t i = 0; i < FT_GROW_LEVELS; i++)
            params.children[i] = config->widths[way->widths].children[i];
        break;
    case FT_EDGELLM_BNV:
    case FT_EDGELLM_BNV_PP:
        params.budget = params.depth = way->tok;
        break;
    case FT_EDGELLM_BEST:
        params.grow = FT_GROW_BEST;
        break;
    case FT_EDGELLM_ANYWHERE:
        params.proactive = FT_PROACTIVE_LIKELIEST;
        break;
    default:
        break;
    }
    return params;
}

static bool falls_back(ft_edgellm_method method)
{
    return method >= FT_EDGELLM_ALL;
}

static bool drafts_ahead(ft_edgellm_method method)
{
    return method == FT_EDGELLM_BNV_PP || (falls_back(method) && method != FT_EDGELLM_NO_PP);
}

/* ---- eq. (3), as it can be read otherwise ---- */

/* C_i of the branch that matches the text best: chance[i] of its first i + 1 tokens. Returns its
 * length. Of branches that match equally well it is the likeliest, as in spec/fallback.c. */
static uint32_t best_branch(const ft_tree *tree, const uint32_t *path, uint32_t n_path,
                            float chance[FT_TREE_MAX])
{
    int32_t at = -1, next = n_path > 0 ? (int32_t)path[0] : -1;
    for (uint32_t n = 0;;) {
        for (uint32_t i = (uint32_t)(at + 1); i < tree->n && n >= n_path; i++)
            if (tree->parent[i] == at && (next == at || tree->cum_logp[i] > tree->cum_logp[next]))
                next = (int32_t)i;
        if (next == at)
            return n;
        chance[n++] = expf(tree->cum_logp[next]);
        at = next;
        if (n < n_path)
            next = (int32_t)path[n];
    }
}

/* The new alpha behind an error. */
static float raised(ft_edgellm_method method, float alpha, const float *chance, uint32_t n_all,
                    uint32_t n_correct)
{
    float mean = 0;
    if (method == FT_EDGELLM_PRINTED)
        return (float)(n_all - n_correct) / (float)n_all;
    for (uint32_t i = n_correct; i < n_all; i++)
        mean += chance[i] / (float)(n_all - n_correct);
    return alpha / mean;
}

static void learn_otherwise(ft_edgellm_method method, ft_fallback *f, const ft_tree *tree,
                            const uint32_t *path, uint32_t n_path)
{
    float chance[FT_TREE_MAX];
    const uint32_t n_all = best_branch(tree, path, n_path, chance);
    if (n_all == 0)
        return; /* nothing was drafted */
    const float alpha =
        n_path == n_all ? f->alpha / 2 : raised(method, f->alpha, chance, n_all, n_path);
    f->alpha = fminf(fmaxf(alpha, FT_FALLBACK_LEAST), FT_FALLBACK_MOST);
}

static void learn(run *r, const ft_tree *tree, const uint32_t *path, uint32_t n_path)
{
    const ft_edgellm_method method = r->way->method;
    if (method == FT_EDGELLM_PRINTED || method == FT_EDGELLM_MEAN)
        learn_otherwise(method, &r->fallback, tree, path, n_path);
    else
        ft_fallback_saw(&r->fallback, tree, path, n_path);
}

/* ---- rounds ---- */

/* The target's walk through the tree: the accepted nodes, and its own token behind them. */
static uint32_t verify(const run *r, const ft_tree *tree, uint32_t *path, int32_t *own)
{
    uint64_t context = r->context;
    int32_t at = -1;
    for (uint32_t n = 0;;) {
        *own = ft_edgellm_look(&r->text, context, NULL);
        at = ft_tree_find_child(tree, at, *own);
        if (at < 0)
            return n;
        path[n++] = (uint32_t)at;
        context = ft_edgellm_behind(context, *own);
    }
}

/* Whether the path accepted a branch to its end, and how many branches there are. */
static bool ends_branch(const ft_tree *tree, const uint32_t *path, uint32_t n_path,
                        uint64_t *leaves)
{
    bool inner[FT_TREE_MAX] = {false};
    for (uint32_t i = 0; i < tree->n; i++)
        if (tree->parent[i] >= 0)
            inner[tree->parent[i]] = true;
    for (uint32_t i = 0; i < tree->n; i++)
        *leaves += !inner[i];
    return n_path > 0 ? !inner[path[n_path - 1]] : tree->n == 0;
}

/* III-D: the draft model goes on while the pass runs. A forward that would end after the pass is
 * not begun, so the pass takes no longer for it. */
static ft_status draft_ahead(run *r, double until_s, ft_error *err)
{
    ft_status status = FT_OK;
    const uint64_t before = r->clock.rows;
    r->clock.row_s = r->opts->pair->s[FT_EDGELLM_PROACTIVE_S];
    bool more = r->ahead;
    while (more && status == FT_OK && r->clock.now_s + r->clock.row_s <= until_s)
        status = ft_drafter_proactive(r->drafter, &r->params, err, &more);
    r->clock.row_s = r->opts->pair->s[FT_EDGELLM_DRAFT_S];
    r->sum->proactive += r->clock.rows - before;
    return status;
}

static ft_status finish(run *r, const ft_tree *tree, const uint32_t *path, uint32_t n_path,
                        const int32_t *own, ft_error *err)
{
    ft_edgellm_result *sum = r->sum;
    const uint32_t n = n_path + 1 < r->left ? n_path + 1 : r->left;
    sum->verifications++;
    sum->errors += !ends_branch(tree, path, n_path, &sum->branches);
    sum->tokens += n;
    r->left -= n;
    if (falls_back(r->way->method)) {
        sum->alpha += (double)r->fallback.alpha;
        sum->alpha_most += r->fallback.alpha >= FT_FALLBACK_MOST;
        sum->in_doubt += ft_fallback_now(&r->fallback, ft_fallback_confidence(tree));
        learn(r, tree, path, n_path);
    }
    for (uint32_t i = 0; i < n_path; i++)
        r->context = ft_edgellm_behind(r->context, tree->token[path[i]]);
    r->context = ft_edgellm_behind(r->context, *own);
    return ft_drafter_advance(r->drafter, path, n_path, own, 1, err);
}

static ft_status run_round(run *r, ft_error *err)
{
    const double began_s = r->clock.now_s;
    const uint64_t before = r->clock.rows;
    uint32_t path[FT_TREE_MAX], n_path = 0;
    int32_t own = 0;
    ft_tree tree;
    ft_status status = ft_drafter_draft(r->drafter, &r->params, err, &tree);
    if (status != FT_OK)
        return status;
    const double sent_s = r->clock.now_s;
    r->sum->drafted += r->clock.rows - before;
    r->sum->draft_s += sent_s - began_s;
    r->sum->verify_s += r->opts->verify_s;
    status = draft_ahead(r, sent_s + r->opts->verify_s, err);
    r->clock.now_s = sent_s + r->opts->verify_s;
    n_path = verify(r, &tree, path, &own);
    return status == FT_OK ? finish(r, &tree, path, n_path, &own, err) : status;
}

static ft_status run_text(run *r, uint32_t index, ft_error *err)
{
    const ft_edgellm_config *c = r->opts->config;
    const ft_edgellm_law law = {.correctness = r->opts->pair->dataset[r->opts->dataset].correctness,
                                .top_concentration = c->k[FT_EDGELLM_TOP_CONCENTRATION],
                                .text_concentration = c->k[FT_EDGELLM_TEXT_CONCENTRATION],
                                .next_share = c->k[FT_EDGELLM_NEXT_SHARE]};
    const int32_t prompt = FT_EDGELLM_PROMPT;
    const double began_s = r->clock.now_s;
    r->text = ft_edgellm_text_make(&law, r->opts->seed, index);
    r->context = ft_edgellm_behind(r->text.root, prompt);
    r->left = (uint32_t)c->k[FT_EDGELLM_TEXT_TOK];
    ft_status status = ft_drafter_reset(r->drafter, &prompt, 1, err);
    while (r->left > 0 && status == FT_OK)
        status = run_round(r, err);
    r->sum->text_s[index] = r->clock.now_s - began_s;
    return status;
}

/* The target or the draft model alone: every token takes the same time. */
static void run_alone(const ft_edgellm_opts *opts, ft_edgellm_method method, ft_edgellm_result *sum)
{
    const double io = opts->config->k[FT_EDGELLM_IO_SHARE];
    const double tok = opts->config->k[FT_EDGELLM_TEXT_TOK],
                 std_s = opts->pair->s[FT_EDGELLM_STD_S];
    const double s = method == FT_EDGELLM_STD   ? std_s
                     : method == FT_EDGELLM_SPL ? std_s * fmax(io, 1 - io)
                                                : opts->pair->s[FT_EDGELLM_DRAFT_S];
    const bool target = method != FT_EDGELLM_DRAFT;
    sum->tokens = (uint64_t)tok * sum->texts;
    sum->verifications = target ? sum->tokens : 0;
    sum->drafted = target ? 0 : sum->tokens;
    *(target ? &sum->verify_s : &sum->draft_s) = s * (double)sum->tokens;
    for (uint32_t i = 0; i < sum->texts; i++)
        sum->text_s[i] = s * tok;
}

static ft_status run_texts(run *r, ft_error *err)
{
    ft_draft_source *source;
    ft_drafter_stats stats;
    ft_status status = ft_edgellm_source_create(&r->text, &r->clock, err, &source);
    if (status == FT_OK)
        status = ft_drafter_create(source, err, &r->drafter);
    for (uint32_t i = 0; i < r->sum->texts && status == FT_OK; i++)
        status = run_text(r, i, err);
    if (status == FT_OK) {
        ft_drafter_get_stats(r->drafter, &stats);
        r->sum->kept = stats.proactive_kept;
    }
    ft_drafter_destroy(r->drafter);
    return status;
}

ft_status ft_edgellm_run(const ft_edgellm_opts *opts, const ft_edgellm_way *way, ft_error *err,
                         ft_edgellm_result *out)
{
    const uint32_t texts = (uint32_t)opts->config->k[FT_EDGELLM_TEXTS];
    ft_status status = FT_OK;
    *out = (ft_edgellm_result){.text_s = calloc(texts, sizeof *out->text_s), .texts = texts};
    run r = {.opts = opts,
             .way = way,
             .sum = out,
             .params = params_of(opts->config, way),
             .ahead = drafts_ahead(way->method),
             .fallback = ft_fallback_begin(way->method == FT_EDGELLM_FIXED ? way->alpha : 0),
             .clock = {.row_s = opts->pair->s[FT_EDGELLM_DRAFT_S],
                       .row_share = opts->config->k[FT_EDGELLM_ROW_SHARE]}};
    if (falls_back(way->method))
        r.params.fallback = &r.fallback;
    if (!out->text_s)
        status = ft_error_set(err, FT_NOMEM, "simulate: out of memory");
    else if (way->method < FT_EDGELLM_SP)
        run_alone(opts, way->method, out);
    else
        status = run_texts(&r, err);
    if (status != FT_OK)
        ft_edgellm_result_deinit(out);
    return status;
}

void ft_edgellm_result_deinit(ft_edgellm_result *result)
{
    free(result->text_s);
    *result = (ft_edgellm_result){0};
}

/* ---- what comes out ---- */

static double sum_of(const ft_edgellm_result *r)
{
    double s = 0;
    for (uint32_t i = 0; i < r->texts; i++)
        s += r->text_s[i];
    return s;
}

double ft_edgellm_s_per_tok(const ft_edgellm_result *r)
{
    return r->tokens > 0 ? sum_of(r) / (double)r->tokens : 0;
}

/* The ratio of two means: its variance is that of b_i - times * a_i over the mean of a, squared. */
ft_edgellm_gain ft_edgellm_compare(const ft_edgellm_result *a, const ft_edgellm_result *b)
{
    const double n = a->texts, sum = sum_of(a), times = sum_of(b) / sum;
    double square = 0;
    assert(a->texts == b->texts && a->texts > 1);
    for (uint32_t i = 0; i < a->texts; i++)
        square += pow(b->text_s[i] - times * a->text_s[i], 2);
    return (ft_edgellm_gain){times, NORMAL_95 * sqrt(square / (n * (n - 1))) / (sum / n)};
}
