/* SPDX-License-Identifier: Apache-2.0
 *
 * Flags of scheduling policies that several commands have. */
#ifndef FT_CMD_POLICY_FLAGS_H
#define FT_CMD_POLICY_FLAGS_H

#include <stdint.h>

#include "base/flags.h"

/* What policy static waits for. */
typedef struct ft_static_flags {
    int64_t batch;
    double wait_ms;
} ft_static_flags;

#define FT_STATIC_FLAGS_INIT       \
    {                              \
        .batch = 8, .wait_ms = 100 \
    }
#define FT_STATIC_FLAGS(f)                                                            \
    {"--static-batch",                                                                \
     NULL,                                                                            \
     FT_FLAG_INT,                                                                     \
     &(f).batch,                                                                      \
     "N",                                                                             \
     "of policy static: verifications of a pass",                                     \
     1,                                                                               \
     1 << 16},                                                                        \
    {                                                                                 \
        "--static-wait-ms", NULL, FT_FLAG_FLOAT, &(f).wait_ms, "MS",                  \
            "of policy static: how long the first waits for the others", 0.001, 60000 \
    }

#endif
