// SPDX-License-Identifier: Apache-2.0
// Lists in flags. No state. What the numbers and names mean is the commands' matter.
#include "cmd/lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "serve/verifier.h"

/* A number of digits, a point and an exponent, as long as the item; no spaces, signs, hexadecimals,
 * infinities. */
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
        if (!number(at, len, &value) || value > rule->most || value < rule->least ||
            (rule->above && value == rule->least))
            break;
        out[(*n)++] = value;
        at += len;
        if (!*at)
            return FT_OK;
    }
    return ft_error_set(err, FT_INVALID, "%s: '%s' is no list of at most %u %s%s %g, as in %s",
                        rule->flag, text, rule->n_max, rule->what,
                        rule->above ? " above 0 and up to" : " up to", rule->most, rule->like);
}

ft_status ft_list_speeds(const char *flag, const char *text, ft_error *err, float *out, uint32_t *n)
{
    const ft_list_rule rule = {.flag = flag,
                               .what = "token speeds",
                               .like = "2,4,6,8",
                               .least = 0,
                               .most = 1e6,
                               .above = true,
                               .n_max = FT_SLO_CLASSES};
    double speeds[FT_SLO_CLASSES];
    ft_status status = ft_list_numbers(&rule, text, err, speeds, n);
    for (uint32_t i = 0; i < *n && status == FT_OK; i++)
        out[i] = (float)speeds[i];
    return status;
}

/* "plain, edge and edge+proactive". */
static void put_names(ft_buf *out, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ft_buf_puts(out, i == 0 ? "" : i + 1 < n ? ", " : " and ");
        ft_buf_puts(out, names[i]);
    }
}

ft_status ft_list_names(const char *flag, const char *text, const char *const *names, size_t n,
                        ft_error *err, bool *out)
{
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ","), i = 0;
        while (i < n && (strlen(names[i]) != len || strncmp(names[i], at, len) != 0))
            i++;
        if (i == n) {
            ft_buf all = {0};
            put_names(&all, names, n);
            (void)ft_error_set(err, FT_INVALID, "%s: no '%.*s': there are %s", flag, (int)len, at,
                               ft_buf_str(&all));
            ft_buf_deinit(&all);
            return FT_INVALID;
        }
        out[i] = true;
        at += len;
        if (!*at)
            return FT_OK;
    }
}
