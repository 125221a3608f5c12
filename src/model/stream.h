/* SPDX-License-Identifier: Apache-2.0
 *
 * A weight stream: weights that do not fit in memory, read from the model file anew in every
 * forward pass, in order (EdgeLLM III-D, "computing-loading pipeline"). What is read as one is a
 * *part*: the matrices of a layer, or a piece of the output head. Parts are numbered from 0 in the
 * order of a pass and are read into a ring of slots. Behind the last part of a pass, the stream
 * fills the ring with the first parts of the next pass. It stops when the ring is full, and goes on
 * when the pass releases a slot.
 *
 *     ft_weight_stream_begin(stream, n, ...)
 *     for (part = 0; part < n; part++) {
 *         ft_weight_stream_wait(stream, part, err, &data)   compute with data
 *         ft_weight_stream_release(stream, part)
 *     }
 *
 * Reads go past the page cache (O_DIRECT), through io_uring where the kernel allows it, else
 * through threads that pread. Where a file system has no O_DIRECT, they go through the page cache,
 * and what was read is dropped from it.
 *
 * No wrong byte is handed out: an extent with a checksum is compared with it in each pass. For a
 * part with an extent that has none, and for rows, the file's size and time of change must be those
 * that it had when the stream was created.
 *
 * Threads: one thread at a time calls begin, wait, release and rows ("the pass"); any thread may
 * ask for statistics. The stream has a thread of its own, the reader; it computes checksums and
 * converts. One lock for the ring (ft_weight_stream.lock); below it, one for the queue of the
 * reading threads.
 */
#ifndef FT_MODEL_STREAM_H
#define FT_MODEL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/status.h"

/* For how long no read may end until a wait fails, unless opts say otherwise; a sixth of it brings
 * one warning to the log. A disk that sleeps starts in about ten seconds. */
#define FT_WEIGHT_STALL_US 30000000

/* A range of the file, such as a tensor's bytes. */
typedef struct ft_weight_extent {
    uint64_t offset; /* in the file; need not be aligned */
    size_t bytes;    /* above 0 */
    bool hashed;     /* the file says what the checksum is */
    uint64_t hash;   /* XXH3 of 64 bits, without a seed; if hashed */
} ft_weight_extent;

typedef struct ft_weight_part {
    char name[32];                   /* for messages, such as "layer 17" */
    const ft_weight_extent *extents; /* [n_extents], in any order; they do not overlap */
    size_t n_extents;                /* above 0 */
} ft_weight_part;

/* Makes of a part's bytes what the pass wants, for files in another layout. extents[i] is where the
 * bytes of the part's extent i are (with the alignment that they have in the file, up to 4 KiB);
 * slot has opts.slot_bytes, aligned to 4 KiB. On the reader's thread. */
typedef void ft_weight_convert(void *ctx, size_t part, const void *const *extents, void *slot);

/* As pread: returns the bytes read, which may be fewer than n, 0 behind the end of the file, or -1
 * with errno. On several threads at once. */
typedef ssize_t ft_weight_read(void *ctx, int fd, void *to, size_t n, uint64_t offset);

typedef struct ft_weight_stream_opts {
    int fd;           /* the open model file; borrowed during create, which opens the same
                                    file again, whatever the path names meanwhile */
    const char *path; /* for messages; copied */
    const ft_weight_part *parts; /* [n_parts], above 0; copied, with their extents */
    size_t n_parts;
    size_t n_slots; /* of the ring, above 0; with 1, nothing is read while the pass computes */
    /* NULL: a slot holds the file's own bytes. Else they are read into one staging area beside the
     * ring, and converted into a slot of slot_bytes. */
    ft_weight_convert *convert;
    void *convert_ctx;
    size_t slot_bytes; /* with convert only */
    size_t row_bytes;  /* the longest row that ft_weight_stream_rows will be asked for; 0: none */
    bool no_overlap;   /* a part is read when it is waited for, not before: load, then compute */
    bool threads_only; /* no io_uring */
    int64_t stall_us;  /* 0: FT_WEIGHT_STALL_US */
    ft_clock clock;    /* now_us NULL: the machine's */
    ft_weight_read
        *read; /* NULL: pread. Else it reads instead, in threads: for tests of accidents */
    void *read_ctx;
} ft_weight_stream_opts;

typedef struct ft_weight_stream ft_weight_stream;

/* Bytes of memory that a stream with these opts takes: ring, staging area, buffers for rows,
 * tables, the reads' queue. Needs no file. FT_INVALID: the parts are not as ft_weight_part says.
 * FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_weight_stream_need(const ft_weight_stream_opts *opts, ft_error *err,
                                               size_t *bytes);

/* Starts to read part 0 and what follows, unless no_overlap. Errors: those of need; FT_CORRUPT: the
 * file is too short for the parts; FT_IO, FT_EXHAUSTED, FT_NOMEM. The caller destroys *out; it is
 * NULL on failure. */
FT_WARN_UNUSED ft_status ft_weight_stream_create(const ft_weight_stream_opts *opts, ft_error *err,
                                                 ft_weight_stream **out);
/* Waits for the reads that are under way, since the kernel still writes to the stream's memory: on
 * a disk that does not answer, for as long as it does not. NULL is legal. */
void ft_weight_stream_destroy(ft_weight_stream *stream);

/* A pass begins that will ask for parts 0 to n - 1, n <= opts.n_parts. It may also begin before the
 * last one has come to its end: after an error, say. Parts that are in the ring already are kept if
 * the pass needs them soon; what the last pass still held is taken back; a part that could not be
 * read is tried again. Does not block. */
void ft_weight_stream_begin(ft_weight_stream *stream, size_t n);

/* Where a part is; valid until it is released or the next pass begins. Nobody may write there. */
typedef struct ft_weight_data {
    const void *slot; /* with convert: what it has made, else NULL */
    const void *const
        *extents; /* without convert: [n_extents], where each extent of the part is, with
                                   the alignment that it has in the file, up to 4 KiB; else NULL */
} ft_weight_data;

/* Sleeps until the part is there, and holds it. Parts are waited for in ascending order; those that
 * are left out count as released. Several may be held at once, but at most n_slots.
 * Errors, after which the pass is over and another one may begin: FT_IO (the disk reports an
 * error), FT_CORRUPT (a checksum does not match, the file has been changed or cut), FT_UNAVAILABLE
 * (the disk does not answer; the reads go on and the stream works again when it does),
 * FT_PRECONDITION (every slot is held, the part is not of this pass or not in order). *out is
 * unchanged then. */
FT_WARN_UNUSED ft_status ft_weight_stream_wait(ft_weight_stream *stream, size_t part, ft_error *err,
                                               ft_weight_data *out);
/* The pass needs a part no more. Of a part that is not held: does nothing. */
void ft_weight_stream_release(ft_weight_stream *stream, size_t part);

/* Reads n rows of `bytes` each (at most opts.row_bytes) at any offsets of the file, and writes them
 * to out one behind the other: the embeddings of a pass's tokens. All are under way at once, beside
 * what is read into the ring. Sleeps until they are there. Errors as of wait, and FT_INVALID: a row
 * is longer than opts.row_bytes. */
FT_WARN_UNUSED ft_status ft_weight_stream_rows(ft_weight_stream *stream, const uint64_t *offsets,
                                               size_t n, size_t bytes, void *out, ft_error *err);

typedef struct ft_weight_stream_stats {
    uint64_t read_bytes, parts, rows; /* completely read; bytes as the file system was asked for */
    int64_t reading_us;               /* during which at least one read was under way */
    int64_t waited_us;                /* during which the pass slept in wait or rows */
    bool uring;                       /* reads go through io_uring */
    bool direct;                      /* reads go past the page cache */
} ft_weight_stream_stats;

/* Since create. */
ft_weight_stream_stats ft_weight_stream_get_stats(ft_weight_stream *stream);
/* What ft_weight_stream_need says. */
size_t ft_weight_stream_bytes(const ft_weight_stream *stream);

/* Reads the first `bytes` of the file (all of it if it is shorter) from front to end in the way in
 * which a stream reads, and computes nothing: the rate that a stream can reach at most. Takes 16
 * MiB of memory meanwhile. fd is borrowed, path is for messages. FT_IO, FT_EXHAUSTED, FT_NOMEM;
 * FT_INVALID: the file is empty. */
FT_WARN_UNUSED ft_status ft_weight_stream_measure(int fd, const char *path, uint64_t bytes,
                                                  bool threads_only, ft_error *err,
                                                  double *bytes_per_s);

#endif
