// SPDX-License-Identifier: Apache-2.0
// --no-pack-cache and --pack-cache-mb. No state but the caller's.
#include "cmd/pack_flags.h"

#include <stdlib.h>

#include "base/log.h"
#include "cmd/models.h"
#include "hub/cache.h"

static const ft_flag rows[] = {
    {"--no-pack-cache", NULL, FT_FLAG(ft_pack_flags, off), NULL,
     "pack the weights at each start and keep nothing of them on disk, as with --memory"},
    {"--pack-cache-mb", NULL, FT_FLAG(ft_pack_flags, mb), "N",
     "size of the folder of packed weights at most; what was used longest ago is deleted first", 1,
     1 << 30},
};
const ft_flag_group ft_flags_pack = FT_FLAG_ROWS(rows);

ft_pack_flags *ft_pack_flags_unless(ft_pack_flags *flags, bool budget)
{
    return budget ? NULL : flags;
}

const ft_pack_cache *ft_pack_flags_open(ft_pack_flags *flags)
{
    const ft_hub_opts hub = ft_models_opts();
    ft_error err = {0};
    if (!flags || flags->off)
        return NULL;
    if (flags->folder)
        return &flags->cache;
    ft_status status = ft_hub_packed_folder(&hub.env, &err, &flags->folder);
    if (status == FT_OK)
        status = ft_cache_make_folder(flags->folder, &err);
    if (status != FT_OK) {
        FT_LOGW("model", "packed weights are not kept why=\"%s\"", err.message);
        ft_pack_flags_close(flags);
        return NULL;
    }
    flags->cache = (ft_pack_cache){flags->folder, (uint64_t)flags->mb << 20};
    return &flags->cache;
}

void ft_pack_flags_close(ft_pack_flags *flags)
{
    free(flags->folder);
    flags->folder = NULL;
}
