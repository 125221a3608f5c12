/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic that the language lacks. */
#ifndef FT_BASE_NUM_H
#define FT_BASE_NUM_H

#include <stdint.h>

static inline uint32_t ft_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#endif
