// SPDX-License-Identifier: Apache-2.0
// The toy rule. Its randomness is a hash of seed, use, position and round. No state. Simple, not
// fast.
#include "support/rule_toy.h"

#include <math.h>
#include <string.h>

typedef enum use { USE_DRAFT = 1, USE_ACCEPT, USE_TARGET } use;

/* In [0, 1): splitmix64 of all. */
static double uniform(uint64_t seed, use what, uint32_t position, uint32_t round)
{
    uint64_t x = seed;
    const uint64_t parts[] = {(uint64_t)what, position, round};
    for (int i = 0; i < 3; i++) {
        x += parts[i] + UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    return (double)(x >> 11) * 0x1p-53;
}

/* ---- evidence ---- */

typedef struct point {
    uint32_t n;
    int32_t token[TOY_TOKENS];
    uint32_t weight[TOY_TOKENS];
} point;

/* NULL, or why it is none. */
static const char *read_point(const uint8_t *evidence, uint32_t n, uint32_t n_vocab, point *out)
{
    uint32_t sum = 0;
    out->n = n / 3;
    for (uint32_t i = 0; i < out->n; i++, evidence += 3) {
        out->token[i] = evidence[0] | evidence[1] << 8;
        out->weight[i] = evidence[2];
        sum += evidence[2];
        if ((uint32_t)out->token[i] >= n_vocab || (i > 0 && out->token[i] <= out->token[i - 1]))
            return "its tokens do not rise";
    }
    return sum == TOY_WEIGHT ? NULL : "its weights have another sum";
}

static uint32_t weight_of(const point *at, int32_t token)
{
    for (uint32_t i = 0; i < at->n; i++)
        if (at->token[i] == token)
            return at->weight[i];
    return 0;
}

static bool holds(const point *at, int32_t token)
{
    for (uint32_t i = 0; i < at->n; i++)
        if (at->token[i] == token)
            return true;
    return false;
}

/* The likeliest tokens with rounded weights, by token; the likeliest gets what rounding leaves. */
static point round_off(const ft_candidate *c, size_t n)
{
    point out = {0};
    uint32_t left = TOY_WEIGHT, likeliest = 0;
    while (out.n < TOY_TOKENS && out.n < n) {
        const ft_candidate *best = NULL;
        for (size_t i = 0; i < n; i++)
            if (!holds(&out, c[i].token) && (!best || c[i].logp > best->logp))
                best = &c[i];
        const uint32_t weight = (uint32_t)fmin(left, TOY_WEIGHT * exp((double)best->logp));
        uint32_t at = out.n++;
        for (; at > 0 && out.token[at - 1] > best->token; at--) {
            out.token[at] = out.token[at - 1];
            out.weight[at] = out.weight[at - 1];
            likeliest += likeliest == at - 1;
        }
        out.token[at] = best->token;
        out.weight[at] = weight;
        likeliest = out.n == 1 ? 0 : likeliest;
        left -= weight;
    }
    out.weight[likeliest] += left;
    return out;
}

/* ---- the rule ---- */

static ft_rule_terms terms(const ft_rule *rule, uint32_t n_vocab, const ft_sampling *s)
{
    if (s && s->temperature == 0)
        return ft_rule_exact.terms(&ft_rule_exact, n_vocab, s);
    return (ft_rule_terms){.by_round = true, .evidence_bytes = 3 * TOY_TOKENS};
}

static size_t scratch_bytes(const ft_rule *rule, uint32_t n_vocab)
{
    return n_vocab * sizeof(double);
}

static void draw(const ft_rule *rule, ft_rule_work *work, const ft_draw *d, ft_draft_children *out,
                 uint8_t *evidence)
{
    const ft_candidate *c;
    if (d->sampling->temperature == 0) {
        ft_rule_exact.draw(&ft_rule_exact, work, d, out, evidence);
        return;
    }
    const size_t n = ft_sampler_candidates(work->sampler, d->sampling, d->logits, &c);
    const point at = round_off(c, n);
    double left = TOY_WEIGHT * uniform(d->sampling->seed, USE_DRAFT, d->position, d->round);
    uint32_t drawn = 0;
    while (drawn < at.n - 1 && left >= at.weight[drawn])
        left -= at.weight[drawn++];
    *out = (ft_draft_children){.n = 1, .n_evidence = 3 * at.n};
    out->at[0] = (ft_draft_child){.token = at.token[drawn], .logp = logf(0.7f)};
    for (uint32_t i = 0; i < at.n; i++, evidence += 3) {
        evidence[0] = (uint8_t)at.token[i];
        evidence[1] = (uint8_t)(at.token[i] >> 8);
        evidence[2] = (uint8_t)at.weight[i];
    }
}

static const char *check(const ft_rule *rule, const ft_drafted *draft, const uint8_t *evidence,
                         uint32_t n)
{
    return n == 0 || n % 3 != 0 ? "it is not entries of three bytes" : NULL;
}

/* By p, or with a point by the positive part of p - q. p: [n_vocab], is spent. */
static int32_t draw_target(double *p, uint32_t n_vocab, const point *less, double u)
{
    double sum = 0;
    int32_t last = 0;
    for (uint32_t i = 0; less && i < less->n; i++)
        p[less->token[i]] = fmax(p[less->token[i]] - (double)less->weight[i] / TOY_WEIGHT, 0);
    for (uint32_t t = 0; t < n_vocab; t++)
        sum += p[t];
    for (uint32_t t = 0; t < n_vocab; t++) {
        if (p[t] <= 0)
            continue;
        last = (int32_t)t;
        u -= p[t] / sum;
        if (u < 0)
            break;
    }
    return last;
}

static bool walk(const ft_rule *rule, ft_rule_work *work, const ft_drafted *draft, ft_rows rows,
                 ft_verified *found)
{
    const ft_sampling *s = draft->sampling;
    if (s->temperature == 0)
        return ft_rule_exact.walk(&ft_rule_exact, work, draft, rows, found);
    for (;;) {
        const uint32_t child = found->n_path, position = draft->position + child;
        const float *logits = rows.of(rows.ctx, (int32_t)child - 1);
        const ft_candidate *c;
        double *p = work->scratch;
        point at;
        if (!logits)
            return false;
        memset(p, 0, work->n_vocab * sizeof *p);
        const size_t n = ft_sampler_candidates(work->sampler, s, logits, &c);
        for (size_t i = 0; i < n; i++)
            p[c[i].token] = exp((double)c[i].logp);
        const double u = uniform(s->seed, USE_TARGET, position, 0);
        if (child == draft->tree->n) {
            found->next = draw_target(p, work->n_vocab, NULL, u);
            return true;
        }
        uint32_t n_evidence;
        const uint8_t *evidence = ft_evidence_of(draft, child, &n_evidence);
        const int32_t token = draft->tree->token[child];
        found->refused = read_point(evidence, n_evidence, work->n_vocab, &at);
        if (!found->refused && weight_of(&at, token) == 0)
            found->refused = "it gives the node's token no weight";
        if (found->refused)
            return true;
        const double q = (double)weight_of(&at, token) / TOY_WEIGHT;
        if (uniform(s->seed, USE_ACCEPT, position, 0) * q >= p[token]) {
            found->next = draw_target(p, work->n_vocab, &at, u);
            return true;
        }
        found->path[found->n_path++] = child;
    }
}

const ft_rule rule_toy = {.id = TOY_ID,
                          .name = "toy",
                          .terms = terms,
                          .scratch_bytes = scratch_bytes,
                          .draw = draw,
                          .check = check,
                          .walk = walk};
const ft_rule *const rules_with_toy[] = {&ft_rule_exact, &rule_toy, NULL};
