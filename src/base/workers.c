// SPDX-License-Identifier: Apache-2.0
// A fork-join pool. A run has a number (`run`). Opening it wakes the threads. They and the caller
// claim indices from one counter until none is left. The caller returns when no thread is inside
// the run. A thread that wakes too late finds the run closed and sleeps again. So the caller never
// waits for a thread that the kernel has not scheduled.
//
// Invariant: a thread reads the run's fields only between entering (n_inside + 1, under the lock
// and while the run is open) and leaving; the caller changes them only while n_inside is 0.
#include "base/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cpu.h"

typedef struct helper {
    ft_workers *workers;
    pthread_t thread;
    int number; /* > 0 */
} helper;

struct ft_workers {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* helpers: a run opened, or stop */
    pthread_cond_t left; /* the caller: n_inside is 0 */
    uint64_t run;        /* guarded by lock: how many have been opened */
    bool open, stop;     /* guarded by lock */
    int n_inside;        /* guarded by lock */
    int n_helpers;
    helper *helpers; /* [n_helpers] */
    size_t n;
    void (*task)(void *ctx, size_t i, int worker);
    void *ctx;
    atomic_size_t next;
};

static void work(ft_workers *w, int number)
{
    for (size_t i; (i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed)) < w->n;)
        w->task(w->ctx, i, number);
}

static void *helper_main(void *arg)
{
    const helper *h = arg;
    ft_workers *w = h->workers;
    uint64_t seen = 0;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        if (!w->open || seen == w->run) {
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        seen = w->run;
        w->n_inside++;
        pthread_mutex_unlock(&w->lock);
        work(w, h->number);
        pthread_mutex_lock(&w->lock);
        if (--w->n_inside == 0)
            pthread_cond_signal(&w->left);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

ft_status ft_workers_create(int n_threads, int most, ft_error *err, ft_workers **out)
{
    int n = ft_cpu_threads(n_threads);
    ft_workers *w = calloc(1, sizeof *w);
    n = n < most ? n : most;
    *out = NULL;
    if (!w)
        return ft_error_set(err, FT_NOMEM, "workers: out of memory");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->left, NULL);
    w->helpers = calloc((size_t)n, sizeof *w->helpers);
    for (; w->helpers && w->n_helpers < n - 1; w->n_helpers++) {
        helper *h = &w->helpers[w->n_helpers];
        *h = (helper){.workers = w, .number = w->n_helpers + 1};
        if (pthread_create(&h->thread, NULL, helper_main, h) != 0)
            break;
    }
    if (!w->helpers || w->n_helpers < n - 1) {
        ft_workers_destroy(w);
        return ft_error_set(err, FT_NOMEM, "workers: cannot start %d threads", n);
    }
    *out = w;
    return FT_OK;
}

void ft_workers_destroy(ft_workers *workers)
{
    ft_workers *w = workers;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_helpers; i++)
        pthread_join(w->helpers[i].thread, NULL);
    pthread_cond_destroy(&w->left);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w->helpers);
    free(w);
}

int ft_workers_count(const ft_workers *workers)
{
    return workers->n_helpers + 1;
}

void ft_workers_run(ft_workers *workers, size_t n, void (*task)(void *ctx, size_t i, int worker),
                    void *ctx)
{
    ft_workers *w = workers;
    bool helped = w->n_helpers > 0 && n > 1;
    w->n = n;
    w->task = task;
    w->ctx = ctx;
    atomic_store_explicit(&w->next, 0, memory_order_relaxed);
    if (helped) {
        pthread_mutex_lock(&w->lock);
        w->run++;
        w->open = true;
        /* no more threads than tasks; the caller takes one */
        for (size_t i = 1; i < n && i <= (size_t)w->n_helpers; i++)
            pthread_cond_signal(&w->wake);
        pthread_mutex_unlock(&w->lock);
    }
    work(w, 0);
    if (helped) {
        pthread_mutex_lock(&w->lock);
        w->open = false;
        while (w->n_inside > 0)
            pthread_cond_wait(&w->left, &w->lock);
        pthread_mutex_unlock(&w->lock);
    }
}
