// SPDX-License-Identifier: Apache-2.0
// Medians over rounds, means over prompts. No state.
#include "bench/local_figures.h"

#include "bench/bench.h"

static bool counts(const ft_bench_local_answer *a, ft_bench_local_which which)
{
    return a->known &&
           (which == FT_BENCH_LOCAL_ALL || (which == FT_BENCH_LOCAL_FIRST ? a->first : a->next));
}

double ft_bench_local_ms(const ft_bench_local_table *t, size_t method, size_t prompt,
                         ft_bench_local_part part)
{
    double ms[FT_BENCH_LOCAL_ROUNDS];
    uint32_t n = 0;
    for (size_t r = 0; r < t->n_rounds; r++) {
        const ft_bench_local_answer *a = ft_bench_local_at(t, method, prompt, r);
        const bool in_half = part.half == FT_BENCH_LOCAL_BOTH || r % 2 == (size_t)part.half;
        if (in_half && counts(a, part.which))
            ms[n++] = a->ms_per_token;
    }
    return n ? ft_bench_median(ms, n) : 0;
}

/* The mean over prompts of the median over rounds. */
static double mean_of(const ft_bench_local_table *t, size_t method, bool start)
{
    double values[FT_BENCH_LOCAL_ROUNDS], sum = 0;
    size_t n_prompts = 0;
    for (size_t p = 0; p < t->n_prompts; p++) {
        uint32_t n = 0;
        for (size_t r = 0; r < t->n_rounds; r++) {
            const ft_bench_local_answer *a = ft_bench_local_at(t, method, p, r);
            if (a->known && (a->first || !start))
                values[n++] = start ? a->start_ms : a->ttft_ms;
        }
        sum += n ? ft_bench_median(values, n) : 0;
        n_prompts += n > 0;
    }
    return n_prompts ? sum / (double)n_prompts : 0;
}

ft_bench_local_row ft_bench_local_row_of(const ft_bench_local_table *t, size_t method)
{
    ft_bench_local_row row = {0};
    double ms = 0, rounds = 0, tokens = 0, drafted = 0, accepted = 0;
    size_t n_prompts = 0;
    for (size_t p = 0; p < t->n_prompts; p++) {
        const double of_prompt = ft_bench_local_ms(
            t, method, p, (ft_bench_local_part){FT_BENCH_LOCAL_ALL, FT_BENCH_LOCAL_BOTH});
        ms += of_prompt;
        n_prompts += of_prompt > 0;
        for (size_t r = 0; r < t->n_rounds; r++) {
            const ft_bench_local_answer *a = ft_bench_local_at(t, method, p, r);
            row.n += a->known;
            rounds += a->rounds;
            tokens += a->round_tokens;
            drafted += a->drafted;
            accepted += a->accepted;
        }
    }
    row.tokens_per_s = n_prompts ? 1e3 * (double)n_prompts / ms : 0;
    row.ttft_ms = mean_of(t, method, false);
    row.start_ms = mean_of(t, method, true);
    row.tokens_per_round = rounds > 0 ? tokens / rounds : 0;
    row.accepted = drafted > 0 ? accepted / drafted : 0;
    return row;
}

size_t ft_bench_local_best(const ft_bench_local_table *t, const bool *methods, size_t prompt,
                           ft_bench_local_half half)
{
    const ft_bench_local_part part = {FT_BENCH_LOCAL_ALL, half};
    size_t best = t->n_methods;
    double best_ms = 0;
    for (size_t m = 0; m < t->n_methods; m++) {
        const double ms = methods[m] ? ft_bench_local_ms(t, m, prompt, part) : 0;
        if (ms > 0 && (best == t->n_methods || ms < best_ms)) {
            best = m;
            best_ms = ms;
        }
    }
    return best;
}

bool ft_bench_local_regret(const ft_bench_local_table *t, size_t method, const bool *methods,
                           ft_bench_local_which which, double *regret)
{
    double ours = 0, best = 0;
    for (size_t i = 0; i < 2 * t->n_prompts; i++) {
        const size_t p = i / 2;
        const ft_bench_local_part judged = {which,
                                            i % 2 ? FT_BENCH_LOCAL_ODD : FT_BENCH_LOCAL_EVEN};
        const size_t m =
            ft_bench_local_best(t, methods, p, i % 2 ? FT_BENCH_LOCAL_EVEN : FT_BENCH_LOCAL_ODD);
        const double ms = ft_bench_local_ms(t, method, p, judged);
        const double best_ms = m < t->n_methods ? ft_bench_local_ms(t, m, p, judged) : 0;
        if (ms > 0 && best_ms > 0) {
            ours += ms;
            best += best_ms;
        }
    }
    *regret = best > 0 ? ours / best - 1 : 0;
    return best > 0;
}
