// SPDX-License-Identifier: Apache-2.0
// Writes the statistics of keys in Prometheus' text format, from the list in stats.h. No state.
// Shows nothing about a single session.
#include "serve/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct {
    const char *labels, *name, *help;
    ft_stat_kind kind;
    size_t at;
} key_table[] = {
#define F(kind, field, labels, name, help) \
    {labels, name, help, FT_STAT_##kind, offsetof(ft_key_count, field)},
    FT_KEY_STATS(F)
#undef F
};

ft_status ft_metrics_append_keys(ft_verifier *verifier, ft_buf *out)
{
    ft_key_count *key;
    size_t n;
    if (!ft_verifier_keys(verifier))
        return FT_OK;
    if (ft_verifier_list_keys(verifier, &key, &n) != FT_OK)
        return FT_NOMEM;
    for (size_t k = 0; k < sizeof key_table / sizeof *key_table; k++) {
        if (key_table[k].help)
            ft_stat_append_head(out, key_table[k].name, key_table[k].help, key_table[k].kind);
        for (size_t i = 0; i < n; i++)
            ft_buf_printf(out, "foretoken_%s{key=\"%s\"%s} %" PRIu64 "\n", key_table[k].name,
                          key[i].name, key_table[k].labels,
                          *(const uint64_t *)((const char *)&key[i] + key_table[k].at));
    }
    free(key);
    return out->failed ? FT_NOMEM : FT_OK;
}
