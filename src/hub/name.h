/* SPDX-License-Identifier: Apache-2.0
 *
 * How models are named: hf:ORG/REPO[:QUANT|:FILE], ollama:NAME[:TAG], or a path. Pure functions. */
#ifndef FT_HUB_NAME_H
#define FT_HUB_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define FT_HUB_REPO_SIZE 320
#define FT_HUB_PICK_SIZE 512

typedef enum ft_hub_kind { FT_HUB_PATH, FT_HUB_HF, FT_HUB_OLLAMA } ft_hub_kind;

typedef struct ft_hub_name {
    ft_hub_kind kind;
    char repo[FT_HUB_REPO_SIZE]; /* HF: "ORG/REPO"; OLLAMA: "HOST/NAMESPACE/MODEL" */
    char pick[FT_HUB_PICK_SIZE]; /* HF: a quant or a file, "": neither; OLLAMA: the tag */
} ft_hub_name;

/* Whatever begins with neither hf: nor ollama: is a path. FT_INVALID: a part of the name is missing
 * or has characters that it may not have. */
FT_WARN_UNUSED ft_status ft_hub_name_parse(const char *text, ft_error *err, ft_hub_name *out);

/* True if a path leads to a file below the folder that it is joined to: it is relative, no part of
 * it is empty, "." or "..", and it is UTF-8 without backslashes and control characters. */
bool ft_hub_path_is_below(const char *path);

/* True if it ends in .gguf and is longer. */
bool ft_hub_path_is_gguf(const char *path);

#endif
