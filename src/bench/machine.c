// SPDX-License-Identifier: Apache-2.0
// The machine's bounds, measured on as many threads as the comparison uses. Every thread runs its
// part between two barriers. A run counts from the first thread's start to the last one's end. The
// best run counts, since disturbances only make a run slower. Each thread is bound to a CPU
// of its own. Otherwise the system may wake two threads on one CPU in all runs, and the rates are
// half.
#include "bench/machine.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "bench/bench.h"

#define RUNS       32                  /* short ones: on a busy machine some are left alone */
#define READ_BYTES ((size_t)128 << 20) /* past most caches */
#define ROUNDS     (1u << 18)          /* of a multiply kernel: some 2 ms */

typedef struct probe {
    pthread_mutex_t gate; /* held until all threads are there */
    bool failed;          /* guarded by gate: they are not; do nothing */
    pthread_barrier_t start, end;
    const ft_bench_mac_kernel *kernel; /* NULL: read memory */
    const uint64_t *buffer;
    size_t n_words; /* a thread */
} probe;

typedef struct worker {
    pthread_t thread;
    probe *probe;
    int ith;
    volatile uint64_t sink; /* what keeps the work from being dropped */
} worker;

static uint64_t read_words(const uint64_t *at, size_t n)
{
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            sum[j] += at[i + (size_t)j];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

/* Binds the calling thread to CPU number `ith` of those that it may use. If the system refuses, the
 * thread is not bound. */
static void stay_on_cpu(int ith)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 1)
        return;
    int left = ith % CPU_COUNT(&all), cpu = 0;
    while (!CPU_ISSET(cpu, &all) || left-- > 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}

static void *work(void *arg)
{
    worker *w = arg;
    probe *p = w->probe;
    stay_on_cpu(w->ith);
    pthread_mutex_lock(&p->gate);
    bool failed = p->failed;
    pthread_mutex_unlock(&p->gate);
    for (int run = 0; run < RUNS && !failed; run++) {
        pthread_barrier_wait(&p->start);
        w->sink = p->kernel ? (uint64_t)p->kernel->run(ROUNDS)
                            : read_words(p->buffer + (size_t)w->ith * p->n_words, p->n_words);
        pthread_barrier_wait(&p->end);
    }
    return NULL;
}

/* Seconds of the best run. */
static ft_status best_run(probe *p, int n_threads, ft_error *err, double *best)
{
    worker *w = calloc((size_t)n_threads, sizeof *w);
    int n = 0;
    if (!w)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    pthread_mutex_init(&p->gate, NULL);
    pthread_barrier_init(&p->start, NULL, (unsigned)n_threads + 1);
    pthread_barrier_init(&p->end, NULL, (unsigned)n_threads + 1);
    pthread_mutex_lock(&p->gate);
    for (; n < n_threads; n++) {
        w[n] = (worker){.probe = p, .ith = n};
        if (pthread_create(&w[n].thread, NULL, work, &w[n]) != 0)
            break;
    }
    p->failed = n < n_threads;
    pthread_mutex_unlock(&p->gate);
    *best = 0;
    for (int run = 0; run < RUNS && n == n_threads; run++) {
        double begin = ft_bench_now_s();
        pthread_barrier_wait(&p->start);
        pthread_barrier_wait(&p->end);
        double s = ft_bench_now_s() - begin;
        *best = run == 0 || s < *best ? s : *best;
    }
    for (int i = 0; i < n; i++)
        pthread_join(w[i].thread, NULL);
    pthread_barrier_destroy(&p->start);
    pthread_barrier_destroy(&p->end);
    pthread_mutex_destroy(&p->gate);
    free(w);
    return n == n_threads ? FT_OK
                          : ft_error_set(err, FT_NOMEM, "cannot make %d threads", n_threads);
}

static const ft_bench_mac_kernel *f32_kernel(void)
{
    const ft_cpu *cpu = ft_cpu_get();
    if (cpu->avx512)
        return ft_bench_mac_f32_avx512();
    return cpu->avx2 ? ft_bench_mac_f32_avx2() : cpu->neon ? ft_bench_mac_f32_neon() : NULL;
}

static const ft_bench_mac_kernel *int8_kernel(void)
{
    const ft_cpu *cpu = ft_cpu_get();
    if (cpu->vnni)
        return ft_bench_mac_int8_vnni();
    return cpu->avx2 ? ft_bench_mac_int8_avx2() : cpu->dotprod ? ft_bench_mac_int8_dotprod() : NULL;
}

static ft_status rate(const ft_bench_mac_kernel *kernel, int n_threads, ft_error *err,
                      double *gmac_s)
{
    double best;
    probe p = {.kernel = kernel};
    *gmac_s = 0;
    if (!kernel)
        return FT_OK;
    ft_status status = best_run(&p, n_threads, err, &best);
    if (status == FT_OK)
        *gmac_s = (double)ROUNDS * kernel->macs * n_threads / best * 1e-9;
    return status;
}

ft_status ft_bench_machine_measure(int n_threads, ft_error *err, ft_bench_machine *out)
{
    double best = 0;
    uint64_t *buffer = malloc(READ_BYTES);
    probe p = {.buffer = buffer,
               .n_words = READ_BYTES / sizeof *buffer / (size_t)n_threads / 8 * 8};
    *out = (ft_bench_machine){0};
    if (!buffer)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    memset(buffer, 1, READ_BYTES); /* pages of its own, not the system's page of zeros */
    ft_status status = best_run(&p, n_threads, err, &best);
    free(buffer);
    if (status == FT_OK)
        out->read_gb_s = (double)p.n_words * sizeof *buffer * (size_t)n_threads / best * 1e-9;
    if (status == FT_OK)
        status = rate(f32_kernel(), n_threads, err, &out->f32_gmac_s);
    if (status == FT_OK)
        status = rate(int8_kernel(), n_threads, err, &out->int8_gmac_s);
    return status;
}

json_t *ft_bench_machine_json(const ft_bench_machine *machine)
{
    return json_pack("{s:f, s:f, s:f}", "read_gb_s", machine->read_gb_s, "f32_gmac_s",
                     machine->f32_gmac_s, "int8_gmac_s", machine->int8_gmac_s);
}

double ft_bench_bound_s(const ft_bench_machine *machine, const ft_bench_work *work)
{
    double read_s = machine->read_gb_s > 0 ? work->bytes / machine->read_gb_s : 0;
    double int8_rate = machine->int8_gmac_s > 0 ? machine->int8_gmac_s : machine->f32_gmac_s;
    double mac_s = machine->f32_gmac_s > 0
                       ? work->int8_macs / int8_rate + work->f32_macs / machine->f32_gmac_s
                       : 0;
    return (read_s > mac_s ? read_s : mac_s) * 1e-9;
}
