/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives a server with real edges (edge/edge.h over gRPC), in waves of one generation for each
 * edge, and measures them. A wave's *window* is the time in which all of its texts are being
 * written: from the first token of the last to begin to the last token of the first to end. Rates
 * and latencies are of windows alone, so that prompts and stragglers are in no figure. Called by
 * one thread; the edges have their own. */
#ifndef FT_BENCH_LOAD_DRIVE_H
#define FT_BENCH_LOAD_DRIVE_H

#include "bench/load_device.h"
#include "bench/load_link.h"
#include "bench/load_server.h"
#include "bench/load_set.h"
#include "edge/edge.h"

#define FT_BENCH_LOAD_SLOTS_MAX 128

/* What whole texts say, windows or not. */
typedef struct ft_bench_load_tally {
    uint64_t texts, tokens;
    uint64_t verdicts, verdict_tokens;
    uint64_t trees, drafted, accepted; /* drafts that had nodes, their nodes, those accepted */
    uint64_t tree_tokens;              /* that verdicts on trees brought */
    /* Of the windows of waves whose texts are of one category: their length, the tokens in them,
     * and the sum over tokens of the time since the one before. Of the server's engine: time of
     * drafting and of verifying, and tokens that it made. */
    uint64_t window_us, window_tokens, window_itl_us, window_itl_tokens;
    uint64_t window_own_us, window_verify_us, window_made;
    ft_gen_stats edge; /* what the edges say of these texts */
} ft_bench_load_tally;

typedef struct ft_bench_load_sample {
    double window_s;
    uint64_t window_tokens;
    uint64_t window_verdicts;      /* that brought them */
    ft_bench_load_counters server; /* over the windows */
    double driver_cpu_s;           /* this process's, over the same time */
    ft_bench_load_values itl_ms;   /* a token each, in windows */
    ft_bench_load_values ttft_ms;  /* a text each */
    ft_bench_load_values verify_ms;
    uint64_t device_forwards,
        device_late; /* of them those that took longer than the device's time */
    uint64_t misses; /* of the recording: computed by the draft model in this process meanwhile */
    ft_bench_load_tally tally[FT_BENCH_LOAD_CATEGORIES];
    ft_bench_load_traffic traffic;
    uint64_t uplink_bits_per_s;        /* as the edge found that ended a text last; 0: not known */
    uint32_t mismatches;               /* texts that are not the reference's */
    uint64_t line_answers, line_bytes; /* of layer splitting, filled in by the caller: answers, and
                                        bytes both ways */
} ft_bench_load_sample;

/* Frees its lists. All-zero is legal. */
void ft_bench_load_sample_deinit(ft_bench_load_sample *sample);
/* Adds up. */
void ft_bench_load_sample_join(ft_bench_load_sample *sum, const ft_bench_load_sample *more);
/* Of all categories. */
ft_bench_load_tally ft_bench_load_tally_total(const ft_bench_load_sample *sample);
/* Tokens for each verification of a tree; without trees, for each verdict. */
double ft_bench_load_tally_per_verify(const ft_bench_load_tally *tally);
/* Tokens for each verdict: also for those on no tree, where nothing was drafted. */
double ft_bench_load_tally_per_verdict(const ft_bench_load_tally *tally);
/* Tokens a second, and the mean time between two tokens, of the windows of one category. */
double ft_bench_load_tally_per_s(const ft_bench_load_tally *tally);
double ft_bench_load_tally_itl_ms(const ft_bench_load_tally *tally);

typedef struct ft_bench_load_drive_opts {
    const ft_bench_load_server *server;
    ft_bench_load_set *set;
    const ft_vocab *vocab;
    ft_sampling sampling;
    ft_constraint constraint; /* of all texts; borrowed */
    uint32_t n_tokens;        /* a text */
    uint32_t n_slots;         /* edges; divides set->n */
    int64_t rtt_us;
    ft_line_rate up, down;        /* of each edge's line; edge i has seed + i. All-zero: none */
    ft_edge_opts edge;            /* vocab, source, drafts and clock are filled in here */
    ft_bench_load_drafts *drafts; /* a device each replays them; NULL: edge.draft_model drafts */
    int64_t forward_us;           /* of a device; 0: as fast as it goes */
    bool misled;                  /* each request predicts the reference of the next prompt */
    bool learn;                   /* makes the texts the set's reference, instead of comparing */
    ft_progress progress;         /* in prompts */
    ft_bench_stop stop;           /* any thread calls it */
} ft_bench_load_drive_opts;

/* All prompts once. *out is filled in any case and owes a deinit. FT_CANCELLED: a signal. */
FT_WARN_UNUSED ft_status ft_bench_load_drive(const ft_bench_load_drive_opts *opts, ft_error *err,
                                             ft_bench_load_sample *out);

#endif
