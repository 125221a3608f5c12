/* SPDX-License-Identifier: Apache-2.0
 *
 * From probes to figures: how many devices of each class each policy holds, and how wisp compares;
 * as JSON and a table. Owned by one thread. */
#ifndef FT_BENCH_CAPACITY_REPORT_H
#define FT_BENCH_CAPACITY_REPORT_H

#include <jansson.h>

#include "bench/capacity_bound.h"
#include "bench/knee.h"
#include "bench/load_crowd.h"

/* Ways to serve. */
typedef enum ft_bench_capacity_way {
    FT_BENCH_CAPACITY_WISP,
    FT_BENCH_CAPACITY_EDF,
    FT_BENCH_CAPACITY_FCFS,
    FT_BENCH_CAPACITY_SLED,
    FT_BENCH_CAPACITY_STATIC,
    FT_BENCH_CAPACITY_CENTRALIZED,
    FT_BENCH_CAPACITY_WAYS
} ft_bench_capacity_way;

extern const char *const ft_bench_capacity_way_name[FT_BENCH_CAPACITY_WAYS];

#define FT_BENCH_CAPACITY_MIXED \
    FT_SLO_CLASSES /* the place of mixed classes among a way's figures */

/* One number of devices that was tried. */
typedef struct ft_bench_capacity_probe {
    uint32_t n;
    double slow; /* share of the texts that were slower than promised; of the worst class */
    double slow_from_first;       /* the same behind their first tokens */
    double goodput, busy, driver; /* tokens/s; shares of the time: of the server's core, of ours */
    double passes, texts_a_pass;  /* of the target; rounds in one, in the mean */
    double rows_a_pass, pass_ms, tokens_a_verdict, acceptance, late; /* late: share of forwards */
    double runs;                         /* share of the tokens that the server decoded by itself */
    double draft_verdicts, draft_tokens; /* of rounds with drafts: so many, and what they brought */
    double drafted, accepted;            /* tokens of all texts' drafts */
    double prompt_rows, tokens;          /* of all passes: rows of prompts; tokens of texts */
    double read_wait_ms;                 /* of pass_ms, for weights to be read from disk */
    double slow_of[FT_SLO_CLASSES];      /* the share of each class of the crowd */
    uint64_t late_rounds[FT_SLO_CLASSES][FT_LATE_CAUSES];    /* as the server counts verdicts */
    double read_mb_a_pass;                                   /* of the target's file */
    uint64_t texts, slow_texts, refused, misses, mismatches; /* of the worst class: the first two */
    double seconds;
} ft_bench_capacity_probe;

typedef struct ft_bench_capacity_found {
    bool known;
    ft_bench_capacity_probe at; /* n: the capacity; the rest is of a probe of so many */
} ft_bench_capacity_found;

/* Sums over a way's probes, as in ft_bench_capacity_probe. */
typedef struct ft_bench_capacity_drafts {
    double verdicts, tokens, drafted, accepted;
} ft_bench_capacity_drafts;

/* What the bound is made of (capacity_beside.h). */
typedef struct ft_bench_capacity_beside {
    ft_capacity_seen seen;
    ft_bench_capacity_drafts drafts[FT_BENCH_CAPACITY_WAYS];
    double prompt_rows, tokens; /* of all ways but sled, as in ft_bench_capacity_probe */
    double away_s;              /* of the shortest draft: a forward and the network */
    uint32_t most_tokens;       /* of a draft */
} ft_bench_capacity_beside;

typedef struct ft_bench_capacity_report {
    bool way[FT_BENCH_CAPACITY_WAYS];
    const ft_bench_crowd_class *classes; /* [n_classes] */
    uint32_t n_classes;
    bool mixed, mixed_only; /* all classes together, too; that alone */
    int driver_cores;
    ft_bench_capacity_found found[FT_BENCH_CAPACITY_WAYS][FT_SLO_CLASSES + 1];
    ft_bench_capacity_beside beside;
    json_t *probes; /* array */
    ft_knee *knee;  /* borrowed; NULL: no sweep */
} ft_bench_capacity_report;

/* From what a crowd did. */
ft_bench_capacity_probe ft_bench_capacity_probe_of(const ft_bench_capacity_report *report,
                                                   uint32_t n, const ft_bench_crowd_result *result);
/* "8" or "mixed". */
void ft_bench_capacity_class_name(const ft_bench_capacity_report *report, uint32_t class,
                                  char name[16]);
/* Keeps it for "probes". */
void ft_bench_capacity_report_add(ft_bench_capacity_report *report, ft_bench_capacity_way way,
                                  uint32_t class, const ft_bench_capacity_probe *probe);
/* The driver was the bottleneck: the server may hold more than was measured. */
bool ft_bench_capacity_probe_is_bound(const ft_bench_capacity_probe *probe);
/* Adds "capacity", "ratio", "goodput", "goodput_ratio", "lower_bound", "probes" to the object. */
void ft_bench_capacity_report_json(const ft_bench_capacity_report *report, json_t *out);
/* The same figures for a person. */
void ft_bench_capacity_report_print(const ft_bench_capacity_report *report, FILE *out);

#endif
