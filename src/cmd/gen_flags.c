// SPDX-License-Identifier: Apache-2.0
// From shared flags to the structs that the rooms take. No state.
#include "cmd/gen_flags.h"

#include "base/rng.h"

ft_status ft_sampling_from_flags(ft_sampling_flags *flags, ft_error *err, ft_sampling *out)
{
    uint32_t seed;
    if (flags->seed < 0) {
        if (ft_random_bytes(&seed, sizeof seed) != FT_OK)
            return ft_error_set(err, FT_IO, "the kernel has no random bytes: pass --seed");
        flags->seed = seed;
    }
    *out = (ft_sampling){.temperature = (float)flags->temp,
                         .top_k = (int32_t)flags->top_k,
                         .top_p = (float)flags->top_p,
                         .min_p = (float)flags->min_p,
                         .seed = (uint64_t)flags->seed};
    return ft_sampling_check(out, err);
}

ft_draft_params ft_draft_from_flags(const ft_draft_flags *flags)
{
    uint32_t n = flags->no_speculation ? 0 : (uint32_t)flags->n_max;
    uint32_t depth = flags->depth ? (uint32_t)flags->depth : n;
    ft_draft_params chain = ft_draft_params_chain(n);
    if (flags->width > 1)
        return ft_draft_params_tree(n, depth, (uint32_t)flags->width);
    if (chain.depth > depth)
        chain.depth = depth;
    return chain;
}
