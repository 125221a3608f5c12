/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads of a weight stream, many of them under way at once. There are two ways: io_uring
 * (stream_uring.c) and threads that pread (stream_threads.c). For the model room only. One thread,
 * the owner, calls all functions but wake. */
#ifndef FT_MODEL_STREAM_READS_H
#define FT_MODEL_STREAM_READS_H

#include "model/stream.h"

/* A read; its memory is its caller's until it has ended. */
typedef struct ft_weight_op {
    char *to;
    uint64_t offset;
    size_t bytes;
    int64_t got; /* when it has ended: bytes read, maybe fewer than wanted, or -errno */
    struct ft_weight_op *next; /* in a list of reads */
} ft_weight_op;

typedef struct ft_weight_reads ft_weight_reads;
struct ft_weight_reads {
    bool uring;
    /* Starts the reads of a list; NULL: none. */
    void (*start)(ft_weight_reads *reads, ft_weight_op *list);
    /* A list of reads that have ended, or NULL. If `sleep` is set, sleeps until there is one or
     * wake was called since the last wait. */
    ft_weight_op *(*wait)(ft_weight_reads *reads, bool sleep);
    /* Ends a wait, the present one or else the next. Any thread; never blocks. */
    void (*wake)(ft_weight_reads *reads);
    /* No read is under way. */
    void (*destroy)(ft_weight_reads *reads);
};

typedef struct ft_weight_reads_opts {
    int fd;               /* borrowed for as long as the reads live */
    unsigned most;        /* reads that are under way at once, at most */
    unsigned n_threads;   /* that pread */
    ft_weight_read *read; /* NULL: pread */
    void *read_ctx;
} ft_weight_reads_opts;

/* FT_UNSUPPORTED: the kernel or this build has no io_uring, or does not allow it; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_weight_reads_uring(const ft_weight_reads_opts *opts, ft_error *err,
                                               ft_weight_reads **out);
/* FT_NOMEM, FT_EXHAUSTED. */
FT_WARN_UNUSED ft_status ft_weight_reads_threads(const ft_weight_reads_opts *opts, ft_error *err,
                                                 ft_weight_reads **out);

#endif
