/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of weight streams: a file with parts whose bytes are known, steps of a pass that
 * compare them, and a disk that can be disturbed, which stands before pread.
 */
#ifndef FT_TEST_WEIGHT_FILE_H
#define FT_TEST_WEIGHT_FILE_H

#include <pthread.h>

#include "model/stream.h"

#define WEIGHT_FILE_PARTS   9
#define WEIGHT_FILE_EXTENTS 3
#define WEIGHT_FILE_BYTES   ((size_t)12 << 20)
/* What weight_file_check_rows asks for. */
#define WEIGHT_FILE_ROWS 100
#define WEIGHT_FILE_ROW  612

typedef struct weight_file {
    char *path;
    int fd;
    unsigned char *bytes; /* [WEIGHT_FILE_BYTES] of the file */
    ft_weight_extent extents[WEIGHT_FILE_PARTS][WEIGHT_FILE_EXTENTS];
    ft_weight_part parts[WEIGHT_FILE_PARTS];
} weight_file;

/* For cmocka: *state is a weight_file, with unaligned extents that have checksums. */
int weight_file_setup(void **state);
int weight_file_teardown(void **state);

/* Parts of more than two pieces, with extents out of order: unaligned ones as in a plain GGUF, with
 * a gap of some pages, or aligned ones without gaps as in a packed file. */
void weight_file_set_parts(weight_file *f, bool aligned, bool hashed);
/* Changes bytes of the file; f->bytes stay. */
void weight_file_write(const weight_file *f, const void *data, size_t n, uint64_t offset);
/* A checksum, in one step. */
uint64_t weight_hash_of(const void *data, size_t n);

/* All parts, three slots. */
ft_weight_stream_opts weight_file_opts(const weight_file *f);
/* It must succeed. */
ft_weight_stream *weight_file_stream(const ft_weight_stream_opts *opts);
/* Compares a part. */
void weight_file_check(const weight_file *f, size_t part, const ft_weight_data *data);
/* One part of a pass: waits, checks, releases. */
void weight_file_step(const weight_file *f, ft_weight_stream *stream, size_t part);
/* A pass over n parts. */
void weight_file_pass(const weight_file *f, ft_weight_stream *stream, size_t n);
/* A pass of which part `bad` fails, by an error that names file and part. */
void weight_file_failing_pass(const weight_file *f, ft_weight_stream *stream, size_t bad,
                              ft_status code);
/* Rows all over the file, at other places for another seed. */
void weight_file_check_rows(const weight_file *f, ft_weight_stream *stream, uint64_t seed);

typedef struct weak_disk {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t most;           /* bytes a read gets at most; 0: no limit */
    uint64_t bad, bad_end; /* reads of this range fail */
    bool stalled;          /* reads do not end */
    size_t n_stuck;        /* reads that do not end now */
    int64_t now_us;        /* the stream's clock; while reads are stuck it runs */
    uint64_t n_reads[WEIGHT_FILE_BYTES / 4096]; /* of each page */
} weak_disk;

/* The options of weight_file_opts, with this disk and its clock. Sets *d. */
ft_weight_stream_opts weak_disk_opts(const weight_file *f, weak_disk *d);
/* How much a read gets at most, from now on; 0: no limit. */
void weak_disk_limit(weak_disk *d, size_t most);
/* Whether reads end, and which range fails, from now on. */
void weak_disk_set(weak_disk *d, bool stalled, uint64_t bad, uint64_t bad_end);
/* How often the middle of a part's first extent has been read: it belongs to no other part. */
uint64_t weak_disk_times_read(const weight_file *f, weak_disk *d, size_t part);
/* Sleeps until it has been read so often. */
void weak_disk_await(const weight_file *f, weak_disk *d, size_t part, uint64_t n);

#endif
