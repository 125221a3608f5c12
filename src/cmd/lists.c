// SPDX-License-Identifier: Apache-2.0
// Lists in flags. No state. The commands know what the items mean.
#include "cmd/lists.h"

#include <stdlib.h>
#include <string.h>

#include "serve/verifier.h"

/* A decimal number that fills the item: digits, a point, an exponent. No spaces, no sign in front,
 * no hexadecimal numbers, no infinity. */
static bool number(const char *at, size_t n, double *out)
{
    char *end;
    if (n == 0 || strspn(at, "0123456789.eE+-") < n || at[0] == '+' || at[0] == '-')
        return false;
    *out = strtod(at, &end);
    return end == at + n;
}

ft_status ft_list_numbers(const ft_list_rule *rule, const char *text, ft_error *err, double *out,
                          uint32_t *n)
{
    const char *at = text;
    for (*n = 0; *n < rule->n_max; at++) {
        double value;
        size_t len = strcspn(at, ",");
        if (!number(at, len, &value) || value > rule->most || (rule->positive && value == 0))
            break;
        out[(*n)++] = value;
        at += len;
        if (!*at)
            return FT_OK;
    }
    return ft_error_set(err, FT_INVALID, "%s: '%s' is no list of at most %u %s%s %g, as in %s",
                        rule->flag, text, rule->n_max, rule->what,
                        rule->positive ? " above 0 and up to" : " up to", rule->most, rule->like);
}

ft_status ft_list_speeds(const char *flag, const char *text, ft_error *err, float *out, uint32_t *n)
{
    const ft_list_rule rule = {.flag = flag,
                               .what = "token speeds",
                               .like = "2,4,6,8",
                               .most = 1e6,
                               .positive = true,
                               .n_max = FT_SLO_CLASSES};
    double speeds[FT_SLO_CLASSES];
    ft_status status = ft_list_numbers(&rule, text, err, speeds, n);
    for (uint32_t i = 0; i < *n && status == FT_OK; i++)
        out[i] = (float)speeds[i];
    return status;
}

ft_status ft_list_rules(const char *flag, const char *text, ft_error *err, const ft_rule **out)
{
    uint32_t n = 0;
    out[0] = NULL;
    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        const ft_rule *rule = ft_rule_named(ft_rules_all, at, len);
        if (!rule || ft_rule_find(out, rule->id))
            break;
        out[n++] = rule;
        out[n] = NULL;
        at += len;
        if (!*at && ft_rule_find(out, ft_rule_exact.id))
            return FT_OK;
        if (!*at)
            return ft_error_set(err, FT_INVALID,
                                "%s: '%s' lacks exact, which every edge may fall back to", flag,
                                text);
    }
    return ft_error_set(err, FT_INVALID,
                        "%s: '%s' is no list of rules, each once: exact, or exact,ratio", flag,
                        text);
}

ft_status ft_list_temperatures(const char *flag, const char *text, uint32_t n_max, ft_error *err,
                               double *out, uint32_t *n)
{
    const ft_list_rule rule = {.flag = flag,
                               .what = "temperatures",
                               .like = "0.7,1",
                               .most = 100,
                               .positive = true,
                               .n_max = n_max};
    ft_status status = ft_list_numbers(&rule, text, err, out, n);
    for (uint32_t i = 0; status == FT_OK && i < *n; i++)
        if (out[i] < 1e-3)
            status = ft_error_set(err, FT_INVALID,
                                  "%s: %g is too low: at temperature 0 there is nothing to draw",
                                  flag, out[i]);
    return status;
}
