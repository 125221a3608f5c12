/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether something pays, by measurement: rounds with it against rounds without it, by tokens a
 * second. An edge asks so whether a predictor should end its drafts.
 *
 * Intervals of rounds with it and without it alternate until the difference is clear, or until both
 * sides have many rounds. Then the next intervals have it if it pays, and one interval in
 * FT_MEASURED_EVERY is of the other side, since load and network change.
 *
 * A side's speed is its tokens over its time, r = T / U. The variance of such a ratio is about
 * sum((t_i - r u_i)^2) / U^2 (Cochran, Sampling techniques, 1977, section 6). It pays if its side
 * is faster by more than the standard error of the difference. In doubt it does not.
 *
 * Pure: measurements come in, a choice comes out. The state is plain data; all-zero: nothing is
 * known. */
#ifndef FT_SPEC_MEASURED_H
#define FT_SPEC_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

/* Rounds of an interval. Text and load are about the same in two intervals that follow each other,
 * and what was drafted ahead of an interval's first round is of the other side. With half of it
 * twice as many rounds are mixed so; with twice of it the sides are of texts that differ more. */
#define FT_MEASURED_INTERVAL 8
/* Of the intervals one is of the side that is not chosen: what it loses is a sixteenth of the
 * difference. Half of it loses twice as much, twice of it notices a change half as soon. */
#define FT_MEASURED_EVERY 16
/* Rounds that a side needs to be compared, and with which both are settled. The standard error of
 * the difference is some 13 % with the least and 6 % with the most of them. With half of them more
 * first choices are wrong, which then costs what the other side would bring; twice of them are half
 * as many rounds more on the side that may be the wrong one. */
#define FT_MEASURED_LEAST 32
#define FT_MEASURED_MOST  128

#define FT_MEASURED_KEPT 12 /* numbers, >= 0 and finite */

/* Sums over rounds; old ones fade. */
typedef struct ft_measured_side {
    double n, tokens, us;
    double tokens_sq, us_sq, tokens_us; /* sums of squares and of products */
} ft_measured_side;

typedef struct ft_measured {
    ft_measured_side side[2]; /* [1]: with it */
    bool with;                /* the present interval */
    uint32_t rounds;          /* of the present interval */
    uint32_t intervals;       /* since one of the side that is not chosen */
} ft_measured;

/* Whether it pays by what is known. */
bool ft_measured_pays(const ft_measured *m);
/* Whether the next round has it. */
bool ft_measured_with(const ft_measured *m);
/* A round brought so many tokens, the target's own included, in so much time (> 0, else it is
 * ignored). It had what ft_measured_with said. */
void ft_measured_saw(ft_measured *m, uint32_t tokens, int64_t us);
/* Tokens a second of rounds with it, or without; 0: none was seen. */
double ft_measured_tokens_per_s(const ft_measured *m, bool with);

/* What outlasts the process. A new one begins with a share of it (tuning.h, tries.kept). False: a
 * number is none that ft_measured_keep gives, and *m is as it was. */
void ft_measured_keep(const ft_measured *m, double out[FT_MEASURED_KEPT]);
bool ft_measured_take_up(ft_measured *m, const double in[FT_MEASURED_KEPT]);

#endif
