// SPDX-License-Identifier: Apache-2.0
// foretoken trace: checks a trace file and says what it holds. Main thread only; another process
// may write to the file at the same time.
#include <stdio.h>
#include <time.h>

#include "cmd/cmd.h"
#include "cmd/predictor_quality.h"
#include "cmd/trace_by.h"
#include "learn/trace.h"

static double share(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

/* UTC, as "2026-01-31 23:59:59". */
static const char *time_text(int64_t us, char out[32])
{
    const time_t s = (time_t)(us / 1000000);
    struct tm tm;
    if (!gmtime_r(&s, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(out, 32, "%lld s", (long long)(us / 1000000));
    return out;
}

static int print_json(const ft_trace_summary *s)
{
    json_t *depths = json_array();
    for (uint32_t i = 0; i < s->n_depths; i++)
        json_array_append_new(depths, json_pack("{s:i, s:I, s:I, s:I, s:f}", "depth", (int)i,
                                                "nodes", (json_int_t)s->depth[i].nodes, "judged",
                                                (json_int_t)s->depth[i].judged, "accepted",
                                                (json_int_t)s->depth[i].accepted, "acceptance",
                                                share(s->depth[i].accepted, s->depth[i].judged)));
    return ft_cmd_print_json(json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:o}", "bytes",
        (json_int_t)s->bytes, "sessions", (json_int_t)s->sessions, "model_pairs",
        (json_int_t)s->pairs, "rounds", (json_int_t)s->rounds, "nodes", (json_int_t)s->nodes,
        "judged", (json_int_t)s->judged, "accepted", (json_int_t)s->accepted, "samples",
        (json_int_t)s->samples, "accepted_per_round", share(s->accepted, s->rounds),
        "wasted_tokens", (json_int_t)s->waste.tokens, "useful_draft_s",
        (double)s->waste.useful_us / 1e6, "wasted_draft_s", (double)s->waste.wasted_us / 1e6,
        "wasted_draft_share", ft_waste_share(&s->waste), "first_s", (double)s->first_us / 1e6,
        "last_s", (double)s->last_us / 1e6, "by_depth", depths));
}

static int print_text(const ft_trace_summary *s)
{
    char first[32], last[32];
    printf("%.1f MB: %llu texts", (double)s->bytes / 1e6, (unsigned long long)s->sessions);
    if (s->sessions)
        printf(" of %llu pair%s of models, begun %s to %s UTC", (unsigned long long)s->pairs,
               s->pairs == 1 ? "" : "s", time_text(s->first_us, first),
               time_text(s->last_us, last));
    printf("\n%llu drafts of %llu nodes, %.2f nodes of each accepted\n",
           (unsigned long long)s->rounds, (unsigned long long)s->nodes,
           share(s->accepted, s->rounds));
    printf(
        "%.2f s of drafting before drafts were sent, %.1f %% of it wasted on %llu nodes that did "
        "not become text\n",
        (double)(s->waste.useful_us + s->waste.wasted_us) / 1e6, 100 * ft_waste_share(&s->waste),
        (unsigned long long)s->waste.tokens);
    printf("%llu nodes judged, %.1f %% of them accepted; %llu with features, to train from\n",
           (unsigned long long)s->judged, 100 * share(s->accepted, s->judged),
           (unsigned long long)s->samples);
    if (s->n_depths)
        printf("\n%6s %10s %10s %10s %11s\n", "depth", "nodes", "judged", "accepted", "acceptance");
    for (uint32_t i = 0; i < s->n_depths; i++)
        printf("%6u %10llu %10llu %10llu %11.3f\n", i, (unsigned long long)s->depth[i].nodes,
               (unsigned long long)s->depth[i].judged, (unsigned long long)s->depth[i].accepted,
               share(s->depth[i].accepted, s->depth[i].judged));
    return fflush(stdout) == 0 ? 0 : 1;
}

typedef struct options {
    ft_trace_key by;
    const char *predictor, *plot;
    bool json;
} options;

static const ft_flag rows[] = {
    {"--by", NULL, FT_FLAG_ENUM(options, by, ft_trace_key_name), "WHAT",
     "acceptance by what the draft's logits were like, instead of the summary; by waste: tokens/s "
     "of texts by what their drafts wasted"},
    {"--predictor", NULL, FT_FLAG(options, predictor), "FILE",
     "how right this predictor, a file of train predictor, is about the trace's tokens, instead of "
     "the summary"},
    {"--plot", NULL, FT_FLAG(options, plot), "FILE",
     "with --by: a plot, by gnuplot: .svg, .png or .txt", .plot = true},
    {"--json", NULL, FT_FLAG(options, json), NULL, "print one JSON object instead of the text"},
};

static const options defaults = {0};

static int show_by(const options *x, const char *path)
{
    const ft_trace_by_opts by = {.path = path, .by = x->by, .plot = x->plot, .text = !x->json};
    ft_error err = {0};
    json_t *report;
    const ft_status status = ft_cmd_trace_by(&by, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, NULL);
}

static int show_predictor(const options *x, const char *path)
{
    ft_error err = {0};
    json_t *report;
    const ft_status status = ft_cmd_trace_predictor(path, x->predictor, !x->json, &err, &report);
    return ft_cmd_report(status, &err, report, x->json, NULL);
}

static int run(void *selected, int n_words, char **words)
{
    const options *x = selected;
    ft_error err = {0};
    ft_trace_summary summary;
    if (x->plot && x->by == FT_TRACE_KEY_NONE)
        ft_error_set(&err, FT_INVALID, "trace: --plot goes with --by");
    else if (x->predictor && x->by != FT_TRACE_KEY_NONE)
        ft_error_set(&err, FT_INVALID, "trace: pass --by or --predictor, not both");
    if (err.code != FT_OK) {
        ft_cmd_fail(&err);
        return 2;
    }
    if (x->predictor)
        return show_predictor(x, words[0]);
    if (x->by != FT_TRACE_KEY_NONE)
        return show_by(x, words[0]);
    if (ft_trace_summarize(words[0], &err, &summary) != FT_OK)
        return ft_cmd_fail(&err);
    return x->json ? print_json(&summary) : print_text(&summary);
}

const ft_command ft_cmd_trace = {
    .name = "trace",
    .summary = "show what a trace file holds: texts, drafts, acceptance by depth",
    .usage = "FILE [flags]",
    .about = "Says what a file from edge --trace or run --trace holds, and checks it: texts, "
             "drafts, and how many of the judged nodes at each depth the target accepted. In a "
             "chain, the nodes up to the first rejected one are judged; in a tree, all whose "
             "parent was accepted. With --by it says what a draft's own numbers tell of the "
             "verdict (WISP figures 1 to 3). With --predictor it says how often a predictor of "
             "rejections would have been right (WISP table 4).",
    FT_CMD_OPTIONS(rows, defaults),
    .min_words = 1,
    .max_words = 1,
    .run = run};
