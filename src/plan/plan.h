/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans how two stations serve many tasks (Zhu et al., Efficient LLM inference over heterogeneous
 * edge networks with speculative decoding). The draft station drafts for a batch of tasks at once,
 * the verify station verifies the batch. While it verifies one batch, the draft station drafts for
 * the next:
 *
 *   draft station   | batch 1 | batch 2 | batch 3 |         | batch 1 | ...
 *   verify station            | batch 1 | batch 2 | batch 3 |
 *                   <-------------- one round ------------->
 *
 * A plan says which tasks are a batch, and in which order batches go. Its *length* is how many
 * tokens are drafted a round; with 0 the verify station decodes alone. It also says which share of
 * the uplink each task's input gets. The paper's words: a round is its decoding step, the draft
 * station its SBS, the verify station its MBS. Pure; any thread. */
#ifndef FT_PLAN_PLAN_H
#define FT_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"

#define FT_PLAN_TASKS_MAX  16384
#define FT_PLAN_TOK_MAX    1000000 /* tokens of a task's input, and of its output */
#define FT_PLAN_LENGTH_MAX 64

typedef struct ft_plan_task {
    const char *id;      /* for messages; NULL: the task's number; borrowed */
    uint32_t in_tok;     /* I_k; 1 to FT_PLAN_TOK_MAX, as out_tok */
    uint32_t out_tok;    /* O_k, expected */
    double release_s;    /* its upload cannot begin earlier */
    double payload_bits; /* what is uploaded for it; 0: nothing */
    double rate_bits_s;  /* of its upload, if it had the whole uplink; > 0 */
} ft_plan_task;

/* What stages are told of a batch. */
typedef struct ft_plan_shape {
    uint32_t n;               /* tasks */
    uint32_t in_max, out_max; /* I_m and O_m, the longest input and output */
    uint64_t in_sum;          /* tokens of all inputs */
    double in_squares;        /* the sum of their squares */
} ft_plan_shape;

/* Seconds of a stage by round. With each round the text, and so the KV that is read, is longer by
 * the same number of tokens. So the time is affine in the round, but for the first one, which reads
 * the input. */
typedef struct ft_plan_time {
    double first_s;  /* of round 1 */
    double second_s; /* of round 2 */
    double more_s;   /* of each later round, compared with the round before it; >= 0 */
} ft_plan_time;

/* How long both stages take with a batch when `length` tokens are drafted a round (0: *draft is
 * zero) and each round brings `tokens` (eq. (7)). All times finite and >= 0. */
typedef void ft_plan_times_fn(const void *ctx, const ft_plan_shape *batch, uint32_t length,
                              double tokens, ft_plan_time *draft, ft_plan_time *verify);

/* What a station's memory must hold for a batch (eq. (9), (10)). */
typedef struct ft_plan_memory {
    double most_bytes;  /* 0: without limit */
    double model_bytes; /* weights, whatever the batch */
    double token_bytes; /* K and V of a token */
    bool padded;        /* each task takes what the batch's longest input and output take */
} ft_plan_memory;

/* How batches go through the stages. */
typedef enum ft_plan_flow {
    FT_PLAN_ROUNDS,  /* the paper's (21): a round begins when all batches have ended the last one */
    FT_PLAN_ROLLING, /* a batch begins its next round when its verdicts are there */
    FT_PLAN_SEQUENCE /* no pipeline: one stage works at a time */
} ft_plan_flow;

typedef struct ft_plan_problem {
    const ft_plan_task *tasks; /* [n] */
    uint32_t n;                /* 1 to FT_PLAN_TASKS_MAX */
    double acceptance;         /* alpha of eq. (7), 0 to 1 */
    uint32_t length_least, length_most;
    uint32_t batch_most; /* tasks of a batch at most; 0: without limit */
    ft_plan_times_fn *times;
    const void *times_ctx;
    ft_plan_memory draft; /* need not hold a batch when nothing is drafted */
    ft_plan_memory verify;
    ft_plan_flow flow;
    /* From a batch's verdicts until its next draft can begin, in which both stations are free for
     * others: the network's part of a round; >= 0. Not of rounds without drafts, nor with ROUNDS,
     * for which the paper has none. */
    double delay_s;
    bool leave; /* a task that is complete leaves its batch; the paper's stay for all n_m rounds */
} ft_plan_problem;

/* PAPER: Algorithm 1 for each length. BEST is never worse, and takes longer. */
#define FT_PLAN_ALGORITHM_LIST(X) \
    X(BEST, "best")               \
    X(PAPER, "paper")
typedef enum ft_plan_algorithm {
#define X(id, name) FT_PLAN_##id,
    FT_PLAN_ALGORITHM_LIST(X)
#undef X
        FT_PLAN_ALGORITHMS
} ft_plan_algorithm;
extern const char *const ft_plan_algorithm_name[FT_PLAN_ALGORITHMS + 1]; /* ends with NULL */

typedef struct ft_plan_batch {
    uint32_t first; /* its tasks are order[first], ... order[first + shape.n - 1] */
    ft_plan_shape shape;
    uint32_t rounds;          /* n_m, eq. (8) */
    double draft_s, verify_s; /* of all its rounds together */
    double end_s;             /* from the first upload to its last verdict */
} ft_plan_batch;

typedef struct ft_batch_plan {
    uint32_t length;
    double tokens_per_round; /* L, eq. (7) */
    uint32_t *order;         /* [n] numbers of tasks, batch by batch */
    ft_plan_batch *batches;  /* [n_batches] in the order in which they go through the stages */
    uint32_t n_batches;
    double *share;                /* [n] of the uplink, by task; sum 1 */
    double *end_s;                /* [n] when the task is complete, by task */
    double com_s, inf_s, total_s; /* T_com (16), T_inf (22), T (23) */
} ft_batch_plan;

/* For plans that take long. All-zero is legal. */
typedef struct ft_plan_watch {
    bool (*stop)(void); /* asked often; true ends planning with FT_CANCELLED */
    ft_progress progress;
} ft_plan_watch;

/* Tokens that a round brings, eq. (7). */
double ft_plan_tokens(double acceptance, uint32_t length);
/* Rounds until so many tokens are there, eq. (8). */
uint32_t ft_plan_rounds(uint32_t out_tok, double tokens_per_round);

/* Makes the plan. watch may be NULL. FT_INVALID names what is out of range, and the task that alone
 * exceeds a station's memory, with what would fit; FT_NOMEM; FT_CANCELLED. *out is all-zero then;
 * otherwise the caller owes a deinit. */
FT_WARN_UNUSED ft_status ft_batch_plan_make(const ft_plan_problem *problem,
                                            ft_plan_algorithm algorithm, const ft_plan_watch *watch,
                                            ft_error *err, ft_batch_plan *out);
/* Batches that somebody else has made. */
typedef struct ft_plan_given {
    uint32_t length, n_batches;
    const uint32_t *sizes; /* [n_batches] tasks of each, > 0; in all the problem's tasks */
    const uint32_t *order; /* [n] numbers of tasks, batch by batch */
} ft_plan_given;

/* The plan with these batches: what they take. Their memory is not checked. As
 * ft_batch_plan_make. */
FT_WARN_UNUSED ft_status ft_batch_plan_given(const ft_plan_problem *problem,
                                             const ft_plan_given *given, ft_error *err,
                                             ft_batch_plan *out);
/* All-zero is legal. */
void ft_batch_plan_deinit(ft_batch_plan *plan);

/* One batch in one round; seconds since the first draft began, com_s behind the first upload. */
typedef struct ft_plan_moment {
    uint32_t batch, round;
    double draft_from_s, draft_to_s, verify_from_s, verify_to_s;
} ft_plan_moment;
typedef void ft_plan_see(void *ctx, const ft_plan_moment *moment);

/* Goes through a plan of this problem: calls `see` for each batch of each round, in the order in
 * which they are verified. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_plan_trace(const ft_plan_problem *problem, const ft_batch_plan *plan,
                                       ft_plan_see *see, void *ctx, ft_error *err);

#endif
