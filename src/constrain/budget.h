/* SPDX-License-Identifier: Apache-2.0
 *
 * Processor time that a tenant wastes: what compilations took that ended refused, and what one took
 * beyond a large usual one. Who has wasted too much owes it, and nothing is compiled for such a
 * tenant (grammars.c), so that texts have the processor. A tenant's state is one time, as in the
 * "generic cell rate algorithm" (ITU-T I.371).
 *
 * No lock of its own: the owner's lock guards it. Times are in us.
 */
#ifndef FT_CONSTRAIN_BUDGET_H
#define FT_CONSTRAIN_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* all takes ten times as long */
#define FT_BUDGET_SLOWER 10
#else
#define FT_BUDGET_SLOWER 1
#endif

/* One that is not refused may take so much: 40 usual tools take 0.3 s, and so does the largest of
 * 500 random schemas. With half, an application with many such ones would owe. */
#define FT_BUDGET_COMPILE_US (400000 * FT_BUDGET_SLOWER)
/* Wasted at once without consequences: the largest refused schemas take 0.2 s. */
#define FT_BUDGET_AT_ONCE_US (300000 * FT_BUDGET_SLOWER)
/* What is wasted is forgiven at this part of the time that passes: 0.5 % of a processor. So less
 * than one in a hundred pieces of others' texts meets such a compilation. */
#define FT_BUDGET_PART 200
/* No tenant owes more than this, which is forgiven after two minutes. */
#define FT_BUDGET_MOST_US (600000 * FT_BUDGET_SLOWER)

/* Tenants whose names have the same hash share one. */
#define FT_BUDGET_SLOTS 256

/* All zero: nobody has wasted anything. */
typedef struct ft_budget {
    int64_t due_us[FT_BUDGET_SLOTS]; /* when all that was wasted is forgiven */
} ft_budget;

/* A compilation of the tenant has ended. now_us: of any clock that only goes forward. */
void ft_budget_count(ft_budget *budget, const char *tenant, int64_t used_us, bool refused,
                     int64_t now_us);
/* Whether the tenant has wasted anything that is not forgiven yet. */
bool ft_budget_wasted(const ft_budget *budget, const char *tenant, int64_t now_us);
/* How long the tenant owes what it has wasted; 0: it has not wasted too much. */
int64_t ft_budget_owes_us(const ft_budget *budget, const char *tenant, int64_t now_us);

#endif
