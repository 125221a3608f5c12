/* SPDX-License-Identifier: Apache-2.0
 *
 * Pearson's chi-square test: whether counts are draws from a distribution. */
#ifndef FT_BASE_CHI_SQUARE_H
#define FT_BASE_CHI_SQUARE_H

#include <stddef.h>

/* Probability of a statistic at least this large if `observed` [n] counts were draws from
 * `expected` [n] (expected counts). Bins that expect fewer than five are merged into one; a count
 * in a bin that expects nothing gives 0. With one bin alone there is nothing to compare: 1. Pure;
 * any thread. */
double ft_chi_square_p(const double *observed, const double *expected, size_t n);

#endif
