// SPDX-License-Identifier: Apache-2.0
// Reads of a weight stream by threads, each of which sleeps in one pread at a time: where there is
// no io_uring, and in tests that stand before the disk. The queue and the list of ended reads are
// guarded by the lock; no other lock is taken below it.
#include "model/stream_reads.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"

typedef struct readers {
    ft_weight_reads reads; /* first: its users see only this */
    ft_weight_reads_opts opts;
    pthread_mutex_t lock;
    pthread_cond_t queued; /* threads: there is a read, or stop */
    pthread_cond_t ended;  /* the owner: a read has ended, or woken */
    ft_weight_op *queue, **queue_end;
    ft_weight_op *done;
    bool woken, stop;
    pthread_t *threads; /* [n_threads] */
    unsigned n_threads;
} readers;

static int64_t read_one(const readers *r, const ft_weight_op *op)
{
    for (;;) {
        const ssize_t got =
            r->opts.read ? r->opts.read(r->opts.read_ctx, r->opts.fd, op->to, op->bytes, op->offset)
                         : pread(r->opts.fd, op->to, op->bytes, (off_t)op->offset);
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return -(int64_t)errno;
    }
}

static void *reader_main(void *arg)
{
    readers *r = arg;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        ft_weight_op *op = r->queue;
        if (!op) {
            pthread_cond_wait(&r->queued, &r->lock);
            continue;
        }
        r->queue = op->next;
        if (!r->queue)
            r->queue_end = &r->queue;
        pthread_mutex_unlock(&r->lock);
        op->got = read_one(r, op);
        pthread_mutex_lock(&r->lock);
        op->next = r->done;
        r->done = op;
        pthread_cond_signal(&r->ended);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void threads_start(ft_weight_reads *reads, ft_weight_op *list)
{
    readers *r = (readers *)reads;
    pthread_mutex_lock(&r->lock);
    *r->queue_end = list;
    while (*r->queue_end) {
        r->queue_end = &(*r->queue_end)->next;
        pthread_cond_signal(&r->queued);
    }
    pthread_mutex_unlock(&r->lock);
}

static ft_weight_op *threads_wait(ft_weight_reads *reads, bool sleep)
{
    readers *r = (readers *)reads;
    pthread_mutex_lock(&r->lock);
    while (sleep && !r->done && !r->woken)
        pthread_cond_wait(&r->ended, &r->lock);
    ft_weight_op *done = r->done;
    r->done = NULL;
    r->woken = false; /* who waits without sleeping looks at everything anyway */
    pthread_mutex_unlock(&r->lock);
    return done;
}

static void threads_wake(ft_weight_reads *reads)
{
    readers *r = (readers *)reads;
    pthread_mutex_lock(&r->lock);
    r->woken = true;
    pthread_cond_signal(&r->ended);
    pthread_mutex_unlock(&r->lock);
}

static void threads_destroy(ft_weight_reads *reads)
{
    readers *r = (readers *)reads;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->queued);
    pthread_mutex_unlock(&r->lock);
    for (unsigned i = 0; i < r->n_threads; i++)
        pthread_join(r->threads[i], NULL);
    pthread_cond_destroy(&r->ended);
    pthread_cond_destroy(&r->queued);
    pthread_mutex_destroy(&r->lock);
    free(r->threads);
    free(r);
}

ft_status ft_weight_reads_threads(const ft_weight_reads_opts *opts, ft_error *err,
                                  ft_weight_reads **out)
{
    readers *r = calloc(1, sizeof *r);
    pthread_t *threads = calloc(opts->n_threads, sizeof *threads);
    *out = NULL;
    if (!r || !threads) {
        free(r);
        free(threads);
        return ft_error_set(err, FT_NOMEM, "out of memory");
    }
    r->reads = (ft_weight_reads){.start = threads_start,
                                 .wait = threads_wait,
                                 .wake = threads_wake,
                                 .destroy = threads_destroy};
    r->opts = *opts;
    r->queue_end = &r->queue;
    r->threads = threads;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->queued, NULL);
    pthread_cond_init(&r->ended, NULL);
    for (unsigned i = 0; i < opts->n_threads; i++, r->n_threads++) {
        const ft_status st = ft_thread_start(reader_main, r, err, &r->threads[i]);
        if (st != FT_OK) {
            threads_destroy(&r->reads);
            return st;
        }
    }
    *out = &r->reads;
    return FT_OK;
}
