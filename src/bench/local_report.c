// SPDX-License-Identifier: Apache-2.0
// Rows and figures of bench local. No state.
#include "bench/local_report.h"

#include <string.h>

#include "base/cpu.h"
#include "bench/bench.h"

static size_t method_of(ft_bench_local_kind kind)
{
    size_t m = 0;
    while (m < ft_bench_n_local_methods && ft_bench_local_methods[m].kind != kind)
        m++;
    return m;
}

static json_t *known(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

/* Whether a method's texts are those without speculation of the same side; null: these are not
 * there. */
static json_t *identical(const ft_bench_local_state *b, size_t m)
{
    const size_t plain =
        method_of(ft_bench_local_is_theirs(m) ? FT_BENCH_LOCAL_THEIRS_PLAIN : FT_BENCH_LOCAL_PLAIN);
    bool same = !b->cells[m].differs && !b->cells[plain].differs;
    for (size_t p = 0; p < b->prompts.n; p++) {
        const char *text = b->texts[m * b->prompts.n + p];
        const char *expected = b->texts[plain * b->prompts.n + p];
        if (!text || !expected)
            return json_null();
        same = same && strcmp(text, expected) == 0;
    }
    return json_boolean(same);
}

static json_t *row_of(const ft_bench_local_state *b, size_t m)
{
    const ft_bench_local_method *method = &ft_bench_local_methods[m];
    const ft_bench_local_cell *cell = &b->cells[m];
    ft_bench_local_row row = {0};
    if (!cell->why[0])
        row = ft_bench_local_row_of(&b->table, m);
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}", "method", method->name,
                     "how", method->how, "answers", (int)row.n, "tokens_per_s",
                     known(row.tokens_per_s), "ttft_ms", known(row.ttft_ms), "start_ms",
                     known(row.start_ms), "tokens_per_round", known(row.tokens_per_round),
                     "accepted", row.tokens_per_round > 0 ? json_real(row.accepted) : json_null(),
                     "identical", cell->why[0] ? json_null() : identical(b, m), "why",
                     cell->why[0] ? cell->why : NULL);
}

/* Ours by default over llama.cpp's fastest method. */
static json_t *ratio(const ft_bench_local_state *b, const char **best)
{
    const ft_bench_local_row ours =
        ft_bench_local_row_of(&b->table, method_of(FT_BENCH_LOCAL_DEFAULT));
    double theirs = 0;
    *best = NULL;
    for (size_t m = 0; m < ft_bench_n_local_methods; m++) {
        const double per_s = ft_bench_local_row_of(&b->table, m).tokens_per_s;
        if (!ft_bench_local_is_theirs(m) || b->cells[m].why[0] || per_s <= theirs)
            continue;
        theirs = per_s;
        *best = ft_bench_local_methods[m].name;
    }
    return theirs > 0 && ours.tokens_per_s > 0 ? json_real(ours.tokens_per_s / theirs)
                                               : json_null();
}

static void fixed_choices(const ft_bench_local_state *b, bool fixed[FT_BENCH_LOCAL_METHODS])
{
    for (size_t m = 0; m < ft_bench_n_local_methods; m++)
        fixed[m] = (ft_bench_local_methods[m].kind == FT_BENCH_LOCAL_PLAIN ||
                    ft_bench_local_methods[m].kind == FT_BENCH_LOCAL_FIXED) &&
                   !b->cells[m].why[0];
}

static json_t *regret(const ft_bench_local_state *b, ft_bench_local_kind kind,
                      ft_bench_local_which which)
{
    bool fixed[FT_BENCH_LOCAL_METHODS] = {false};
    double value;
    fixed_choices(b, fixed);
    return ft_bench_local_regret(&b->table, method_of(kind), fixed, which, &value)
               ? json_real(value)
               : json_null();
}

/* For each prompt: its fastest fixed choice, and our own. */
static json_t *prompts_of(const ft_bench_local_state *b)
{
    const ft_bench_local_part all = {FT_BENCH_LOCAL_ALL, FT_BENCH_LOCAL_BOTH};
    bool fixed[FT_BENCH_LOCAL_METHODS] = {false};
    json_t *list = json_array();
    fixed_choices(b, fixed);
    for (size_t p = 0; p < b->prompts.n; p++) {
        const size_t best = ft_bench_local_best(&b->table, fixed, p, all.half);
        const bool is = best < ft_bench_n_local_methods;
        const double ours = ft_bench_local_ms(&b->table, method_of(FT_BENCH_LOCAL_DEFAULT), p, all);
        json_array_append_new(
            list, json_pack("{s:I, s:s, s:s?, s:o, s:o}", "question_id",
                            (json_int_t)b->prompts.items[p].question_id, "category",
                            b->prompts.items[p].category, "best",
                            is ? ft_bench_local_methods[best].name : NULL, "best_ms_per_token",
                            known(is ? ft_bench_local_ms(&b->table, best, p, all) : 0),
                            "default_ms_per_token", known(ours)));
    }
    return list;
}

/* Medians over the rounds; null: starts were not measured. */
static json_t *starts(const ft_bench_local_state *b)
{
    const uint32_t n = (uint32_t)b->table.n_rounds;
    double ms[FT_BENCH_LOCAL_STARTS];
    for (size_t i = 0; i < FT_BENCH_LOCAL_STARTS; i++) {
        double of[FT_BENCH_LOCAL_ROUNDS];
        memcpy(of, b->start_ms[i], sizeof of);
        ms[i] = ft_bench_median(of, n);
    }
    if (!(ms[0] > 0 && ms[1] > 0))
        return json_null();
    return json_pack("{s:f, s:f, s:f}", "first_ms", ms[0], "second_ms", ms[1], "ratio",
                     ms[1] / ms[0]);
}

json_t *ft_bench_local_report(const ft_bench_local_state *b)
{
    const ft_bench_local_opts *o = b->o;
    const char *best;
    json_t *rows = json_array(), *ratio_of = ratio(b, &best);
    for (size_t m = 0; m < ft_bench_n_local_methods; m++)
        if (o->method[m])
            json_array_append_new(rows, row_of(b, m));
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:o, s:o, s:s?, s:o, s:o, s:o, s:o, s:o}",
        "command", "bench local", "model", o->model, "draft", o->draft, "threads",
        ft_cpu_threads((int)o->n_threads), "tokens", (int)o->n, "rounds", (int)o->rounds,
        "answers_of_a_process", (int)o->answers, "temp", o->temp, "rows", rows, "ratio", ratio_of,
        "llamacpp_best", best, "regret", regret(b, FT_BENCH_LOCAL_DEFAULT, FT_BENCH_LOCAL_ALL),
        "regret_first", regret(b, FT_BENCH_LOCAL_NEW, FT_BENCH_LOCAL_FIRST), "regret_next",
        regret(b, FT_BENCH_LOCAL_DEFAULT, FT_BENCH_LOCAL_NEXT), "start", starts(b), "prompts",
        prompts_of(b));
}
