/* SPDX-License-Identifier: Apache-2.0
 *
 * The costs of passes as a small JSON file. `foretoken fit verify-time` measures a model on a
 * machine and writes the file; `serve --costs` starts from it. The file also tells people what was
 * measured and how well the costs fit. The reader takes only the fields of ft_costs.
 */
#ifndef FT_SCHED_COST_FILE_H
#define FT_SCHED_COST_FILE_H

#include <jansson.h>

#include "base/status.h"
#include "sched/cost.h"

#define FT_COST_FILE_KIND "foretoken verify-time"

typedef struct ft_costs {
    char model[128]; /* its name, as Info has it; "": any */
    double us[FT_COST_FACTORS];
    double error; /* mean relative error on passes that were not fitted */
} ft_costs;

/* {"kind", "model", "error", "us": {factor: number}}. The caller owns it and may add
 * fields for people. NULL: out of memory. */
json_t *ft_costs_json(const ft_costs *costs);

/* FT_INVALID says which field is missing, of another type or out of range. */
FT_WARN_UNUSED ft_status ft_costs_parse(const json_t *root, ft_error *err, ft_costs *out);
/* A file. FT_IO, FT_TOO_LARGE, or as parse. */
FT_WARN_UNUSED ft_status ft_costs_load(const char *path, ft_error *err, ft_costs *out);

#endif
