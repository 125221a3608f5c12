// SPDX-License-Identifier: Apache-2.0
// The rate at which a file can be read from front to end in the way in which a weight stream reads:
// pieces of the same size, as many of them under way, nothing computed. Any thread.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/stream_impl.h"

typedef struct measure {
    ft_weight_file file;
    ft_weight_reads *reads;
    char *memory; /* a piece for each read */
    ft_weight_op ops[FT_WEIGHT_DEPTH];
} measure;

/* Reads [0, end) with all ops under way. Returns 0, or the error of a read. */
static int64_t read_all(measure *m, uint64_t end)
{
    ft_weight_op *free_ops = NULL;
    uint64_t next = 0;
    size_t n_flying = 0;
    int64_t failed = 0;
    for (size_t i = 0; i < FT_WEIGHT_DEPTH; i++) {
        m->ops[i] = (ft_weight_op){.to = m->memory + i * FT_WEIGHT_PIECE, .next = free_ops};
        free_ops = &m->ops[i];
    }
    for (;;) {
        ft_weight_op *list = NULL, **end_of_list = &list;
        while (free_ops && next < end && !failed) {
            ft_weight_op *op = free_ops;
            free_ops = op->next;
            op->offset = next;
            op->bytes = end - next < FT_WEIGHT_PIECE ? ft_weight_page_up((size_t)(end - next))
                                                     : FT_WEIGHT_PIECE;
            next += op->bytes;
            op->next = NULL;
            *end_of_list = op;
            end_of_list = &op->next;
            n_flying++;
        }
        m->reads->start(m->reads, list);
        if (n_flying == 0)
            return failed;
        for (ft_weight_op *op = m->reads->wait(m->reads, true), *after; op; op = after) {
            after = op->next;
            failed = op->got < 0 ? op->got : failed;
            ft_weight_file_drop(&m->file, op->offset, op->bytes);
            op->next = free_ops;
            free_ops = op;
            n_flying--;
        }
    }
}

static ft_status run(measure *m, const char *path, uint64_t bytes, ft_error *err, double *out)
{
    const size_t memory = FT_WEIGHT_DEPTH * FT_WEIGHT_PIECE;
    const uint64_t end = bytes < m->file.size ? bytes : m->file.size;
    if (end == 0)
        return ft_error_set(err, FT_INVALID, "%s: nothing to read", path);
    m->memory = mmap(NULL, memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->memory == MAP_FAILED)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", path);
#ifdef MADV_HUGEPAGE
    madvise(m->memory, memory, MADV_HUGEPAGE); /* as a stream's ring */
#endif
    memset(m->memory, 1, memory); /* a stream's memory is there, too, from its second pass on */
    const int64_t from_us = ft_monotonic_us();
    const int64_t failed = read_all(m, end);
    const int64_t took_us = ft_monotonic_us() - from_us;
    munmap(m->memory, memory);
    if (failed < 0)
        return ft_error_set(err, FT_IO, "%s: cannot be read: %s: check the disk", path,
                            strerror((int)-failed));
    *out = (double)end * 1e6 / (double)(took_us > 0 ? took_us : 1);
    return FT_OK;
}

ft_status ft_weight_stream_measure(int fd, const char *path, uint64_t bytes, bool threads_only,
                                   ft_error *err, double *bytes_per_s)
{
    ft_weight_reads_opts opts = {.most = FT_WEIGHT_DEPTH, .n_threads = FT_WEIGHT_THREADS};
    measure *m = calloc(1, sizeof *m);
    if (!m)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", path);
    ft_status st = ft_weight_file_open(fd, path, err, &m->file);
    if (st == FT_OK) {
        st = ft_weight_file_reads(&m->file, threads_only, &opts, err, &m->reads);
        if (st == FT_OK) {
            st = run(m, path, bytes, err, bytes_per_s);
            m->reads->destroy(m->reads);
        }
        ft_weight_file_close(&m->file);
    }
    free(m);
    return st;
}
