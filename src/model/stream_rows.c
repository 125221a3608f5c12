// SPDX-License-Identifier: Apache-2.0
// Rows out of a weight stream's file. The pass puts a request up and sleeps; the reader reads each
// row into a buffer of whole pages and copies it out of there. A request that is closed early,
// because the disk does not answer, gets nothing more: reads that end later have its number and are
// forgotten.
#include "model/stream_impl.h"

static ft_status check(const ft_weight_stream *s, size_t bytes, ft_error *err)
{
    if (bytes == 0 || bytes > s->opts.row_bytes)
        return ft_error_set(err, FT_INVALID, "%s: a row of %zu bytes, of at most %zu", s->opts.path,
                            bytes, s->opts.row_bytes);
    return FT_OK;
}

ft_status ft_weight_stream_rows(ft_weight_stream *s, const uint64_t *offsets, size_t n,
                                size_t bytes, void *out, ft_error *err)
{
    ft_weight_request *request = &s->shared.request;
    int64_t idle_us = 0;
    ft_status st = check(s, bytes, err);
    if (st != FT_OK || n == 0)
        return st;
    pthread_mutex_lock(&s->lock);
    uint64_t n_ended = s->shared.n_ended;
    *request = (ft_weight_request){.number = request->number + 1,
                                   .open = true,
                                   .offsets = offsets,
                                   .n = n,
                                   .bytes = bytes,
                                   .out = out};
    s->reads->wake(s->reads);
    while (st == FT_OK && request->failed == FT_OK && request->n_done < n)
        st = ft_weight_sleep(s, &idle_us, &n_ended, err);
    request->open = false;
    if (request->failed != FT_OK)
        st = ft_error_set(err, request->failed, "%s", request->error.message);
    else if (st == FT_OK)
        s->shared.stats.rows += n;
    pthread_mutex_unlock(&s->lock);
    if (st == FT_OK && !ft_weight_file_unchanged(&s->file))
        st = ft_error_set(err, FT_CORRUPT,
                          "%s: the file has been changed while it was in use: start again",
                          s->opts.path);
    return st;
}
