// SPDX-License-Identifier: Apache-2.0
// Weight streams: every pass gets the file's bytes, by both ways to read; what is read ahead and
// what is not; files that are cut or changed meanwhile; a disk that fails, gives little at once or
// does not answer (support: the struct disk, which stands before pread).
#include "model/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cond.h"
#include "model/stream_hash.h"
#include "model/stream_layout.h"
#include "support/tiny_gguf.h"

#define N_PARTS    9
#define N_EXTENTS  3
#define FILE_BYTES ((size_t)12 << 20)
#define NO_PART    SIZE_MAX

/* --- a file, and the parts in it --- */

typedef struct fixture {
    char *path;
    int fd;
    unsigned char *bytes; /* [FILE_BYTES] of the file */
    ft_weight_extent extents[N_PARTS][N_EXTENTS];
    ft_weight_part parts[N_PARTS];
} fixture;

static uint64_t hash_of(const void *data, size_t n)
{
    ft_weight_hash *hash = ft_weight_hash_create();
    ft_weight_hash_update(hash, data, n);
    const uint64_t value = ft_weight_hash_value(hash);
    ft_weight_hash_destroy(hash);
    return value;
}

static void write_at(const fixture *f, const void *data, size_t n, uint64_t offset)
{
    assert_int_equal(pwrite(f->fd, data, n, (off_t)offset), n);
}

/* Parts of more than two pieces, with extents out of order: unaligned ones as in a plain GGUF, with
 * a gap of some pages, or aligned ones without gaps as in a packed file. */
static void set_parts(fixture *f, bool aligned, bool hashed)
{
    uint64_t at = aligned ? 8192 : 4000;
    for (size_t i = 0; i < N_PARTS; i++) {
        ft_weight_extent *e = f->extents[i];
        const size_t bytes = aligned ? 409600 : 400032 + 32 * i;
        for (size_t j = 0; j < N_EXTENTS; j++) {
            ft_weight_extent *to = &e[(j + i) % N_EXTENTS];
            at += !aligned && j == 2 ? 20000 : 0;
            *to = (ft_weight_extent){.offset = at, .bytes = bytes, .hashed = hashed};
            to->hash = hash_of(f->bytes + at, bytes);
            at += bytes;
        }
        f->parts[i] = (ft_weight_part){.extents = e, .n_extents = N_EXTENTS};
        snprintf(f->parts[i].name, sizeof f->parts[i].name, "layer %zu", i);
    }
    assert_true(at < FILE_BYTES);
}

static int setup(void **state)
{
    static fixture fixture_;
    fixture *f = &fixture_;
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    uint64_t x = 88172645463325252u;
    *f = (fixture){.path = tiny_temp_path(), .bytes = malloc(FILE_BYTES)};
    for (size_t i = 0; i < FILE_BYTES; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        f->bytes[i] = (unsigned char)x;
    }
    f->fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(f->fd >= 0);
    write_at(f, f->bytes, FILE_BYTES, 0);
    assert_int_equal(futimens(f->fd, long_ago), 0); /* every change is another time */
    set_parts(f, false, true);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    close(f->fd);
    unlink(f->path);
    free(f->path);
    free(f->bytes);
    return 0;
}

static ft_weight_stream_opts opts_of(const fixture *f)
{
    return (ft_weight_stream_opts){
        .fd = f->fd, .path = f->path, .parts = f->parts, .n_parts = N_PARTS, .n_slots = 3};
}

static ft_weight_stream *create(const ft_weight_stream_opts *opts)
{
    ft_weight_stream *stream;
    ft_error err = {0};
    if (ft_weight_stream_create(opts, &err, &stream) != FT_OK)
        fail_msg("%s", err.message);
    return stream;
}

static void check_extents(const fixture *f, size_t part, const ft_weight_data *data)
{
    assert_null(data->slot);
    for (size_t i = 0; i < N_EXTENTS; i++) {
        const ft_weight_extent *e = &f->extents[part][i];
        assert_int_equal((uintptr_t)data->extents[i] % FT_WEIGHT_PAGE, e->offset % FT_WEIGHT_PAGE);
        assert_memory_equal(data->extents[i], f->bytes + e->offset, e->bytes);
    }
}

/* One part of a pass, checked and released. */
static void step(const fixture *f, ft_weight_stream *stream, size_t part)
{
    ft_weight_data data;
    ft_error err = {0};
    if (ft_weight_stream_wait(stream, part, &err, &data) != FT_OK)
        fail_msg("part %zu: %s", part, err.message);
    check_extents(f, part, &data);
    ft_weight_stream_release(stream, part);
}

static void pass(const fixture *f, ft_weight_stream *stream, size_t n)
{
    ft_weight_stream_begin(stream, n);
    for (size_t i = 0; i < n; i++)
        step(f, stream, i);
}

/* A pass of which part `bad` fails, by an error that names file and part. */
static void failing_pass(const fixture *f, ft_weight_stream *stream, size_t bad, ft_status code)
{
    ft_weight_data data = {0};
    ft_error err = {0};
    ft_weight_stream_begin(stream, N_PARTS);
    for (size_t i = 0; i < bad; i++)
        step(f, stream, i);
    assert_int_equal(ft_weight_stream_wait(stream, bad, &err, &data), code);
    assert_null(data.extents);
    assert_non_null(strstr(err.message, f->path));
    if (!strstr(err.message, f->parts[bad].name))
        fail_msg("%s", err.message);
}

/* --- a disk that can be disturbed --- */

typedef struct disk {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t most;                         /* bytes a read gets at most; 0: no limit */
    uint64_t bad, bad_end;               /* reads of this range fail */
    bool stalled;                        /* reads do not end */
    size_t n_stuck;                      /* reads that do not end now */
    int64_t now_us;                      /* the stream's clock; while reads are stuck it runs */
    uint64_t n_reads[FILE_BYTES / 4096]; /* of each page */
} disk;

static void disk_init(disk *d)
{
    memset(d, 0, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
}

static ssize_t disk_read(void *ctx, int fd, void *to, size_t n, uint64_t offset)
{
    disk *d = ctx;
    pthread_mutex_lock(&d->lock);
    d->n_stuck++;
    pthread_cond_broadcast(&d->changed);
    while (d->stalled)
        pthread_cond_wait(&d->changed, &d->lock);
    d->n_stuck--;
    n = d->most && n > d->most ? d->most : n;
    const bool bad = offset < d->bad_end && offset + n > d->bad;
    for (uint64_t at = offset; at < offset + n && at < FILE_BYTES; at += 4096)
        d->n_reads[at / 4096]++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    errno = EIO;
    return bad ? -1 : pread(fd, to, n, (off_t)offset);
}

static int64_t disk_now(void *ctx)
{
    disk *d = ctx;
    pthread_mutex_lock(&d->lock);
    if (d->stalled && d->n_stuck > 0)
        d->now_us += 1000;
    const int64_t now = d->now_us;
    pthread_mutex_unlock(&d->lock);
    return now;
}

static ft_weight_stream_opts opts_with_disk(const fixture *f, disk *d)
{
    ft_weight_stream_opts opts = opts_of(f);
    disk_init(d);
    opts.read = disk_read;
    opts.read_ctx = d;
    opts.clock = (ft_clock){disk_now, d};
    opts.stall_us = 30 * 100;
    return opts;
}

static void disk_set(disk *d, bool stalled, uint64_t bad, uint64_t bad_end)
{
    pthread_mutex_lock(&d->lock);
    d->stalled = stalled;
    d->bad = bad;
    d->bad_end = bad_end;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static uint64_t times_read(const fixture *f, disk *d, size_t part)
{
    /* the middle of an extent belongs to no other part */
    const ft_weight_extent *e = &f->extents[part][0];
    pthread_mutex_lock(&d->lock);
    const uint64_t n = d->n_reads[(e->offset + e->bytes / 2) / 4096];
    pthread_mutex_unlock(&d->lock);
    return n;
}

/* Sleeps until the middle of a part's first extent has been asked for so often. */
static void await_reads(const fixture *f, disk *d, size_t part, uint64_t n)
{
    const ft_weight_extent *e = &f->extents[part][0];
    pthread_mutex_lock(&d->lock);
    while (d->n_reads[(e->offset + e->bytes / 2) / 4096] < n)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

/* --- passes --- */

static void test_passes(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    for (int variant = 0; variant < 16; variant++) {
        set_parts(f, variant & 1, variant & 2);
        opts.threads_only = variant & 4;
        opts.no_overlap = variant & 8;
        for (opts.n_slots = 1; opts.n_slots < N_PARTS + 3; opts.n_slots += 2) {
            ft_weight_stream *stream = create(&opts);
            for (int i = 0; i < 2; i++)
                pass(f, stream, N_PARTS);
            const ft_weight_stream_stats stats = ft_weight_stream_get_stats(stream);
            assert_true(stats.parts >= 2 * N_PARTS);
            assert_true(stats.read_bytes >= 2 * N_PARTS * (uint64_t)N_EXTENTS * 400032);
            assert_true(stats.waited_us >= 0 && stats.reading_us > 0);
            assert_true(!opts.threads_only || !stats.uring);
            ft_weight_stream_destroy(stream);
        }
    }
}

/* Passes without the last parts (no logits are wanted), and with them; passes that leave parts out.
 */
static void test_fewer_parts(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    for (opts.n_slots = 1; opts.n_slots < N_PARTS + 3; opts.n_slots++) {
        ft_weight_stream *stream = create(&opts);
        for (size_t n = 0; n <= N_PARTS; n++) {
            pass(f, stream, n * 5 % (N_PARTS + 1));
            ft_weight_stream_begin(stream, N_PARTS);
            step(f, stream, n * 2 % (N_PARTS - 1));
            step(f, stream, N_PARTS - 1);
        }
        ft_weight_stream_destroy(stream);
    }
}

static void test_held(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    ft_weight_data data[3], other;
    ft_error err = {0};
    ft_weight_stream *stream = create(&opts);
    ft_weight_stream_begin(stream, N_PARTS);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ft_weight_stream_wait(stream, i, &err, &data[i]), FT_OK);
    assert_int_equal(ft_weight_stream_wait(stream, 3, &err, &other), FT_PRECONDITION);
    for (size_t i = 0; i < 3; i++)
        check_extents(f, i, &data[i]);
    ft_weight_stream_release(stream, 1);
    ft_weight_stream_release(stream, 1);
    ft_weight_stream_release(stream, 7); /* not held: nothing happens */
    assert_int_equal(ft_weight_stream_wait(stream, 2, &err, &other), FT_PRECONDITION);
    assert_int_equal(ft_weight_stream_wait(stream, N_PARTS, &err, &other), FT_PRECONDITION);
    step(f, stream, 3);
    check_extents(f, 0, &data[0]);
    check_extents(f, 2, &data[2]);
    pass(f, stream, N_PARTS); /* takes back what is held */
    ft_weight_stream_destroy(stream);
}

/* Behind a pass the ring is filled with the next one's first parts, and no others. */
static void test_reads_ahead(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    ft_weight_stream *stream = create(&opts);
    for (size_t i = 0; i < 3; i++)
        await_reads(f, &d, i, 1); /* before the first pass begins */
    pass(f, stream, N_PARTS);
    for (size_t i = 0; i < 3; i++)
        await_reads(f, &d, i, 2);
    ft_weight_stream_begin(stream, N_PARTS);
    step(f, stream, 0);
    await_reads(f, &d, 3, 2);
    ft_weight_stream_destroy(stream);
    for (size_t i = 0; i < N_PARTS; i++)
        assert_int_equal(times_read(f, &d, i), i <= 3 ? 2 : 1);
}

static void test_no_overlap(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    opts.no_overlap = true;
    ft_weight_stream *stream = create(&opts);
    ft_weight_stream_begin(stream, N_PARTS);
    for (size_t part = 0; part < N_PARTS; part++) {
        step(f, stream, part);
        for (size_t i = 0; i < N_PARTS; i++)
            assert_int_equal(times_read(f, &d, i), i <= part);
    }
    ft_weight_stream_destroy(stream);
    for (size_t i = 0; i < N_PARTS; i++)
        assert_int_equal(times_read(f, &d, i), 1);
}

/* What the ring has of a broken-off pass is not read again. */
static void test_begins_anew(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    ft_weight_data data;
    ft_error err;
    ft_weight_stream *stream = create(&opts);
    ft_weight_stream_begin(stream, N_PARTS);
    assert_int_equal(ft_weight_stream_wait(stream, 0, &err, &data), FT_OK);
    pass(f, stream, N_PARTS); /* it held part 0, and had part 1 and 2 */
    for (size_t i = 0; i < 3; i++)
        await_reads(f, &d, i, 2);
    ft_weight_stream_begin(stream, N_PARTS);
    for (size_t i = 0; i < 5; i++)
        step(f, stream, i);
    pass(f, stream, N_PARTS); /* the ring had later parts */
    ft_weight_stream_destroy(stream);
    assert_int_equal(times_read(f, &d, 3), 3);
}

/* --- conversion --- */

typedef struct convert_ctx {
    const fixture *f;
    size_t n_calls;
} convert_ctx;

/* The slot: 100,000 bytes of each extent, complemented. */
static void complement(void *arg, size_t part, const void *const *extents, void *slot)
{
    convert_ctx *ctx = arg;
    unsigned char *to = slot;
    for (size_t i = 0; i < N_EXTENTS; i++) {
        const ft_weight_extent *e = &ctx->f->extents[part][i];
        const unsigned char *from = extents[i];
        assert_int_equal((uintptr_t)from % FT_WEIGHT_PAGE, e->offset % FT_WEIGHT_PAGE);
        for (size_t k = 0; k < 100000; k++)
            *to++ = (unsigned char)~from[k];
    }
    ctx->n_calls++;
}

static void test_converts(void **state)
{
    fixture *f = *state;
    convert_ctx ctx = {.f = f};
    ft_weight_stream_opts opts = opts_of(f);
    opts.convert = complement;
    opts.convert_ctx = &ctx;
    opts.slot_bytes = N_EXTENTS * 100000;
    for (int variant = 0; variant < 4; variant++) {
        opts.threads_only = variant & 1;
        opts.n_slots = variant & 2 ? 1 : 4;
        ft_weight_stream *stream = create(&opts);
        ctx.n_calls = 0;
        for (size_t i = 0; i < 3 * N_PARTS; i++) {
            const size_t part = i % N_PARTS;
            ft_weight_data data;
            if (part == 0)
                ft_weight_stream_begin(stream, N_PARTS);
            assert_int_equal(ft_weight_stream_wait(stream, part, NULL, &data), FT_OK);
            assert_null(data.extents);
            assert_int_equal((uintptr_t)data.slot % FT_WEIGHT_PAGE, 0);
            for (size_t k = 0; k < opts.slot_bytes; k++) {
                const ft_weight_extent *e = &f->extents[part][k / 100000];
                const unsigned char is = ((const unsigned char *)data.slot)[k];
                const unsigned char was = f->bytes[e->offset + k % 100000];
                if ((is ^ was) != 0xff)
                    fail_msg("part %zu, byte %zu", part, k);
            }
            ft_weight_stream_release(stream, part);
        }
        ft_weight_stream_destroy(stream);
        assert_true(ctx.n_calls >= 3 * N_PARTS);
    }
}

/* --- rows --- */

#define N_ROWS    100
#define ROW_BYTES 612

static void check_rows(const fixture *f, ft_weight_stream *stream, uint64_t seed)
{
    uint64_t offsets[N_ROWS];
    unsigned char rows[N_ROWS * ROW_BYTES];
    ft_error err = {0};
    for (size_t i = 0; i < N_ROWS; i++)
        offsets[i] = (seed + i) * 2654435761u % (FILE_BYTES - ROW_BYTES);
    offsets[0] = 0;
    offsets[1] = FILE_BYTES - ROW_BYTES;
    offsets[2] = 8191;
    if (ft_weight_stream_rows(stream, offsets, N_ROWS, ROW_BYTES, rows, &err) != FT_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < N_ROWS; i++)
        assert_memory_equal(rows + i * ROW_BYTES, f->bytes + offsets[i], ROW_BYTES);
}

static void test_rows(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    opts.row_bytes = ROW_BYTES;
    for (int variant = 0; variant < 4; variant++) {
        opts.threads_only = variant & 1;
        opts.no_overlap = variant & 2;
        ft_weight_stream *stream = create(&opts);
        char out[ROW_BYTES + 1];
        ft_error err;
        check_rows(f, stream, 1);
        ft_weight_stream_begin(stream, N_PARTS);
        for (size_t i = 0; i < N_PARTS; i++) {
            check_rows(f, stream, i * 1000);
            step(f, stream, i);
        }
        assert_int_equal(ft_weight_stream_get_stats(stream).rows, N_ROWS * (N_PARTS + 1));
        assert_int_equal(ft_weight_stream_rows(stream, &(uint64_t){0}, 1, ROW_BYTES + 1, out, &err),
                         FT_INVALID);
        assert_int_equal(ft_weight_stream_rows(stream, NULL, 0, ROW_BYTES, out, &err), FT_OK);
        assert_int_equal(
            ft_weight_stream_rows(stream, &(uint64_t){FILE_BYTES - 1}, 1, ROW_BYTES, out, &err),
            FT_CORRUPT); /* behind the end */
        pass(f, stream, N_PARTS);
        ft_weight_stream_destroy(stream);
    }
}

static void test_rows_changed(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    char out[ROW_BYTES];
    ft_error err;
    opts.row_bytes = ROW_BYTES;
    ft_weight_stream *stream = create(&opts);
    write_at(f, "x", 1, FILE_BYTES - 1);
    assert_int_equal(ft_weight_stream_rows(stream, &(uint64_t){5}, 1, ROW_BYTES, out, &err),
                     FT_CORRUPT);
    ft_weight_stream_destroy(stream);
    write_at(f, f->bytes + FILE_BYTES - 1, 1, FILE_BYTES - 1);
}

/* --- accidents --- */

static void test_short_file(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    ft_weight_stream *stream;
    ft_error err = {0};
    ft_weight_extent *e = &f->extents[4][1];
    const ft_weight_extent was = *e;
    e->offset = FILE_BYTES - e->bytes + 1;
    assert_int_equal(ft_weight_stream_create(&opts, &err, &stream), FT_CORRUPT);
    assert_null(stream);
    assert_non_null(strstr(err.message, f->path));
    *e = was;
}

static void test_truncated(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    for (int variant = 0; variant < 4; variant++) {
        const ft_weight_extent *e = &f->extents[5][0];
        const uint64_t size = e->offset + (variant & 1 ? e->bytes / 2 : 512);
        opts.threads_only = variant & 2;
        opts.n_slots = 2;
        ft_weight_stream *stream = create(&opts);
        pass(f, stream, N_PARTS);
        assert_int_equal(ftruncate(f->fd, (off_t)size), 0);
        failing_pass(f, stream, 5, FT_CORRUPT);
        failing_pass(f, stream, 5, FT_CORRUPT);
        write_at(f, f->bytes + size, FILE_BYTES - size, size);
        pass(f, stream, N_PARTS); /* the same bytes as before */
        ft_weight_stream_destroy(stream);
    }
}

static void test_changed_bytes(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    for (int variant = 0; variant < 6; variant++) {
        const ft_weight_extent *e = &f->extents[6][variant % 3];
        const uint64_t at = e->offset + (size_t)variant * (e->bytes - 1) / 5;
        const unsigned char other = (unsigned char)(f->bytes[at] ^ 16);
        opts.threads_only = variant & 1;
        ft_weight_stream *stream = create(&opts);
        pass(f, stream, N_PARTS);
        write_at(f, &other, 1, at);
        failing_pass(f, stream, 6, FT_CORRUPT);
        write_at(f, f->bytes + at, 1, at);
        pass(f, stream, N_PARTS);
        ft_weight_stream_destroy(stream);
    }
}

/* Without checksums, a file that was written to is not used any more. */
static void test_changed_unhashed(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    ft_weight_data data;
    ft_error err = {0};
    f->extents[4][1].hashed = false;
    ft_weight_stream *stream = create(&opts);
    pass(f, stream, N_PARTS);
    write_at(f, "x", 1, FILE_BYTES - 1);
    ft_weight_stream_begin(stream, N_PARTS);
    for (size_t i = 0; i < 4; i++)
        step(f, stream, i);
    assert_int_equal(ft_weight_stream_wait(stream, 4, &err, &data), FT_CORRUPT);
    assert_non_null(strstr(err.message, "changed"));
    write_at(f, f->bytes + FILE_BYTES - 1, 1, FILE_BYTES - 1);
    assert_int_equal(futimens(f->fd, long_ago), 0);
    pass(f, stream, N_PARTS);
    ft_weight_stream_destroy(stream);
}

static void test_bad_disk(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    char out[ROW_BYTES];
    ft_error err = {0};
    opts.row_bytes = ROW_BYTES;
    for (opts.n_slots = 1; opts.n_slots < 5; opts.n_slots++) {
        disk_set(&d, false, 0, 0);
        ft_weight_stream *stream = create(&opts);
        const ft_weight_extent *e = &f->extents[5][2];
        pass(f, stream, N_PARTS);
        disk_set(&d, false, e->offset + 100000, e->offset + 100001);
        failing_pass(f, stream, 5, FT_IO);
        failing_pass(f, stream, 5, FT_IO);
        const uint64_t row = e->offset + 99999;
        assert_int_equal(ft_weight_stream_rows(stream, &row, 1, ROW_BYTES, out, &err), FT_IO);
        disk_set(&d, false, 0, 0);
        assert_int_equal(ft_weight_stream_rows(stream, &row, 1, ROW_BYTES, out, &err), FT_OK);
        assert_memory_equal(out, f->bytes + row, ROW_BYTES);
        pass(f, stream, N_PARTS);
        ft_weight_stream_destroy(stream);
    }
}

/* An error of what was read ahead is not that of all later passes: each slot's is at most one's. */
static void test_bad_ahead(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    ft_status st = FT_IO;
    disk_set(&d, false, 0, FILE_BYTES);
    ft_weight_stream *stream = create(&opts);
    for (size_t i = 0; i < 3; i++)
        await_reads(f, &d, i, 1);
    disk_set(&d, false, 0, 0);
    for (size_t tries = 0; st == FT_IO; tries++) {
        ft_weight_data data;
        assert_true(tries <= opts.n_slots);
        ft_weight_stream_begin(stream, N_PARTS);
        st = FT_OK;
        for (size_t i = 0; i < opts.n_slots && st == FT_OK; i++)
            st = ft_weight_stream_wait(stream, i, NULL, &data);
    }
    assert_int_equal(st, FT_OK);
    pass(f, stream, N_PARTS);
    ft_weight_stream_destroy(stream);
}

/* A disk that gives some pages at once. */
static void test_short_reads(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    opts.row_bytes = ROW_BYTES * 20;
    d.most = 5 * 4096;
    ft_weight_stream *stream = create(&opts);
    pass(f, stream, N_PARTS);
    d.most = 4096;
    check_rows(f, stream, 7);
    ft_weight_stream_destroy(stream);
}

static void test_stalls(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    opts.row_bytes = ROW_BYTES;
    for (opts.n_slots = 1; opts.n_slots < 4; opts.n_slots++) {
        ft_weight_stream *stream = create(&opts);
        ft_weight_data data = {0};
        ft_error err = {0};
        pass(f, stream, N_PARTS);
        disk_set(&d, true, 0, 0);
        for (int i = 0; i < 3; i++) {
            ft_status st = FT_OK;
            ft_weight_stream_begin(stream, N_PARTS);
            for (size_t part = 0; part < N_PARTS && st == FT_OK; part++)
                st = ft_weight_stream_wait(stream, part, &err, &data);
            /* with every slot held */
            assert_true(st == FT_UNAVAILABLE || st == FT_PRECONDITION);
            char *row = malloc(ROW_BYTES);
            st = ft_weight_stream_rows(stream, &(uint64_t){77}, 1, ROW_BYTES, row, &err);
            assert_int_equal(st, FT_UNAVAILABLE);
            assert_non_null(strstr(err.message, f->path));
            free(row); /* what ends later must not write to it */
        }
        disk_set(&d, false, 0, 0);
        pass(f, stream, N_PARTS);
        check_rows(f, stream, 3);
        ft_weight_stream_destroy(stream);
    }
}

static void *destroy_main(void *stream)
{
    ft_weight_stream_destroy(stream);
    return NULL;
}

static void test_destroy_in_stall(void **state)
{
    fixture *f = *state;
    disk d;
    ft_weight_stream_opts opts = opts_with_disk(f, &d);
    pthread_t thread;
    d.stalled = true;
    ft_weight_stream *stream = create(&opts);
    pthread_mutex_lock(&d.lock);
    while (d.n_stuck == 0)
        pthread_cond_wait(&d.changed, &d.lock);
    pthread_mutex_unlock(&d.lock);
    pthread_create(&thread, NULL, destroy_main, stream);
    disk_set(&d, false, 0, 0);
    pthread_join(thread, NULL);
    assert_int_equal(d.n_stuck, 0);
}

/* --- sizes, options, rate --- */

static void test_memory(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    size_t need = 0, more = 0;
    ft_error err;
    for (int variant = 0; variant < 4; variant++) {
        opts.row_bytes = variant & 1 ? ROW_BYTES : 0;
        opts.convert = variant & 2 ? complement : NULL;
        opts.slot_bytes = variant & 2 ? 300000 : 0;
        assert_int_equal(ft_weight_stream_need(&opts, &err, &need), FT_OK);
        ft_weight_stream *stream = create(&(ft_weight_stream_opts){.fd = f->fd,
                                                                   .path = f->path,
                                                                   .parts = f->parts,
                                                                   .n_parts = N_PARTS,
                                                                   .n_slots = opts.n_slots,
                                                                   .row_bytes = opts.row_bytes,
                                                                   .no_overlap = true,
                                                                   .convert = opts.convert,
                                                                   .slot_bytes = opts.slot_bytes});
        assert_int_equal(ft_weight_stream_bytes(stream), need);
        ft_weight_stream_destroy(stream);
        opts.n_slots++;
        assert_int_equal(ft_weight_stream_need(&opts, &err, &more), FT_OK);
        assert_true(more - need >= (variant & 2 ? 300000 : N_EXTENTS * 400000));
    }
}

static void refuse(const ft_weight_stream_opts *opts)
{
    ft_weight_stream *stream;
    ft_error err = {0};
    size_t bytes;
    assert_int_equal(ft_weight_stream_need(opts, &err, &bytes), FT_INVALID);
    assert_true(err.message[0]);
    assert_int_equal(ft_weight_stream_create(opts, &err, &stream), FT_INVALID);
    assert_null(stream);
}

static void test_bad_options(void **state)
{
    fixture *f = *state;
    ft_weight_stream_opts opts = opts_of(f);
    opts.n_slots = 0;
    refuse(&opts);
    opts = opts_of(f);
    opts.n_parts = 0;
    refuse(&opts);
    opts = opts_of(f);
    opts.convert = complement;
    refuse(&opts);
    opts = opts_of(f);
    f->parts[3].n_extents = 0;
    refuse(&opts);
    f->parts[3].n_extents = N_EXTENTS;
    f->extents[3][1].bytes = 0;
    refuse(&opts);
    f->extents[3][1].bytes = 1 << 20; /* over the one behind it */
    refuse(&opts);
    f->extents[3][1].bytes = SIZE_MAX;
    refuse(&opts);
    f->extents[3][1] = (ft_weight_extent){.offset = UINT64_MAX, .bytes = 1};
    refuse(&opts);
}

static void test_measure(void **state)
{
    fixture *f = *state;
    double rate = 0;
    ft_error err;
    for (int threads_only = 0; threads_only < 2; threads_only++) {
        assert_int_equal(
            ft_weight_stream_measure(f->fd, f->path, UINT64_MAX, threads_only, &err, &rate), FT_OK);
        assert_true(rate > 0);
    }
    assert_int_equal(ft_weight_stream_measure(f->fd, f->path, 0, false, &err, &rate), FT_INVALID);
}

/* XXH3 of 64 bits with seed 0, as its specification has it for "" and as other programs see it. */
static void test_hash(void **state)
{
    assert_true(hash_of("", 0) == 0x2d06800538d394c2u);
    assert_true(hash_of("foretoken", 9) == hash_of("foretoken", 9));
    assert_true(hash_of("foretoken", 9) != hash_of("foretokem", 9));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_passes),           CASE(test_fewer_parts), CASE(test_held),
        CASE(test_reads_ahead),      CASE(test_no_overlap),  CASE(test_begins_anew),
        CASE(test_converts),         CASE(test_rows),        CASE(test_rows_changed),
        CASE(test_short_file),       CASE(test_truncated),   CASE(test_changed_bytes),
        CASE(test_changed_unhashed), CASE(test_bad_disk),    CASE(test_bad_ahead),
        CASE(test_short_reads),      CASE(test_stalls),      CASE(test_destroy_in_stall),
        CASE(test_memory),           CASE(test_bad_options), CASE(test_measure),
        cmocka_unit_test(test_hash)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
