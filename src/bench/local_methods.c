// SPDX-License-Identifier: Apache-2.0
// The methods of bench local. No state.
#include "bench/local_methods.h"

const ft_bench_local_method ft_bench_local_methods[] = {
    {"plain", FT_BENCH_LOCAL_PLAIN, "--no-speculation", 0},
    {"default", FT_BENCH_LOCAL_DEFAULT, "", 0},
    {"no-memory", FT_BENCH_LOCAL_NEW, "--no-memory", 0},
    {"chain:1", FT_BENCH_LOCAL_FIXED, "--draft 1", 0},
    {"chain:2", FT_BENCH_LOCAL_FIXED, "--draft 2", 0},
    {"chain:3", FT_BENCH_LOCAL_FIXED, "--draft 3", 0},
    {"chain:4", FT_BENCH_LOCAL_FIXED, "--draft 4", 0},
    {"tree:4", FT_BENCH_LOCAL_FIXED, "--draft tree:4", 0},
    {"tree:8", FT_BENCH_LOCAL_FIXED, "--draft tree:8", 0},
    {"tree:16", FT_BENCH_LOCAL_FIXED, "--draft tree:16", 0},
    {"llamacpp", FT_BENCH_LOCAL_THEIRS_PLAIN, "none", 0},
    {"llamacpp-draft:1", FT_BENCH_LOCAL_THEIRS, "draft-simple", 1},
    {"llamacpp-draft:2", FT_BENCH_LOCAL_THEIRS, "draft-simple", 2},
    {"llamacpp-draft:3", FT_BENCH_LOCAL_THEIRS, "draft-simple", 3},
    {"llamacpp-draft:4", FT_BENCH_LOCAL_THEIRS, "draft-simple", 4},
    {"llamacpp-ngram-simple", FT_BENCH_LOCAL_THEIRS, "ngram-simple", 0},
    {"llamacpp-ngram-map-k", FT_BENCH_LOCAL_THEIRS, "ngram-map-k", 0},
    {"llamacpp-ngram-map-k4v", FT_BENCH_LOCAL_THEIRS, "ngram-map-k4v", 0},
    {"llamacpp-ngram-mod", FT_BENCH_LOCAL_THEIRS, "ngram-mod", 0},
    {"llamacpp-ngram-cache", FT_BENCH_LOCAL_THEIRS, "ngram-cache", 0},
};
const size_t ft_bench_n_local_methods =
    sizeof ft_bench_local_methods / sizeof *ft_bench_local_methods;
