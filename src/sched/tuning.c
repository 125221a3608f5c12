// SPDX-License-Identifier: Apache-2.0
// The values of the room's tuning constants, and the table of them. Constant data.
#include "sched/tuning.h"

FT_TUNING_DEFINE(sched, FT_SCHED_TUNING_GROUPS)
