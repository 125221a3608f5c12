/* SPDX-License-Identifier: Apache-2.0
 *
 * `edge --fallback`: a target in the edge's own process for texts that no server takes
 * (edge/offline.h). It is loaded at the start, so that a text that goes there waits for no file.
 * Main thread only; the verifier has a thread of its own.
 */
#ifndef FT_CMD_FALLBACK_H
#define FT_CMD_FALLBACK_H

#include "cmd/memory.h"
#include "cmd/pack_flags.h"
#include "edge/edge.h"
#include "serve/verifier.h"

typedef struct ft_fallback_flags {
    const char *path; /* NULL: none */
    ft_memory_flags memory;
    ft_verifier_opts verifier;
} ft_fallback_flags;

extern const ft_flag_group ft_flags_fallback; /* of ft_fallback_flags */

typedef struct ft_cmd_fallback {
    const ft_fallback_flags *flags;
    ft_device_opts device; /* the CPU */
    ft_pack_flags *pack;   /* borrowed; set before the start; NULL: nothing is kept */
    ft_verifier_opts opts;
    ft_cmd_memory memory;
    ft_model *model;
    ft_vocab *vocab;
    ft_verifier *verifier;
    ft_link_source source;
} ft_cmd_fallback;

/* FT_INVALID: flags that need --fallback were given without it. */
FT_WARN_UNUSED ft_status ft_fallback_flags_check(const ft_fallback_flags *flags, ft_error *err);

/* Before anything is loaded: plans the memory of the process, with the draft model of `edge`
 * (draft: its file, NULL: none), and sets draft_kv_tok there. kernels: as in ft_device_opts. Errors
 * as ft_cmd_memory_plan. *f, all zeros, must not be moved later; flags must live as long. Does
 * nothing without --fallback. */
FT_WARN_UNUSED ft_status ft_cmd_fallback_plan(ft_cmd_fallback *f, const ft_fallback_flags *flags,
                                              const char *draft, const char *kernels,
                                              ft_edge_opts *edge, ft_error *err);
/* After the plan: loads the target, starts its verifier, and sets `fallback` and `turn` of the
 * edge's options. FT_PRECONDITION: its vocabulary is not the edge's, which is set there. */
FT_WARN_UNUSED ft_status ft_cmd_fallback_start(ft_cmd_fallback *f, ft_edge_opts *edge,
                                               ft_error *err);
/* Logs whether texts that go there are the same as on this server. */
void ft_cmd_fallback_compare(const ft_cmd_fallback *f, const ft_msg_info *server);
/* After the edge's end. All zeros are legal. */
void ft_cmd_fallback_stop(ft_cmd_fallback *f);

#endif
