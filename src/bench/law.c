// SPDX-License-Identifier: Apache-2.0
// Whether the tokens that come out have the target's law. Behind each of several texts, the logits
// of the next two positions are computed once (law_prefix.c). Then many rounds with other seeds run
// on them, with the rules' own functions, as edge and server would: a chain of two tokens is drawn
// and walked; if its first token is refused, the next round gives the second. Compared with the
// target's distribution: what came out first and second. Direct draws from the target say how near
// so many draws can come.
//
// S-Q is the order that the paper warns of: the token is drawn from the draft's distribution, and
// the point only then made. It is biased, and no edge or server can be told to use it. One thread.
#include "bench/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/chi_square.h"
#include "base/num.h"
#include "base/rng.h"
#include "spec/lattice.h"
#include "spec/rule.h"

/* ---- rounds ---- */

typedef enum method { RATIO, EXACT, SQ } method;

static const char *const method_name[] = {"ratio", "exact", "S-Q"};

/* What rounds behind one text need. */
typedef struct place {
    const ft_law_prefix *at;
    ft_rule_work *work;
    uint8_t *evidence; /* of a node at most */
    int32_t *row;      /* [n_vocab] the row behind a token at the first position; 0: none */
    ft_buf all;
    ft_tree tree;
    uint32_t start; /* the row at which the present round begins */
    /* of S-Q: */
    ft_rng rng;
    double *shares[2]; /* [n_vocab] */
} place;

/* Behind two tokens there is no row: what is drawn there is not looked at. */
static const float *row_of(void *ctx, int32_t node)
{
    const place *p = ctx;
    const uint32_t row = node < 0        ? p->start
                         : p->start == 0 ? (uint32_t)p->row[p->tree.token[0]]
                                         : 0;
    return p->at->target + (size_t)row * p->at->n_vocab;
}

static const float *draft_row(const place *p, uint32_t row)
{
    return p->at->draft + (size_t)row * p->at->n_vocab;
}

static ft_status add_node(place *p, const ft_rule *rule, const ft_draw *d)
{
    ft_draft_children children;
    rule->draw(rule, p->work, d, &children, p->evidence);
    ft_tree_add(&p->tree, (int32_t)p->tree.n - 1, children.at[0].token, 0);
    return children.n_evidence ? ft_evidence_append(&p->all, p->evidence, children.n_evidence)
                               : FT_OK;
}

/* A round with n nodes, one or two, from row `start` on. */
static ft_status verify(place *p, const ft_rule *rule, ft_draw d, uint32_t n, ft_verified *out)
{
    ft_status status = FT_OK;
    *out = (ft_verified){0};
    ft_tree_clear(&p->tree);
    ft_buf_clear(&p->all);
    for (uint32_t i = 0; i < n && status == FT_OK; i++) {
        d.logits = draft_row(p, i == 0 ? p->start : (uint32_t)p->row[p->tree.token[0]]);
        status = add_node(p, rule, &d);
        d.position++;
    }
    const ft_drafted drafted = {.tree = &p->tree,
                                .evidence = (const uint8_t *)p->all.data,
                                .n_evidence = (uint32_t)p->all.len,
                                .sampling = d.sampling,
                                .position = d.position - n};
    if (status == FT_OK)
        rule->walk(rule, p->work, &drafted, (ft_rows){row_of, p}, out);
    return status;
}

/* The first two tokens by a rule: a round of two nodes; if that gives one token, another of one. */
static ft_status by_rule(place *p, const ft_rule *rule, const ft_draw *d, int32_t out[2])
{
    ft_verified v;
    p->start = 0;
    ft_status status = verify(p, rule, *d, 2, &v);
    out[0] = v.n_path > 0 ? p->tree.token[0] : v.next;
    out[1] = v.n_path > 1 ? p->tree.token[1] : v.next;
    if (status != FT_OK || v.n_path > 0)
        return status;
    ft_draw next = *d;
    next.position++;
    next.round++;
    p->start = (uint32_t)p->row[out[0]];
    status = verify(p, rule, next, 1, &v);
    out[1] = v.n_path > 0 ? p->tree.token[0] : v.next;
    return status;
}

/* ---- S-Q ---- */

/* A row's distribution, as shares of 1. */
static void shares(place *p, const ft_sampling *s, const float *logits, double *out)
{
    const int32_t *tokens;
    const uint64_t *weights;
    const size_t n = ft_sampler_weights(p->work->sampler, s, logits, &tokens, &weights);
    double sum = 0;
    memset(out, 0, p->at->n_vocab * sizeof *out);
    for (size_t i = 0; i < n; i++)
        sum += (double)weights[i];
    for (size_t i = 0; i < n; i++)
        out[tokens[i]] = (double)weights[i] / sum;
}

/* The nearest point to the draft's distribution, as shares of 1. */
static void point_shares(place *p, const ft_sampling *s, uint32_t row, uint32_t l, double *out)
{
    const int32_t *tokens;
    const uint64_t *weights;
    const size_t n = ft_sampler_weights(p->work->sampler, s, draft_row(p, row), &tokens, &weights);
    ft_lattice_work lattice = ft_lattice_work_in(p->work->scratch, p->at->n_vocab, FT_RATIO_L_MAX);
    ft_lattice_quantize(&lattice, l, tokens, weights, n, &lattice.point);
    memset(out, 0, p->at->n_vocab * sizeof *out);
    for (uint32_t i = 0; i < lattice.point.n; i++)
        out[lattice.point.token[i]] = (double)lattice.point.count[i] / l;
}

/* One token: `sampled` from the draft's distribution, accepted by eq. (1) with its nearest point,
 * which may have no share of it: then whatever share the target has of it is enough. Else by
 * eq. (2). */
static int32_t sq_token(place *p, const ft_draw *d, uint32_t row, int32_t sampled)
{
    double *target = p->shares[0], *point = p->shares[1], left = 0;
    int32_t last = sampled;
    shares(p, d->sampling, p->at->target + (size_t)row * p->at->n_vocab, target);
    point_shares(p, d->sampling, row, d->resolution, point);
    if (ft_rng_unit(&p->rng) * point[sampled] < target[sampled])
        return sampled;
    for (uint32_t t = 0; t < p->at->n_vocab; t++)
        left += fmax(target[t] - point[t], 0);
    left *= ft_rng_unit(&p->rng);
    for (uint32_t t = 0; t < p->at->n_vocab && left >= 0; t++) {
        const double more = fmax(target[t] - point[t], 0);
        last = more > 0 ? (int32_t)t : last;
        left -= more;
    }
    return last;
}

static void by_sq(place *p, const ft_draw *d, int32_t out[2])
{
    ft_sampling other = *d->sampling;
    other.seed = ~other.seed;
    for (uint32_t i = 0, row = 0; i < 2; i++, row = (uint32_t)p->row[out[0]]) {
        const int32_t sampled =
            ft_sampler_draw(p->work->sampler, &other, draft_row(p, row), d->position + i);
        out[i] = sq_token(p, d, row, sampled);
    }
}

static void directly(place *p, const ft_sampling *sampling, int32_t out[2])
{
    ft_sampling other = *sampling;
    other.seed = ~other.seed;
    for (uint32_t i = 0, row = 0; i < 2; i++, row = (uint32_t)p->row[out[0]])
        out[i] = ft_sampler_draw(p->work->sampler, &other,
                                 p->at->target + (size_t)row * p->at->n_vocab, p->at->position + i);
}

/* ---- what came out ---- */

typedef struct figures {
    double tv[2], p[2], entropy; /* means; the least p-values */
} figures;

typedef struct variant {
    method how;
    uint32_t l; /* 0: none */
    figures sum;
} variant;

#define VARIANTS_MAX (2 * FT_BENCH_LIST_MAX + 1)

typedef struct table { /* of one temperature */
    variant variants[VARIANTS_MAX];
    figures direct;
    double entropy_target;
} table;

/* [n_vocab] each; of the first and the second token. */
typedef struct counts {
    double *seen[2], *expected[2];
} counts;

static double entropy(const double *share, uint32_t n, double sum)
{
    double bits = 0;
    for (uint32_t t = 0; t < n; t++)
        if (share[t] > 0)
            bits -= share[t] / sum * log2(share[t] / sum);
    return bits;
}

static void add_figures(const counts *c, uint32_t n_vocab, double rounds, figures *out)
{
    for (int i = 0; i < 2; i++) {
        double off = 0;
        for (uint32_t t = 0; t < n_vocab; t++)
            off += fabs(c->seen[i][t] - c->expected[i][t]);
        out->tv[i] += off / rounds / 2;
        out->p[i] = fmin(out->p[i], ft_chi_square_p(c->seen[i], c->expected[i], n_vocab));
    }
    out->entropy += entropy(c->seen[0], n_vocab, rounds);
}

/* Adds `times` the target's distribution in this row to out. */
static void add_law(place *p, const ft_sampling *s, uint32_t row, double times, double *out)
{
    shares(p, s, p->at->target + (size_t)row * p->at->n_vocab, p->shares[0]);
    for (uint32_t t = 0; t < p->at->n_vocab; t++)
        out[t] += times * p->shares[0][t];
}

static void expect(place *p, const ft_sampling *s, double rounds, counts *c)
{
    const ft_law_prefix *at = p->at;
    for (int i = 0; i < 2; i++)
        memset(c->expected[i], 0, at->n_vocab * sizeof *c->expected[i]);
    add_law(p, s, 0, rounds, c->expected[0]);
    for (uint32_t i = 0; i < at->n_first; i++)
        if (c->expected[0][at->first[i]] > 0)
            add_law(p, s, 1 + i, c->expected[0][at->first[i]], c->expected[1]);
}

static void begin_counts(counts *c, uint32_t n_vocab)
{
    for (int i = 0; i < 2; i++)
        memset(c->seen[i], 0, n_vocab * sizeof *c->seen[i]);
}

static ft_status run_variant(const ft_bench_law_opts *set, place *p, ft_sampling s,
                             const variant *v, counts *c)
{
    const ft_draw d = {.sampling = &s, .position = p->at->position, .round = 1, .resolution = v->l};
    const ft_rule *rule = v->how == EXACT ? &ft_rule_exact : &ft_rule_ratio;
    ft_status status = FT_OK;
    begin_counts(c, p->at->n_vocab);
    for (int64_t i = 0; i < set->rounds && status == FT_OK; i++, s.seed++) {
        int32_t out[2];
        if (v->how == SQ)
            by_sq(p, &d, out);
        else
            status = by_rule(p, rule, &d, out);
        for (int k = 0; k < 2 && status == FT_OK; k++)
            c->seen[k][out[k]]++;
    }
    return status;
}

static void run_direct(const ft_bench_law_opts *set, place *p, ft_sampling s, counts *c)
{
    begin_counts(c, p->at->n_vocab);
    for (int64_t i = 0; i < set->rounds; i++, s.seed++) {
        int32_t out[2];
        directly(p, &s, out);
        for (int k = 0; k < 2; k++)
            c->seen[k][out[k]]++;
    }
}

/* ---- texts ---- */

typedef struct job {
    const ft_bench_law_opts *set;
    ft_law_models models;
    uint32_t n_variants, done; /* done: texts */
    uint64_t parts;            /* of the work, done */
    table *tables;             /* [n_temps] */
} job;

static bool stopped(const job *j)
{
    return j->set->stop && j->set->stop();
}

/* All rounds behind one text, at one temperature. */
static ft_status one_table(job *j, place *p, double temperature, counts *c, table *t)
{
    const ft_bench_law_opts *set = j->set;
    const double rounds = (double)set->rounds;
    const ft_sampling s = {.temperature = (float)temperature,
                           .top_k = (int32_t)set->top_k,
                           .top_p = 1,
                           .seed = (uint64_t)set->seed << 32};
    ft_status status = FT_OK;
    expect(p, &s, rounds, c);
    t->entropy_target += entropy(c->expected[0], p->at->n_vocab, rounds);
    run_direct(set, p, s, c);
    add_figures(c, p->at->n_vocab, rounds, &t->direct);
    for (uint32_t i = 0; i < j->n_variants && status == FT_OK && !stopped(j); i++) {
        status = run_variant(set, p, s, &t->variants[i], c);
        add_figures(c, p->at->n_vocab, rounds, &t->variants[i].sum);
        ft_progress_report(&set->progress, ++j->parts,
                           (uint64_t)set->prefixes * set->n_temps * j->n_variants);
    }
    return status;
}

static void place_deinit(place *p, counts *c)
{
    ft_rule_work_destroy(p->work);
    ft_buf_deinit(&p->all);
    free(p->evidence);
    free(p->row);
    for (int i = 0; i < 2; i++) {
        free(c->seen[i]);
        free(c->expected[i]);
        free(p->shares[i]);
    }
}

static ft_status place_init(const ft_law_prefix *at, ft_error *err, place *p, counts *c)
{
    const ft_rule_terms terms = ft_rule_ratio.terms(&ft_rule_ratio, at->n_vocab, NULL);
    *p = (place){.at = at,
                 .evidence = malloc(terms.evidence_bytes),
                 .row = calloc(at->n_vocab, sizeof *p->row)};
    bool whole = p->evidence && p->row;
    for (int i = 0; i < 2; i++) {
        c->seen[i] = calloc(at->n_vocab, sizeof *c->seen[i]);
        c->expected[i] = calloc(at->n_vocab, sizeof *c->expected[i]);
        p->shares[i] = calloc(at->n_vocab, sizeof *p->shares[i]);
        whole = whole && c->seen[i] && c->expected[i] && p->shares[i];
    }
    if (!whole)
        return ft_error_set(err, FT_NOMEM, "bench law: out of memory");
    for (uint32_t i = 0; i < at->n_first; i++)
        p->row[at->first[i]] = (int32_t)(1 + i);
    ft_rng_init(&p->rng, 1);
    return ft_rule_work_create(ft_rules_all, at->n_vocab, err, &p->work);
}

/* What a text adds is kept only if all of it was done. */
static ft_status one_text(job *j, const ft_law_prefix *at, ft_error *err)
{
    const uint32_t n_temps = j->set->n_temps;
    table *before = calloc(n_temps, sizeof *before);
    place p = {0};
    counts c = {0};
    ft_status status = before ? place_init(at, err, &p, &c)
                              : ft_error_set(err, FT_NOMEM, "bench law: out of memory");
    if (before)
        memcpy(before, j->tables, n_temps * sizeof *before);
    for (uint32_t i = 0; i < n_temps && status == FT_OK; i++)
        status = one_table(j, &p, j->set->temps[i], &c, &j->tables[i]);
    if (status == FT_NOMEM)
        (void)ft_error_set(err, status, "bench law: out of memory");
    if (before && stopped(j))
        memcpy(j->tables, before, n_temps * sizeof *before);
    else
        j->done++;
    place_deinit(&p, &c);
    free(before);
    return status;
}

static ft_status all_texts(job *j, ft_error *err)
{
    ft_status status = FT_OK;
    for (uint32_t i = 0; i < (uint32_t)j->set->prefixes && status == FT_OK && !stopped(j); i++) {
        ft_law_prefix prefix;
        status = ft_law_prefix_init(&j->models, i, (int32_t)j->set->top_k, err, &prefix);
        if (status == FT_OK)
            status = one_text(j, &prefix, err);
        ft_law_prefix_deinit(&prefix);
    }
    return status;
}

/* ---- report ---- */

static json_t *row_json(const job *j, const table *t, const variant *v, double temperature)
{
    const double n = j->done ? j->done : 1;
    json_t *row =
        json_pack("{s:s, s:f}", "method", method_name[v->how], "temperature", temperature);
    if (v->l)
        json_object_set_new(row, "l", json_integer(v->l));
    const struct {
        const char *key;
        double value;
    } values[] = {{"tv_first", v->sum.tv[0] / n},     {"tv_second", v->sum.tv[1] / n},
                  {"tv_direct", t->direct.tv[0] / n}, {"tv_direct_second", t->direct.tv[1] / n},
                  {"p_first", v->sum.p[0]},           {"p_second", v->sum.p[1]},
                  {"entropy", v->sum.entropy / n},    {"entropy_target", t->entropy_target / n}};
    for (size_t i = 0; i < FT_COUNT(values); i++)
        json_object_set_new(row, values[i].key, json_real(values[i].value));
    return row;
}

static json_t *to_json(const job *j)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < j->set->n_temps; i++)
        for (uint32_t k = 0; k < j->n_variants; k++)
            json_array_append_new(
                rows, row_json(j, &j->tables[i], &j->tables[i].variants[k], j->set->temps[i]));
    return json_pack("{s:I, s:I, s:I, s:o}", "prefixes", (json_int_t)j->done, "rounds",
                     (json_int_t)j->set->rounds, "top_k", (json_int_t)j->set->top_k, "rows", rows);
}

static void set_up_tables(job *j, const ft_bench_list *l)
{
    const figures none = {.p = {1, 1}};
    for (uint32_t i = 0; i < j->set->n_temps; i++) {
        table *t = &j->tables[i];
        uint32_t n = 0;
        t->direct = none;
        t->variants[n++] = (variant){.how = EXACT, .sum = none};
        for (uint32_t k = 0; k < l->n; k++)
            t->variants[n++] = (variant){.how = RATIO, .l = l->value[k], .sum = none};
        for (uint32_t k = 0; k < l->n; k++)
            t->variants[n++] = (variant){.how = SQ, .l = l->value[k], .sum = none};
        j->n_variants = n;
    }
}

static ft_status open_models(const ft_bench_law_opts *set, ft_error *err, ft_law_models *m)
{
    const ft_bench_reader_opts opts = {.path = set->target,
                                       .n_ctx = set->n_ctx,
                                       .n_threads = set->n_threads,
                                       .loading = set->loading};
    /* some may be too long */
    ft_status status =
        ft_bench_prompts_load(set->prompts, 2 * (size_t)set->prefixes, err, &m->prompts);
    if (status == FT_OK)
        status = ft_vocab_load(set->target, err, &m->vocab);
    if (status == FT_OK)
        status = ft_bench_reader_init_pair(&opts, set->draft, err, &m->target, &m->draft);
    return status;
}

ft_status ft_bench_law(const ft_bench_law_opts *opts, ft_error *err, json_t **report)
{
    job j = {.set = opts, .tables = calloc(opts->n_temps ? opts->n_temps : 1, sizeof *j.tables)};
    ft_bench_list l = {0};
    *report = NULL;
    ft_status status = ft_bench_list_parse("--l", opts->l, FT_RATIO_L_MAX, err, &l);
    if (status == FT_OK && !j.tables)
        status = ft_error_set(err, FT_NOMEM, "bench law: out of memory");
    if (status == FT_OK) {
        set_up_tables(&j, &l);
        status = open_models(opts, err, &j.models);
    }
    if (status == FT_OK)
        status = all_texts(&j, err);
    if (status == FT_OK)
        *report = to_json(&j);
    ft_bench_reader_deinit(&j.models.draft);
    ft_bench_reader_deinit(&j.models.target);
    ft_vocab_destroy(j.models.vocab);
    ft_bench_prompts_deinit(&j.models.prompts);
    free(j.tables);
    return status;
}
