// SPDX-License-Identifier: Apache-2.0
// {"version": 1, "of": "STATE", "content": "HASH"}. The hash is one of hashes: those of the file's
// blocks, which threads make in any order. Stateless.
#include "model/content.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_file.h"
#include "base/kept_file.h"
#include "base/secret.h"
#include "base/workers.h"
#include "xxhash.h"

#define VERSION 1
#define KIND    "content"

#define BLOCK ((size_t)1 << 20) /* what a thread reads at once; another one gives other hashes */
/* More threads than this do not read memory faster. */
#define THREADS_MOST 16
#define BETWEEN      256 /* blocks between two reports of the progress */

/* ---- states ---- */

/* (The number of a device may be another one after the next boot.) */
static uint64_t add_file(uint64_t hash, const struct stat *info)
{
    const int64_t numbers[] = {(int64_t)info->st_ino, info->st_size,        info->st_mtim.tv_sec,
                               info->st_mtim.tv_nsec, info->st_ctim.tv_sec, info->st_ctim.tv_nsec};
    return ft_fnv64(hash, numbers, sizeof numbers);
}

uint64_t ft_content_state(const char *path)
{
    const size_t room = strlen(path) + 1;
    char *part = malloc(room);
    struct stat info;
    uint64_t hash = part ? FT_FNV64_INIT : 0;
    unsigned first = 1, n = 1;
    if (!part)
        return 0;
    memcpy(part, path, room);
    char *end = room > FT_GGUF_PART_SUFFIX ? part + room - 1 - FT_GGUF_PART_SUFFIX : part;
    if (sscanf(end, "-%5u-of-%5u.gguf", &first, &n) != 2)
        n = 1;
    for (unsigned k = 1; k <= n && hash; k++) {
        if (n > 1)
            snprintf(end, FT_GGUF_PART_SUFFIX + 1, "-%05u-of-%05u.gguf", k % 100000, n % 100000);
        hash = stat(part, &info) == 0 ? add_file(hash, &info) : 0;
    }
    free(part);
    return hash;
}

static uint32_t count_files(const ft_gguf *gguf)
{
    return gguf->parts ? gguf->parts->n : 1;
}

uint64_t ft_content_state_of(const ft_gguf *gguf)
{
    uint64_t hash = FT_FNV64_INIT;
    struct stat info;
    for (uint32_t k = 0; k < count_files(gguf) && hash; k++)
        hash = fstat(gguf->parts ? gguf->parts->fd[k] : gguf->fd, &info) == 0
                   ? add_file(hash, &info)
                   : 0;
    return hash;
}

/* ---- hashes ---- */

typedef struct reading {
    const ft_gguf *gguf;
    uint64_t begin, end; /* offsets of the file that is read, in all of the model's */
    uint64_t block;      /* the first of the run */
    uint64_t hash[BETWEEN];
    uint8_t *buffer; /* [workers, BLOCK] */
    atomic_bool failed;
} reading;

static void read_block(void *ctx, size_t i, int worker)
{
    reading *r = ctx;
    ft_error err = {0};
    ft_gguf own = *r->gguf; /* with an error of its own */
    uint8_t *buffer = r->buffer + (size_t)worker * BLOCK;
    const uint64_t at = r->begin + (r->block + i) * BLOCK;
    const size_t n = r->end - at < BLOCK ? (size_t)(r->end - at) : BLOCK;
    own.err = &err;
    if (ft_gguf_read(&own, at, buffer, n) == FT_OK)
        r->hash[i] = XXH3_64bits(buffer, n);
    else
        atomic_store(&r->failed, true);
}

/* Continues the hash over one of the model's files. */
static uint64_t add_content(reading *r, uint64_t hash, ft_workers *workers,
                            const ft_progress *progress)
{
    const uint64_t bytes = r->end - r->begin, n = (bytes + BLOCK - 1) / BLOCK;
    hash = ft_fnv64(hash, &bytes, sizeof bytes);
    for (r->block = 0; r->block < n && !atomic_load(&r->failed); r->block += BETWEEN) {
        const size_t some = n - r->block < BETWEEN ? (size_t)(n - r->block) : BETWEEN;
        ft_workers_run(workers, some, read_block, r);
        hash = ft_fnv64(hash, r->hash, some * sizeof *r->hash);
        const uint64_t done = r->begin + (r->block + some) * BLOCK;
        ft_progress_report(progress, done < r->end ? done : r->end, r->gguf->file_size);
    }
    return hash;
}

static ft_status hash_files(reading *r, const ft_progress *progress, ft_error *err, uint64_t *out)
{
    const ft_gguf *gguf = r->gguf;
    ft_workers *workers = NULL;
    uint64_t hash = FT_FNV64_INIT;
    const uint64_t state = ft_content_state_of(gguf);
    ft_status st = ft_workers_create(0, THREADS_MOST, err, &workers);
    if (st != FT_OK)
        return st;
    r->buffer = malloc((size_t)ft_workers_count(workers) * BLOCK);
    for (uint32_t k = 0; k < count_files(gguf) && r->buffer; k++) {
        r->begin = gguf->parts ? gguf->parts->begin[k] : 0;
        r->end = gguf->parts ? gguf->parts->begin[k + 1] : gguf->file_size;
        hash = add_content(r, hash, workers, progress);
    }
    if (!r->buffer)
        st = ft_error_set(err, FT_NOMEM, "out of memory");
    else if (atomic_load(&r->failed))
        st = ft_error_set(err, FT_IO, "%s: cannot be read", gguf->path);
    else if (ft_content_state_of(gguf) != state)
        st = ft_error_set(err, FT_ABORTED, "%s: it changes", gguf->path);
    ft_workers_destroy(workers);
    free(r->buffer);
    if (st == FT_OK)
        *out = hash + (hash == 0); /* 0 is for "not known" */
    return st;
}

ft_status ft_content_hash(const ft_gguf *gguf, const ft_progress *progress, ft_error *err,
                          uint64_t *out)
{
    reading *r = calloc(1, sizeof *r);
    *out = 0;
    if (!r)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    r->gguf = gguf;
    const ft_status st = hash_files(r, progress, err, out);
    free(r);
    return st;
}

/* ---- what is remembered ---- */

static bool read_number(const json_t *file, const char *key, uint64_t *out)
{
    const char *digits = json_string_value(json_object_get(file, key));
    if (!digits || !ft_hex_is(digits, 16))
        return false;
    *out = strtoull(digits, NULL, 16);
    return true;
}

ft_status ft_content_read(const char *text, size_t n, uint64_t state, ft_error *err, uint64_t *out)
{
    uint64_t of, content;
    json_t *file = NULL;
    ft_status st = ft_json_parse(text, n, err, &file);
    if (st == FT_OK)
        st = ft_kept_file_check_version(file, VERSION, err);
    if (st == FT_OK && (!read_number(file, "of", &of) || !read_number(file, "content", &content)))
        st = ft_error_set(err, FT_INVALID, "not two hashes");
    if (st == FT_OK && of != state)
        st = ft_error_set(err, FT_NOT_FOUND, "about another file");
    if (st == FT_OK)
        *out = content;
    json_decref(file);
    return st;
}

uint64_t ft_content_recall(const char *folder, uint64_t state)
{
    const ft_kept_place place = {.folder = folder};
    uint64_t content = 0;
    char *text = NULL;
    size_t n;
    if (ft_kept_file_read(&place, KIND, state, NULL, &text, &n) == FT_OK &&
        ft_content_read(text, n, state, NULL, &content) != FT_OK)
        content = 0;
    free(text);
    return content;
}

void ft_content_remember(const char *folder, uint64_t state, uint64_t content)
{
    const ft_kept_place place = {.folder = folder};
    char text[128];
    const int n =
        snprintf(text, sizeof text,
                 "{\"version\": %d, \"of\": \"%016" PRIx64 "\", \"content\": \"%016" PRIx64 "\"}\n",
                 VERSION, state, content);
    (void)!ft_kept_file_write(&place, KIND, state, text, (size_t)n, NULL);
}
