/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates WISP's setting on a virtual clock: devices that draft and send, links that delay, and
 * one server that verifies in passes. The policies, limits and deadlines of the real server decide
 * what runs in a pass (sched/sched.h). A cost model gives the time of a pass; chance varies it by
 * the model's error. Pure: the same config, opts and seed give the same result on every machine.
 * Any thread.
 */
#ifndef FT_SIM_WISP_H
#define FT_SIM_WISP_H

#include <stdint.h>

#include "sched/late.h"
#include "sched/spike.h"
#include "sim/wisp_config.h"

#define FT_SIM_MIXED       UINT32_MAX
#define FT_SIM_DEVICES_MAX 16384u

/* A verdict in the counted time, of a mode with drafts: a point of WISP's figure 8. */
typedef struct ft_sim_round {
    uint32_t class;
    int64_t queue_us, verify_us; /* from the draft's arrival to its pass; the pass */
    ft_late late;
} ft_sim_round;

typedef struct ft_sim_opts {
    const ft_sim_config *config; /* borrowed */
    ft_sim_mode mode;
    uint32_t n_devices; /* 1 to FT_SIM_DEVICES_MAX; each always works on one text */
    uint32_t class; /* of all devices; FT_SIM_MIXED: of device i, i modulo the number of classes */
    uint64_t seed;
    int64_t ramp_us;  /* devices begin within it */
    int64_t from_us;  /* what happens from here on is counted */
    int64_t until_us; /* here it ends; > from_us */
    uint64_t
        *tokens; /* [n_devices] tokens of text that each got, counted or not; NULL: not wanted */
    void (*on_round)(void *ctx, const ft_sim_round *round); /* NULL: not wanted */
    void *ctx;                                              /* of on_round */
} ft_sim_opts;

/* What is counted; several runs' counts are added. */
#define FT_SIM_COUNTS(F)                                                   \
    F(tokens)     /* of text, in the counted time */                       \
    F(tokens_all) /* of text, in all of the time */                        \
    F(rounds)     /* verdicts */                                           \
    F(drafted)                                                             \
    F(accepted)                                                            \
    F(passes)                                                              \
    F(rows)                                                                \
    F(busy_us)                                                             \
    F(kv_released) /* times that a session's KV was evicted for another */ \
    F(kept_tokens) /* of whole texts that kept their promise */            \
    F(asked)       /* texts that asked for a promise; 0: no admission */   \
    F(refused)     /* of them, those that went away without one */         \
    F(counted_us)

typedef struct ft_sim_result {
    /* Texts that have ended or can no longer keep their promise; those of them that were slower
     * than promised from request to last token (eq. (20)); and those whose tokens behind the first
     * verdict were. */
    uint64_t texts[FT_SIM_CLASSES], slow[FT_SIM_CLASSES], slow_from_first[FT_SIM_CLASSES];
    uint64_t spike[FT_SPIKE_CAUSES];               /* passes by cause */
    uint64_t late[FT_SIM_CLASSES][FT_LATE_CAUSES]; /* verdicts by cause, in modes with drafts */
#define F(name) uint64_t name;
    FT_SIM_COUNTS(F)
#undef F
    uint32_t kv_blocks_least; /* free at the worst moment */
    uint32_t most_rows;       /* of a pass */
} ft_sim_result;

/* FT_INVALID: the longest text does not fit in the KV pool, a draft does not fit in a pass, or a
 * cost is too high. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_sim_wisp_run(const ft_sim_opts *opts, ft_error *err,
                                         ft_sim_result *out);

/* Sets ramp, from and until. The config gives them in texts of mean length at the promised speed;
 * if classes are mixed, at the speed of the slowest. */
void ft_sim_wisp_times(ft_sim_opts *opts);

#endif
