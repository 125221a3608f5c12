/* SPDX-License-Identifier: Apache-2.0
 *
 * How many times as many devices drafts can make a server hold, over plain decoding, by what its
 * passes take. A pass over n texts of about one length, with k drafted tokens each, computes for
 * a + b n (1 + c k): WISP eq. (19), where b is a text's row and the reading of its K and V, and c b
 * is the row of a drafted token. A round brings g tokens, so a text of v tokens/s has one every
 * g / v (eq. (4) and (6)), of which its draft is away for d, on the device and in the network.
 *
 * A text also adds the rows of its prompt that no cache has: q for each of its tokens, in the mean.
 * They cost what drafted rows do. Where weights are read from disk in every pass, this takes r, and
 * rows are computed meanwhile. A pass of length T computes for C(T) = (T^3 - r^3)^(1/3), as
 * sched/cost.c has it; C(T) = T if nothing is read.
 *
 *   decoding   A text is in every pass: a + b n (1 + c q) <= C(1 / v).
 *   drafts     In every round of a text there is either another pass, or the server waits for d,
 *              since no text drafts before it knows its last verdict. If it waits, the rows of a
 *              round have C(g / v - d) - a. Two passes compute for longest if they are equally
 *              long; then the rows have 2 (C(g / 2 v) - a). They need b n (1 + c (k + q g)), which
 *              is at most the larger of these two.
 *
 * The ratio is that of the largest n of both, over all k. b cancels out. With k = 0, g = 1 and
 * d = 0 the ratio is 1. Mixing drafts of several k, or drafts and decoding, is no better: the
 * drafts' side is a ratio of two means, which no mean exceeds the best of. If every token is
 * accepted, and there are no prompts and nothing is read, the ratio approaches 1 / (c (1 - a v)):
 * drafts save passes, and of their rows what c is less than 1.
 *
 * Of several classes, device i has class i mod n. Decoding by `centralized` gives all the fastest
 * speed. With drafts each class has rounds of its own, and what the most demanding class needs of
 * passes and waiting is paid once.
 *
 * Not counted, so that the bound is high: the work between passes, a pass's growing attention,
 * that texts are whole numbers and differ, and drafts of more than one forward of the device.
 * Pure. */
#ifndef FT_BENCH_CAPACITY_BOUND_H
#define FT_BENCH_CAPACITY_BOUND_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_capacity_times {
    double pass_s, row_s; /* a, b; row_s 0: rows are free */
    double drafted;       /* c, [0, 1] */
    double read_s;        /* r; 0: no weights are read */
    double prompts;       /* q */
    double away_s;        /* d of the shortest draft */
    double chance;        /* that one more token of a draft is accepted, [0, 1] */
    uint32_t most;        /* tokens a draft, at most; 0: no drafts */
} ft_capacity_times;

typedef struct ft_capacity_bound {
    double decoding, drafts; /* devices that each holds at most; INFINITY: rows are free */
    double ratio;            /* of both; INFINITY: decoding holds none */
    uint32_t k;              /* that is best for the fastest class */
} ft_capacity_bound;

/* tokens_per_s[n], n > 0: the promised speeds v. */
ft_capacity_bound ft_capacity_bound_of(const ft_capacity_times *times, const float tokens_per_s[],
                                       uint32_t n);

/* The chance with which a draft of so many tokens brings that many: p + p^2 + ... + p^drafted =
 * accepted. Of a tree it is that of a chain that is as good. */
double ft_capacity_chance(double drafted, double accepted);

/* What probes have shown: sums over them of a pass's texts, drafted tokens and time, in the mean,
 * each weighted. All-zero: nothing. */
typedef struct ft_capacity_seen {
    double n, texts, drafts, pass_s;
    double texts_sq, drafts_sq, texts_drafts;
    double texts_pass_s, drafts_pass_s, pass_s_sq;
    double read_s, read_n; /* reading, weighted by how much passes waited for it */
} ft_capacity_seen;

/* A probe's passes, in the mean. */
typedef struct ft_capacity_passes {
    double weight;           /* how many there were */
    double texts, drafts;    /* drafts: with the rows of prompts */
    double pass_s, waited_s; /* of it, for weights to be read */
} ft_capacity_passes;

/* Counts a probe without passes, or without texts in them, as nothing. */
void ft_capacity_saw_passes(ft_capacity_seen *seen, const ft_capacity_passes *passes);
/* Sets pass_s, row_s and drafted by least squares, none of them negative, and read_s. drafted is 1
 * if no drafts were seen. False: too little was seen: two probes are needed whose passes have
 * different rows. */
bool ft_capacity_fit(const ft_capacity_seen *seen, ft_capacity_times *out);

#endif
