// SPDX-License-Identifier: Apache-2.0
// Folders, links and locks of the hub's cache. No state in memory. Whatever lies in the cache may
// have been written by another program, so it is checked like an answer from outside.
#include "hub/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/secret.h"
#include "hub/name.h"

#define DEPTH_MAX 8 /* of folders in a repository */

char *ft_cache_text(const char *fmt, ...)
{
    char *out;
    va_list args;
    va_start(args, fmt);
    const int n = vasprintf(&out, fmt, args);
    va_end(args);
    return n < 0 ? NULL : out;
}

static ft_status no_memory(ft_error *err)
{
    return ft_error_set(err, FT_NOMEM, "out of memory");
}

char *ft_cache_folder(const char *root, const char *repo)
{
    const int org = (int)strcspn(repo, "/");
    return ft_cache_text("%s/models--%.*s--%s", root, org, repo, repo + org + 1);
}

ft_status ft_cache_make_folder(const char *path, ft_error *err)
{
    char *copy = strdup(path);
    ft_status status = copy ? FT_OK : no_memory(err);
    for (char *at = copy; status == FT_OK && at;) {
        char *slash = strchr(at + 1, '/');
        if (slash)
            *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status =
                ft_error_set(err, FT_IO, "cannot make the folder %s: %s", copy, strerror(errno));
        if (slash)
            *slash = '/';
        at = slash;
    }
    free(copy);
    return status;
}

/* The folder that the file is to lie in. */
static ft_status make_folder_of(const char *file, ft_error *err)
{
    char *folder = strdup(file);
    if (!folder)
        return no_memory(err);
    *strrchr(folder, '/') = 0;
    ft_status status = ft_cache_make_folder(folder, err);
    free(folder);
    return status;
}

static ft_status read_main(const char *folder, ft_error *err, char commit[FT_HUB_COMMIT_SIZE])
{
    size_t n;
    char *path = ft_cache_text("%s/refs/main", folder), *text = NULL;
    ft_status status = path ? ft_file_read(path, 256, err, &text, &n) : no_memory(err);
    if (status == FT_IO)
        status = ft_error_set(err, FT_NOT_FOUND, "nothing of it is in the cache");
    if (status == FT_OK) {
        text[strcspn(text, "\r\n")] = 0;
        if (ft_hex_is(text, FT_HUB_COMMIT_SIZE - 1))
            snprintf(commit, FT_HUB_COMMIT_SIZE, "%s", text);
        else
            status = ft_error_set(err, FT_CORRUPT, "%s holds no commit: delete it", path);
    }
    free(text);
    free(path);
    return status;
}

static ft_status list_folder(const char *snapshot, const char *below, int depth, ft_hub_files *out);

/* A file or a folder; name: relative to the snapshot. */
static ft_status list_entry(const char *snapshot, const char *name, int depth, ft_hub_files *out)
{
    struct stat info;
    char *path = ft_cache_text("%s/%s", snapshot, name);
    ft_status status = path ? FT_OK : FT_NOMEM;
    const bool there = path && stat(path, &info) == 0;
    if (there && S_ISDIR(info.st_mode) && depth < DEPTH_MAX)
        status = list_folder(snapshot, name, depth + 1, out);
    else if (there && S_ISREG(info.st_mode) && info.st_size > 0 && ft_hub_path_is_gguf(name) &&
             ft_hub_path_is_below(name))
        status = ft_hub_files_add(out, name, (uint64_t)info.st_size, "");
    free(path);
    return status;
}

/* below: "" or a folder in the snapshot. */
static ft_status list_folder(const char *snapshot, const char *below, int depth, ft_hub_files *out)
{
    char *path = ft_cache_text("%s/%s", snapshot, below);
    DIR *dir = path ? opendir(path) : NULL;
    ft_status status = path ? FT_OK : FT_NOMEM;
    free(path);
    for (struct dirent *entry; status == FT_OK && dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *name = ft_cache_text("%s%s%s", below, below[0] ? "/" : "", entry->d_name);
        status = name ? list_entry(snapshot, name, depth, out) : FT_NOMEM;
        free(name);
    }
    if (dir)
        closedir(dir);
    return status;
}

ft_status ft_cache_read(const char *folder, ft_error *err, ft_hub_files *out)
{
    *out = (ft_hub_files){0};
    ft_status status = read_main(folder, err, out->commit);
    if (status != FT_OK)
        return status;
    char *snapshot = ft_cache_text("%s/snapshots/%s", folder, out->commit);
    if (!snapshot || list_folder(snapshot, "", 0, out) != FT_OK) {
        ft_hub_files_deinit(out);
        status = no_memory(err);
    }
    free(snapshot);
    ft_hub_files_sort(out);
    return status;
}

/* Locks the file at `path`, which others may delete meanwhile: then a file of that name is locked
 * that is still there. -1: errno says why. */
static int lock_file(const char *path, const char *what)
{
    for (;;) {
        struct stat info;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        int locked = flock(fd, LOCK_EX | LOCK_NB);
        if (locked != 0 && errno == EWOULDBLOCK) {
            FT_LOGW("hub", "sha256=%s another process fetches it: waiting", what);
            do
                locked = flock(fd, LOCK_EX);
            while (locked != 0 && errno == EINTR);
        }
        if (locked == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0)
            return fd;
        const int why = errno;
        close(fd);
        errno = why;
        if (locked != 0)
            return -1;
    }
}

ft_status ft_cache_lock(const char *path, const char *what, ft_error *err, int *fd)
{
    *fd = -1;
    ft_status status = make_folder_of(path, err);
    if (status == FT_OK && (*fd = lock_file(path, what)) < 0)
        status = ft_error_set(err, FT_IO, "cannot lock %s: %s", path, strerror(errno));
    return status;
}

ft_status ft_cache_link(const char *folder, const char *commit, const ft_hub_file *file,
                        ft_error *err)
{
    size_t up = 0;
    for (const char *c = file->path; *c; c++)
        up += *c == '/';
    char *path = ft_cache_text("%s/snapshots/%s/%s", folder, commit, file->path);
    char *temp = path ? ft_cache_text("%s.%ld.new", path, (long)getpid()) : NULL;
    char *target = temp ? malloc(3 * up + sizeof "../../blobs/" + strlen(file->sha256)) : NULL;
    ft_status status = target ? make_folder_of(path, err) : no_memory(err);
    if (status == FT_OK) {
        for (size_t i = 0; i < up; i++)
            memcpy(target + 3 * i, "../", 3);
        sprintf(target + 3 * up, "../../blobs/%s", file->sha256);
        (void)unlink(temp); /* of a process with this number that was killed */
        if (symlink(target, temp) != 0 || rename(temp, path) != 0)
            status = ft_error_set(err, FT_IO, "cannot make the link %s: %s", path, strerror(errno));
    }
    free(target);
    free(temp);
    free(path);
    return status;
}

ft_status ft_cache_set_main(const char *folder, const char *commit, ft_error *err)
{
    char *path = ft_cache_text("%s/refs/main", folder);
    char *temp = path ? ft_cache_text("%s.%ld.new", path, (long)getpid()) : NULL;
    ft_status status = temp ? make_folder_of(path, err) : no_memory(err);
    FILE *out = status == FT_OK ? fopen(temp, "we") : NULL;
    if (status == FT_OK && (!out || fputs(commit, out) < 0))
        status = ft_error_set(err, FT_IO, "cannot write %s: %s", temp, strerror(errno));
    if (out && fclose(out) != 0 && status == FT_OK)
        status = ft_error_set(err, FT_IO, "cannot write %s: %s", temp, strerror(errno));
    if (status == FT_OK && rename(temp, path) != 0)
        status = ft_error_set(err, FT_IO, "cannot write %s: %s", path, strerror(errno));
    free(temp);
    free(path);
    return status;
}
