// SPDX-License-Identifier: Apache-2.0
// From statistics to Prometheus' text format. Names carry their units; sums and counts rather than
// means, so that who reads them chooses the window. No state. Says nothing about any one session.
#include "serve/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

static void head(ft_buf *out, const char *name, const char *kind, const char *help)
{
    ft_buf_printf(out, "# HELP foretoken_%s %s\n# TYPE foretoken_%s %s\n", name, help, name, kind);
}

typedef struct row {
    const char *name, *help;
    uint64_t value;
} row;

static void counts(ft_buf *out, const char *kind, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        head(out, rows[i].name, kind, rows[i].help);
        ft_buf_printf(out, "foretoken_%s %" PRIu64 "\n", rows[i].name, rows[i].value);
    }
}

/* Values in microseconds. */
static void seconds(ft_buf *out, const row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        head(out, rows[i].name, "counter", rows[i].help);
        ft_buf_printf(out, "foretoken_%s %" PRIu64 ".%06u\n", rows[i].name, rows[i].value / 1000000,
                      (unsigned)(rows[i].value % 1000000));
    }
}

static void histogram(ft_buf *out, const row *sum, const uint64_t *classes)
{
    uint64_t n = 0;
    head(out, sum->name, "histogram", sum->help);
    for (uint32_t i = 0; i + 1 < FT_VERIFIER_SIZES; i++) {
        n += classes[i];
        ft_buf_printf(out, "foretoken_%s_bucket{le=\"%u\"} %" PRIu64 "\n", sum->name, 1u << i, n);
    }
    n += classes[FT_VERIFIER_SIZES - 1];
    ft_buf_printf(out,
                  "foretoken_%s_bucket{le=\"+Inf\"} %" PRIu64 "\nforetoken_%s_sum %" PRIu64
                  "\nforetoken_%s_count %" PRIu64 "\n",
                  sum->name, n, sum->name, sum->value, sum->name, n);
}

/* One metric with a value a class. `offset`: of the value in ft_slo_count. */
static void by_class(ft_buf *out, const ft_verifier_stats *s, const char *name, const char *help,
                     size_t offset)
{
    head(out, name, "counter", help);
    for (uint32_t i = 0; i < s->n_slo; i++) {
        const uint64_t *value = (const uint64_t *)((const char *)&s->slo[i] + offset);
        ft_buf_printf(out, "foretoken_%s{tokens_per_s=\"%g\"} %" PRIu64 "\n", name,
                      (double)s->slo_tokens_per_s[i], *value);
    }
}

static void promises(ft_buf *out, const ft_verifier_stats *s)
{
    if (s->n_slo == 0)
        return;
    by_class(out, s, "slo_rounds_total", "Verdicts on texts with a promised token speed.",
             offsetof(ft_slo_count, rounds));
    by_class(out, s, "slo_rounds_met_total", "Of those the ones within their time budget.",
             offsetof(ft_slo_count, rounds_met));
    by_class(out, s, "slo_texts_total", "Finished texts with a promised token speed.",
             offsetof(ft_slo_count, texts));
    by_class(out, s, "slo_texts_met_total", "Of those the ones that were as fast as promised.",
             offsetof(ft_slo_count, texts_met));
}

static void spikes(ft_buf *out, const ft_verifier_stats *s)
{
    static const char name[] = "pass_spikes_total";
    head(out, name, "counter", "Passes that took 1.5 times the mean of those before, by cause.");
    for (int i = FT_SPIKE_COLD_START; i < FT_SPIKE_CAUSES; i++)
        ft_buf_printf(out, "foretoken_%s{cause=\"%s\"} %" PRIu64 "\n", name, ft_spike_name[i],
                      s->spikes[i]);
}

static void ratio(ft_buf *out, const char *name, const char *help, double value)
{
    head(out, name, "gauge", help);
    ft_buf_printf(out, "foretoken_%s %.6f\n", name, value);
}

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

ft_status ft_metrics_append(const ft_verifier_stats *s, ft_buf *out)
{
    const row gauges[] = {
        {"sessions", "Sessions, detached ones included.", s->sessions},
        {"sessions_detached", "Sessions that have lost their stream.", s->sessions_detached},
        {"verify_groups", "Groups of sessions that take turns in passes.", s->groups},
        {"kv_blocks", "Blocks of 16 tokens in the KV pool.", s->kv_blocks},
        {"kv_free_blocks", "Blocks that no session holds.", s->kv_blocks_free},
        {"kv_cached_blocks", "Of the free blocks those that hold cached text.",
         s->kv_blocks_cached},
    };
    const row counters[] = {
        {"sessions_opened_total", "Sessions opened.", s->sessions_opened},
        {"sessions_ended_total", "Sessions gone.", s->sessions_gone},
        {"sessions_refused_total", "Opens refused for lack of room.", s->sessions_refused},
        {"rounds_total", "Verdicts.", s->rounds},
        {"tokens_total", "Tokens of text.", s->tokens},
        {"passes_capped_total",
         "Passes that left verifications to the next one, so that two groups take turns.",
         s->passes_capped},
        {"run_tokens_total", "Tokens of text that the server made without an edge's draft.",
         s->run_tokens},
        {"drafted_tokens_total", "Tokens in drafts.", s->drafted},
        {"accepted_tokens_total", "Drafted tokens that became text.", s->accepted},
        {"early_taken_total", "Early drafts of which a verdict took the next round's tree.",
         s->early_taken},
        {"early_missed_total", "Early drafts that held nothing behind their verdict.",
         s->early_missed},
        {"early_late_total", "Early drafts that came when their verdict was out.", s->early_late},
        {"head_runs_total", "Runs of the output head.", s->heads},
        {"head_rows_total", "Rows whose logits were computed.", s->head_rows},
        {"own_drafted_tokens_total", "Tokens in the server's own drafts.", s->own_drafted},
        {"own_accepted_tokens_total", "Of them those that became text.", s->own_accepted},
        {"own_draft_passes_total", "Passes of the server's draft model.", s->own_forwards},
        {"own_draft_rows_total", "Rows of these passes.", s->own_rows},
        {"kv_released_total", "Times that a session's KV gave way to another's.", s->kv_released},
        {"prefix_lookup_tokens_total", "Tokens looked up in the prefix cache.",
         s->prefix_lookup_tok},
        {"prefix_hit_tokens_total", "Tokens found in the prefix cache.", s->prefix_hit_tok},
        {"prefix_evicted_blocks_total", "Cached blocks that gave way.", s->prefix_evicted},
    };
    const row times[] = {
        {"pass_seconds_total", "Time in forward passes.", s->forward_us},
        {"head_seconds_total", "Time in runs of the output head.", s->head_us},
        {"pass_predicted_seconds_total", "Time that passes were expected to take.",
         s->predicted_us},
        {"pass_prediction_error_seconds_total",
         "Sum over passes of the difference between expected and measured time.",
         s->predict_miss_us},
        {"own_draft_seconds_total", "Time in the server's own drafting.", s->own_us},
        {"judge_seconds_total", "Time in drawing tokens and walking trees.", s->judge_us},
        {"engine_idle_seconds_total",
         "Time that the engine waited although some client's text was not finished.", s->idle_us},
        {"engine_rest_seconds_total", "Time that the engine spent on everything else but passes.",
         s->rest_us},
        {"round_queue_seconds_total",
         "Sum over rounds of the time from a draft's arrival to its pass.", s->queue_us},
        {"round_verify_seconds_total", "Sum over rounds of the time from the pass to the verdict.",
         s->verify_us},
    };
    counts(out, "gauge", gauges, COUNT(gauges));
    counts(out, "counter", counters, COUNT(counters));
    seconds(out, times, COUNT(times));
    ratio(out, "pass_prediction_error_ratio",
          "Recent mean of the difference between expected and measured time, over measured time.",
          s->cost_error);
    ratio(out, "pass_prediction_bias_ratio",
          "The same with its sign: above 0 where passes are faster than expected.", s->cost_bias);
    spikes(out, s);
    promises(out, s);
    histogram(out, &(row){"pass_rows", "Rows of a forward pass.", s->rows}, s->passes_by_rows);
    histogram(out, &(row){"prefill_chunk_rows", "Rows of a prompt's chunk.", s->prefill_rows},
              s->chunks_by_rows);
    return out->failed ? FT_NOMEM : FT_OK;
}

/* One metric with a value a key; `status` NULL: it has no such label. */
static void key_sample(ft_buf *out, const char *name, const char *key, const char *status,
                       uint64_t value)
{
    ft_buf_printf(out, "foretoken_%s{key=\"%s\"", name, key);
    if (status)
        ft_buf_printf(out, ",status=\"%s\"", status);
    ft_buf_printf(out, "} %" PRIu64 "\n", value);
}

ft_status ft_metrics_append_keys(ft_verifier *verifier, ft_buf *out)
{
    static const char sessions[] = "key_sessions", opened[] = "key_sessions_opened_total",
                      refused[] = "key_opens_refused_total";
    ft_key_count *key;
    size_t n;
    if (!ft_verifier_keys(verifier))
        return FT_OK;
    if (ft_verifier_list_keys(verifier, &key, &n) != FT_OK)
        return FT_NOMEM;
    head(out, sessions, "gauge", "Sessions of a key, detached ones included.");
    for (size_t i = 0; i < n; i++)
        key_sample(out, sessions, key[i].name, NULL, key[i].sessions);
    head(out, opened, "counter", "Sessions that a key opened.");
    for (size_t i = 0; i < n; i++)
        key_sample(out, opened, key[i].name, NULL, key[i].opened);
    head(out, refused, "counter",
         "Opens of a key refused for what it may not have, or for lack of room.");
    for (size_t i = 0; i < n; i++) {
        key_sample(out, refused, key[i].name, "forbidden", key[i].forbidden);
        key_sample(out, refused, key[i].name, "exhausted", key[i].exhausted);
    }
    free(key);
    return out->failed ? FT_NOMEM : FT_OK;
}
