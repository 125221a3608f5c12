/* SPDX-License-Identifier: Apache-2.0
 * Pearson's chi-square test for the tests of draws. */
#ifndef FT_TEST_STATS_H
#define FT_TEST_STATS_H

#include <stddef.h>

/* Probability of a statistic at least this large if `observed` [n] counts were draws from
 * `expected` [n] (expected counts). Bins that expect fewer than five are merged into one; a count
 * in a bin that expects nothing gives 0. */
double ft_chi_square_p(const double *observed, const double *expected, size_t n);

#endif
