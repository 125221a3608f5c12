// SPDX-License-Identifier: Apache-2.0
// From probes to the bound, and the paper's tables. No state beside the caller's.
#include "bench/capacity_beside.h"

#include <math.h>
#include <stdio.h>

#include "base/num.h"

void ft_capacity_beside_saw(ft_bench_capacity_report *report, ft_bench_capacity_way way,
                            const ft_bench_capacity_probe *p)
{
    ft_bench_capacity_beside *b = &report->beside;
    ft_bench_capacity_drafts *d = &b->drafts[way];
    if (way != FT_BENCH_CAPACITY_SLED) { /* its passes read whole texts, which are other rows */
        ft_capacity_saw_passes(
            &b->seen, &(ft_capacity_passes){.weight = p->passes,
                                            .texts = p->texts_a_pass,
                                            .drafts = fmax(p->rows_a_pass - p->texts_a_pass, 0),
                                            .pass_s = p->pass_ms / 1e3,
                                            .waited_s = p->read_wait_ms / 1e3});
        b->prompt_rows += p->prompt_rows;
        b->tokens += p->tokens;
    }
    d->verdicts += p->draft_verdicts;
    d->tokens += p->draft_tokens;
    d->drafted += p->drafted;
    d->accepted += p->accepted;
}

/* Of drafts: how many tokens they have is known from how many of them are accepted. */
static double chance_of(const ft_bench_capacity_drafts *d)
{
    if (d->verdicts <= 0 || d->accepted <= 0)
        return 0;
    const double accepted = d->tokens / d->verdicts - 1;
    return ft_capacity_chance(accepted * d->drafted / d->accepted, accepted);
}

bool ft_capacity_beside_times(const ft_bench_capacity_report *report, ft_capacity_times *out)
{
    const ft_bench_capacity_beside *b = &report->beside;
    *out = (ft_capacity_times){.away_s = b->away_s,
                               .most = b->most_tokens,
                               .prompts = b->tokens > 0 ? b->prompt_rows / b->tokens : 0};
    for (int way = 0; way < FT_BENCH_CAPACITY_WAYS; way++)
        out->chance = fmax(out->chance, chance_of(&b->drafts[way]));
    return ft_capacity_fit(&b->seen, out);
}

ft_capacity_bound ft_capacity_beside_bound(const ft_bench_capacity_report *report,
                                           const ft_capacity_times *times, uint32_t class)
{
    const bool mixed = class == FT_BENCH_CAPACITY_MIXED;
    float speed[FT_SLO_CLASSES];
    for (uint32_t i = 0; i < report->n_classes; i++)
        speed[i] = report->classes[i].tokens_per_s;
    return ft_capacity_bound_of(times, mixed ? speed : speed + class,
                                mixed ? report->n_classes : 1);
}

void ft_capacity_beside_knee(const ft_bench_capacity_report *report, ft_knee *knee)
{
    ft_capacity_times times;
    const bool known = ft_capacity_beside_times(report, &times);
    for (uint32_t i = 0; known && i <= report->n_classes; i++) {
        const uint32_t class = i < report->n_classes ? i : FT_BENCH_CAPACITY_MIXED;
        const double devices = ft_capacity_beside_bound(report, &times, class).drafts;
        knee->bound[i] = isfinite(devices) ? devices : 0;
    }
}

/* Of devices that wisp can hold at most, over those that another way holds here. The bound over
 * centralized compares two computed numbers; here the other one is measured, since no formula says
 * what a way loses by its drafts and its queue. NAN: it holds none, or was not measured. */
static double most_over(const ft_bench_capacity_report *report, double devices, int way,
                        uint32_t class)
{
    const ft_bench_capacity_found *f = &report->found[way][class];
    return report->way[way] && f->known && f->at.n > 0 ? devices / f->at.n : NAN;
}

/* ---- WISP's tables ---- */

double ft_capacity_beside_paper(const ft_bench_capacity_report *report, ft_bench_capacity_way other,
                                uint32_t class)
{
    static const struct {
        float tokens_per_s;
        double sled, centralized;
    } table_2[] = {{2, 164.0 / 83, 164.0 / 97},
                   {4, 142.0 / 42, 142.0 / 80},
                   {6, 103.0 / 27, 103.0 / 54},
                   {8, 86.0 / 21, 86.0 / 41}};
    const bool sled = other == FT_BENCH_CAPACITY_SLED;
    if (!sled && other != FT_BENCH_CAPACITY_CENTRALIZED)
        return 0;
    if (class == FT_BENCH_CAPACITY_MIXED)
        return 631.86 / (sled ? 170.82 : 326.12);
    const float speed = report->classes[class].tokens_per_s;
    for (size_t i = 0; i < FT_COUNT(table_2); i++)
        if (fabsf(speed - table_2[i].tokens_per_s) < 1e-3f)
            return sled ? table_2[i].sled : table_2[i].centralized;
    return 0;
}

/* ---- as JSON ---- */

static json_t *number_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* The classes that were measured; returns how many. */
static uint32_t classes_of(const ft_bench_capacity_report *report, uint32_t at[FT_SLO_CLASSES + 1])
{
    uint32_t n = 0;
    for (uint32_t i = 0; !report->mixed_only && i < report->n_classes; i++)
        at[n++] = i;
    if (report->mixed)
        at[n++] = FT_BENCH_CAPACITY_MIXED;
    return n;
}

static json_t *over_json(const ft_bench_capacity_report *report, double devices, uint32_t class)
{
    json_t *out = json_object();
    for (int way = FT_BENCH_CAPACITY_WISP + 1; way < FT_BENCH_CAPACITY_WAYS; way++) {
        const double most = most_over(report, devices, way, class);
        if (isfinite(most))
            json_object_set_new(out, ft_bench_capacity_way_name[way], json_real(most));
    }
    return out;
}

static json_t *bound_json(const ft_bench_capacity_report *report, const ft_capacity_times *times)
{
    uint32_t class[FT_SLO_CLASSES + 1];
    const uint32_t n = classes_of(report, class);
    ft_capacity_times perfect = *times;
    json_t *by_class = json_object();
    perfect.chance = 1;
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        const ft_capacity_bound b = ft_capacity_beside_bound(report, times, class[i]);
        ft_bench_capacity_class_name(report, class[i], name);
        json_object_set_new(
            by_class, name,
            json_pack("{s:o, s:o, s:o, s:o, s:I, s:o}", "ratio", number_or_null(b.ratio),
                      "ratio_all_accepted",
                      number_or_null(ft_capacity_beside_bound(report, &perfect, class[i]).ratio),
                      "devices_decoding", number_or_null(b.decoding), "devices",
                      number_or_null(b.drafts), "draft_tokens", (json_int_t)b.k, "most_over",
                      over_json(report, b.drafts, class[i])));
    }
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "pass_ms", 1e3 * times->pass_s,
                     "row_ms", 1e3 * times->row_s, "drafted_row", times->drafted, "read_ms",
                     1e3 * times->read_s, "prompt_rows_a_token", times->prompts, "away_ms",
                     1e3 * times->away_s, "accept_chance", times->chance, "by_class", by_class);
}

/* The ways that the paper compares with. */
static const ft_bench_capacity_way others[] = {FT_BENCH_CAPACITY_SLED,
                                               FT_BENCH_CAPACITY_CENTRALIZED};

static json_t *paper_json(const ft_bench_capacity_report *report)
{
    uint32_t class[FT_SLO_CLASSES + 1];
    const uint32_t n = classes_of(report, class);
    json_t *out = json_object();
    for (size_t w = 0; w < FT_COUNT(others); w++) {
        json_t *row = json_object();
        for (uint32_t i = 0; i < n; i++) {
            const double ratio = ft_capacity_beside_paper(report, others[w], class[i]);
            char name[16];
            ft_bench_capacity_class_name(report, class[i], name);
            if (ratio > 0)
                json_object_set_new(row, name, json_real(ratio));
        }
        json_object_set_new(out, ft_bench_capacity_way_name[others[w]], row);
    }
    return out;
}

void ft_capacity_beside_json(const ft_bench_capacity_report *report, json_t *out)
{
    ft_capacity_times times;
    if (ft_capacity_beside_times(report, &times))
        json_object_set_new(out, "ratio_bound", bound_json(report, &times));
    json_object_set_new(out, "paper", paper_json(report));
}

/* ---- for a person ---- */

static void print_row(FILE *out, const char *label, const double ratio[FT_SLO_CLASSES + 1],
                      uint32_t n)
{
    fprintf(out, "%-14s", label);
    for (uint32_t i = 0; i < n; i++)
        if (ratio[i] > 0 && isfinite(ratio[i]))
            fprintf(out, " %9.2f %7s", ratio[i], "");
        else
            fprintf(out, " %9s %7s", ratio[i] > 0 ? "any" : "-", "");
}

static void print_paper(FILE *out, const ft_bench_capacity_report *report, const uint32_t class[],
                        uint32_t n)
{
    const char *head = "WISP's own (table 2, Qwen3-32B on an A100; mixed: tokens/s, table 3)\n";
    for (size_t w = 0; w < FT_COUNT(others); w++) {
        double ratio[FT_SLO_CLASSES + 1], most = 0;
        char label[32];
        for (uint32_t i = 0; i < n; i++) {
            ratio[i] = ft_capacity_beside_paper(report, others[w], class[i]);
            most = fmax(most, ratio[i]);
        }
        if (most <= 0 || !report->way[others[w]])
            continue;
        snprintf(label, sizeof label, "/ %s", ft_bench_capacity_way_name[others[w]]);
        fputs(head, out);
        print_row(out, label, ratio, n);
        fputc('\n', out);
        head = "";
    }
}

/* Sets devices[i] to the bound of class[i] in devices. */
static void print_bounds(FILE *out, const ft_bench_capacity_report *report,
                         const ft_capacity_times *times, const uint32_t class[], uint32_t n,
                         double devices[FT_SLO_CLASSES + 1])
{
    double ratio[FT_SLO_CLASSES + 1], perfect[FT_SLO_CLASSES + 1];
    ft_capacity_times all = *times;
    all.chance = 1;
    for (uint32_t i = 0; i < n; i++) {
        const ft_capacity_bound b = ft_capacity_beside_bound(report, times, class[i]);
        ratio[i] = b.ratio;
        devices[i] = b.drafts;
        perfect[i] = ft_capacity_beside_bound(report, &all, class[i]).ratio;
    }
    fprintf(out,
            "bound over centralized: a pass computes for %.2f ms, %.2f ms a text, and a drafted "
            "token %.2f of that; it reads weights for %.2f ms; prompts have %.2f rows a token of "
            "text\n",
            1e3 * times->pass_s, 1e3 * times->row_s, times->drafted, 1e3 * times->read_s,
            times->prompts);
    print_row(out, "", ratio, n);
    fprintf(out, "   (a drafted token is accepted with chance %.2f)\n", times->chance);
    print_row(out, "", perfect, n);
    fprintf(out, "   (with chance 1)\n");
}

static void print_most(FILE *out, const ft_bench_capacity_report *report, const uint32_t class[],
                       uint32_t n, const double devices[])
{
    const char *head = "wisp by these times at most, over what was measured of\n";
    for (int way = FT_BENCH_CAPACITY_WISP + 1; way < FT_BENCH_CAPACITY_WAYS; way++) {
        double most[FT_SLO_CLASSES + 1];
        char label[32];
        if (!report->way[way])
            continue;
        for (uint32_t i = 0; i < n; i++)
            most[i] = most_over(report, devices[i], way, class[i]);
        snprintf(label, sizeof label, "/ %s", ft_bench_capacity_way_name[way]);
        fputs(head, out);
        print_row(out, label, most, n);
        fputc('\n', out);
        head = "";
    }
}

void ft_capacity_beside_print(const ft_bench_capacity_report *report, FILE *out)
{
    uint32_t class[FT_SLO_CLASSES + 1];
    double devices[FT_SLO_CLASSES + 1];
    ft_capacity_times times;
    const uint32_t n = classes_of(report, class);
    if (!report->way[FT_BENCH_CAPACITY_WISP])
        return;
    print_paper(out, report, class, n);
    if (!ft_capacity_beside_times(report, &times))
        return;
    print_bounds(out, report, &times, class, n, devices);
    print_most(out, report, class, n, devices);
}
