// SPDX-License-Identifier: Apache-2.0
// Reads of a weight stream through io_uring. The owner's thread alone touches the ring. wake writes
// to an eventfd, which the ring polls: so the owner sleeps in one place, whatever ends its sleep.
#include "model/stream_reads.h"

#ifdef FT_HAVE_URING

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

typedef struct uring {
    ft_weight_reads reads; /* first: its users see only this */
    int fd, event;
    bool polling; /* the ring polls the eventfd */
    struct io_uring ring;
} uring;

/* The queue has room for all reads and the poll, so it is never full for longer than a call. */
static struct io_uring_sqe *next_entry(uring *u)
{
    struct io_uring_sqe *entry;
    while (!(entry = io_uring_get_sqe(&u->ring)))
        io_uring_submit(&u->ring);
    return entry;
}

static void uring_start(ft_weight_reads *reads, ft_weight_op *list)
{
    uring *u = (uring *)reads;
    for (ft_weight_op *op = list; op; op = op->next) {
        struct io_uring_sqe *entry = next_entry(u);
        io_uring_prep_read(entry, u->fd, op->to, (unsigned)op->bytes, op->offset);
        io_uring_sqe_set_data(entry, op);
    }
    if (list)
        io_uring_submit(&u->ring); /* what it does not accept now, wait submits */
}

/* Submits what is left and sleeps until something has ended. */
static void sleep_in_kernel(uring *u)
{
    const int n = io_uring_submit_and_wait(&u->ring, 1);
    if (n >= 0 || n == -EINTR || io_uring_cq_ready(&u->ring) > 0)
        return;
    /* The kernel is short of memory for requests: nothing else helps than to try again. */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Moves what has ended in front of the list. True: wake was called. */
static bool take_ended(uring *u, ft_weight_op **done)
{
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;
    bool woken = false;
    io_uring_for_each_cqe(&u->ring, head, cqe)
    {
        ft_weight_op *op = io_uring_cqe_get_data(cqe);
        n++;
        if (!op) {
            woken = true;
            continue;
        }
        op->got = cqe->res;
        op->next = *done;
        *done = op;
    }
    io_uring_cq_advance(&u->ring, n);
    return woken;
}

static ft_weight_op *uring_wait(ft_weight_reads *reads, bool sleep)
{
    uring *u = (uring *)reads;
    ft_weight_op *done = NULL;
    bool woken = false;
    if (!u->polling) {
        struct io_uring_sqe *entry = next_entry(u);
        io_uring_prep_poll_add(entry, u->event, POLLIN);
        io_uring_sqe_set_data(entry, NULL);
        u->polling = true;
    }
    do {
        if (sleep)
            sleep_in_kernel(u);
        else
            io_uring_get_events(&u->ring); /* what has ended becomes visible */
        woken = take_ended(u, &done);
    } while (sleep && !done && !woken);
    if (woken) {
        uint64_t count;
        ssize_t got = read(u->event, &count, sizeof count);
        (void)got; /* it does not block, and how often it was woken does not matter */
        u->polling = false;
    }
    return done;
}

static void uring_wake(ft_weight_reads *reads)
{
    const uint64_t one = 1;
    ssize_t written = write(((uring *)reads)->event, &one, sizeof one);
    (void)written; /* fails only if the count is full: then a wait ends anyway */
}

static void uring_destroy(ft_weight_reads *reads)
{
    uring *u = (uring *)reads;
    io_uring_queue_exit(&u->ring);
    close(u->event);
    free(u);
}

/* The kernel has what is used here (IORING_OP_READ: Linux 5.6). */
static bool has_operations(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    const bool ok = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                    io_uring_opcode_supported(probe, IORING_OP_POLL_ADD);
    io_uring_free_probe(probe);
    return ok;
}

/* COOP_TASKRUN (Linux 5.19): no interrupt for each read that ends while the owner computes. */
static int set_up(unsigned entries, struct io_uring *ring)
{
    const int st = io_uring_queue_init(entries, ring, IORING_SETUP_COOP_TASKRUN);
    return st == -EINVAL ? io_uring_queue_init(entries, ring, 0) : st;
}

ft_status ft_weight_reads_uring(const ft_weight_reads_opts *opts, ft_error *err,
                                ft_weight_reads **out)
{
    uring *u = calloc(1, sizeof *u);
    *out = NULL;
    if (!u)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    const int st = set_up(opts->most + 1, &u->ring);
    if (st < 0) {
        free(u);
        return ft_error_set(err, FT_UNSUPPORTED, "%s", strerror(-st));
    }
    u->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (u->event < 0 || !has_operations(&u->ring)) {
        if (u->event >= 0)
            close(u->event);
        io_uring_queue_exit(&u->ring);
        free(u);
        return ft_error_set(err, FT_UNSUPPORTED, "the kernel lacks operations");
    }
    u->fd = opts->fd;
    u->reads = (ft_weight_reads){.uring = true,
                                 .start = uring_start,
                                 .wait = uring_wait,
                                 .wake = uring_wake,
                                 .destroy = uring_destroy};
    *out = &u->reads;
    return FT_OK;
}

#else

ft_status ft_weight_reads_uring(const ft_weight_reads_opts *opts, ft_error *err,
                                ft_weight_reads **out)
{
    *out = NULL;
    return ft_error_set(err, FT_UNSUPPORTED, "not in this build");
}

#endif
