/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace store: what became of an edge's drafts, in an SQLite file, for training the rejection
 * predictor (WISP 4.1, appendix B) and for whoever wants to look. Numbers and token ids, no text; but who
 * has the vocabulary can turn token ids back into text, so the file is made readable by its owner only.
 *
 * Adding never waits: rounds go through memory of a fixed size to one thread, which writes all that has
 * come together in one transaction. What finds that memory full, and what cannot be written, is dropped
 * and counted. The file holds whole rounds only, whenever its writer is killed; rounds of the last second
 * may be missing then. Several processes may write to one file.
 */
#ifndef FT_LEARN_TRACE_H
#define FT_LEARN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "learn/features.h"

#define FT_TRACE_NODES         256 /* of a round at most */
#define FT_TRACE_DEFAULT_BYTES (64ull << 20)

/* One text's generation. */
typedef struct ft_trace_session {
    int64_t id;       /* random; ft_trace_begin's */
    int64_t start_us; /* since 1970; ft_trace_begin's */
    /* Fingerprints of the draft model and the vocabulary, a hash of the target's name; 0: not known. */
    uint64_t draft, target, vocab;
    float temperature, top_p, min_p;
    uint32_t top_k, rule; /* rule: as the wire numbers them */
} ft_trace_session;

/* What became of a node: of those that the verifier looked at, was it the target's token? */
typedef enum ft_trace_outcome {
    FT_TRACE_UNJUDGED = -1, /* behind a rejected one, or behind the text's end */
    FT_TRACE_REJECTED,
    FT_TRACE_ACCEPTED
} ft_trace_outcome;

typedef struct ft_trace_node {
    int32_t token, parent; /* parent -1: behind the text; else less than its own index */
    uint16_t depth;        /* 0 for roots */
    int8_t outcome;        /* an ft_trace_outcome */
    bool has_features;
    float feature[FT_FEATURES];
} ft_trace_node;

/* A verified draft. Times in us, < 0: not known. */
typedef struct ft_trace_round {
    uint32_t number; /* of the session's drafts, from 1 */
    uint32_t length; /* tokens of text that the draft hangs on */
    uint32_t depth;  /* levels */
    uint32_t accepted;
    int32_t
        next; /* the target's own token behind the accepted ones; -1: none, the text has ended */
    int64_t draft_us, rtt_us, queue_us, verify_us;
    uint32_t n;                /* 0 < n <= FT_TRACE_NODES */
    const ft_trace_node *node; /* [n], borrowed */
} ft_trace_round;

/* Outcomes of a tree's nodes: appendix B's labels, which are for chains, for trees. Accepted are those on
 * the path, path[n_path]; rejected those whose parent is on it, or which have none; where the text has
 * `ended` on the path, nobody asked what comes behind its last node. */
void ft_trace_label(ft_trace_node *node, uint32_t n, const uint32_t *path, uint32_t n_path,
                    bool ended);

/* ---- writing ---- */

typedef struct ft_trace ft_trace;

typedef struct ft_trace_opts {
    const char *path;    /* made where there is no such file */
    uint64_t max_bytes;  /* of the file; the oldest rounds make room; 0: FT_TRACE_DEFAULT_BYTES */
    size_t memory_bytes; /* of rounds that wait to be written; 0: 1 MiB */
} ft_trace_opts;

/* FT_IO, FT_CORRUPT, FT_PRECONDITION (a file of something else, or of another version of this program),
 * FT_UNAVAILABLE (others keep it locked), FT_NOMEM; messages say what to do. */
FT_WARN_UNUSED ft_status ft_trace_open(const ft_trace_opts *opts, ft_error *err, ft_trace **out);
/* Writes what waits, says in the log how much was written and dropped, frees. NULL is legal. */
void ft_trace_close(ft_trace *trace);

/* Gives a session its id and its start. FT_IO: no random numbers to be had. */
FT_WARN_UNUSED ft_status ft_trace_begin(ft_trace_session *session, ft_error *err);
/* Keeps a copy of the round, or drops it. Any thread; never waits for a file. */
void ft_trace_add(ft_trace *trace, const ft_trace_session *session, const ft_trace_round *round);

/* Waits until all that was added by now is written or dropped. Any thread. */
void ft_trace_flush(ft_trace *trace);

typedef struct ft_trace_stats {
    uint64_t rounds;  /* in the file by now */
    uint64_t dropped; /* there was no memory free, or the file could not be written */
} ft_trace_stats;
/* Any thread. */
ft_trace_stats ft_trace_get_stats(ft_trace *trace);

/* ---- reading ---- */

/* A judged node with features. */
typedef struct ft_trace_sample {
    int64_t session;        /* samples of one text have one session */
    int64_t round;          /* rising; samples of one round follow each other */
    uint64_t draft, target; /* as the session's */
    uint32_t index;         /* of the node in its round */
    int32_t parent;
    uint16_t depth;
    bool accepted;
    float feature[FT_FEATURES]; /* finite */
} ft_trace_sample;

/* Calls each(ctx, sample) for all samples, oldest round first, until it returns false; others may write
 * meanwhile. FT_NOT_FOUND, FT_IO, FT_CORRUPT, FT_PRECONDITION, FT_UNAVAILABLE; samples that came before a
 * failure may be wrong. */
typedef bool (*ft_trace_each_fn)(void *ctx, const ft_trace_sample *sample);
FT_WARN_UNUSED ft_status ft_trace_each_node(const char *path, ft_trace_each_fn each, void *ctx,
                                            ft_error *err);

typedef struct ft_trace_summary {
    uint64_t bytes; /* of the file's pages */
    uint64_t sessions, rounds, nodes;
    uint64_t judged, accepted; /* nodes */
    uint64_t samples;          /* judged nodes with features */
    uint64_t pairs;            /* different (draft, target) */
    int64_t first_us, last_us; /* starts of the first and the last session; 0: there is none */
    uint32_t n_depths;
    struct {
        uint64_t nodes, judged, accepted;
    } depth[FT_TRACE_NODES]; /* [n_depths] */
} ft_trace_summary;

/* What a file holds, and whether it is whole. Errors as ft_trace_each_node. */
FT_WARN_UNUSED ft_status ft_trace_summarize(const char *path, ft_error *err, ft_trace_summary *out);

#endif
