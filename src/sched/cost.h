/* SPDX-License-Identifier: Apache-2.0
 *
 * Estimates the time of a forward pass, from the passes that were measured. The time depends on the
 * rows, the attention work, the KV that is read (WISP eq. (19)), the rows with logits, and whether
 * there are any: the output head is a large part of a small model, and its weights are read once.
 * It answers two questions: how long will this batch take, and how many rows of a prompt may join
 * it within a given time? Pure; no clock.
 */
#ifndef FT_SCHED_COST_H
#define FT_SCHED_COST_H

#include <stdint.h>

/* The shape of a pass. All-zero: no pass, which costs nothing. */
typedef struct ft_pass {
    uint32_t rows;
    uint32_t out;    /* of them with logits */
    uint64_t ctx;    /* attention work: sum over rows of the tokens that a row attends to */
    uint64_t cached; /* sum over sequences of the tokens in KV, which are read once for all rows */
} ft_pass;

/* `pass` with n more rows after n_past tokens of a sequence, n_out of them with logits. A tree is
 * counted as a chain, whose work is at least as large. */
ft_pass ft_pass_plus(ft_pass pass, uint32_t n_past, uint32_t n, uint32_t n_out);
/* `pass` without a part of it. */
ft_pass ft_pass_minus(ft_pass pass, ft_pass part);
/* The two together. */
ft_pass ft_pass_sum(ft_pass pass, ft_pass more);

#define FT_COST_SIZES 17 /* classes of pass sizes: 1, 2-3, 4-7, ... rows */
#define FT_COST_KEPT  6  /* recent passes of each class, prompts' and others' apart */

/* The parts of a pass's cost, and their names in a file of costs. Pass and head are paid once a
 * pass; the others add up over its rows. */
#define FT_COST_FACTORS_LIST(F)                                       \
    F(PASS, "pass")               /* the fixed cost of any pass */    \
    F(ROW, "row")                 /* of all linear work of a token */ \
    F(LOGITS_ROW, "logits_row")   /* the output head, on top of it */ \
    F(INTERACTION, "interaction") /* a row attends to a token */      \
    F(CACHED_TOK, "cached_tok")   /* a token of KV is read */         \
    F(HEAD, "head") /* the fixed cost of logits for any row: the head's weights are read */
typedef enum ft_cost_factor {
#define F(name, text) FT_COST_##name,
    FT_COST_FACTORS_LIST(F)
#undef F
        FT_COST_FACTORS
} ft_cost_factor;
extern const char *const ft_cost_factor_name[FT_COST_FACTORS];

typedef struct ft_cost_seen {
    ft_pass pass;
    float us; /* 0: none */
    uint64_t at;
} ft_cost_seen;

typedef struct ft_cost {
    ft_cost_seen seen[2][FT_COST_SIZES][FT_COST_KEPT];
    uint64_t n_seen;
    double us[FT_COST_FACTORS];    /* what computing one of each costs, >= 0 */
    double prior[FT_COST_FACTORS]; /* what they cost for all one knew before; 0: nothing */
    double error;                  /* recent mean of |predicted - measured| / measured, at most 1 */
    double bias;                   /* the same with the sign: > 0 if predictions are too long */
    double read_us; /* what reading weights from disk takes in a pass; 0: none are read */
    double hidden;  /* recent mean share of a little more computing that did not make the pass
                       longer, since it waited for weights anyway, [0, 1] */
} ft_cost;

/* Nothing is known. */
void ft_cost_init(ft_cost *cost);

/* Starts from costs that were measured for this model on this machine (sched/cost_file.h); measured
 * passes replace them over time. us[] >= 0; `error` is their mean relative error. */
void ft_cost_prime(ft_cost *cost, const double us[FT_COST_FACTORS], double error);

/* The numbers of a pass in the order of the factors. */
void ft_pass_factors(const ft_pass *pass, double out[FT_COST_FACTORS]);

/* Microseconds by which a part of a pass makes recent passes longer, without the fixed costs. */
double ft_cost_added_us(const ft_cost *cost, const ft_pass *part);
/* Microseconds that any pass takes, whatever is in it. */
double ft_cost_fixed_us(const ft_cost *cost);

/* A pass took `us`; ignored unless both are positive. */
void ft_cost_observe(ft_cost *cost, const ft_pass *pass, int64_t us);
/* A pass took `us`, in waited_us of which it waited for weights to be read, [0, us]. */
void ft_cost_observe_read(ft_cost *cost, const ft_pass *pass, int64_t us, int64_t waited_us);

/* In a pass of `us`, reading or computing took part_us, [0, us]: what the other of the two took. In
 * any unit of time. */
double ft_cost_other_us(double us, double part_us);

/* Microseconds of a pass; 0 while nothing is known. Does not fall when a pass grows. */
int64_t ft_cost_predict(const ft_cost *cost, const ft_pass *pass);
/* The same of a pass with that share of its rows, [0, 1]. */
double ft_cost_predict_share(const ft_cost *cost, const ft_pass *pass, double share);

/* Rows of a prompt, n_past of whose tokens are in KV, that may join `pass` for at most budget_us
 * more than it costs without them, the recent error added; at most `most`, which is the answer
 * while nothing is known. 0: not even one may. */
uint32_t ft_cost_rows(const ft_cost *cost, const ft_pass *pass, uint32_t n_past, uint32_t most,
                      int64_t budget_us);

#endif
