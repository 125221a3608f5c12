// SPDX-License-Identifier: Apache-2.0
// One blob: locked, continued where an earlier try ended, hashed while it arrives, renamed when it
// is complete. The state belongs to one call.
#include "hub/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "hub/cache.h"
#include "hub/sha256.h"

struct ft_blob {
    const ft_blob_opts *opts;
    char *path, *part; /* FOLDER/SHA256, and with .incomplete */
    int fd;            /* of `part`, or of what is checked */
    uint64_t at;       /* bytes that `part` has, all of them hashed */
    ft_sha256 *hash;
};

static void report(void *ctx, uint64_t done, uint64_t total)
{
    const ft_blob *b = ctx;
    (void)total;
    ft_progress_report(&b->opts->progress, b->opts->before + done, b->opts->of_all);
}

static ft_progress progress_of(ft_blob *b)
{
    return (ft_progress){report, b};
}

uint64_t ft_blob_at(const ft_blob *blob)
{
    return blob->at;
}

ft_status ft_blob_restart(ft_blob *b, ft_error *err)
{
    char none[FT_SHA256_HEX_SIZE];
    ft_sha256_end(b->hash, none);
    b->at = 0;
    if (ftruncate(b->fd, 0) != 0)
        return ft_error_set(err, FT_IO, "%s: %s", b->part, strerror(errno));
    return FT_OK;
}

ft_status ft_blob_take(ft_blob *b, const void *data, size_t n, ft_error *err)
{
    if (n > b->opts->bytes - b->at)
        return ft_error_set(err, FT_CORRUPT,
                            "more bytes come than the %" PRIu64 " that were announced",
                            b->opts->bytes);
    for (size_t done = 0; done < n;) {
        const ssize_t wrote = write(b->fd, (const char *)data + done, n - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return ft_error_set(err, FT_IO,
                                "%.200s: %s: of %" PRIu64 " bytes %" PRIu64 " are there", b->part,
                                strerror(errno), b->opts->bytes, b->at + done);
        done += (size_t)wrote;
    }
    ft_sha256_add(b->hash, data, n);
    b->at += n;
    report(b, b->at, b->opts->bytes);
    return FT_OK;
}

/* Opens and hashes what an earlier try has left. */
static ft_status open_part(ft_blob *b, ft_error *err)
{
    struct stat info;
    struct statvfs disk;
    b->fd = open(b->part, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
    if (b->fd < 0 || fstat(b->fd, &info) != 0)
        return ft_error_set(err, FT_IO, "%s: %s", b->part, strerror(errno));
    if ((uint64_t)info.st_size > b->opts->bytes) {
        if (ftruncate(b->fd, 0) != 0)
            return ft_error_set(err, FT_IO, "%s: %s", b->part, strerror(errno));
        info.st_size = 0;
    }
    const uint64_t missing = b->opts->bytes - (uint64_t)info.st_size;
    if (fstatvfs(b->fd, &disk) == 0 && disk.f_blocks > 0 && missing / disk.f_frsize > disk.f_bavail)
        return ft_error_set(err, FT_IO,
                            "the disk is full: %" PRIu64 " bytes are missing, and %s "
                            "has room for %" PRIu64,
                            missing, b->opts->folder, (uint64_t)disk.f_bavail * disk.f_frsize);
    b->at = (uint64_t)info.st_size;
    const ft_progress progress = progress_of(b);
    return ft_sha256_add_file(b->hash, b->fd, b->at, &progress, err);
}

static ft_status transfer(ft_blob *b, ft_error *err)
{
    ft_error why = {0};
    const uint64_t had = b->at;
    ft_status status = b->opts->transfer(b->opts->ctx, b, &why);
    if (b->at < b->opts->bytes && (status == FT_OK || (status == FT_UNAVAILABLE && b->at != had)))
        return ft_error_set(err, FT_UNAVAILABLE,
                            "the transfer ended after %" PRIu64 " of %" PRIu64
                            " bytes: the same command goes on from there",
                            b->at, b->opts->bytes);
    if (status != FT_OK)
        ft_error_set(err, status, "%s", why.message);
    return status;
}

/* Deletes the file at `path` unless the hash is the blob's. */
static ft_status check_hash(ft_blob *b, const char *path, ft_error *err)
{
    char got[FT_SHA256_HEX_SIZE];
    ft_sha256_end(b->hash, got);
    if (strcmp(got, b->opts->sha256) == 0)
        return FT_OK;
    (void)unlink(path);
    return ft_error_set(err, FT_CORRUPT,
                        "its SHA-256 is %.12s..., not %.12s...: the file is deleted: try again",
                        got, b->opts->sha256);
}

static ft_status fetch(ft_blob *b, ft_error *err)
{
    ft_status status = open_part(b, err);
    if (status == FT_OK && b->at < b->opts->bytes)
        status = transfer(b, err);
    if (status == FT_OK)
        status = check_hash(b, b->part, err);
    if (status == FT_OK && (fsync(b->fd) != 0 || rename(b->part, b->path) != 0))
        status = ft_error_set(err, FT_IO, "%s: %s", b->path, strerror(errno));
    return status;
}

/* What is there already may have been written by another program. */
static ft_status check(ft_blob *b, ft_error *err)
{
    struct stat info;
    const ft_progress progress = progress_of(b);
    if (fstat(b->fd, &info) != 0)
        return ft_error_set(err, FT_IO, "%s: %s", b->path, strerror(errno));
    ft_status status = ft_sha256_add_file(b->hash, b->fd, (uint64_t)info.st_size, &progress, err);
    return status == FT_OK ? check_hash(b, b->path, err) : status;
}

ft_status ft_blob_ensure(const ft_blob_opts *opts, ft_error *err, bool *fetched)
{
    ft_blob b = {.opts = opts, .fd = -1};
    int lock = -1;
    b.path = ft_cache_text("%s/%s", opts->folder, opts->sha256);
    b.part = b.path ? ft_cache_text("%s.incomplete", b.path) : NULL;
    ft_status status =
        b.part ? ft_sha256_create(err, &b.hash) : ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK)
        status = ft_cache_make_folder(opts->folder, err);
    if (status == FT_OK)
        status = ft_cache_lock(opts->lock, opts->sha256, err, &lock);
    if (status == FT_OK) {
        b.fd = open(b.path, O_RDONLY | O_CLOEXEC);
        *fetched = b.fd < 0;
        status = b.fd < 0 ? fetch(&b, err) : check(&b, err);
    }
    if (b.fd >= 0)
        close(b.fd);
    if (lock >= 0)
        close(lock);
    ft_sha256_destroy(b.hash);
    free(b.part);
    free(b.path);
    return status;
}
