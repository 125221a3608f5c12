/* SPDX-License-Identifier: Apache-2.0
 *
 * How far this engine's logits are from libllama's. Called by one thread. */
#ifndef FT_BENCH_LOGITS_H
#define FT_BENCH_LOGITS_H

#include <jansson.h>

#include "engine/engine.h"
#include "engine/load.h"

typedef struct ft_bench_logits_opts {
    const char *path;    /* of the model */
    const char *exact;   /* the same weights in F32; NULL: none */
    const char *prompt;  /* what is compared... */
    const char *prompts; /* ...unless this names a file of prompts */
    int64_t limit;       /* prompts of the file; 0: all */
    ft_kv_type kv;       /* how ours keeps K and V */
    ft_device_opts device;
} ft_bench_logits_opts;

/* {model, rows_compared, skipped_too_long, rows: [{pair: "A - B", max_error, nmse,
 * argmax_differs}]}. FT_INVALID: no prompt is short enough; errors of files, engine and libllama;
 * then *report is NULL. */
FT_WARN_UNUSED ft_status ft_bench_logits(const ft_bench_logits_opts *opts, ft_error *err,
                                         json_t **report);

#endif
