/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts a program's allocations: its own malloc and its kin stand before those of the C library,
 * for ggml's libraries too. Included by the one file of a test program that asks; not where the
 * sanitizers need the names themselves, nor without glibc (COUNTS_ALLOCS is 0 then, and nothing is
 * counted). */
#ifndef FT_TEST_COUNT_ALLOCS_H
#define FT_TEST_COUNT_ALLOCS_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "ggml-backend.h"
#include "ggml-cpu.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCS 1
#else
#define COUNTS_ALLOCS 0
#endif

static atomic_bool count_allocs_on;
static atomic_uint count_allocs_n;
static _Atomic size_t count_allocs_first;

/* From now on, or no longer. */
static void count_allocs(bool on)
{
    atomic_store(&count_allocs_on, on);
}

/* How many there were since it was asked last. */
static uint32_t count_allocs_taken(void)
{
    return atomic_exchange(&count_allocs_n, 0);
}

/* Of the first call of all. */
static inline size_t count_allocs_first_bytes(void)
{
    return atomic_load(&count_allocs_first);
}

#if COUNTS_ALLOCS
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static void count_allocs_seen(size_t bytes)
{
    if (atomic_load(&count_allocs_on) && atomic_fetch_add(&count_allocs_n, 1) == 0)
        atomic_store(&count_allocs_first, bytes);
}

void *malloc(size_t n)
{
    count_allocs_seen(n);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count_allocs_seen(n * size);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    count_allocs_seen(n);
    return __libc_realloc(p, n);
}

void *memalign(size_t align, size_t n)
{
    count_allocs_seen(n);
    return __libc_memalign(align, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    *out = memalign(align, n);
    return *out ? 0 : ENOMEM;
}

/* Memory that is freed was allocated in a round, or will have to be again. */
void free(void *p)
{
    if (p)
        count_allocs_seen(0);
    __libc_free(p);
}
#endif

/* Calls that a pass of ggml makes when there is nothing to do. */
static inline uint32_t count_allocs_of_ggml(void)
{
    ggml_backend_t backend = ggml_backend_cpu_init();
    struct ggml_context *ctx =
        ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true});
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    struct ggml_threadpool_params params = ggml_threadpool_params_default(1);
    struct ggml_threadpool *pool = ggml_threadpool_new(&params);
    ggml_backend_cpu_set_n_threads(backend, 1);
    ggml_backend_cpu_set_threadpool(backend, pool);
    for (int i = 0; i < 2; i++) {
        (void)count_allocs_taken();
        count_allocs(i == 1);
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS)
            abort();
    }
    count_allocs(false);
    ggml_backend_free(backend);
    ggml_threadpool_free(pool);
    ggml_free(ctx);
    return count_allocs_taken();
}

#endif
