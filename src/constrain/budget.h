/* SPDX-License-Identifier: Apache-2.0
 *
 * Processor time that a tenant wastes: what compilations took that ended refused, and what one took
 * beyond a large usual one. Who has wasted too much owes it, and nothing is compiled for such a
 * tenant (grammars.c), so that texts have the processor. Nothing is counted of this process itself
 * (the tenant "").
 *
 * No lock of its own: the owner's lock guards it. Times are in us.
 */
#ifndef FT_CONSTRAIN_BUDGET_H
#define FT_CONSTRAIN_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"
#include "base/throttle.h"

/* One that is not refused may take so much: 40 usual tools take 0.3 s, and so does the largest of
 * 500 random schemas. With half, an application with many such ones would owe. */
#define FT_BUDGET_COMPILE_US (400000 * FT_THREAD_SLOWER)
/* Wasted at once without consequences: the largest refused schemas take 0.2 s. */
#define FT_BUDGET_AT_ONCE_US (300000 * FT_THREAD_SLOWER)
/* What is wasted is forgiven at this part of the time that passes: 0.5 % of a processor. So less
 * than one in a hundred pieces of others' texts meets such a compilation. */
#define FT_BUDGET_PART 200
/* No tenant owes more than this, which is forgiven after two minutes. */
#define FT_BUDGET_MOST_US (600000 * FT_THREAD_SLOWER)

typedef struct ft_budget {
    ft_throttle waste; /* one "time" is a microsecond that is wasted */
} ft_budget;

/* Nobody has wasted anything. */
void ft_budget_init(ft_budget *budget);
/* A compilation of the tenant has ended. now_us: of any clock that only goes forward. */
void ft_budget_count(ft_budget *budget, const char *tenant, int64_t used_us, bool refused,
                     int64_t now_us);
/* Whether the tenant has wasted anything that is not forgiven yet. */
bool ft_budget_wasted(ft_budget *budget, const char *tenant, int64_t now_us);
/* How long the tenant owes what it has wasted; 0: it has not wasted too much. */
int64_t ft_budget_owes_us(ft_budget *budget, const char *tenant, int64_t now_us);

#endif
