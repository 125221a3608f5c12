// SPDX-License-Identifier: Apache-2.0
// The values of the room's tuning constants, and the table of them. Constant data.
#include "spec/tuning.h"

FT_TUNING_DEFINE(spec, FT_SPEC_TUNING_GROUPS)
