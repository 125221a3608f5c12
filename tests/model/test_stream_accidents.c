// SPDX-License-Identifier: Apache-2.0
// Accidents of weight streams: files that are cut or changed meanwhile, a disk that fails, gives
// little at once or does not answer. A pass fails with one line, and the stream stays usable.
#include "model/stream.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "support/weight_file.h"

static void test_short_file(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    ft_weight_stream *stream;
    ft_error err = {0};
    ft_weight_extent *e = &f->extents[4][1];
    const ft_weight_extent was = *e;
    e->offset = WEIGHT_FILE_BYTES - e->bytes + 1;
    assert_int_equal(ft_weight_stream_create(&opts, &err, &stream), FT_CORRUPT);
    assert_null(stream);
    assert_non_null(strstr(err.message, f->path));
    *e = was;
}

static void test_truncated(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    for (int variant = 0; variant < 4; variant++) {
        const ft_weight_extent *e = &f->extents[5][0];
        const uint64_t size = e->offset + (variant & 1 ? e->bytes / 2 : 512);
        opts.threads_only = variant & 2;
        opts.n_slots = 2;
        ft_weight_stream *stream = weight_file_stream(&opts);
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        assert_int_equal(ftruncate(f->fd, (off_t)size), 0);
        weight_file_failing_pass(f, stream, 5, FT_CORRUPT);
        weight_file_failing_pass(f, stream, 5, FT_CORRUPT);
        weight_file_write(f, f->bytes + size, WEIGHT_FILE_BYTES - size, size);
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS); /* the same bytes as before */
        ft_weight_stream_destroy(stream);
    }
}

static void test_changed_bytes(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    for (int variant = 0; variant < 6; variant++) {
        const ft_weight_extent *e = &f->extents[6][variant % 3];
        const uint64_t at = e->offset + (size_t)variant * (e->bytes - 1) / 5;
        const unsigned char other = (unsigned char)(f->bytes[at] ^ 16);
        opts.threads_only = variant & 1;
        ft_weight_stream *stream = weight_file_stream(&opts);
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        weight_file_write(f, &other, 1, at);
        weight_file_failing_pass(f, stream, 6, FT_CORRUPT);
        weight_file_write(f, f->bytes + at, 1, at);
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        ft_weight_stream_destroy(stream);
    }
}

/* Without checksums, a file that was written to is not used any more. */
static void test_changed_unhashed(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    ft_weight_data data;
    ft_error err = {0};
    f->extents[4][1].hashed = false;
    ft_weight_stream *stream = weight_file_stream(&opts);
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
    weight_file_write(f, "x", 1, WEIGHT_FILE_BYTES - 1);
    ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
    for (size_t i = 0; i < 4; i++)
        weight_file_step(f, stream, i);
    assert_int_equal(ft_weight_stream_wait(stream, 4, &err, &data), FT_CORRUPT);
    assert_non_null(strstr(err.message, "changed"));
    weight_file_write(f, f->bytes + WEIGHT_FILE_BYTES - 1, 1, WEIGHT_FILE_BYTES - 1);
    assert_int_equal(futimens(f->fd, long_ago), 0);
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
    ft_weight_stream_destroy(stream);
}

static void test_bad_disk(void **state)
{
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    char out[WEIGHT_FILE_ROW];
    ft_error err = {0};
    opts.row_bytes = WEIGHT_FILE_ROW;
    for (opts.n_slots = 1; opts.n_slots < 5; opts.n_slots++) {
        weak_disk_set(&d, false, 0, 0);
        ft_weight_stream *stream = weight_file_stream(&opts);
        const ft_weight_extent *e = &f->extents[5][2];
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        weak_disk_set(&d, false, e->offset + 100000, e->offset + 100001);
        weight_file_failing_pass(f, stream, 5, FT_IO);
        weight_file_failing_pass(f, stream, 5, FT_IO);
        const uint64_t row = e->offset + 99999;
        assert_int_equal(ft_weight_stream_rows(stream, &row, 1, WEIGHT_FILE_ROW, out, &err), FT_IO);
        weak_disk_set(&d, false, 0, 0);
        assert_int_equal(ft_weight_stream_rows(stream, &row, 1, WEIGHT_FILE_ROW, out, &err), FT_OK);
        assert_memory_equal(out, f->bytes + row, WEIGHT_FILE_ROW);
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        ft_weight_stream_destroy(stream);
    }
}

/* An error of what was read ahead is not that of all later passes: each slot's is at most one's. */
static void test_bad_ahead(void **state)
{
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    ft_status st = FT_IO;
    weak_disk_set(&d, false, 0, WEIGHT_FILE_BYTES);
    ft_weight_stream *stream = weight_file_stream(&opts);
    for (size_t i = 0; i < 3; i++)
        weak_disk_await(f, &d, i, 1);
    weak_disk_set(&d, false, 0, 0);
    for (size_t tries = 0; st == FT_IO; tries++) {
        ft_weight_data data;
        assert_true(tries <= opts.n_slots);
        ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
        st = FT_OK;
        for (size_t i = 0; i < opts.n_slots && st == FT_OK; i++)
            st = ft_weight_stream_wait(stream, i, NULL, &data);
    }
    assert_int_equal(st, FT_OK);
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
    ft_weight_stream_destroy(stream);
}

/* A disk that gives some pages at once. */
static void test_short_reads(void **state)
{
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    opts.row_bytes = WEIGHT_FILE_ROW * 20;
    weak_disk_limit(&d, 5 * 4096);
    ft_weight_stream *stream = weight_file_stream(&opts);
    weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
    weak_disk_limit(&d, 4096);
    weight_file_check_rows(f, stream, 7);
    ft_weight_stream_destroy(stream);
}

static void test_stalls(void **state)
{
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    opts.row_bytes = WEIGHT_FILE_ROW;
    for (opts.n_slots = 1; opts.n_slots < 4; opts.n_slots++) {
        ft_weight_stream *stream = weight_file_stream(&opts);
        ft_weight_data data = {0};
        ft_error err = {0};
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        weak_disk_set(&d, true, 0, 0);
        for (int i = 0; i < 3; i++) {
            ft_status st = FT_OK;
            ft_weight_stream_begin(stream, WEIGHT_FILE_PARTS);
            for (size_t part = 0; part < WEIGHT_FILE_PARTS && st == FT_OK; part++)
                st = ft_weight_stream_wait(stream, part, &err, &data);
            /* with every slot held */
            assert_true(st == FT_UNAVAILABLE || st == FT_PRECONDITION);
            char *row = malloc(WEIGHT_FILE_ROW);
            st = ft_weight_stream_rows(stream, &(uint64_t){77}, 1, WEIGHT_FILE_ROW, row, &err);
            assert_int_equal(st, FT_UNAVAILABLE);
            assert_non_null(strstr(err.message, f->path));
            free(row); /* what ends later must not write to it */
        }
        weak_disk_set(&d, false, 0, 0);
        weight_file_pass(f, stream, WEIGHT_FILE_PARTS);
        weight_file_check_rows(f, stream, 3);
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
    weight_file *f = *state;
    weak_disk d;
    ft_weight_stream_opts opts = weak_disk_opts(f, &d);
    pthread_t thread;
    d.stalled = true;
    ft_weight_stream *stream = weight_file_stream(&opts);
    pthread_mutex_lock(&d.lock);
    while (d.n_stuck == 0)
        pthread_cond_wait(&d.changed, &d.lock);
    pthread_mutex_unlock(&d.lock);
    pthread_create(&thread, NULL, destroy_main, stream);
    weak_disk_set(&d, false, 0, 0);
    pthread_join(thread, NULL);
    assert_int_equal(d.n_stuck, 0);
}

static void test_rows_changed(void **state)
{
    weight_file *f = *state;
    ft_weight_stream_opts opts = weight_file_opts(f);
    char out[WEIGHT_FILE_ROW];
    ft_error err;
    opts.row_bytes = WEIGHT_FILE_ROW;
    ft_weight_stream *stream = weight_file_stream(&opts);
    weight_file_write(f, "x", 1, WEIGHT_FILE_BYTES - 1);
    assert_int_equal(ft_weight_stream_rows(stream, &(uint64_t){5}, 1, WEIGHT_FILE_ROW, out, &err),
                     FT_CORRUPT);
    ft_weight_stream_destroy(stream);
    weight_file_write(f, f->bytes + WEIGHT_FILE_BYTES - 1, 1, WEIGHT_FILE_BYTES - 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, weight_file_setup, weight_file_teardown)
    const struct CMUnitTest tests[] = {CASE(test_rows_changed),     CASE(test_short_file),
                                       CASE(test_truncated),        CASE(test_changed_bytes),
                                       CASE(test_changed_unhashed), CASE(test_bad_disk),
                                       CASE(test_bad_ahead),        CASE(test_short_reads),
                                       CASE(test_stalls),           CASE(test_destroy_in_stall)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
