// SPDX-License-Identifier: Apache-2.0
// Opens a checked file a second time, by its descriptor and not by its path: so what was checked is
// what is read. A handle is immutable once it is open; any thread may use it.
#include "model/stream_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "model/stream_layout.h"

#ifndef O_DIRECT
#define O_DIRECT 0 /* not on this system: reads go through the page cache */
#endif

/* Some file systems accept the flag and refuse the reads. */
static bool reads_direct(int fd)
{
    _Alignas(4096) char page[4096];
    return pread(fd, page, sizeof page, 0) >= 0 || errno != EINVAL;
}

/* Opens with O_DIRECT, else without, else shares the descriptor's own opening (no /proc). */
static int open_again(int fd, bool *direct)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (O_DIRECT) {
        const int opened = open(name, O_RDONLY | O_CLOEXEC | O_DIRECT);
        if (opened >= 0 && reads_direct(opened)) {
            *direct = true;
            return opened;
        }
        if (opened >= 0)
            close(opened);
    }
    *direct = false;
    const int opened = open(name, O_RDONLY | O_CLOEXEC);
    if (opened >= 0) /* what is read ahead beyond a read would stay in the page cache */
        posix_fadvise(opened, 0, 0, POSIX_FADV_RANDOM);
    return opened >= 0 ? opened : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

ft_status ft_weight_file_open(int fd, const char *path, ft_error *err, ft_weight_file *file)
{
    struct stat st;
    *file = (ft_weight_file){.fd = -1};
    file->fd = open_again(fd, &file->direct);
    if (file->fd < 0)
        return ft_error_set(err, FT_IO, "%s: cannot be opened again: %s", path, strerror(errno));
    if (fstat(file->fd, &st) != 0) {
        ft_error_set(err, FT_IO, "%s: %s", path, strerror(errno));
        close(file->fd);
        return FT_IO;
    }
    file->size = (uint64_t)st.st_size;
    file->changed = st.st_mtim;
    if (!file->direct)
        FT_LOGI("model", "%s: its file system has no direct reads: they go through the page cache",
                path);
    return FT_OK;
}

void ft_weight_file_close(ft_weight_file *file)
{
    close(file->fd);
    file->fd = -1;
}

bool ft_weight_file_unchanged(const ft_weight_file *file)
{
    struct stat st;
    return fstat(file->fd, &st) == 0 && (uint64_t)st.st_size == file->size &&
           st.st_mtim.tv_sec == file->changed.tv_sec && st.st_mtim.tv_nsec == file->changed.tv_nsec;
}

void ft_weight_file_drop(const ft_weight_file *file, uint64_t offset, size_t bytes)
{
    if (!file->direct)
        posix_fadvise(file->fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
}

ft_status ft_weight_file_reads(const ft_weight_file *file, bool threads_only,
                               ft_weight_reads_opts *opts, ft_error *err, ft_weight_reads **out)
{
    ft_error why = {0};
    opts->fd = file->fd;
    if (!threads_only) {
        const ft_status st = ft_weight_reads_uring(opts, &why, out);
        if (st == FT_OK)
            return FT_OK;
        FT_LOGI("model", "no io_uring (%s): weights are read by threads", why.message);
    }
    return ft_weight_reads_threads(opts, err, out);
}
