/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods of bench local. Pure; any thread.
 */
#ifndef FT_BENCH_LOCAL_METHODS_H
#define FT_BENCH_LOCAL_METHODS_H

#include <stddef.h>
#include <stdint.h>

typedef enum ft_bench_local_kind {
    FT_BENCH_LOCAL_PLAIN,   /* ours without speculation: a fixed choice, too */
    FT_BENCH_LOCAL_DEFAULT, /* ours; a process begins with what the one before has learnt */
    FT_BENCH_LOCAL_NEW,     /* the same, and each process knows nothing */
    FT_BENCH_LOCAL_FIXED,   /* ours, each draft of the same shape */
    FT_BENCH_LOCAL_THEIRS_PLAIN,
    FT_BENCH_LOCAL_THEIRS /* llama.cpp's own speculation */
} ft_bench_local_kind;

typedef struct ft_bench_local_method {
    const char *name;
    ft_bench_local_kind kind;
    const char *how;  /* flags of `run`, a blank between two; or llama.cpp's --spec-type */
    uint32_t n_draft; /* THEIRS, with a draft model: drafted tokens at most; 0: without one */
} ft_bench_local_method;

extern const ft_bench_local_method ft_bench_local_methods[];
extern const size_t ft_bench_n_local_methods;
#define FT_BENCH_LOCAL_METHODS 24 /* at most */

#endif
