// SPDX-License-Identifier: Apache-2.0
// FOLDER/KEY.gguf, KEY in 16 hexadecimal digits. A file's time of change is when it was last used.
// Files that a killed process has left (new_file.h) begin with a key, too, and count. Stateless.
#include "model/pack_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define KEY_DIGITS 16
#define NAME_MOST  40 /* a key, an end, and a temporary file's letters */

typedef struct kept {
    char name[NAME_MOST];
    uint64_t bytes;
    struct timespec used;
} kept;

typedef struct list {
    kept *file; /* [n] */
    size_t n;
    uint64_t bytes;
} list;

char *ft_pack_cache_path(const ft_pack_cache *cache, uint64_t key)
{
    const size_t room = strlen(cache->folder) + NAME_MOST;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s/%016" PRIx64 ".gguf", cache->folder, key);
    return path;
}

void ft_pack_cache_touch(const char *path)
{
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* in a folder of others it has the time it has */
}

/* ---- what is there ---- */

static bool is_ours(const char *name)
{
    return strspn(name, "0123456789abcdef") == KEY_DIGITS &&
           strncmp(name + KEY_DIGITS, ".gguf", 5) == 0 && strlen(name) < NAME_MOST;
}

static bool add(list *l, const char *name, const struct stat *info)
{
    kept *grown = realloc(l->file, (l->n + 1) * sizeof *grown);
    if (!grown)
        return false;
    l->file = grown;
    kept *k = &grown[l->n++];
    snprintf(k->name, sizeof k->name, "%s", name);
    k->bytes = (uint64_t)info->st_size;
    k->used = info->st_mtim;
    l->bytes += k->bytes;
    return true;
}

/* The caller frees l->file, also after an error. */
static ft_status read_folder(const ft_pack_cache *cache, ft_error *err, list *l)
{
    DIR *dir = opendir(cache->folder);
    bool memory = true;
    *l = (list){0};
    if (!dir)
        return ft_error_set(err, FT_IO, "%s: %s", cache->folder, strerror(errno));
    for (struct dirent *e; memory && (e = readdir(dir));) {
        struct stat info;
        if (is_ours(e->d_name) && fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode))
            memory = add(l, e->d_name, &info);
    }
    closedir(dir);
    return memory ? FT_OK : ft_error_set(err, FT_NOMEM, "out of memory");
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const kept *)a)->used, *y = &((const kept *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* ---- room ---- */

/* Bytes of the disk that this process may still fill; UINT64_MAX: the system does not say. */
static uint64_t free_bytes(const char *folder)
{
    struct statvfs fs;
    return statvfs(folder, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}

/* How many of the oldest files must go, of the first `may`. */
static size_t count_old(const list *l, size_t may, uint64_t most, uint64_t *freed)
{
    size_t n = 0;
    *freed = 0;
    while (n < may && l->bytes - *freed > most)
        *freed += l->file[n++].bytes;
    return n;
}

static void delete_old(const ft_pack_cache *cache, const list *l, size_t n)
{
    const int dir = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < n && dir >= 0; i++)
        (void)unlinkat(dir, l->file[i].name, 0); /* another process may have done it */
    if (dir >= 0)
        close(dir);
}

ft_status ft_pack_cache_make_room(const ft_pack_cache *cache, uint64_t bytes, ft_error *err)
{
    list l;
    uint64_t freed;
    if (bytes > cache->max_bytes)
        return ft_error_set(err, FT_EXHAUSTED,
                            "%" PRIu64 " MB are more than --pack-cache-mb allows", bytes >> 20);
    ft_status st = read_folder(cache, err, &l);
    if (st == FT_OK) {
        if (l.n > 0)
            qsort(l.file, l.n, sizeof *l.file, by_use);
        const size_t may = bytes || l.n == 0 ? l.n : l.n - 1;
        const size_t n = count_old(&l, may, cache->max_bytes - bytes, &freed);
        const uint64_t left = free_bytes(cache->folder);
        if (left < UINT64_MAX - freed && (left + freed) / 2 < bytes)
            st = ft_error_set(err, FT_EXHAUSTED,
                              "%" PRIu64 " MB would take more than half of the %" PRIu64
                              " MB that are free in %s",
                              bytes >> 20, (left + freed) >> 20, cache->folder);
        else
            delete_old(cache, &l, n);
    }
    free(l.file);
    return st;
}
