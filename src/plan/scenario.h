/* SPDX-License-Identifier: Apache-2.0
 *
 * A scenario: a JSON file with two stations, an uplink and tasks (docs/PLANNER.md). People write
 * them, so each field is checked before anything is planned. Any thread. */
#ifndef FT_PLAN_SCENARIO_H
#define FT_PLAN_SCENARIO_H

#include <stddef.h>

#include "plan/plan.h"
#include "plan/radio.h"
#include "plan/runtime.h"

#define FT_PLAN_SCENARIO_KIND "foretoken plan"
#define FT_PLAN_SCENARIO_MAX  (16 << 20) /* bytes of a file */
#define FT_PLAN_ID_MAX        64         /* bytes of an id */

typedef struct ft_plan_scenario {
    double acceptance;
    uint32_t length_least, length_most, batch_most;
    ft_plan_pair pair;
    bool timed[2]; /* c1 and c2 are given: of the draft station, of the verify station */
    double draft_memory_bytes; /* 0: without limit; so below */
    double verify_memory_bytes;
    double payload_bits; /* of an input token */
    ft_plan_task *tasks; /* [n] */
    uint32_t n;
    char (*ids)[FT_PLAN_ID_MAX + 1]; /* [n], which the tasks borrow */
} ft_plan_scenario;

/* Reads a text that ends with a NUL. FT_INVALID names the line, the field and its range; FT_NOMEM.
 * *out is all-zero then; otherwise the caller owes a deinit. */
FT_WARN_UNUSED ft_status ft_plan_scenario_parse(const char *text, size_t n, ft_error *err,
                                                ft_plan_scenario *out);
/* A file. FT_IO, FT_TOO_LARGE, or as above with the path. */
FT_WARN_UNUSED ft_status ft_plan_scenario_load(const char *path, ft_error *err,
                                               ft_plan_scenario *out);
/* All-zero is legal. */
void ft_plan_scenario_deinit(ft_plan_scenario *s);

/* The problem with the paper's times. It borrows the scenario. */
ft_plan_problem ft_plan_scenario_problem(const ft_plan_scenario *s);

#endif
