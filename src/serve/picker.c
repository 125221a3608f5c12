// SPDX-License-Identifier: Apache-2.0
// The gauges of load under other names. The values are those of the server's own gauges. This file
// has no state.
#include "serve/picker.h"

#include <string.h>

#define VLLM "vllm:num_requests_waiting,vllm:num_requests_running,vllm:kv_cache_usage_perc"

static const char first_of_name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";
static const char in_name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:0123456789";
static const char own[] = "foretoken_";

static bool is_name(const char *text, size_t n)
{
    return n > 0 && n < sizeof((ft_picker *)0)->name[0] && strchr(first_of_name, *text) &&
           strspn(text, in_name) == n && strncmp(text, own, sizeof own - 1) != 0;
}

ft_status ft_picker_parse(const char *text, ft_error *err, ft_picker *out)
{
    const char *at = strcmp(text, "vllm") == 0 ? VLLM : text;
    bool good = true;
    *out = (ft_picker){0};
    for (int i = 0; i < FT_PICKER_GAUGES && good; i++) {
        const size_t n = strcspn(at, ",");
        good = is_name(at, n) && at[n] == (i + 1 < FT_PICKER_GAUGES ? ',' : 0);
        if (good)
            memcpy(out->name[i], at, n);
        for (int k = 0; k < i && good; k++)
            good = strcmp(out->name[k], out->name[i]) != 0;
        at += good ? n + 1 : 0;
    }
    return good ? FT_OK
                : ft_error_set(err, FT_INVALID,
                               "serve: --picker-metrics %s: not \"vllm\", and not three names of "
                               "metrics, as waiting,running,kv_used (without blanks, not "
                               "foretoken_...)",
                               text);
}

ft_status ft_picker_append(const ft_picker *picker, const ft_verifier_stats *stats, ft_buf *out)
{
    static const char *const help[FT_PICKER_GAUGES] = {"As foretoken_rounds_waiting.",
                                                       "As foretoken_texts_running.",
                                                       "As foretoken_kv_used_ratio."};
    const double value[FT_PICKER_GAUGES] = {(double)stats->rounds_waiting,
                                            (double)stats->texts_running, stats->kv_used};
    for (int i = 0; i < FT_PICKER_GAUGES; i++)
        ft_buf_printf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %.6g\n", picker->name[i], help[i],
                      picker->name[i], picker->name[i], value[i]);
    return out->failed ? FT_NOMEM : FT_OK;
}
