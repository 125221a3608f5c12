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

#include "hub/answer.h"
#include "hub/cache.h"
#include "hub/get.h"
#include "hub/sha256.h"

typedef struct blob {
    const ft_blob_opts *opts;
    const ft_hub_file *file;
    char *path, *part; /* blobs/SHA256, and with .incomplete */
    int fd;            /* of `part`, or of what is checked */
    uint64_t at;       /* bytes that `part` has, all of them hashed */
    ft_sha256 *hash;
} blob;

static void report(void *ctx, uint64_t done, uint64_t total)
{
    const blob *b = ctx;
    (void)total;
    ft_progress_report(&b->opts->progress, b->opts->before + done, b->opts->of_all);
}

static ft_progress progress_of(blob *b)
{
    return (ft_progress){report, b};
}

static ft_status begin(void *ctx, const char *content_range, ft_error *err)
{
    blob *b = ctx;
    char none[FT_SHA256_HEX_SIZE];
    if (content_range[0] && !ft_content_range_is(content_range, b->at, b->file->bytes))
        return ft_error_set(err, FT_CORRUPT,
                            "the hub answers with other bytes than were asked for "
                            "(Content-Range: %.100s)",
                            content_range);
    if (content_range[0] || b->at == 0)
        return FT_OK;
    ft_sha256_end(b->hash, none); /* the answer begins anew */
    b->at = 0;
    if (ftruncate(b->fd, 0) != 0)
        return ft_error_set(err, FT_IO, "%s: %s", b->part, strerror(errno));
    return FT_OK;
}

static ft_status take(void *ctx, const void *data, size_t n, ft_error *err)
{
    blob *b = ctx;
    if (n > b->file->bytes - b->at)
        return ft_error_set(err, FT_CORRUPT,
                            "the hub sends more than the %" PRIu64 " bytes that it has announced",
                            b->file->bytes);
    for (size_t done = 0; done < n;) {
        const ssize_t wrote = write(b->fd, (const char *)data + done, n - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return ft_error_set(err, FT_IO,
                                "%.200s: %s: of %" PRIu64 " bytes %" PRIu64 " are there", b->part,
                                strerror(errno), b->file->bytes, b->at + done);
        done += (size_t)wrote;
    }
    ft_sha256_add(b->hash, data, n);
    b->at += n;
    report(b, b->at, b->file->bytes);
    return FT_OK;
}

/* Opens and hashes what an earlier try has left. */
static ft_status open_part(blob *b, ft_error *err)
{
    struct stat info;
    struct statvfs disk;
    b->fd = open(b->part, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
    if (b->fd < 0 || fstat(b->fd, &info) != 0)
        return ft_error_set(err, FT_IO, "%s: %s", b->part, strerror(errno));
    if ((uint64_t)info.st_size > b->file->bytes) {
        if (ftruncate(b->fd, 0) != 0)
            return ft_error_set(err, FT_IO, "%s: %s", b->part, strerror(errno));
        info.st_size = 0;
    }
    const uint64_t missing = b->file->bytes - (uint64_t)info.st_size;
    if (fstatvfs(b->fd, &disk) == 0 && disk.f_blocks > 0 && missing / disk.f_frsize > disk.f_bavail)
        return ft_error_set(err, FT_IO,
                            "the disk is full: %" PRIu64 " bytes are missing, and %s "
                            "has room for %" PRIu64,
                            missing, b->opts->root, (uint64_t)disk.f_bavail * disk.f_frsize);
    b->at = (uint64_t)info.st_size;
    const ft_progress progress = progress_of(b);
    return ft_sha256_add_file(b->hash, b->fd, b->at, &progress, err);
}

static ft_status transfer(blob *b, ft_error *err)
{
    ft_error why = {0};
    char *path = ft_get_encode(b->file->path), *url = NULL;
    if (path)
        url = ft_cache_text("%s/%s/resolve/%s/%s", b->opts->endpoint, b->opts->repo,
                            b->opts->commit, path);
    const ft_get get = {.url = url,
                        .endpoint = b->opts->endpoint,
                        .token = b->opts->token,
                        .from = b->at,
                        .begin = begin,
                        .data = take,
                        .ctx = b};
    const uint64_t had = b->at;
    ft_status status = url ? ft_get_run(&get, &why) : ft_error_set(&why, FT_NOMEM, "out of memory");
    if (b->at < b->file->bytes && (status == FT_OK || (status == FT_UNAVAILABLE && b->at != had)))
        status = ft_error_set(err, FT_UNAVAILABLE,
                              "the transfer ended after %" PRIu64 " of %" PRIu64
                              " bytes: the same command goes on from there",
                              b->at, b->file->bytes);
    else if (status != FT_OK)
        ft_error_set(err, status, "%s", why.message);
    free(url);
    free(path);
    return status;
}

/* Deletes the file at `path` unless the hash is the blob's. */
static ft_status check_hash(blob *b, const char *path, ft_error *err)
{
    char got[FT_SHA256_HEX_SIZE];
    ft_sha256_end(b->hash, got);
    if (strcmp(got, b->file->sha256) == 0)
        return FT_OK;
    (void)unlink(path);
    return ft_error_set(err, FT_CORRUPT,
                        "its SHA-256 is %.12s..., and the hub says %.12s...: the "
                        "file is deleted: try again",
                        got, b->file->sha256);
}

static ft_status fetch(blob *b, ft_error *err)
{
    ft_status status = open_part(b, err);
    if (status == FT_OK && b->at < b->file->bytes)
        status = transfer(b, err);
    if (status == FT_OK)
        status = check_hash(b, b->part, err);
    if (status == FT_OK && (fsync(b->fd) != 0 || rename(b->part, b->path) != 0))
        status = ft_error_set(err, FT_IO, "%s: %s", b->path, strerror(errno));
    return status;
}

/* What is there already may have been written by another program. */
static ft_status check(blob *b, ft_error *err)
{
    struct stat info;
    const ft_progress progress = progress_of(b);
    if (fstat(b->fd, &info) != 0)
        return ft_error_set(err, FT_IO, "%s: %s", b->path, strerror(errno));
    ft_status status = ft_sha256_add_file(b->hash, b->fd, (uint64_t)info.st_size, &progress, err);
    return status == FT_OK ? check_hash(b, b->path, err) : status;
}

ft_status ft_blob_ensure(const ft_blob_opts *opts, const ft_hub_file *file, ft_error *err,
                         bool *fetched)
{
    blob b = {.opts = opts, .file = file, .fd = -1};
    int lock = -1;
    char *folder = ft_cache_folder(opts->root, opts->repo);
    char *blobs = folder ? ft_cache_text("%s/blobs", folder) : NULL;
    b.path = blobs ? ft_cache_text("%s/%s", blobs, file->sha256) : NULL;
    b.part = b.path ? ft_cache_text("%s.incomplete", b.path) : NULL;
    ft_status status =
        b.part ? ft_sha256_create(err, &b.hash) : ft_error_set(err, FT_NOMEM, "out of memory");
    if (status == FT_OK)
        status = ft_cache_make_folder(blobs, err);
    if (status == FT_OK)
        status = ft_cache_lock(opts->root, opts->repo, file->sha256, err, &lock);
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
    free(blobs);
    free(folder);
    return status;
}
