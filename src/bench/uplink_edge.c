// SPDX-License-Identifier: Apache-2.0
// Edges of bench uplink. The generation runs in the caller's thread, so the path's callbacks do,
// too, and nothing here is locked. A callback costs a few microseconds of a round; it is part of
// the round's time.
#include "bench/uplink_edge.h"

#include <stdlib.h>
#include <string.h>

/* ---- rounds ---- */

static void on_draft(void *ctx, const ft_msg_draft *draft)
{
    ft_bench_uplink_edge *e = ctx;
    ft_msg_draft *empty = &e->now.draft->draft;
    e->now.nodes = draft->n;
    e->now.evidence_bytes = draft->n_evidence;
    empty->round = draft->round;
    empty->base = draft->base;
    empty->draft_us = draft->draft_us;
    empty->rtt_us = draft->rtt_us;
}

/* A round with a draft took so long. */
static void add_draft(ft_bench_uplink_edge *e, const ft_msg_verdict *v, uint64_t us)
{
    ft_bench_uplink_sum *sum = &e->now.part.sum;
    const ft_bench_load_sent sent = ft_bench_load_path_last(&e->path);
    sum->drafts++;
    sum->nodes += e->now.nodes;
    sum->bytes += sent.bytes;
    sum->evidence_bytes += e->now.evidence_bytes;
    sum->empty_bytes += ft_bench_load_message_bytes(e->now.draft);
    sum->drafts_us += us;
    sum->draft_us += e->now.draft->draft.draft_us;
    sum->line_us += (uint64_t)sent.us;
    sum->verify_us += v->verify_us;
}

static void learn(ft_bench_uplink_edge *e)
{
    const uint64_t bytes = ft_bench_load_path_last(&e->path).bytes;
    e->known.rounds++;
    e->known.large += bytes >= FT_BENCH_UPLINK_LARGE;
    e->known.large_bytes += bytes >= FT_BENCH_UPLINK_LARGE ? bytes : 0;
}

static void on_verdict(void *ctx, const ft_msg_verdict *v)
{
    ft_bench_uplink_edge *e = ctx;
    const int64_t now_us = ft_bench_now_us();
    const uint64_t us = (uint64_t)(now_us - e->now.verdict_us);
    if (e->now.nodes > 0)
        learn(e);
    if (e->now.verdict_us > 0) {
        e->now.part.sum.tokens += v->n_path + v->n_next;
        e->now.part.sum.us += us;
        e->now.part.verify.n[e->now.nodes]++;
        e->now.part.verify.us[e->now.nodes] += v->verify_us;
        if (e->now.nodes > 0)
            add_draft(e, v, us);
    }
    e->now.verdict_us = now_us;
}

/* ---- an edge ---- */

static ft_edge_opts edge_opts(const ft_bench_uplink_edge_opts *o, const ft_bench_uplink_way *way)
{
    ft_edge_opts edge = {.vocab = o->vocab,
                         .clock = ft_clock_monotonic(),
                         .draft_kv_tok = o->kv_tok,
                         .n_threads = 1};
    if (way->method == FT_QSV_METHOD_PLAIN)
        return edge;
    edge.draft_model = o->draft;
    edge.draft = ft_draft_params_chain(way->length);
    if (way->method == FT_QSV_METHOD_TREE) {
        edge.draft = ft_draft_params_tree(way->width * way->length, way->length, 1);
        edge.draft.branch = way->width; /* so each forward adds as many nodes */
    } else if (way->method != FT_QSV_METHOD_CHAIN) {
        edge.rule = &ft_rule_ratio;
        edge.draft.resolution = way->l;
        edge.policy = way->method == FT_QSV_METHOD_POLICY ? o->policy : NULL;
    }
    return edge;
}

ft_status ft_bench_uplink_edge_init(ft_bench_uplink_edge *out,
                                    const ft_bench_uplink_edge_opts *opts,
                                    const ft_bench_uplink_way *way, const ft_qsv_link *link,
                                    ft_error *err)
{
    const ft_wire_client_opts wire = {.address = opts->address};
    ft_edge_opts edge = edge_opts(opts, way);
    *out = (ft_bench_uplink_edge){.way = *way, .link = link};
    out->now.draft = calloc(1, sizeof *out->now.draft);
    if (!out->now.draft)
        return ft_error_set(err, FT_NOMEM, "bench uplink: out of memory");
    out->now.draft->kind = FT_CLIENT_DRAFT;
    ft_status status = ft_wire_client_create(&wire, err, &out->client);
    if (status != FT_OK)
        return status;
    ft_bench_load_path_init(&out->path, ft_link_source_wire(out->client));
    out->has_path = true;
    out->path.delay_us = opts->rtt_us / 2;
    out->path.on_draft = on_draft;
    out->path.on_verdict = on_verdict;
    out->path.ctx = out;
    edge.source = ft_bench_load_path_source(&out->path);
    return ft_edge_create(&edge, err, &out->edge);
}

void ft_bench_uplink_edge_deinit(ft_bench_uplink_edge *e)
{
    ft_edge_destroy(e->edge);
    if (e->has_path)
        ft_bench_load_path_deinit(&e->path);
    ft_wire_client_destroy(e->client);
    ft_tokens_deinit(&e->now.text);
    free(e->now.draft);
    *e = (ft_bench_uplink_edge){0};
}

/* ---- a text ---- */

typedef struct writer {
    ft_bench_uplink_edge *edge;
    const ft_bench_uplink_write *how;
} writer;

static bool on_text(void *ctx, const char *piece, size_t n_piece, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    const writer *w = ctx;
    for (size_t i = 0; i < n_tokens; i++)
        if (ft_tokens_append(&w->edge->now.text, &tokens[i].id, 1) != FT_OK)
            return false;
    return w->how->large_most == 0 || w->edge->known.large < w->how->large_most;
}

static bool is_cancelled(void *ctx)
{
    const ft_bench_stop stop = ((const writer *)ctx)->how->stop;
    return stop && stop();
}

static bool is_same(const ft_tokens *wrote, const ft_tokens *expected)
{
    return wrote->n == expected->n &&
           (wrote->n == 0 || memcmp(wrote->id, expected->id, wrote->n * sizeof *wrote->id) == 0);
}

static void count(ft_bench_uplink_edge *e, const ft_bench_uplink_write *w, const ft_gen_stats *s,
                  ft_bench_uplink_part *out)
{
    e->known.bits_per_s = (double)s->uplink_bits_per_s;
    if (e->known.bits_per_s > 0 && e->known.known_after == 0)
        e->known.known_after = e->known.rounds;
    if (!out)
        return;
    *out = e->now.part;
    out->sum.rounds = s->rounds;
    out->sum.by_policy = s->policy_rounds;
    e->texts++;
    e->differ += !is_same(&e->now.text, &w->text->text);
}

ft_status ft_bench_uplink_edge_write(ft_bench_uplink_edge *e, const ft_bench_uplink_write *w,
                                     ft_error *err, ft_bench_uplink_part *out)
{
    static const ft_line_rate unlimited;
    writer ctx = {.edge = e, .how = w};
    ft_line_rate up = e->link->rate;
    ft_gen_stats stats;
    const ft_gen_request request = {.prompt = w->text->prompt.id,
                                    .n_prompt = (uint32_t)w->text->prompt.n,
                                    .sampling = w->text->sampling,
                                    .max_tokens = w->n_tokens};
    const ft_gen_sink sink = {.ctx = &ctx, .on_text = on_text, .cancelled = is_cancelled};
    up.seed = w->seed;
    ft_bench_load_path_wait(&e->path);
    ft_bench_load_path_limit(&e->path, &up, &unlimited);
    e->now.part = (ft_bench_uplink_part){0};
    e->now.text.n = 0;
    e->now.verdict_us = 0;
    e->now.nodes = 0;
    ft_status status = ft_edge_generate(e->edge, &request, &sink, err, &stats);
    if (status == FT_OK)
        count(e, w, &stats, out);
    return status;
}

void ft_bench_uplink_add(ft_bench_uplink_part *sum, const ft_bench_uplink_part *more)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)more;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}
