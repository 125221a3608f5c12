// SPDX-License-Identifier: Apache-2.0
// Files that appear under their name when they are complete. A handle belongs to one thread. Does
// not sync: a power failure right after the renaming can leave a short file, which the reader's
// checks refuse.
#include "model/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes that are written at once, at a multiple of it: a large page (file_map.c). With half of it a
 * file of weights is in small pages, and reading it for each token takes longer. */
#define BLOCK ((size_t)2 << 20)

/* A file without a name in the folder of `out`; < 0: the file system has none. */
static int open_nameless(const char *out)
{
    char *copy = strdup(out);
    const int fd = copy ? open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
    free(copy);
    return fd;
}

/* Gives the file its temporary name: only a rename can replace a file that is there already. */
static bool give_name(ft_new_file *file)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", file->fd);
    for (int tries = 0; tries < 100; tries++) {
        const int placeholder = mkstemp(file->temp.data); /* a name that nobody has */
        if (placeholder < 0)
            return false;
        close(placeholder);
        unlink(file->temp.data);
        if (linkat(AT_FDCWD, self, AT_FDCWD, file->temp.data, AT_SYMLINK_FOLLOW) == 0)
            return file->named = true;
        if (errno != EEXIST)
            return false;
        memcpy(file->temp.data + file->temp.len - 6, "XXXXXX", 6);
    }
    return false;
}

/* The process's umask, which can only be read by changing it. Two threads at once could leave it
 * changed. */
static mode_t file_mask(void)
{
    static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&reading);
    const mode_t mask = umask(0);
    umask(mask);
    pthread_mutex_unlock(&reading);
    return mask;
}

static ft_status create(const char *in, const char *out, bool named, ft_error *err,
                        ft_new_file *file)
{
    struct stat a, b;
    *file = (ft_new_file){.out = out, .fd = -1};
    if (stat(in, &a) == 0 && stat(out, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return ft_error_set(err, FT_INVALID, "%s: input and output are the same file", in);
    if (ft_buf_printf(&file->temp, "%s.XXXXXX", out) != FT_OK)
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", out);
    file->fd = named ? -1 : open_nameless(out);
    file->named = file->fd < 0;
    if (file->named)
        file->fd = mkstemp(file->temp.data);
    if (file->fd < 0) {
        ft_error_set(err, FT_IO, "%s: cannot create a file in its folder: %s", out,
                     strerror(errno));
        ft_buf_deinit(&file->temp);
        return FT_IO;
    }
    fchmod(file->fd, 0666 & ~file_mask()); /* it is private at first */
    return FT_OK;
}

ft_status ft_new_file_create(const char *in, const char *out, ft_error *err, ft_new_file *file)
{
    return create(in, out, false, err, file);
}

ft_status ft_new_file_create_named(const char *in, const char *out, ft_error *err,
                                   ft_new_file *file)
{
    return create(in, out, true, err, file);
}

/* Writes what is in the block. After an error it is empty, too. */
static ft_status flush(ft_new_file *file, ft_error *err)
{
    const char *from = file->block;
    while (file->n > 0) {
        ssize_t written = pwrite(file->fd, from, file->n, (off_t)file->at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            file->n = 0;
            return ft_error_set(err, FT_IO, "%s: %s", file->out, strerror(errno));
        }
        from += written;
        file->at += (uint64_t)written;
        file->n -= (size_t)written;
    }
    return FT_OK;
}

ft_status ft_new_file_write(ft_new_file *file, const void *data, size_t n, ft_error *err)
{
    const char *from = data;
    ft_status st = FT_OK;
    if (!file->block && !(file->block = malloc(BLOCK)))
        return ft_error_set(err, FT_NOMEM, "%s: out of memory", file->out);
    while (n > 0 && st == FT_OK) {
        const size_t room = BLOCK - (size_t)((file->at + file->n) % BLOCK);
        const size_t piece = n < room ? n : room;
        memcpy(file->block + file->n, from, piece);
        file->n += piece;
        from += piece;
        n -= piece;
        if (piece == room)
            st = flush(file, err);
    }
    return st;
}

ft_status ft_new_file_seek(ft_new_file *file, uint64_t offset, ft_error *err)
{
    ft_status st = flush(file, err);
    file->at = offset;
    return st;
}

ft_status ft_new_file_finish(ft_new_file *file, ft_status st, ft_error *err)
{
    if (st == FT_OK)
        st = flush(file, err);
    if (st == FT_OK && !file->named && !give_name(file))
        st = ft_error_set(err, FT_IO, "%s: %s", file->out, strerror(errno));
    if (close(file->fd) != 0 && st == FT_OK) /* some file systems report a full disk here */
        st = ft_error_set(err, FT_IO, "%s: %s", file->out, strerror(errno));
    if (st == FT_OK && rename(file->temp.data, file->out) != 0)
        st = ft_error_set(err, FT_IO, "%s: %s", file->out, strerror(errno));
    if (st != FT_OK && file->named)
        unlink(file->temp.data);
    ft_buf_deinit(&file->temp);
    free(file->block);
    *file = (ft_new_file){.fd = -1};
    return st;
}
