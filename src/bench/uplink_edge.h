/* SPDX-License-Identifier: Apache-2.0
 *
 * One method on one emulated uplink: an edge with a connection of its own, whose estimate of the
 * rate lasts over all of its texts, and what its rounds took. Owned by one thread. */
#ifndef FT_BENCH_UPLINK_EDGE_H
#define FT_BENCH_UPLINK_EDGE_H

#include "bench/bench.h"
#include "bench/load_link.h"
#include "edge/edge.h"
#include "sim/qsv.h"

#define FT_BENCH_UPLINK_LARGE 1000 /* bytes of a Draft that tells the rate well */

/* A method, one of PLAIN, FIXED, POLICY, CHAIN and TREE, with its numbers. */
typedef struct ft_bench_uplink_way {
    ft_qsv_method method;
    uint32_t length; /* tokens of a chain; POLICY: at most; TREE: forwards of the draft model */
    uint32_t width;  /* TREE: nodes that each forward adds; else 1 */
    uint32_t l;      /* FIXED; POLICY: while the rate is not known */
} ft_bench_uplink_way;

/* Sums over rounds, which go from one verdict of a text to the next. A text's first verdict waits
 * for its prompt, so that round is left out. Of PLAIN each verdict is a round. */
typedef struct ft_bench_uplink_sum {
    uint64_t tokens, us;
    uint64_t rounds, by_policy; /* drafts of whole texts; those whose length and l a policy chose */
    /* Of rounds with a draft: */
    uint64_t drafts, nodes;
    uint64_t bytes;          /* of the Drafts */
    uint64_t evidence_bytes; /* of them their evidence */
    uint64_t empty_bytes;    /* of the same Drafts, had they neither nodes nor evidence */
    uint64_t drafts_us;      /* of the whole rounds; of that: */
    uint64_t draft_us, line_us, verify_us;
} ft_bench_uplink_sum;

/* Verifications by the nodes of the draft; [0]: tokens of a run. */
typedef struct ft_bench_uplink_verify {
    uint64_t n[FT_TREE_MAX + 1], us[FT_TREE_MAX + 1];
} ft_bench_uplink_verify;

/* What was measured while a text was written, or several. All-zero: nothing. */
typedef struct ft_bench_uplink_part {
    ft_bench_uplink_sum sum;
    ft_bench_uplink_verify verify;
} ft_bench_uplink_part;

/* A prompt, and what the target itself writes behind it, without an end-of-text token. */
typedef struct ft_bench_uplink_text {
    ft_tokens prompt, text;
    ft_sampling sampling;
} ft_bench_uplink_text;

typedef struct ft_bench_uplink_edge_opts {
    const char *address; /* of the server */
    const ft_vocab *vocab;
    const ft_model *draft;   /* borrowed, as the others */
    const ft_policy *policy; /* of POLICY */
    int64_t rtt_us;
    uint32_t kv_tok; /* of the draft model: a text and its drafts */
} ft_bench_uplink_edge_opts;

/* What an edge knows of its uplink, which all of its texts told. */
typedef struct ft_bench_uplink_known {
    uint64_t rounds, large; /* drafts; of them those of FT_BENCH_UPLINK_LARGE bytes or more */
    uint64_t large_bytes;
    double bits_per_s;    /* behind the last text; 0: not known */
    uint64_t known_after; /* rounds at the end of the text behind which it was known first */
} ft_bench_uplink_known;

typedef struct ft_bench_uplink_edge {
    ft_bench_uplink_way way;
    const ft_qsv_link *link; /* borrowed */
    ft_wire_client *client;
    ft_bench_load_path path;
    bool has_path;
    ft_edge *edge;
    ft_bench_uplink_known known;
    uint32_t texts, differ; /* written; of them those that the target would not have written */
    struct {
        ft_bench_uplink_part part;
        uint64_t large_most; /* the text ends behind so many large Drafts; 0: it does not */
        ft_tokens text;
        int64_t verdict_us;             /* when the last one came; 0: there was none */
        ft_client_msg *draft;           /* the last one, without nodes and evidence */
        uint32_t nodes, evidence_bytes; /* of it */
    } now;                              /* the present text */
} ft_bench_uplink_edge;

/* *out is filled in place and does not move; it owes a deinit, also on failure. Errors of the
 * connection and of the draft model's engine. */
FT_WARN_UNUSED ft_status ft_bench_uplink_edge_init(ft_bench_uplink_edge *out,
                                                   const ft_bench_uplink_edge_opts *opts,
                                                   const ft_bench_uplink_way *way,
                                                   const ft_qsv_link *link, ft_error *err);
/* All-zero is legal. */
void ft_bench_uplink_edge_deinit(ft_bench_uplink_edge *edge);

typedef struct ft_bench_uplink_write {
    const ft_bench_uplink_text *text;
    uint32_t n_tokens;   /* at most */
    uint64_t seed;       /* of an uplink that changes: it begins anew with the text */
    uint64_t large_most; /* the text ends when the edge has sent so many large Drafts; 0: later */
    ft_bench_stop stop;
} ft_bench_uplink_write;

/* Writes one text. out: what it took; NULL: the text does not count. FT_CANCELLED: it was stopped;
 * errors of server and edge. */
FT_WARN_UNUSED ft_status ft_bench_uplink_edge_write(ft_bench_uplink_edge *edge,
                                                    const ft_bench_uplink_write *write,
                                                    ft_error *err, ft_bench_uplink_part *out);

/* Adds up. */
void ft_bench_uplink_add(ft_bench_uplink_part *sum, const ft_bench_uplink_part *more);

#endif
