// SPDX-License-Identifier: Apache-2.0
// A file of weights and a disk that can be disturbed. The disk's fields are guarded by its lock.
#include "support/weight_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/stream_hash.h"
#include "model/stream_layout.h"
#include "support/tiny_gguf.h"

/* --- a file, and the parts in it --- */

uint64_t weight_hash_of(const void *data, size_t n)
{
    ft_weight_hash *hash = ft_weight_hash_create();
    ft_weight_hash_update(hash, data, n);
    const uint64_t value = ft_weight_hash_value(hash);
    ft_weight_hash_destroy(hash);
    return value;
}

void weight_file_write(const weight_file *f, const void *data, size_t n, uint64_t offset)
{
    assert_int_equal(pwrite(f->fd, data, n, (off_t)offset), n);
}

/* Parts of more than two pieces, with extents out of order: unaligned ones as in a plain GGUF, with
 * a gap of some pages, or aligned ones without gaps as in a packed file. */
void weight_file_set_parts(weight_file *f, bool aligned, bool hashed)
{
    uint64_t at = aligned ? 8192 : 4000;
    for (size_t i = 0; i < WEIGHT_FILE_PARTS; i++) {
        ft_weight_extent *e = f->extents[i];
        const size_t bytes = aligned ? 409600 : 400032 + 32 * i;
        for (size_t j = 0; j < WEIGHT_FILE_EXTENTS; j++) {
            ft_weight_extent *to = &e[(j + i) % WEIGHT_FILE_EXTENTS];
            at += !aligned && j == 2 ? 20000 : 0;
            *to = (ft_weight_extent){.offset = at, .bytes = bytes, .hashed = hashed};
            to->hash = weight_hash_of(f->bytes + at, bytes);
            at += bytes;
        }
        f->parts[i] = (ft_weight_part){.extents = e, .n_extents = WEIGHT_FILE_EXTENTS};
        snprintf(f->parts[i].name, sizeof f->parts[i].name, "layer %zu", i);
    }
    assert_true(at < WEIGHT_FILE_BYTES);
}

int weight_file_setup(void **state)
{
    static weight_file file_;
    weight_file *f = &file_;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    uint64_t x = 88172645463325252u;
    *f = (weight_file){.path = tiny_temp_path(), .bytes = malloc(WEIGHT_FILE_BYTES)};
    for (size_t i = 0; i < WEIGHT_FILE_BYTES; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        f->bytes[i] = (unsigned char)x;
    }
    f->fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(f->fd >= 0);
    weight_file_write(f, f->bytes, WEIGHT_FILE_BYTES, 0);
    assert_int_equal(futimens(f->fd, long_ago), 0); /* every change is another time */
    weight_file_set_parts(f, false, true);
    *state = f;
    return 0;
}

int weight_file_teardown(void **state)
{
    weight_file *f = *state;
    close(f->fd);
    unlink(f->path);
    free(f->path);
    free(f->bytes);
    return 0;
}

ft_weight_stream_opts weight_file_opts(const weight_file *f)
{
    return (ft_weight_stream_opts){.fd = f->fd,
                                   .path = f->path,
                                   .parts = f->parts,
                                   .n_parts = WEIGHT_FILE_PARTS,
                                   .n_slots = 3};
}

ft_weight_stream *weight_file_stream(const ft_weight_stream_opts *opts)
{
    ft_weight_stream *stream;
    ft_error err = {0};
    if (ft_weight_stream_create(opts, &err, &stream) != FT_OK)
        fail_msg("%s", err.message);
    return stream;
}

void weight_file_check(const weight_file *f, size_t part, const ft_weight_data *data)
{
    assert_null(data->slot);
    for (size_t i = 0; i < WEIGHT_FILE_EXTENTS; i++) {
        const ft_weight_extent *e = &f->extents[part][i];
        assert_int_equal((uintptr_t)data->extents[i] % FT_WEIGHT_PAGE, e->offset % FT_WEIGHT_PAGE);
        assert_memory_equal(data->extents[i], f->bytes + e->offset, e->bytes);
    }
}

/* One part of a pass, checked and released. */
void weight_file_step(const weight_file *f, ft_weight_stream *stream, size_t part)
{
    ft_weight_data data;
    ft_error err = {0};
    if (ft_weight_stream_wait(stream, part, &err, &data) != FT_OK)
        fail_msg("part %zu: %s", part, err.message);
    weight_file_check(f, part, &data);
    ft_weight_stream_release(stream, part);
}

void weight_file_pass(const weight_file *f, ft_weight_stream *stream, size_t n)
{
    ft_weight_stream_begin(stream, n);
    for (size_t i = 0; i < n; i++)
        weight_file_step(f, stream, i);
}

/* A pass of which part `bad` fails, by an error that names file and part. */
void weight_file_failing_pass(const weight_file *f, ft_weight_stream *stream, size_t bad,
                              ft_status code)
{
    ft_weight_data data = {0};
    ft_error err = {0};
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    for (size_t i = 0; i < bad; i++)
        weight_file_step(f, stream, i);
    assert_int_equal(ft_weight_stream_wait(stream, bad, &err, &data), code);
    assert_null(data.extents);
    assert_non_null(strstr(err.message, f->path));
    if (!strstr(err.message, f->parts[bad].name))
        fail_msg("%s", err.message);
}

void weight_file_check_rows(const weight_file *f, ft_weight_stream *stream, uint64_t seed)
{
    uint64_t offsets[WEIGHT_FILE_ROWS];
    unsigned char rows[WEIGHT_FILE_ROWS * WEIGHT_FILE_ROW];
    ft_error err = {0};
    for (size_t i = 0; i < WEIGHT_FILE_ROWS; i++)
        offsets[i] = (seed + i) * 2654435761u % (WEIGHT_FILE_BYTES - WEIGHT_FILE_ROW);
    offsets[0] = 0;
    offsets[1] = WEIGHT_FILE_BYTES - WEIGHT_FILE_ROW;
    offsets[2] = 8191;
    if (ft_weight_stream_rows(stream, offsets, WEIGHT_FILE_ROWS, WEIGHT_FILE_ROW, rows, &err) !=
        FT_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < WEIGHT_FILE_ROWS; i++)
        assert_memory_equal(rows + i * WEIGHT_FILE_ROW, f->bytes + offsets[i], WEIGHT_FILE_ROW);
}

/* --- a disk that can be disturbed --- */

static void weak_disk_init(weak_disk *d)
{
    memset(d, 0, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
}

static ssize_t disk_read(void *ctx, int fd, void *to, size_t n, uint64_t offset)
{
    weak_disk *d = ctx;
    pthread_mutex_lock(&d->lock);
    d->n_stuck++;
    pthread_cond_broadcast(&d->changed);
    while (d->stalled)
        pthread_cond_wait(&d->changed, &d->lock);
    d->n_stuck--;
    n = d->most && n > d->most ? d->most : n;
    const bool bad = offset < d->bad_end && offset + n > d->bad;
    for (uint64_t at = offset; at < offset + n && at < WEIGHT_FILE_BYTES; at += 4096)
        d->n_reads[at / 4096]++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    errno = EIO;
    return bad ? -1 : pread(fd, to, n, (off_t)offset);
}

static int64_t disk_now(void *ctx)
{
    weak_disk *d = ctx;
    pthread_mutex_lock(&d->lock);
    if (d->stalled && d->n_stuck > 0)
        d->now_us += 1000;
    const int64_t now = d->now_us;
    pthread_mutex_unlock(&d->lock);
    return now;
}

ft_weight_stream_opts weak_disk_opts(const weight_file *f, weak_disk *d)
{
    ft_weight_stream_opts opts = weight_file_opts(f);
    weak_disk_init(d);
    opts.read = disk_read;
    opts.read_ctx = d;
    opts.clock = (ft_clock){disk_now, d};
    opts.stall_us = 30 * 100;
    return opts;
}

void weak_disk_limit(weak_disk *d, size_t most)
{
    pthread_mutex_lock(&d->lock);
    d->most = most;
    pthread_mutex_unlock(&d->lock);
}

void weak_disk_set(weak_disk *d, bool stalled, uint64_t bad, uint64_t bad_end)
{
    pthread_mutex_lock(&d->lock);
    d->stalled = stalled;
    d->bad = bad;
    d->bad_end = bad_end;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

uint64_t weak_disk_times_read(const weight_file *f, weak_disk *d, size_t part)
{
    /* the middle of an extent belongs to no other part */
    const ft_weight_extent *e = &f->extents[part][0];
    pthread_mutex_lock(&d->lock);
    const uint64_t n = d->n_reads[(e->offset + e->bytes / 2) / 4096];
    pthread_mutex_unlock(&d->lock);
    return n;
}

/* Sleeps until the middle of a part's first extent has been asked for so often. */
void weak_disk_await(const weight_file *f, weak_disk *d, size_t part, uint64_t n)
{
    const ft_weight_extent *e = &f->extents[part][0];
    pthread_mutex_lock(&d->lock);
    while (d->n_reads[(e->offset + e->bytes / 2) / 4096] < n)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}
