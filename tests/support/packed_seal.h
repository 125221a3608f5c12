/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives a packed file that was changed the right checksums, so that what is behind them is
 * tested. */
#ifndef FT_TESTS_PACKED_SEAL_H
#define FT_TESTS_PACKED_SEAL_H

#include <stdbool.h>

/* False: it is no GGUF file with the keys of the checksums, or they are too short; it may be partly
 * changed. */
bool packed_seal(const char *path);

#endif
