// SPDX-License-Identifier: Apache-2.0
// The methods of bench memory, as flags of `run`. No state.
#include "bench/memory_methods.h"

#define OURS(name, flags)                       \
    {                                           \
        name, FT_BENCH_MEMORY_OURS, 1, {flags}, \
        {                                       \
            0                                   \
        }                                       \
    }

const ft_bench_memory_method ft_bench_memory_methods[] = {
    OURS("foretoken", ""),
    /* EdgeLLM's baselines (V-A): load, then compute; the same, overlapped */
    OURS("std", "--no-overlap --no-speculation"),
    OURS("spl", "--no-speculation"),
    /* speculative decoding: chains of fixed length */
    OURS("sp:2", "--draft 2 --no-proactive"),
    OURS("sp:4", "--draft 4 --no-proactive"),
    OURS("sp:8", "--draft 8 --no-proactive"),
    OURS("sp:16", "--draft 16 --no-proactive"),
    /* SpecInfer: trees of fixed widths, whole */
    OURS("specinfer", "--draft tree:20:8 --grow fixed:1,1,3,1,1,1,1,1 --no-proactive"),
    OURS("specinfer:2,2,1,1", "--draft tree:14:4 --grow fixed:2,2,1,1 --no-proactive"),
    OURS("specinfer:3,1,1,1", "--draft tree:12:4 --grow fixed:3,1,1,1 --no-proactive"),
    /* foretoken without one of its parts, or with another one */
    {"no-tree",
     FT_BENCH_MEMORY_OURS,
     4,
     {"--draft 2", "--draft 4", "--draft 8", "--draft 16"},
     {0}},
    OURS("no-proactive", "--no-proactive"),
    OURS("pacer", "--grow pacer"),
    OURS("fallback", "--depth fallback"),
    OURS("fixed-alpha", "--depth fallback --alpha 0.01"),
    {"draft", FT_BENCH_MEMORY_DRAFT, 1, {"--no-speculation"}, {0}},
    {"llamacpp", FT_BENCH_MEMORY_LLAMA, 1, {""}, {0}},
    {"llamacpp-spec", FT_BENCH_MEMORY_LLAMA, 4, {"2", "4", "8", "16"}, {2, 4, 8, 16}},
};
const size_t ft_bench_n_memory_methods =
    sizeof ft_bench_memory_methods / sizeof *ft_bench_memory_methods;
