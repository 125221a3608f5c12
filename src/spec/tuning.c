// SPDX-License-Identifier: Apache-2.0
// The values of the room's tuning constants, and the table of them. Constant data.
#include "spec/tuning.h"

static const ft_spec_tuning values = {FT_SPEC_TUNING_GROUPS(FT_TUNING_VALUES)};

#define ITEM(g, type, way, name, value, text) \
    {#g "." #name, offsetof(ft_spec_tuning, g.name), FT_TUNING_##type, FT_TUNING_##way, text},
#define ITEMS(g, LIST) LIST(ITEM, g)
static const ft_tuning_item items[] = {FT_SPEC_TUNING_GROUPS(ITEMS)};

const ft_tuning_table ft_spec_tuning_table = {.room = "spec",
                                              .values = &values,
                                              .bytes = sizeof values,
                                              .items = items,
                                              .n = sizeof items / sizeof items[0]};

const ft_spec_tuning *ft_spec_tune = &values;
