/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a side of bench verify will take, and whether there is room for it. This is asked
 * before anything is allocated: ggml ends the process if an allocation fails, and the system ends
 * one that touches more memory than there is. Used by one thread. */
#ifndef FT_BENCH_VERIFY_MEMORY_H
#define FT_BENCH_VERIFY_MEMORY_H

#include "bench/verify.h"

typedef struct ft_bench_need {
    size_t bytes;   /* that are touched */
    size_t address; /* and reserved address space, which counts if that is limited */
} ft_bench_need;

/* Ours, with trees of at most max_tree nodes. */
ft_bench_need ft_bench_ours_need(const ft_bench_job *job, uint32_t max_tree);
/* libllama's caches, intermediate results and logits in this way, all its contexts together. */
ft_bench_need ft_bench_theirs_need(const ft_bench_job *job, const ft_bench_way *way);
/* Attention scores that it holds at a time; none with flash attention. */
size_t ft_bench_theirs_score_bytes(const ft_bench_job *job, const ft_bench_way *way);
ft_bench_need ft_bench_need_sum(ft_bench_need a, ft_bench_need b);

/* What there is. */
typedef struct ft_bench_room {
    size_t bytes, address; /* SIZE_MAX: no limit is known */
} ft_bench_room;
/* Of the machine and of this process; limit_bytes > 0: the process may use so many, including those
 * that it has. */
ft_bench_room ft_bench_room_now(size_t limit_bytes);
bool ft_bench_fits(const ft_bench_room *room, ft_bench_need need);
/* "18.2 GB needed, 9.0 GB free" */
void ft_bench_need_describe(const ft_bench_room *room, ft_bench_need need, char *out, size_t size);

#endif
