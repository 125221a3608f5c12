// SPDX-License-Identifier: Apache-2.0
// Figures of `bench capacity`. No state beside the caller's.
#include "bench/capacity_report.h"

#include <math.h>
#include <stdio.h>

#define DRIVER_BUSY \
    0.8 /* edges wait for each other if they use more than this share of our cores */
#define DRIVER_LATE \
    0.1 /* of the draft forwards, the share that may take longer than the device's time */

const char *const ft_bench_capacity_way_name[FT_BENCH_CAPACITY_WAYS] = {
    "wisp", "edf", "fcfs", "sled", "static", "centralized"};

static double share(double a, double b)
{
    return b > 0 ? a / b : 0;
}

ft_bench_capacity_probe ft_bench_capacity_probe_of(const ft_bench_capacity_report *report,
                                                   uint32_t n, const ft_bench_crowd_result *r)
{
    const ft_verifier_stats *s = &r->server.stats;
    ft_bench_capacity_probe p = {.n = n, .seconds = r->seconds, .slow = -1};
    for (uint32_t i = 0; i < report->n_classes; i++) { /* each was promised its speed */
        double slow = share((double)r->slow[i], (double)r->texts[i]);
        p.slow_from_first =
            fmax(p.slow_from_first, share((double)r->slow_from_first[i], (double)r->texts[i]));
        p.slow_of[i] = slow;
        if (r->texts[i] == 0 || slow <= p.slow)
            continue;
        p.slow = slow;
        p.texts = r->texts[i];
        p.slow_texts = r->slow[i];
    }
    if (p.slow < 0) /* nobody was served */
        p.slow = p.slow_from_first = 1;
    p.goodput = share((double)r->tokens, r->seconds);
    p.busy = share((double)ft_verifier_stats_busy_us(s) / 1e6, r->server.at_s);
    p.driver = share(r->driver_cpu_s, r->seconds * report->driver_cores);
    p.passes = (double)s->passes.n;
    p.texts_a_pass = share((double)s->rounds, p.passes);
    p.rows_a_pass = share((double)s->passes.sum, (double)s->passes.n);
    p.pass_ms = share((double)s->forward_us / 1e3, (double)s->passes.n);
    p.tokens_a_verdict = share((double)s->tokens, (double)s->rounds);
    p.runs = share((double)s->run_tokens, (double)s->tokens);
    p.acceptance = share((double)r->accepted, (double)r->drafted);
    p.late = share((double)r->device_late, (double)r->device_forwards);
    p.draft_verdicts = fmax((double)s->rounds - (double)s->run_tokens, 0);
    p.draft_tokens = fmax((double)s->tokens - (double)s->run_tokens, 0);
    p.drafted = (double)r->drafted;
    p.accepted = (double)r->accepted;
    p.tokens = (double)s->tokens;
    p.prompt_rows = fmax((double)s->passes.sum - (double)s->rounds - p.drafted, 0);
    p.read_wait_ms = share((double)s->streamed_wait_us / 1e3, (double)s->passes.n);
    p.read_mb_a_pass = share((double)s->streamed_bytes / 1e6, (double)s->passes.n);
    p.refused = r->refused;
    p.misses = r->misses;
    p.mismatches = r->mismatches;
    for (uint32_t i = 0; i < FT_SLO_CLASSES; i++)
        for (uint32_t cause = 0; cause < FT_LATE_CAUSES; cause++)
            p.late_rounds[i][cause] = cause == FT_LATE_NONE
                                          ? s->slo_rounds_met[i]
                                          : s->slo_rounds_late[i * FT_LATE_CAUSES + cause];
    return p;
}

bool ft_bench_capacity_probe_is_bound(const ft_bench_capacity_probe *p)
{
    return p->driver > DRIVER_BUSY || p->late > DRIVER_LATE;
}

void ft_bench_capacity_class_name(const ft_bench_capacity_report *report, uint32_t class,
                                  char name[16])
{
    if (class == FT_BENCH_CAPACITY_MIXED)
        snprintf(name, 16, "mixed");
    else
        snprintf(name, 16, "%g", (double)report->classes[class].tokens_per_s);
}

/* Late rounds of all classes by cause; none where the server knows no promise. */
static void add_late(json_t *row, const ft_bench_capacity_probe *p)
{
    uint64_t sum[FT_LATE_CAUSES] = {0};
    for (uint32_t i = 0; i < FT_SLO_CLASSES; i++)
        for (uint32_t cause = 0; cause < FT_LATE_CAUSES; cause++)
            sum[cause] += p->late_rounds[i][cause];
    json_object_set_new(row, "late_rounds", ft_knee_late_json(sum));
}

void ft_bench_capacity_report_add(ft_bench_capacity_report *report, ft_bench_capacity_way way,
                                  uint32_t class, const ft_bench_capacity_probe *p)
{
    const struct {
        const char *key;
        double value;
    } figures[] = {{"violation_rate", p->slow},
                   {"violation_rate_from_first", p->slow_from_first},
                   {"tokens_per_s", p->goodput},
                   {"server_busy_share", p->busy},
                   {"driver_cpu_share", p->driver},
                   {"rows_a_pass", p->rows_a_pass},
                   {"pass_ms", p->pass_ms},
                   {"tokens_a_verify", p->tokens_a_verdict},
                   {"run_share", p->runs},
                   {"acceptance", p->acceptance},
                   {"device_late_share", p->late},
                   {"read_mb_a_pass", p->read_mb_a_pass},
                   {"read_wait_ms", p->read_wait_ms},
                   {"prompt_rows_a_token", share(p->prompt_rows, p->tokens)},
                   {"seconds", p->seconds}};
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {
        {"devices", p->n},       {"texts", p->texts},          {"slow", p->slow_texts},
        {"refused", p->refused}, {"replay_misses", p->misses}, {"mismatches", p->mismatches}};
    char name[16];
    ft_bench_capacity_class_name(report, class, name);
    json_t *row = json_pack("{s:s, s:s}", "policy", ft_bench_capacity_way_name[way], "class", name);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(row, counts[i].key, json_integer((json_int_t)counts[i].value));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(row, figures[i].key, json_real(figures[i].value));
    add_late(row, p);
    json_array_append_new(report->probes, row);
}

/* ---- by class ---- */

typedef struct column {
    uint32_t class;
    char name[16];
} column;

static uint32_t columns_of(const ft_bench_capacity_report *report,
                           column columns[FT_SLO_CLASSES + 1])
{
    uint32_t n = 0;
    for (uint32_t i = report->mixed_only ? report->n_classes : 0;
         i < report->n_classes + report->mixed; i++, n++) {
        columns[n].class = i < report->n_classes ? i : FT_BENCH_CAPACITY_MIXED;
        ft_bench_capacity_class_name(report, columns[n].class, columns[n].name);
    }
    return n;
}

/* What is compared of two ways. */
static double devices_of(const ft_bench_capacity_probe *p)
{
    return p->n;
}

static double goodput_of(const ft_bench_capacity_probe *p)
{
    return p->goodput;
}

static json_t *over(const ft_bench_capacity_report *report, ft_bench_capacity_way other,
                    const column *columns, uint32_t n,
                    double (*of)(const ft_bench_capacity_probe *))
{
    json_t *row = json_object();
    for (uint32_t i = 0; i < n; i++) {
        const ft_bench_capacity_found *ours =
                                          &report->found[FT_BENCH_CAPACITY_WISP][columns[i].class],
                                      *theirs = &report->found[other][columns[i].class];
        if (ours->known && theirs->known)
            json_object_set_new(row, columns[i].name,
                                theirs->at.n ? json_real(share(of(&ours->at), of(&theirs->at)))
                                             : json_null());
    }
    return row;
}

/* wisp over each other way. */
static json_t *ratios(const ft_bench_capacity_report *report, const column *columns, uint32_t n,
                      double (*of)(const ft_bench_capacity_probe *))
{
    json_t *all = json_object();
    for (int way = FT_BENCH_CAPACITY_WISP + 1; way < FT_BENCH_CAPACITY_WAYS; way++)
        if (report->way[way] && report->way[FT_BENCH_CAPACITY_WISP])
            json_object_set_new(all, ft_bench_capacity_way_name[way],
                                over(report, (ft_bench_capacity_way)way, columns, n, of));
    return all;
}

void ft_bench_capacity_report_json(const ft_bench_capacity_report *report, json_t *out)
{
    json_t *capacity = json_object(), *goodput = json_object(), *bound = json_object();
    column columns[FT_SLO_CLASSES + 1];
    uint32_t n = columns_of(report, columns);
    for (int way = 0; way < FT_BENCH_CAPACITY_WAYS; way++) {
        json_t *held = json_object(), *tokens = json_object(), *least = json_object();
        for (uint32_t i = 0; i < n && report->way[way]; i++) {
            const ft_bench_capacity_found *f = &report->found[way][columns[i].class];
            if (!f->known)
                continue;
            json_object_set_new(held, columns[i].name, json_integer(f->at.n));
            json_object_set_new(tokens, columns[i].name, json_real(f->at.goodput));
            json_object_set_new(least, columns[i].name,
                                json_boolean(ft_bench_capacity_probe_is_bound(&f->at)));
        }
        if (report->way[way]) {
            json_object_set(capacity, ft_bench_capacity_way_name[way], held);
            json_object_set(goodput, ft_bench_capacity_way_name[way], tokens);
            json_object_set(bound, ft_bench_capacity_way_name[way], least);
        }
        json_decref(held);
        json_decref(tokens);
        json_decref(least);
    }
    json_object_set_new(out, "capacity", capacity);
    json_object_set_new(out, "ratio", ratios(report, columns, n, devices_of));
    json_object_set_new(out, "goodput", goodput);
    json_object_set_new(out, "goodput_ratio", ratios(report, columns, n, goodput_of));
    json_object_set_new(out, "lower_bound", bound);
    json_object_set(out, "probes", report->probes);
    if (report->knee)
        ft_knee_json(report->knee, out);
}

/* ---- for a person ---- */

static void print_row(FILE *out, const ft_bench_capacity_report *report, int way,
                      const column *columns, uint32_t n)
{
    bool any = false;
    fprintf(out, "%-14s", ft_bench_capacity_way_name[way]);
    for (uint32_t i = 0; i < n; i++) {
        const ft_bench_capacity_probe *p = &report->found[way][columns[i].class].at;
        bool bound = ft_bench_capacity_probe_is_bound(p);
        fprintf(out, " %8u%c %7.1f", p->n, bound ? '+' : ' ', p->goodput);
        any |= bound;
    }
    fprintf(out, "%s\n", any ? "   + the edges' side was the bottleneck: at least so many" : "");
}

static void print_ratio(FILE *out, const ft_bench_capacity_report *report, int other,
                        const column *columns, uint32_t n)
{
    char label[32];
    snprintf(label, sizeof label, "/ %s", ft_bench_capacity_way_name[other]);
    fprintf(out, "%-14s", label);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ours = report->found[FT_BENCH_CAPACITY_WISP][columns[i].class].at.n,
                 theirs = report->found[other][columns[i].class].at.n;
        if (theirs)
            fprintf(out, " %9.2f %7s", ours / (double)theirs, "");
        else
            fprintf(out, " %9s %7s", ours ? "none" : "-", "");
    }
    fprintf(out, "\n");
}

void ft_bench_capacity_report_print(const ft_bench_capacity_report *report, FILE *out)
{
    column columns[FT_SLO_CLASSES + 1];
    uint32_t n = columns_of(report, columns);
    fprintf(out, "devices held, and tokens/s of all of them\n%-14s", "tokens/s each");
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, " %9s %7s", columns[i].name, "");
    fprintf(out, "\n");
    for (int way = 0; way < FT_BENCH_CAPACITY_WAYS; way++)
        if (report->way[way])
            print_row(out, report, way, columns, n);
    if (!report->way[FT_BENCH_CAPACITY_WISP])
        return;
    fprintf(out, "wisp over\n");
    for (int way = FT_BENCH_CAPACITY_WISP + 1; way < FT_BENCH_CAPACITY_WAYS; way++)
        if (report->way[way])
            print_ratio(out, report, way, columns, n);
}
