/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that each always work on one text, by a real edge (edge/edge.h over gRPC), and ask for
 * the next one when it is finished. Measures how many texts were slower than promised, and what the
 * server did meanwhile. Called by one thread; each device has one, and two more for its link's
 * delay.
 *
 * A text is slow if its promise was not kept (sched/promise.h): from its request on, and, as a
 * second figure, from its first tokens on. Texts that begin after all devices have begun count if
 * they are finished, refused, or half of their promised time is over at the end. An unfinished text
 * counts by its speed so far, and as slow if it has fallen behind since its last verdict, or has
 * none. */
#ifndef FT_BENCH_LOAD_CROWD_H
#define FT_BENCH_LOAD_CROWD_H

#include "base/kept_file.h"
#include "bench/load_chats.h"
#include "bench/load_device.h"
#include "bench/load_server.h"
#include "bench/load_set.h"
#include "serve/verifier.h"
#include "sim/wisp.h"
#include "wire/client.h"

#define FT_BENCH_CROWD_MOST 512 /* devices */

typedef struct ft_bench_crowd_class {
    float tokens_per_s; /* promised */
    uint32_t n_tokens;  /* a text */
} ft_bench_crowd_class;

/* Rounds that are kept while measuring: the first `most` ones. A text's first verdict is none of
 * them, since prompts are read before it. */
typedef struct ft_bench_crowd_rounds {
    ft_sim_round *at; /* [most] their class counts from the crowd's first */
    size_t n, most;
} ft_bench_crowd_rounds;

/* Devices whose users chat, each of them in one chat at a time. */
typedef struct ft_bench_crowd_chats {
    ft_bench_load_chats *all; /* borrowed; texts must begin like its texts, if it has them */
    uint32_t first;        /* the chat that the first user begins; behind the last comes chat 0 */
    double think_s;        /* mean pause between a text and the next prompt */
    uint64_t seed;         /* of pauses, and of the turns with which users begin */
    uint32_t reconnect_ms; /* as in ft_edge_opts */
} ft_bench_crowd_chats;

typedef struct ft_bench_crowd_opts {
    const ft_bench_load_server *server; /* NULL: `wire` says where, and nothing is counted there */
    const ft_wire_client_opts *wire;    /* NULL: to `server` */
    const ft_bench_crowd_chats *chats;  /* NULL: every text is a prompt of `set` */
    ft_bench_load_set *set; /* borrowed; texts must begin like its texts, if it has them */
    const ft_vocab *vocab;
    ft_sampling sampling;
    ft_bench_load_drafts *drafts; /* NULL: the server decodes */
    ft_draft_params draft;
    bool automatic;     /* what pays is drafted, `draft` at most */
    ft_kept_place kept; /* with `automatic`: where devices leave to later ones what they learnt */
    bool anew;          /* every round is a session of its own (load_anew.h) */
    bool ask;           /* for the promise; else the server knows of none */
    int64_t rtt_us, forward_us;
    uint32_t n_devices;
    const ft_bench_crowd_class *classes; /* [n_classes]: device i is of class i mod n_classes */
    uint32_t n_classes;
    double warm_s, measure_s;
    uint32_t slow_most; /* ends early as soon as more texts than this are slow; 0: it does not */
    ft_bench_crowd_rounds *rounds; /* NULL: not wanted */
    ft_bench_stop stop;            /* any thread calls it */
} ft_bench_crowd_opts;

typedef struct ft_bench_crowd_result {
    uint64_t texts[FT_SLO_CLASSES], slow[FT_SLO_CLASSES]; /* by class; refused ones are slow */
    uint64_t slow_from_first[FT_SLO_CLASSES];             /* slow behind their first tokens */
    uint64_t refused;
    uint64_t mismatches; /* texts that are not what the set says */
    int64_t from_us;     /* when measuring began, by ft_bench_now_us */
    double seconds;      /* measured; the rest is over that time, but for sums over devices */
    uint64_t tokens;     /* that reached users */
    ft_bench_load_counters server;
    double driver_cpu_s;
    uint64_t verdicts, drafted, accepted; /* of all texts */
    uint64_t device_forwards, device_late;
    uint64_t misses; /* of the recording */
    uint32_t chats;  /* begun, also before measuring */
    /* Tokens of earlier turns, in the prompts of texts that were asked for while measuring, and how
     * many of them the server had in its prefix cache. */
    uint64_t before_tok, found_tok;
} ft_bench_crowd_result;

/* Devices for warm_s + measure_s. *out is filled in any case. FT_CANCELLED: a signal. */
FT_WARN_UNUSED ft_status ft_bench_crowd_run(const ft_bench_crowd_opts *opts, ft_error *err,
                                            ft_bench_crowd_result *out);
/* Writes all prompts' texts once, or those of all chats, of the first class's length. This fills
 * the recording and the server's prefix cache, and the texts of set or chats if they have none.
 * Times are not used; *out is about all of it. */
FT_WARN_UNUSED ft_status ft_bench_crowd_learn(const ft_bench_crowd_opts *opts, ft_error *err,
                                              ft_bench_crowd_result *out);

#endif
