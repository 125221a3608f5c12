/* SPDX-License-Identifier: Apache-2.0
 *
 * The model file as a weight stream reads it. For the model room only. */
#ifndef FT_MODEL_STREAM_FILE_H
#define FT_MODEL_STREAM_FILE_H

#include <time.h>

#include "model/stream_reads.h"

typedef struct ft_weight_file {
    int fd;
    bool direct; /* reads go past the page cache */
    uint64_t size;
    struct timespec changed; /* when it was written last, as of open */
} ft_weight_file;

/* Opens the file of a descriptor anew, with O_DIRECT where its file system has that; else says in
 * the log that it does not. FT_IO. On failure *file needs no close. */
FT_WARN_UNUSED ft_status ft_weight_file_open(int fd, const char *path, ft_error *err,
                                             ft_weight_file *file);
void ft_weight_file_close(ft_weight_file *file);

/* Whether its size and time of change are those that it had when it was opened. Any thread. */
bool ft_weight_file_unchanged(const ft_weight_file *file);

/* Drops what a read has left in the page cache, if reads go through it. */
void ft_weight_file_drop(const ft_weight_file *file, uint64_t offset, size_t bytes);

/* The way to read it: through io_uring unless threads_only is set or it is not to be had, which a
 * line in the log says; else through threads. opts.fd is set here. FT_NOMEM, FT_EXHAUSTED. */
FT_WARN_UNUSED ft_status ft_weight_file_reads(const ft_weight_file *file, bool threads_only,
                                              ft_weight_reads_opts *opts, ft_error *err,
                                              ft_weight_reads **out);

#endif
