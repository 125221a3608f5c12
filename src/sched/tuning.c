// SPDX-License-Identifier: Apache-2.0
// The values of the room's tuning constants, and the table of them. Constant data.
#include "sched/tuning.h"

static const ft_sched_tuning values = {FT_SCHED_TUNING_GROUPS(FT_TUNING_VALUES)};

#define ITEM(g, type, way, name, value, text) \
    {#g "." #name, offsetof(ft_sched_tuning, g.name), FT_TUNING_##type, FT_TUNING_##way, text},
#define ITEMS(g, LIST) LIST(ITEM, g)
static const ft_tuning_item items[] = {FT_SCHED_TUNING_GROUPS(ITEMS)};

const ft_tuning_table ft_sched_tuning_table = {.room = "sched",
                                               .values = &values,
                                               .bytes = sizeof values,
                                               .items = items,
                                               .n = sizeof items / sizeof items[0]};

const ft_sched_tuning *ft_sched_tune = &values;
