// SPDX-License-Identifier: Apache-2.0
// Choosing among a repository's files. Parts of a split model are named
// STEM-00001-of-00003.gguf, so they stand side by side when the list is sorted. Stateless.
#include "hub/files.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hub/name.h"

#define PART_SUFFIX 20 /* bytes of "-00001-of-00003.gguf" */

ft_status ft_hub_files_add(ft_hub_files *files, const char *path, uint64_t bytes,
                           const char *sha256)
{
    ft_hub_file *grown = realloc(files->file, (files->n + 1) * sizeof *grown);
    char *copy = strdup(path);
    if (grown)
        files->file = grown;
    if (!grown || !copy) {
        free(copy);
        return FT_NOMEM;
    }
    grown[files->n] = (ft_hub_file){.path = copy, .bytes = bytes};
    snprintf(grown[files->n++].sha256, FT_SHA256_HEX_SIZE, "%s", sha256);
    return FT_OK;
}

static int by_path(const void *a, const void *b)
{
    const ft_hub_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

void ft_hub_files_sort(ft_hub_files *files)
{
    if (files->n > 0)
        qsort(files->file, files->n, sizeof *files->file, by_path);
}

void ft_hub_files_deinit(ft_hub_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        free(files->file[i].path);
    free(files->file);
    *files = (ft_hub_files){0};
}

/* Reads the end of a part's name. */
static bool is_part(const char *path, unsigned *number, unsigned *count)
{
    const size_t n = strlen(path);
    const char *end = n > PART_SUFFIX ? path + n - PART_SUFFIX : "";
    static const char shape[] = "-00000-of-00000.gguf";
    for (size_t i = 0; i < PART_SUFFIX; i++)
        if (shape[i] == '0' ? !isdigit((unsigned char)end[i]) : end[i] != shape[i])
            return false;
    *number = (unsigned)strtoul(end + 1, NULL, 10);
    *count = (unsigned)strtoul(end + 10, NULL, 10);
    return true;
}

ft_hub_set ft_hub_files_at(const ft_hub_files *files, size_t i)
{
    unsigned number, count, other, of;
    const char *first = files->file[i].path;
    if (!is_part(first, &number, &count))
        return (ft_hub_set){i, 1};
    if (number != 1 || count == 0 || count > files->n - i)
        return (ft_hub_set){i, 0};
    for (unsigned k = 1; k < count; k++) {
        const char *path = files->file[i + k].path;
        if (!is_part(path, &other, &of) || other != k + 1 || of != count ||
            strlen(path) != strlen(first) || strncmp(path, first, strlen(first) - PART_SUFFIX) != 0)
            return (ft_hub_set){i, 0};
    }
    return (ft_hub_set){i, count};
}

/* Is it in the text with neither a letter, a digit nor '_' beside it? */
static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = text; *at; at++) {
        const unsigned char before = at == text ? 0 : (unsigned char)at[-1];
        if (strncasecmp(at, word, n) == 0 && !isalnum(before) && before != '_' &&
            !isalnum((unsigned char)at[n]) && at[n] != '_')
            return true;
    }
    return false;
}

static bool is_meant(const ft_hub_files *files, ft_hub_set set, const char *pick)
{
    const char *path = files->file[set.first].path, *slash = strrchr(path, '/');
    if (ft_hub_path_is_gguf(pick)) {
        for (size_t i = 0; i < set.n; i++)
            if (strcmp(files->file[set.first + i].path, pick) == 0)
                return true;
        return false;
    }
    return strncasecmp(slash ? slash + 1 : path, "mmproj", 6) != 0 &&
           (pick[0] == 0 || has_word(path, pick));
}

void ft_hub_files_names(const ft_hub_files *files, const char *pick, char *out, size_t size)
{
    size_t at = 0, more = 0;
    snprintf(out, size, "none");
    for (size_t i = 0; i < files->n; i++) {
        const ft_hub_set set = ft_hub_files_at(files, i);
        const char *path = files->file[i].path;
        if (set.n == 0 || (pick && !is_meant(files, set, pick)))
            continue;
        if (more || at + strlen(path) + 24 > size)
            more++;
        else
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", path);
    }
    if (more)
        snprintf(out + at, size - at, "%s%zu more", at ? " and " : "", more);
}

ft_status ft_hub_files_choose(const ft_hub_files *files, const char *pick, ft_error *err,
                              ft_hub_set *out)
{
    char names[240];
    size_t n_meant = 0;
    for (size_t i = 0; i < files->n; i++) {
        const ft_hub_set set = ft_hub_files_at(files, i);
        if (set.n == 0 || !is_meant(files, set, pick))
            continue;
        if (n_meant++ == 0)
            *out = set;
    }
    if (n_meant == 1)
        return FT_OK;
    ft_hub_files_names(files, n_meant ? pick : NULL, names, sizeof names);
    if (n_meant > 1)
        return ft_error_set(err, FT_INVALID, "%.80s%s%zu models, name one of them: %s", pick,
                            pick[0] ? " means " : "it has ", n_meant, names);
    return ft_error_set(err, FT_NOT_FOUND, "no GGUF file%s%.80s; it has: %s",
                        pick[0] ? " is or matches " : "", pick, names);
}
