/* SPDX-License-Identifier: Apache-2.0
 *
 * --memory: a budget for the whole process. Weights of the target that do not fit are read from the
 * file in every pass (model/streamed.h).
 */
#ifndef FT_CMD_MEMORY_H
#define FT_CMD_MEMORY_H

#include <stdbool.h>

#include "base/flags.h"
#include "engine/load.h"
#include "engine/need.h"
#include "model/memory_choose.h"
#include "model/streamed.h"
#include "model/vocab.h"
#include "serve/opts.h"

typedef struct ft_memory_flags {
    const char *size; /* "2G"; NULL: no budget */
    bool no_overlap;
} ft_memory_flags;

extern const ft_flag_group ft_flags_memory; /* of ft_memory_flags */

/* A draft model beside the target. */
typedef struct ft_memory_draft {
    const char *path; /* NULL: none */
    ft_kv_type kv_type;
    uint32_t kv_tok, rows, out; /* of its engine; kv_tok 0: as many as the target's */
} ft_memory_draft;

typedef struct ft_memory_need {
    const char *path; /* of the target */
    const ft_device_opts *device;
    ft_memory_draft draft;
    uint64_t network_bytes; /* of connections and the answers to them; 0: there are none */
    uint32_t trees;         /* texts that one pass may verify at once; 0: any number */
} ft_memory_need;

/* A budget, its plan, and who holds it. */
typedef struct ft_cmd_memory {
    bool on; /* there is a budget */
    const ft_memory_flags *flags;
    ft_memory_need need;
    ft_verifier_opts *opts;
    ft_memory_budget budget;
    ft_engine_size size; /* of the target's engine */
    ft_hparams hp;       /* of the target */
    ft_memory_part fixed[FT_MEMORY_PARTS];
    ft_turn turn; /* of target and draft */
    ft_streamed *streamed;
} ft_cmd_memory;

/* Plans for the target that the verifier's options describe (pool, threads, type of K and V), and
 * limits their context and batch to the plan. A pool of 0 tokens becomes one for one text. Nothing
 * is loaded. Does nothing without --memory. FT_INVALID: the size is no size, or devices are asked
 * for; FT_EXHAUSTED: it is too small, and the plan's least_bytes says for what; FT_PRECONDITION:
 * this process may not have so much. Errors of ft_model_inspect. *m, all zeros, must not be moved
 * later; flags and opts must live as long. */
FT_WARN_UNUSED ft_status ft_cmd_memory_plan(ft_cmd_memory *m, const ft_memory_flags *flags,
                                            const ft_memory_need *need, ft_verifier_opts *opts,
                                            ft_error *err);
/* After the plan: as ft_cmd_load_model. */
FT_WARN_UNUSED ft_status ft_cmd_memory_load(ft_cmd_memory *m, ft_error *err, ft_model **out,
                                            ft_vocab **vocab);
/* Prints the plan, as --dry-run does. Returns the exit status. */
int ft_cmd_memory_print(const ft_cmd_memory *m, bool json);
/* Before the model is destroyed. All zeros are legal. */
void ft_cmd_memory_close(ft_cmd_memory *m);

#endif
