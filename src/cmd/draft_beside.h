/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft model that is loaded on a thread of its own while the caller loads the target. Making the
 * target's vocabulary takes most of that time and one processor. The caller's thread starts and
 * joins.
 */
#ifndef FT_CMD_DRAFT_BESIDE_H
#define FT_CMD_DRAFT_BESIDE_H

#include <pthread.h>

#include "cmd/gen_flags.h"

typedef struct ft_draft_beside {
    ft_cmd_model model;
    ft_model *draft;
    ft_status status;
    ft_error err;
    pthread_t thread;
} ft_draft_beside;

/* Starts to load it. *beside and what `model` borrows must stay until the join. The caller owes a
 * join unless this fails. FT_EXHAUSTED: there is no thread. */
FT_WARN_UNUSED ft_status ft_draft_beside_start(ft_draft_beside *beside, const ft_cmd_model *model,
                                               ft_error *err);
/* Waits until it is loaded. *out, which the caller destroys, is NULL on failure. Errors as
 * ft_model_load_on. */
FT_WARN_UNUSED ft_status ft_draft_beside_join(ft_draft_beside *beside, ft_error *err,
                                              ft_model **out);

#endif
