/* SPDX-License-Identifier: Apache-2.0
 *
 * The GGUF files of a repository, and which of them a name means. The list comes from the hub's
 * answer or from a folder of the cache; both are chosen from by the same rules. One thread. */
#ifndef FT_HUB_FILES_H
#define FT_HUB_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_HUB_COMMIT_SIZE 41
#define FT_SHA256_HEX_SIZE 65

typedef struct ft_hub_file {
    char *path; /* in the repository; ft_hub_path_is_below holds */
    uint64_t bytes;
    char sha256[FT_SHA256_HEX_SIZE]; /* "": not known */
} ft_hub_file;

/* All-zero is an empty list. */
typedef struct ft_hub_files {
    char commit[FT_HUB_COMMIT_SIZE]; /* of the repository */
    ft_hub_file *file;               /* [n], sorted by path after ft_hub_files_sort */
    size_t n;
} ft_hub_files;

/* A model: one file, or all parts of a split one in their order, file[first .. first + n). */
typedef struct ft_hub_set {
    size_t first, n;
} ft_hub_set;

/* Adds a file; sha256 may be "". FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_hub_files_add(ft_hub_files *files, const char *path, uint64_t bytes,
                                          const char *sha256);
void ft_hub_files_sort(ft_hub_files *files);
void ft_hub_files_deinit(ft_hub_files *files);

/* The model that begins with file i; n = 0: none does, because the file is a part behind the first
 * one, or other parts are missing. */
ft_hub_set ft_hub_files_at(const ft_hub_files *files, size_t i);

/* Writes the models that `pick` means (NULL: all) as "a, b and 3 more"; "none". */
void ft_hub_files_names(const ft_hub_files *files, const char *pick, char *out, size_t size);

/* The model that `pick` means: the path of one of its files, or a quant: a word of its path, in
 * upper or lower case. "": the only model. Files for pictures (mmproj) are meant by their path
 * alone. FT_NOT_FOUND: none; FT_INVALID: several. Both messages list what there is. */
FT_WARN_UNUSED ft_status ft_hub_files_choose(const ft_hub_files *files, const char *pick,
                                             ft_error *err, ft_hub_set *out);

#endif
