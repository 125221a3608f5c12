// SPDX-License-Identifier: Apache-2.0
// Which verification rules there are. Constants; what rules share is in rule.c.
#include "spec/rule.h"

#include <string.h>

const ft_rule *const ft_rules_default[] = {&ft_rule_exact, NULL};
const ft_rule *const ft_rules_all[FT_RULES_MAX + 1] = {&ft_rule_exact, &ft_rule_ratio, NULL};

const ft_rule *ft_rule_find(const ft_rule *const *rules, uint32_t id)
{
    while (*rules && (*rules)->id != id)
        rules++;
    return *rules;
}

const ft_rule *ft_rule_named(const ft_rule *const *rules, const char *name, size_t n)
{
    while (*rules && (strlen((*rules)->name) != n || memcmp((*rules)->name, name, n) != 0))
        rules++;
    return *rules;
}
