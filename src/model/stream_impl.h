/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a weight stream, shared by stream.c (the pass's side), stream_rows.c and
 * stream_reader.c (the reader's thread). For these alone.
 *
 * The states of a slot of the ring:
 *
 *     from      to        who moves it, and when
 *     FREE      READING   reader: the slot is the next part's
 *     READING   READY     reader: every byte is in, and the checksums match
 *     READING   FAILED    reader: an error; it is in the slot
 *     READY     HELD      pass: wait
 *     HELD      FREE      pass: release; begin, if the new pass does not need the part
 *     HELD      READY     pass: begin, if the new pass needs the part soon
 *     READY     FREE      pass: begin or wait, if it does not need the part
 *     READING   DROPPED   pass: the same
 *     FAILED    DROPPED   pass: begin, so that the part is tried again
 *     DROPPED   FREE      reader: nothing is under way to the slot's memory
 *
 * The memory of a READING, FAILED or DROPPED slot is the reader's and the kernel's alone.
 *
 * Places in the order of reading have numbers that only grow. Those from `base` on are the parts of
 * the present pass, those from base + n on are the parts of the next one, as if it wanted all of
 * them. */
#ifndef FT_MODEL_STREAM_IMPL_H
#define FT_MODEL_STREAM_IMPL_H

#include <pthread.h>

#include "model/stream_file.h"
#include "model/stream_hash.h"
#include "model/stream_layout.h"

/* Reads into the ring that are under way at once: 16 MiB. With half of them a virtual disk of
 * 2.5 GB/s is as fast while nothing is computed. But it runs dry when checksums or other threads
 * keep the reader from its processor for some milliseconds. More of them would only make rows
 * wait. */
#define FT_WEIGHT_DEPTH 32
/* Threads that read where there is no io_uring. */
#define FT_WEIGHT_THREADS 8
/* Rows that are read at once, beside the reads into the ring; more of them take turns. */
#define FT_WEIGHT_ROWS 32
/* What the reader and the reads' queue take beside the tables, as a memory cgroup counts it: the
 * kernel's rings, or 30 KiB for each thread that reads (its two stacks, its task). */
#define FT_WEIGHT_QUEUE_BYTES ((size_t)384 << 10)

typedef enum ft_weight_slot_state {
    FT_WEIGHT_FREE,
    FT_WEIGHT_READING,
    FT_WEIGHT_READY,
    FT_WEIGHT_HELD,
    FT_WEIGHT_FAILED,
    FT_WEIGHT_DROPPED
} ft_weight_slot_state;

/* How far a slot's part has been read; the reader's own. */
typedef struct ft_weight_fill {
    char *to;            /* the slot's memory or the staging area */
    size_t n_sent;       /* pieces whose reads have been started */
    size_t n_flying;     /* of them, under way */
    bool *whole;         /* [most_pieces] which pieces are in */
    size_t n_seen;       /* pieces that are in without a gap, and in the checksums */
    size_t range, bytes; /* what the checksum has seen: all ranges before, so much of this one */
    ft_weight_hash *hash;
} ft_weight_fill;

typedef struct ft_weight_slot {
    ft_weight_slot_state state; /* guarded by lock */
    uint64_t place;             /* guarded by lock; in the order of reading */
    size_t part;                /* the reader sets it when it fills a FREE slot */
    ft_error error;             /* guarded by lock; if FAILED */
    char *memory;
    const void **extents; /* [most_ranges] */
    ft_weight_fill fill;
} ft_weight_slot;

/* A read, and what it is for. The reader's own. */
typedef struct ft_weight_fetch {
    ft_weight_op op; /* first */
    bool busy;
    size_t need, got;     /* bytes that must come, and that have come */
    ft_weight_slot *slot; /* NULL: it is for a row */
    size_t piece;         /* of the slot's part */
    char *page;           /* row: its buffer */
    uint64_t request;     /* row: of which request */
    size_t row, skip;     /* row: which one, and where it begins in the buffer */
} ft_weight_fetch;

/* Rows that the pass waits for; guarded by lock. */
typedef struct ft_weight_request {
    uint64_t number;
    bool open;               /* the pass waits, and out may be written to */
    const uint64_t *offsets; /* [n] */
    size_t n, bytes, n_sent, n_done;
    char *out;
    ft_status failed;
    ft_error error;
} ft_weight_request;

/* What the pass wants; guarded by lock. */
typedef struct ft_weight_order {
    uint64_t base;  /* place of the pass's part 0 */
    uint64_t next;  /* nothing before it is to be read; what is in the ring already is left out */
    size_t n;       /* parts of the pass */
    size_t n_asked; /* parts that the pass has waited for or left out */
    bool waiting;   /* the pass sleeps until part n_asked - 1 is there */
} ft_weight_order;

typedef struct ft_weight_sizes {
    size_t raw, slot, cell; /* bytes of a part's buffer, of a slot, and of a row's buffer */
    size_t mapped, total;   /* of ring, staging area and rows' buffers; of everything */
} ft_weight_sizes;

struct ft_weight_stream {
    ft_weight_stream_opts opts; /* without parts; path is a copy */
    ft_weight_layout layout;
    ft_weight_sizes sizes;
    ft_weight_file file;
    ft_weight_reads *reads;
    char *memory, *staging;
    ft_weight_slot *slots;    /* [opts.n_slots] */
    ft_weight_fetch *fetches; /* [FT_WEIGHT_DEPTH + FT_WEIGHT_ROWS] pieces first */
    ft_weight_slot *staged;   /* the reader's own: whose part is in the staging area, or NULL */
    pthread_t reader;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the pass: a slot or the request has changed */
    struct {
        ft_weight_order order;
        ft_weight_request request;
        ft_weight_stream_stats stats; /* reading_us: without the reads that are under way */
        int64_t reading_since_us;     /* if n_flying > 0 */
        size_t n_flying;              /* reads under way */
        uint64_t n_ended;             /* reads that have ended */
        bool stop;
    } shared; /* guarded by lock */
};

/* The reader's thread; arg is the stream. It returns when stop is set and no read is under way. */
void *ft_weight_reader_main(void *arg);

/* The pass sleeps until something has changed, or a while. *idle_us counts for how long no read has
 * ended; the caller sets it to 0 at first and *n_ended to shared.n_ended. FT_UNAVAILABLE: the disk
 * does not answer. Lock held. */
FT_WARN_UNUSED ft_status ft_weight_sleep(ft_weight_stream *stream, int64_t *idle_us,
                                         uint64_t *n_ended, ft_error *err);

#endif
