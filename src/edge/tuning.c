// SPDX-License-Identifier: Apache-2.0
// The values of the room's tuning constants, and the table of them. Constant data.
#include "edge/tuning.h"

FT_TUNING_DEFINE(edge, FT_EDGE_TUNING_GROUPS)
