// SPDX-License-Identifier: Apache-2.0
// The same lives with the controller's drafts and with fixed ones: same texts, same network, same
// mishaps. So the fastest choice of a text is known without noise, and what the controller is
// slower by is its own. No state.
#include "bench/ablate_regret.h"

#include <math.h>

#include "base/num.h"

#define DEEP 7 /* levels of a tree at most, as `run --draft tree:N` has them */
#define WIDE 8

/* Those of bench/local_methods.c. */
typedef struct choice {
    const char *name;
    uint32_t chain, tree; /* tokens, nodes; both 0: nothing is drafted */
} choice;
static const choice choices[] = {{"plain", 0, 0},   {"chain:1", 1, 0}, {"chain:2", 2, 0},
                                 {"chain:3", 3, 0}, {"chain:4", 4, 0}, {"tree:4", 0, 4},
                                 {"tree:8", 0, 8},  {"tree:16", 0, 16}};
#define CHOICES FT_COUNT(choices)

/* Sums over lives and texts. */
typedef struct sums {
    double tokens, us, of_us[CHOICES];
    double best_us;              /* of each text's fastest choice */
    double first_us, best_first; /* of the first texts of lives */
} sums;

static ft_status live(ft_ablate_texts *texts, const ft_ablate_case *how, const choice *fixed,
                      uint64_t seed, ft_error *err, ft_ablate_life *out)
{
    ft_draft_params draft;
    ft_ablate_world_opts world = ft_ablate_texts_world(texts, how);
    if (fixed) {
        const uint32_t levels = ft_min_u32(DEEP, fixed->tree);
        draft = fixed->chain ? ft_draft_params_chain(fixed->chain)
                             : ft_draft_params_tree(fixed->tree, levels, WIDE);
        world.no_drafts = fixed->chain + fixed->tree == 0;
        world.fixed = world.no_drafts ? NULL : &draft;
    }
    return ft_ablate_live(&world, how, seed, err, out);
}

static ft_status add_life(ft_ablate_texts *texts, const ft_ablate_case *how, uint64_t seed,
                          ft_error *err, sums *s)
{
    ft_ablate_life ours, fixed;
    double best_us[FT_ABLATE_TEXTS];
    ft_status status = live(texts, how, NULL, seed, err, &ours);
    for (uint32_t i = 0; i < FT_ABLATE_TEXTS; i++)
        best_us[i] = INFINITY;
    for (size_t c = 0; c < CHOICES && status == FT_OK; c++) {
        status = live(texts, how, &choices[c], seed, err, &fixed);
        s->of_us[c] += fixed.us;
        for (uint32_t i = 0; i < how->texts; i++)
            best_us[i] = fmin(best_us[i], fixed.text_us[i]);
    }
    for (uint32_t i = 0; i < how->texts; i++)
        s->best_us += best_us[i];
    s->us += ours.us;
    s->tokens += ours.tokens;
    s->first_us += ours.text_us[0];
    s->best_first += best_us[0];
    return status;
}

static json_t *row_of(const ft_ablate_case *how, int64_t lives, const sums *s)
{
    json_t *fixed = json_object();
    size_t best = 0;
    for (size_t c = 0; c < CHOICES; c++) {
        best = s->of_us[c] < s->of_us[best] ? c : best;
        json_object_set_new(fixed, choices[c].name, json_real(s->tokens / s->of_us[c] * 1e6));
    }
    return json_pack("{s:s, s:I, s:f, s:o, s:s, s:f, s:f, s:f}", "condition", how->name, "lives",
                     (json_int_t)lives, "default", s->tokens / s->us * 1e6, "fixed", fixed, "best",
                     choices[best].name, "best_tokens_per_s", s->tokens / s->of_us[best] * 1e6,
                     "regret", s->us / s->best_us - 1, "regret_first",
                     s->first_us / s->best_first - 1);
}

ft_status ft_ablate_regret(ft_ablate_texts *texts, const ft_ablate_case *how, int64_t lives,
                           ft_bench_stop stop, ft_error *err, json_t **row)
{
    sums s = {0};
    ft_status status = FT_OK;
    *row = NULL;
    for (int64_t seed = 0; seed < lives && status == FT_OK; seed++) {
        status = add_life(texts, how, (uint64_t)seed, err, &s);
        if (status == FT_OK && stop && stop())
            status = ft_error_set(err, FT_CANCELLED, "bench ablate: stopped");
    }
    if (status == FT_OK)
        *row = row_of(how, lives, &s);
    return status;
}
