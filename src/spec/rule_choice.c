// SPDX-License-Identifier: Apache-2.0
// The choice of a text's rule, and the counts that it is made from; spec/rule_choice.h has the
// formula. The caller owns the counts.
#include "spec/rule_choice.h"

#include <math.h>
#include <stddef.h>

#include "base/num.h"

/* A draft counts so much less with each draft after it: about the last 500 count, of a dozen short
 * texts. One text's chance is off by 0.1 as easily as not, so with a fifth of it the choice follows
 * the last texts. Twice as many follow a change of what people ask half as soon. */
#define FADE 0.998
/* Levels that must have been reached before chances are counted with: their standard error is at
 * most 9 % then, 12 % with half as many. Twice as many are known a text or two later. */
#define LEAST_REACHED 32
/* With so many the chance of `ratio` is its own. Before, the rest is what it can be at most: a few
 * unlucky texts would make an edge give it up for good. With half of it an edge gives up after two
 * short texts instead of four; twice of it takes twice as many texts where it does not pay. */
#define SURE_REACHED 256.

/* ---- counts ---- */

static void fade(ft_rule_seen *s)
{
    double *const all[] = {&s->levels,  &s->nodes,  &s->reached, &s->passed,
                           &s->parents, &s->agreed, &s->sized,   &s->sized_bytes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] *= FADE;
}

/* The likeliest child of a node among the first n; -1: it has none. */
static int32_t first_child(const ft_tree *tree, uint32_t n, int32_t parent)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < n; i++)
        if (tree->parent[i] == parent && (best < 0 || tree->logp[i] > tree->logp[best]))
            best = (int32_t)i;
    return best;
}

void ft_rule_saw(ft_rule_seen *s, const ft_tree *tree, uint32_t n, const uint32_t *path,
                 uint32_t n_path, uint64_t bytes)
{
    uint32_t levels = 0;
    for (uint32_t i = 0; i < n; i++)
        levels = tree->depth[i] >= levels ? tree->depth[i] + 1u : levels;
    if (levels == 0)
        return;
    fade(s);
    s->levels += levels;
    s->nodes += n;
    s->reached += ft_min_u32(n_path + 1, levels);
    s->passed += n_path;
    for (uint32_t i = 0; i <= n_path; i++) {
        const int32_t first = first_child(tree, n, i > 0 ? (int32_t)path[i - 1] : -1);
        s->parents += first >= 0;
        s->agreed += first >= 0 && i < n_path && path[i] == (uint32_t)first;
    }
    if (bytes > 0) {
        s->sized += levels;
        s->sized_bytes += (double)bytes;
    }
}

bool ft_rule_is_seen(const ft_rule_seen *s)
{
    return s->reached >= LEAST_REACHED;
}

/* ---- the choice ---- */

double ft_rule_tokens_per_s(const ft_rule_rounds *rounds, double chance, const ft_uplink_rate *rate)
{
    double best = 0, tokens = 1, reached = 1;
    for (uint32_t n = 0; n <= rounds->most_levels; n++) {
        const double us = n * rounds->forward_us + rate->empty_us +
                          8e6 * (rounds->bytes + n * rounds->level_bytes) / rate->bits_per_s +
                          rounds->verify_us + n * rounds->level_verify_us;
        if (n >= rounds->least_levels)
            best = fmax(best, us > 0 ? 1e6 * tokens / us : 0);
        reached *= chance;
        tokens += reached;
    }
    return best;
}

double ft_rule_chance(const ft_rule_view *v, ft_rule_kind rule)
{
    const ft_rule_seen *exact = &v->seen[FT_RULE_KIND_EXACT], *ratio = &v->seen[FT_RULE_KIND_RATIO];
    const double accepted = ratio->passed / fmax(ratio->reached, 1);
    if (rule == FT_RULE_KIND_EXACT && ft_rule_is_seen(exact))
        return exact->passed / exact->reached;
    if (rule == FT_RULE_KIND_EXACT)
        return accepted / (2 - accepted); /* (1 - d) / (1 + d) */
    if (!ft_rule_is_seen(exact))
        return accepted;
    const double agreed = exact->agreed / fmax(exact->parents, 1), most = 2 * agreed / (1 + agreed);
    const double own = fmin(ratio->reached / SURE_REACHED, 1);
    return own * accepted + (1 - own) * most;
}

static double speed(const ft_rule_view *v, ft_rule_kind rule)
{
    const double rounds = ft_rule_tokens_per_s(&v->rounds[rule], ft_rule_chance(v, rule), &v->rate);
    return fmax(rounds, v->run_us > 0 ? 1e6 / v->run_us : 0);
}

/* Whether `ratio` could be faster, if its points took no bytes. */
static bool is_hopeful(const ft_rule_view *v, double exact)
{
    ft_rule_view light = *v;
    light.rounds[FT_RULE_KIND_RATIO].level_bytes = 0;
    return speed(&light, FT_RULE_KIND_RATIO) > exact;
}

ft_rule_choice ft_rule_choose(const ft_rule_view *v)
{
    const bool points = ft_rule_is_seen(&v->seen[FT_RULE_KIND_RATIO]);
    const bool known = v->rate.known && v->rate.empty_us > 0 &&
                       (points || ft_rule_is_seen(&v->seen[FT_RULE_KIND_EXACT]));
    const bool tries = v->texts_unknown >= FT_RULE_TRY_AFTER;
    ft_rule_choice choice = {.reason = FT_RULE_REASON_UNKNOWN};
    bool hopeful = !v->rate.known; /* a try would tell something */
    if (known) {
        for (uint32_t i = 0; i < FT_RULE_KINDS; i++)
            choice.tokens_per_s[i] = speed(v, (ft_rule_kind)i);
        choice.reason = FT_RULE_REASON_FASTER;
        if (choice.tokens_per_s[FT_RULE_KIND_RATIO] > choice.tokens_per_s[FT_RULE_KIND_EXACT])
            choice.rule = FT_RULE_KIND_RATIO;
        hopeful = !points && choice.rule == FT_RULE_KIND_EXACT &&
                  is_hopeful(v, choice.tokens_per_s[FT_RULE_KIND_EXACT]);
    }
    if (hopeful && tries) {
        choice.rule = FT_RULE_KIND_RATIO;
        choice.reason = FT_RULE_REASON_TRY;
    } else if (hopeful) {
        choice.texts_unknown = v->texts_unknown + 1;
    }
    return choice;
}
