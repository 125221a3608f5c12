// SPDX-License-Identifier: Apache-2.0
// Weight streams on a disk that works: every pass gets the file's bytes, by both ways to read; what
// is read ahead and what is not; rows; memory; options. test_stream_accidents.c has the rest.
#include "model/stream.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <xxhash.h>

#include "model/stream_hash.h"
#include "model/stream_layout.h"
#include "support/weight_file.h"

static void test_passes(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    for (int variant = 0; variant < 16; variant++) {
        weight_file_set_parts(f, variant & 1, variant & 2);
        opts.threads_only = variant & 4;
        opts.no_overlap = variant & 8;
        for (opts.n_slots = 1; opts.n_slots < WEIGHT_FILE_PARTS + 3; opts.n_slots += 2) {
            ft_weight_stream *stream = weight_file_stream(&opts);
            for (int i = 0; i < 2; i++)
                weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
            const ft_weight_stream_stats stats = ft_weight_stream_get_stats(stream);
            assert_true(stats.parts >= 2 * WEIGHT_FILE_PARTS);
            assert_true(stats.read_bytes >=
                        2 * WEIGHT_FILE_PARTS * (uint64_t)WEIGHT_FILE_EXTENTS * 400032);
            assert_true(stats.waited_us >= 0 && stats.reading_us > 0);
            assert_true(!opts.threads_only || !stats.uring);
            ft_weight_stream_destroy(stream);
        }
    }
}

/* The last extent ends where the file does, within a page. */
static void test_end_of_file(void **state)
{
    weight_file *f = *state;
    uint64_t end = 0;
    for (size_t i = 0; i < WEIGHT_FILE_EXTENTS; i++) {
        const ft_weight_extent *e = &f->extents[WEIGHT_FILE_PARTS - 1][i];
        end = e->offset + e->bytes > end ? e->offset + e->bytes : end;
    }
    assert_int_not_equal(end % 512, 0);
    assert_int_equal(ftruncate(f->fd, (off_t)end), 0);
    ft_weight_stream_opts opts = weight_file_opts(f);
    for (int threads_only = 0; threads_only < 2; threads_only++) {
        unsigned char row[77];
        opts.threads_only = threads_only;
        opts.row_bytes = sizeof row;
        ft_weight_stream *stream = weight_file_stream(&opts);
        for (int i = 0; i < 2; i++)
            weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        const uint64_t offset = end - sizeof row;
        assert_int_equal(ft_weight_stream_rows(stream, &offset, 1, sizeof row, row, NULL), FT_OK);
        assert_memory_equal(row, f->bytes + offset, sizeof row);
        ft_weight_stream_destroy(stream);
    }
}

/* In a child that mounts a file system without direct reads. Its exit status: 0, or 77 if it may
 * not mount one. */
static int passes_in_page_cache(weight_file *f)
{
    char dir[] = "/tmp/foretoken-test-XXXXXX", path[64];
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof path, "%s/file", dir);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", dir, "ramfs", 0, NULL) != 0) {
        rmdir(dir);
        return 77;
    }
    f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    weight_file_write(f, f->bytes, WEIGHT_FILE_BYTES, 0);
    ft_weight_stream_opts opts = weight_file_opts(f);
    for (int threads_only = 0; threads_only < 2; threads_only++) {
        opts.threads_only = threads_only;
        ft_weight_stream *stream = weight_file_stream(&opts);
        for (int i = 0; i < 2; i++)
            weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        assert_false(ft_weight_stream_get_stats(stream).direct);
        const uint64_t size = f->extents[5][0].offset + 1000;
        assert_int_equal(ftruncate(f->fd, (off_t)size), 0);
        weight_file_failing_pass(f, stream, 5, FT_CORRUPT);
        weight_file_write(f, f->bytes + size, WEIGHT_FILE_BYTES - size, size);
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        ft_weight_stream_destroy(stream);
    }
    close(f->fd);
    umount(dir);
    return rmdir(dir) != 0;
}

static void test_page_cache(void **state)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0)
        _exit(passes_in_page_cache(*state));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("SKIPPED: may not mount ramfs\n");
        skip();
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Passes without the last parts (no logits are wanted), and with them; passes that leave parts out.
 */
static void test_fewer_parts(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    for (opts.n_slots = 1; opts.n_slots < WEIGHT_FILE_PARTS + 3; opts.n_slots++) {
        ft_weight_stream *stream = weight_file_stream(&opts);
        for (size_t n = 0; n <= WEIGHT_FILE_PARTS; n++) {
            weight_file_pass(f, stream, n * 5 % (WEIGHT_FILE_PARTS + 1));
            ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
            weight_file_step(f, stream, n * 2 % (WEIGHT_FILE_PARTS - 1));
            weight_file_step(f, stream, WEIGHT_FILE_PARTS - 1);
        }
        ft_weight_stream_destroy(stream);
    }
}

static void test_held(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    ft_weight_data data[3], other;
    ft_error err = {0};
    ft_weight_stream *stream = weight_file_stream(&opts);
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(ft_weight_stream_wait(stream, i, &err, &data[i]), FT_OK);
    assert_int_equal(ft_weight_stream_wait(stream, 3, &err, &other), FT_PRECONDITION);
    for (size_t i = 0; i < 3; i++)
        weight_file_check(f, i, &data[i]);
    ft_weight_stream_release(stream, 1);
    ft_weight_stream_release(stream, 1);
    ft_weight_stream_release(stream, 7); /* not held: nothing happens */
    assert_int_equal(ft_weight_stream_wait(stream, 2, &err, &other), FT_PRECONDITION);
    assert_int_equal(ft_weight_stream_wait(stream, WEIGHT_FILE_PARTS, &err, &other),
                     FT_PRECONDITION);
    weight_file_step(f, stream, 3);
    weight_file_check(f, 0, &data[0]);
    weight_file_check(f, 2, &data[2]);
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS); /* takes back what is held */
    ft_weight_stream_destroy(stream);
}

/* Behind a pass the ring is filled with the next one's first parts, and no others. */
static void test_reads_ahead(void **state)
{
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    ft_weight_stream *stream = weight_file_stream(&opts);
    for (size_t i = 0; i < 3; i++)
        weak_disk_await(f, &d, i, 1); /* before the first pass begins */
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
    for (size_t i = 0; i < 3; i++)
        weak_disk_await(f, &d, i, 2);
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    weight_file_step(f, stream, 0);
    weak_disk_await(f, &d, 3, 2);
    ft_weight_stream_destroy(stream);
    for (size_t i = 0; i < WEIGHT_FILE_PARTS; i++)
        assert_int_equal(weak_disk_times_read(f, &d, i), i <= 3 ? 2 : 1);
}

static void test_no_overlap(void **state)
{
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    opts.no_overlap = true;
    ft_weight_stream *stream = weight_file_stream(&opts);
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    for (size_t part = 0; part < WEIGHT_FILE_PARTS; part++) {
        weight_file_step(f, stream, part);
        for (size_t i = 0; i < WEIGHT_FILE_PARTS; i++)
            assert_int_equal(weak_disk_times_read(f, &d, i), i <= part);
    }
    ft_weight_stream_destroy(stream);
    for (size_t i = 0; i < WEIGHT_FILE_PARTS; i++)
        assert_int_equal(weak_disk_times_read(f, &d, i), 1);
}

/* What the ring has of a broken-off pass is not read again. */
static void test_begins_anew(void **state)
{
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    ft_weight_data data;
    ft_error err;
    ft_weight_stream *stream = weight_file_stream(&opts);
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    assert_int_equal(ft_weight_stream_wait(stream, 0, &err, &data), FT_OK);
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS); /* it held part 0, and had part 1 and 2 */
    for (size_t i = 0; i < 3; i++)
        weak_disk_await(f, &d, i, 2);
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    for (size_t i = 0; i < 5; i++)
        weight_file_step(f, stream, i);
    weak_disk_await(f, &d, 7, 2);
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS); /* the ring was full of later parts */
    ft_weight_stream_destroy(stream);
    assert_int_equal(weak_disk_times_read(f, &d, 3), 3);
}

/* --- conversion --- */

typedef struct convert_ctx {
    const weight_file *f;
    size_t n_calls;
} convert_ctx;

/* The slot: 100,000 bytes of each extent, complemented. */
static void complement(void *arg, size_t part, const void *const *extents, void *slot)
{
    convert_ctx *ctx = arg;
    unsigned char *to = slot;
    for (size_t i = 0; i < WEIGHT_FILE_EXTENTS; i++) {
        const ft_weight_extent *e = &ctx->f->extents[part][i];
        const unsigned char *from = extents[i];
        assert_int_equal((uintptr_t)from % FT_WEIGHT_PAGE, e->offset % FT_WEIGHT_PAGE);
        for (size_t k = 0; k < 100000; k++)
            *to++ = (unsigned char)~from[k];
    }
    ctx->n_calls++;
}

static void converting_pass(const weight_file *f, ft_weight_stream *stream)
{
    ft_weight_data data;
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    for (size_t part = 0; part < WEIGHT_FILE_PARTS; part++) {
        assert_int_equal(ft_weight_stream_wait(stream, part, NULL, &data), FT_OK);
        assert_null(data.extents);
        assert_int_equal((uintptr_t)data.slot % FT_WEIGHT_PAGE, 0);
        for (size_t k = 0; k < WEIGHT_FILE_EXTENTS * 100000; k++) {
            const ft_weight_extent *e = &f->extents[part][k / 100000];
            const unsigned char is = ((const unsigned char *)data.slot)[k];
            if ((is ^ f->bytes[e->offset + k % 100000]) != 0xff)
                fail_msg("part %zu, byte %zu", part, k);
        }
        ft_weight_stream_release(stream, part);
    }
}

static void test_converts(void **state)
{
    weight_file *f = *state;
    convert_ctx ctx = {.f = f};
    ft_weight_stream_opts opts = weight_file_opts(f);
    const uint64_t at = f->extents[7][0].offset + 300000;
    opts.convert = complement;
    opts.convert_ctx = &ctx;
    opts.slot_bytes = WEIGHT_FILE_EXTENTS * 100000;
    for (int variant = 0; variant < 8; variant++) {
        ft_weight_data data;
        opts.threads_only = variant & 1;
        opts.n_slots = variant & 2 ? 1 : 4;
        opts.no_overlap = variant & 4;
        ft_weight_stream *stream = weight_file_stream(&opts);
        ctx.n_calls = 0;
        for (size_t i = 0; i < 3; i++)
            converting_pass(f, stream);
        weight_file_write(f, "?", 1, at);
        ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
        assert_int_equal(ft_weight_stream_wait(stream, 7, NULL, &data), FT_CORRUPT);
        weight_file_write(f, f->bytes + at, 1, at);
        converting_pass(f, stream);
        ft_weight_stream_destroy(stream);
        assert_true(ctx.n_calls >= 4 * WEIGHT_FILE_PARTS);
    }
}

/* --- rows --- */

static void test_rows(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    opts.row_bytes = WEIGHT_FILE_ROW;
    for (int variant = 0; variant < 4; variant++) {
        opts.threads_only = variant & 1;
        opts.no_overlap = variant & 2;
        ft_weight_stream *stream = weight_file_stream(&opts);
        char out[WEIGHT_FILE_ROW + 1];
        ft_error err;
        weight_file_check_rows(f, stream, 1);
        ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
        for (size_t i = 0; i < WEIGHT_FILE_PARTS; i++) {
            weight_file_check_rows(f, stream, i * 1000);
            weight_file_step(f, stream, i);
        }
        assert_int_equal(ft_weight_stream_get_stats(stream).rows,
                         WEIGHT_FILE_ROWS * (WEIGHT_FILE_PARTS + 1));
        assert_int_equal(
            ft_weight_stream_rows(stream, &(uint64_t){0}, 1, WEIGHT_FILE_ROW + 1, out, &err),
            FT_INVALID);
        assert_int_equal(ft_weight_stream_rows(stream, NULL, 0, WEIGHT_FILE_ROW, out, &err), FT_OK);
        assert_int_equal(ft_weight_stream_rows(stream, &(uint64_t){WEIGHT_FILE_BYTES - 1}, 1,
                                               WEIGHT_FILE_ROW, out, &err),
                         FT_CORRUPT); /* behind the end */
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        ft_weight_stream_destroy(stream);
    }
}

/* --- sizes, options, rate --- */

static void test_memory(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    size_t need = 0, more = 0;
    ft_error err;
    for (int variant = 0; variant < 4; variant++) {
        opts.row_bytes = variant & 1 ? WEIGHT_FILE_ROW : 0;
        opts.convert = variant & 2 ? complement : NULL;
        opts.slot_bytes = variant & 2 ? 300000 : 0;
        assert_int_equal(ft_weight_stream_need(&opts, &err, &need), FT_OK);
        ft_weight_stream *stream =
            weight_file_stream(&(ft_weight_stream_opts){.fd = f->fd,
                                                        .path = f->path,
                                                        .parts = f->parts,
                                                        .n_parts = WEIGHT_FILE_PARTS,
                                                        .n_slots = opts.n_slots,
                                                        .row_bytes = opts.row_bytes,
                                                        .no_overlap = true,
                                                        .convert = opts.convert,
                                                        .slot_bytes = opts.slot_bytes});
        assert_int_equal(ft_weight_stream_bytes(stream), need);
        ft_weight_stream_destroy(stream);
        opts.n_slots++;
        assert_int_equal(ft_weight_stream_need(&opts, &err, &more), FT_OK);
        assert_true(more - need >= (variant & 2 ? 300000 : WEIGHT_FILE_EXTENTS * 400000));
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
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    opts.n_slots = 0;
    refuse(&opts);
    opts = weight_file_opts(f);
    opts.n_parts = 0;
    refuse(&opts);
    opts = weight_file_opts(f);
    opts.convert = complement;
    refuse(&opts);
    opts = weight_file_opts(f);
    f->parts[3].n_extents = 0;
    refuse(&opts);
    f->parts[3].n_extents = WEIGHT_FILE_EXTENTS;
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
    weight_file *f = *state;
    double rate = 0;
    ft_error err;
    for (int threads_only = 0; threads_only < 2; threads_only++) {
        assert_int_equal(
            ft_weight_stream_measure(f->fd, f->path, UINT64_MAX, threads_only, &err, &rate), FT_OK);
        assert_true(rate > 0);
    }
    assert_int_equal(ft_weight_stream_measure(f->fd, f->path, 0, false, &err, &rate), FT_INVALID);
}

/* In steps of any length: what the library computes of all bytes at once. */
static void test_hash(void **state)
{
    const weight_file *f = *state;
    ft_weight_hash *hash = ft_weight_hash_create();
    assert_true(weight_hash_of("", 0) == 0x2d06800538d394c2u); /* from XXH3's own tests */
    for (size_t n = 1; n < WEIGHT_FILE_BYTES; n = n * 3 + 1) {
        ft_weight_hash_reset(hash);
        for (size_t at = 0, step = 1; at < n; at += step, step = step * 2 + 1) {
            step = step < n - at ? step : n - at;
            ft_weight_hash_update(hash, f->bytes + at, step);
        }
        assert_true(ft_weight_hash_value(hash) == XXH3_64bits(f->bytes, n));
    }
    ft_weight_hash_destroy(hash);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, weight_file_setup, weight_file_teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_passes),   CASE(test_end_of_file), CASE(test_page_cache), CASE(test_fewer_parts),
        CASE(test_held),     CASE(test_reads_ahead), CASE(test_no_overlap), CASE(test_begins_anew),
        CASE(test_converts), CASE(test_rows),        CASE(test_memory),     CASE(test_bad_options),
        CASE(test_measure),  CASE(test_hash)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
