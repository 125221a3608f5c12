/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace store: an SQLite file with an edge's drafts and their verdicts. It is for training the
 * rejection predictor (WISP 4.1, appendix B) and for inspection. It contains numbers and token ids,
 * no text. But anyone with the vocabulary can turn token ids into text, so only the file's owner
 * can read it.
 *
 * Adding a round never waits: it goes through memory of a fixed size to one thread, which writes
 * all waiting rounds in one transaction. A round is dropped and counted if that memory is full or
 * the file cannot be written. The file holds only whole rounds, even if its writer is killed; then
 * rounds of the last second may be missing. Several processes may write to one file.
 */
#ifndef FT_LEARN_TRACE_H
#define FT_LEARN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "learn/features.h"
#include "learn/waste.h"

#define FT_TRACE_NODES         256 /* most nodes of a round */
#define FT_TRACE_DEFAULT_BYTES (64ull << 20)

/* One text's generation. */
typedef struct ft_trace_session {
    int64_t id;       /* random; set by ft_trace_begin */
    int64_t start_us; /* since 1970; set by ft_trace_begin */
    /* Fingerprints of the draft model and of the vocabulary, and a hash of the target's name; 0:
     * unknown. */
    uint64_t draft, target, vocab;
    float temperature, top_p, min_p;
    uint32_t top_k, rule; /* rule: its number on the wire */
} ft_trace_session;

/* What the verifier found out about a node: was it the target's token? */
typedef enum ft_trace_outcome {
    FT_TRACE_UNJUDGED = -1, /* behind a rejected node, or behind the text's end */
    FT_TRACE_REJECTED,
    FT_TRACE_ACCEPTED
} ft_trace_outcome;

typedef struct ft_trace_node {
    int32_t token, parent; /* parent: index of an earlier node; -1: follows the text */
    uint16_t depth;        /* 0 for roots */
    int8_t outcome;        /* an ft_trace_outcome */
    bool has_features;
    float feature[FT_FEATURES];
} ft_trace_node;

/* A verified draft. Times in us; < 0: unknown. */
typedef struct ft_trace_round {
    uint32_t number; /* of the draft in its session, from 1 */
    uint32_t length; /* tokens of text that the draft follows */
    uint32_t depth;  /* levels */
    uint32_t accepted;
    int32_t next; /* the target's own token behind them; -1: none, the text has ended */
    int64_t draft_us, rtt_us, queue_us, verify_us;
    uint32_t n;                /* 0 < n <= FT_TRACE_NODES */
    const ft_trace_node *node; /* [n], borrowed */
} ft_trace_round;

/* Sets the outcomes of a tree's nodes. It applies the labels of appendix B, which are for chains,
 * to trees. Nodes on the accepted path, path[n_path], are accepted. A node is rejected if its
 * parent is on the path, or if it has no parent. If the text has `ended` on the path, the nodes
 * behind the path's last node are not judged. */
void ft_trace_label(ft_trace_node *node, uint32_t n, const uint32_t *path, uint32_t n_path,
                    bool ended);

/* ---- writing ---- */

typedef struct ft_trace ft_trace;

typedef struct ft_trace_opts {
    const char *path; /* created if it does not exist */
    /* most bytes of the file; the oldest rounds are deleted; 0: FT_TRACE_DEFAULT_BYTES */
    uint64_t max_bytes;
    size_t memory_bytes; /* memory for rounds that wait to be written; 0: 1 MiB */
} ft_trace_opts;

/* FT_IO, FT_CORRUPT, FT_PRECONDITION (not a trace store, or one of another version of this
 * program), FT_UNAVAILABLE (another process keeps it locked), FT_NOMEM. Messages say what to do. */
FT_WARN_UNUSED ft_status ft_trace_open(const ft_trace_opts *opts, ft_error *err, ft_trace **out);
/* Writes the waiting rounds, logs how many were written and dropped, and frees the store. NULL is
 * legal. */
void ft_trace_close(ft_trace *trace);

/* Gives a session its id and its start time. FT_IO: the system has no random numbers. */
FT_WARN_UNUSED ft_status ft_trace_begin(ft_trace_session *session, ft_error *err);
/* Copies the round, or drops it. Any thread; never waits for the file. */
void ft_trace_add(ft_trace *trace, const ft_trace_session *session, const ft_trace_round *round);

/* Waits until every round added so far is written or dropped. Any thread. */
void ft_trace_flush(ft_trace *trace);

typedef struct ft_trace_stats {
    uint64_t rounds;  /* rounds written so far */
    uint64_t dropped; /* rounds dropped: memory was full, or the file could not be written */
} ft_trace_stats;
/* Any thread. */
ft_trace_stats ft_trace_get_stats(ft_trace *trace);

/* ---- reading ---- */

/* A judged node with features. */
typedef struct ft_trace_sample {
    int64_t session;        /* samples of one text have the same session */
    int64_t round;          /* rising; samples of one round are consecutive */
    uint64_t draft, target; /* as in the session */
    uint32_t index;         /* of the node in its round */
    int32_t parent;
    uint16_t depth;
    bool accepted;
    float feature[FT_FEATURES]; /* finite */
} ft_trace_sample;

/* Calls each(ctx, sample) for all samples, oldest round first, until it returns false. Others may
 * write meanwhile. FT_NOT_FOUND, FT_IO, FT_CORRUPT, FT_PRECONDITION, FT_UNAVAILABLE. After a
 * failure, the samples that were reported may be wrong. */
typedef bool (*ft_trace_each_fn)(void *ctx, const ft_trace_sample *sample);
FT_WARN_UNUSED ft_status ft_trace_each_node(const char *path, ft_trace_each_fn each, void *ctx,
                                            ft_error *err);

/* A round of the file. */
typedef struct ft_trace_drafted {
    int64_t session;
    uint32_t drafted, accepted; /* nodes; 0 < drafted <= FT_TRACE_NODES, accepted <= drafted */
    uint32_t tokens;            /* that the round brought, the target's own included */
    int64_t draft_us, rtt_us, queue_us, verify_us; /* < 0: unknown */
} ft_trace_drafted;

/* Calls each(ctx, round) for all rounds, those of one session one after another, until it returns
 * false. Otherwise as ft_trace_each_node. */
typedef bool (*ft_trace_each_round_fn)(void *ctx, const ft_trace_drafted *round);
FT_WARN_UNUSED ft_status ft_trace_each_round(const char *path, ft_trace_each_round_fn each,
                                             void *ctx, ft_error *err);

typedef struct ft_trace_summary {
    uint64_t bytes; /* bytes of the file's pages */
    uint64_t sessions, rounds, nodes;
    uint64_t judged, accepted; /* nodes */
    ft_waste waste;            /* of the rounds whose time of drafting is known */
    uint64_t samples;          /* judged nodes with features */
    uint64_t pairs;            /* different (draft, target) pairs */
    int64_t first_us, last_us; /* start times of the first and the last session; 0: no session */
    uint32_t n_depths;
    struct {
        uint64_t nodes, judged, accepted;
    } depth[FT_TRACE_NODES]; /* [n_depths] */
} ft_trace_summary;

/* Reads what a file contains, and checks that it is intact. Errors as ft_trace_each_node. */
FT_WARN_UNUSED ft_status ft_trace_summarize(const char *path, ft_error *err, ft_trace_summary *out);

#endif
