// SPDX-License-Identifier: Apache-2.0
// Rows of bench memory: medians of what each method's texts took. No state.
#include "bench/memory_report.h"

#include <string.h>

double ft_bench_memory_must_read(const json_t *plan, uint64_t weights, uint64_t budget)
{
    static const char *const needed[] = {"program", "vocabulary", "kv", "draft model", "draft kv"};
    const json_t *part;
    size_t i;
    double others = 0;
    json_array_foreach(json_object_get(plan, "parts"), i, part)
    {
        const char *name = json_string_value(json_object_get(part, "name"));
        for (size_t k = 0; name && k < sizeof needed / sizeof *needed; k++)
            if (strcmp(name, needed[k]) == 0)
                others += json_number_value(json_object_get(part, "bytes"));
    }
    const double bytes = (double)weights + others - (double)budget;
    return bytes > 0 ? bytes : 0;
}

/* The most tokens a pass of any method that computes the target. */
static double best_per_pass(const ft_bench_memory_state *b)
{
    double best = 1;
    for (size_t i = 0; i < b->n_budgets * ft_bench_n_memory_methods; i++) {
        const size_t m = i % ft_bench_n_memory_methods;
        const double n = ft_bench_memory_median(&b->cells[i], FT_BENCH_MEMORY_TOKENS_PER_PASS);
        if (ft_bench_memory_methods[m].kind != FT_BENCH_MEMORY_DRAFT && n > best)
            best = n;
    }
    return best;
}

static json_t *bound_of(const ft_bench_memory_state *b, size_t budget)
{
    if (!b->plan[budget])
        return json_null();
    const double bytes =
        ft_bench_memory_must_read(b->plan[budget], b->weights, b->budget[budget].bytes);
    const double reading_ms = bytes / (b->disk_median_mb_s * 1e6) * 1e3;
    const double pass_ms = reading_ms > b->resident_ms ? reading_ms : b->resident_ms;
    return json_real(pass_ms / best_per_pass(b));
}

static size_t method_of(const char *name)
{
    size_t m = 0;
    while (m < ft_bench_n_memory_methods && strcmp(ft_bench_memory_methods[m].name, name) != 0)
        m++;
    return m;
}

/* Their time over this one's. */
static json_t *speedup(const ft_bench_memory_state *b, size_t budget, const ft_bench_memory_cell *c)
{
    const ft_bench_memory_cell *theirs = ft_bench_memory_cell_of(b, budget, method_of("llamacpp"));
    const double ms = ft_bench_memory_median(c, FT_BENCH_MEMORY_MS);
    if (!theirs->n || !(ms > 0))
        return json_null();
    return json_real(ft_bench_memory_median(theirs, FT_BENCH_MEMORY_MS) / ms);
}

static void set_figures(json_t *row, const ft_bench_memory_cell *c)
{
    static const char *const key[] = {[FT_BENCH_MEMORY_MS] = "ms_per_token",
                                      [FT_BENCH_MEMORY_TOKENS_PER_PASS] = "tokens_per_pass",
                                      [FT_BENCH_MEMORY_BYTES] = "bytes_per_token",
                                      [FT_BENCH_MEMORY_MB_S] = "read_mb_s",
                                      [FT_BENCH_MEMORY_CPU_S] = "cpu_s_per_token",
                                      [FT_BENCH_MEMORY_PEAK] = "peak_bytes",
                                      [FT_BENCH_MEMORY_JOULES] = "joules_per_token",
                                      [FT_BENCH_MEMORY_DRAFT_SHARE] = "draft_share"};
    for (size_t f = 0; f < FT_BENCH_MEMORY_FIGURES; f++) {
        const double median = ft_bench_memory_median(c, (ft_bench_memory_figure)f);
        const bool may_lack = f == FT_BENCH_MEMORY_PEAK || f == FT_BENCH_MEMORY_JOULES ||
                              f == FT_BENCH_MEMORY_DRAFT_SHARE;
        const bool known = c->n && (!may_lack || median > 0);
        json_object_set_new(row, key[f], known ? json_real(median) : json_null());
    }
    double least = 0, most = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const double ms = c->sample[FT_BENCH_MEMORY_MS][i];
        least = i == 0 || ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    json_object_set_new(row, "ms_per_token_min", c->n ? json_real(least) : json_null());
    json_object_set_new(row, "ms_per_token_max", c->n ? json_real(most) : json_null());
}

static json_t *row_of(const ft_bench_memory_state *b, size_t budget, size_t m)
{
    const ft_bench_memory_method *method = &ft_bench_memory_methods[m];
    const ft_bench_memory_cell *c = ft_bench_memory_cell_of(b, budget, m);
    const bool compared = method->kind == FT_BENCH_MEMORY_OURS && c->n;
    json_t *row =
        json_pack("{s:s, s:I, s:s, s:i, s:s?}", "budget", b->budget[budget].name, "budget_bytes",
                  (json_int_t)b->budget[budget].bytes, "method", method->name, "texts", (int)c->n,
                  "flags", c->n ? method->flags[c->variant] : NULL);
    set_figures(row, c);
    json_object_set_new(row, "bound", bound_of(b, budget));
    json_object_set_new(row, "speedup_vs_llamacpp", speedup(b, budget, c));
    json_object_set_new(row, "identical", compared ? json_boolean(!c->differs) : json_null());
    json_object_set_new(row, "why", c->why[0] ? json_string(c->why) : json_null());
    return row;
}

json_t *ft_bench_memory_report(const ft_bench_memory_state *b)
{
    const ft_bench_memory_opts *o = b->o;
    json_t *rows = json_array();
    for (size_t budget = 0; budget < b->n_budgets; budget++)
        for (size_t m = 0; m < ft_bench_n_memory_methods; m++)
            if (o->method[m])
                json_array_append_new(rows, row_of(b, budget, m));
    json_t *report = json_pack(
        "{s:s, s:s, s:s, s:s?, s:I, s:i, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f}", "command",
        "bench memory", "model", o->model, "draft_model", o->draft, "packed", o->packed,
        "weights_bytes", (json_int_t)b->weights, "prompts", (int)b->prompts.n, "rounds",
        (json_int_t)o->rounds, "n", (json_int_t)o->n, "n_ctx", (json_int_t)o->n_ctx, "kv_type",
        ft_kv_type_name(o->kv), "temperature", o->temp, "disk_mb_s", b->disk_median_mb_s,
        "disk_mb_s_min", b->disk_mb_s[0], "disk_mb_s_max", b->disk_mb_s[b->n_disk - 1],
        "resident_ms_per_token", b->resident_ms);
    if (report)
        json_object_set_new(report, "rows", rows);
    return report;
}
