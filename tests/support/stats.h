/* SPDX-License-Identifier: Apache-2.0
 * Statistics for the tests of draws. */
#ifndef FT_TEST_STATS_H
#define FT_TEST_STATS_H

#include "base/chi_square.h"

#endif
