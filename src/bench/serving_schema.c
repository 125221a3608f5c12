// SPDX-License-Identifier: Apache-2.0
// serving_schema.h. A real edge drafts with its draft model, as fast as this machine does: what is
// compared are counts, not times. Each round has all ways, every other one in reverse order. The
// edge lives as long as a way's prompts do, so it begins each round with nothing learnt.
#include "bench/serving_schema.h"

#include "bench/load_report.h"
#include "bench/schema.h"

typedef enum way {
    FREE,     /* no constraint */
    SCHEMA,   /* the constraint */
    UNFORCED, /* without drafts of what it forces */
    WAYS
} way;

static const char *const way_name[WAYS] = {"no schema", "schema", "schema, no forced drafts"};
static const char *const way_key[WAYS] = {"free", "schema", "unforced"};

typedef struct bench {
    ft_serving *x;
    ft_bench_schema schema;
    ft_bench_load_sample sum[WAYS];
} bench;

static ft_bench_load_drive_opts drive_opts(bench *b, way w)
{
    ft_bench_load_drive_opts o = ft_serving_drive_opts(b->x, 0, FT_BENCH_LOAD_EDGE);
    const uint32_t text = b->x->set.longest + (uint32_t)b->x->o->n + 8 * FT_TREE_MAX;
    o.drafts = NULL;
    o.edge.draft_by = FT_DRAFT_BY_AUTO;
    o.edge.draft_model = b->x->draft;
    o.edge.draft_kv_tok = 2 * text;
    o.edge.n_threads = 1;
    o.edge.no_forced = w == UNFORCED;
    if (w != FREE)
        o.constraint = b->schema.constraint;
    ft_serving_slow_down(b->x, b->x->o->rtt_us[0], &o);
    return o;
}

/* All prompts once. learn: the texts are what those to come are compared with. */
static ft_status run_way(bench *b, way w, bool learn, ft_error *err)
{
    ft_bench_load_drive_opts o = drive_opts(b, w);
    ft_bench_load_sample sample;
    o.learn = learn;
    o.progress = ft_progress_terminal(way_name[w]);
    ft_status status = ft_bench_load_drive(&o, err, &sample);
    ft_bench_load_sample_join(&b->sum[w], &sample);
    ft_bench_load_sample_deinit(&sample);
    return status;
}

/* The texts under the schema are compared with those of the first round. Others are not: no draft
 * is of interest there but their number. */
static ft_status run_round(bench *b, int64_t round, ft_error *err)
{
    ft_status status = run_way(b, FREE, false, err);
    b->sum[FREE].mismatches = 0;
    for (int i = 0; i < 2 && status == FT_OK; i++)
        status = run_way(b, (i + round) % 2 ? UNFORCED : SCHEMA, false, err);
    return status;
}

static double per_verify(const bench *b, way w)
{
    const ft_bench_load_tally t = ft_bench_load_tally_total(&b->sum[w]);
    return ft_bench_load_tally_per_verify(&t);
}

static double ratio(const bench *b, way w, way to)
{
    const double other = per_verify(b, to);
    return other > 0 ? per_verify(b, w) / other : 0;
}

static json_t *to_json(const bench *b)
{
    const ft_bench_serving_opts *f = b->x->o;
    json_t *ways = json_object();
    uint32_t mismatches = 0;
    for (int w = 0; w < WAYS; w++) {
        const ft_bench_load_tally t = ft_bench_load_tally_total(&b->sum[w]);
        json_object_set_new(ways, way_key[w], ft_bench_load_tally_json(&t));
        mismatches += b->sum[w].mismatches;
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:f, s:I, s:i, s:I, s:o, s:f, s:f, "
                     "s:b}",
                     "command", "bench serving", "model", f->model, "draft_model", f->draft,
                     "prompts", f->prompts, "schema", f->schema, "n_prompts", (int)b->x->set.n, "n",
                     (json_int_t)f->n, "budget", (json_int_t)f->drafts.budget, "temperature",
                     f->temp, "seed", (json_int_t)f->sampling.seed, "depth",
                     (int)b->x->setting[0].depth, "rounds", (json_int_t)f->rounds, "ways", ways,
                     "schema_over_free", ratio(b, SCHEMA, FREE), "forced_over_unforced",
                     ratio(b, SCHEMA, UNFORCED), "identical", mismatches == 0);
}

static void print(const json_t *report, FILE *out)
{
    const json_t *ways = json_object_get(report, "ways");
    fprintf(out, "%-26s %10s %11s %7s %10s %14s\n", "texts", "tok/verify", "tok/verdict", "accept",
            "nodes/tree", "forwards/tree");
    for (int w = 0; w < WAYS; w++) {
        const json_t *at = json_object_get(ways, way_key[w]);
        static const char *const keys[] = {"tokens_per_verify", "tokens_per_verdict", "acceptance",
                                           "nodes_per_tree", "forwards_per_tree"};
        fprintf(out, "%-26s", way_name[w]);
        for (size_t k = 0; k < 5; k++)
            fprintf(out, " %*.*f",
                    k == 0   ? 10
                    : k == 1 ? 11
                    : k == 2 ? 7
                    : k == 3 ? 10
                             : 14,
                    k == 2 ? 3 : 2, json_number_value(json_object_get(at, keys[k])));
        fputc('\n', out);
    }
    fprintf(out,
            "tokens a verification: %.3f of those without a schema, %.3f of those without forced "
            "drafts%s\n",
            json_number_value(json_object_get(report, "schema_over_free")),
            json_number_value(json_object_get(report, "forced_over_unforced")),
            json_is_true(json_object_get(report, "identical")) ? "" : "; TEXTS DIFFER");
}

ft_status ft_bench_serving_schema(ft_serving *x, ft_error *err, json_t **report)
{
    bench b = {.x = x};
    *report = NULL;
    ft_status status = ft_bench_schema_load(x->o->schema, x->vocab, err, &b.schema);
    for (int i = 0; i < FT_BENCH_SCHEMA_TRIES && (i == 0 ? status == FT_OK : status == FT_ABORTED);
         i++)
        status = run_way(&b, SCHEMA, true, err); /* does not count */
    ft_bench_load_sample_deinit(&b.sum[SCHEMA]);
    b.sum[SCHEMA] = (ft_bench_load_sample){0};
    for (int64_t i = 0; i < x->o->rounds && status == FT_OK; i++)
        status = run_round(&b, i, err);
    if (status == FT_OK) {
        *report = to_json(&b);
        if (x->o->text)
            print(*report, x->o->text);
    }
    for (int w = 0; w < WAYS; w++)
        ft_bench_load_sample_deinit(&b.sum[w]);
    ft_bench_schema_deinit(&b.schema);
    return status;
}
