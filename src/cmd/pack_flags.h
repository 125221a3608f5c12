/* SPDX-License-Identifier: Apache-2.0
 *
 * Where packed weights are kept between two starts (model/pack_cache.h). Main thread. */
#ifndef FT_CMD_PACK_FLAGS_H
#define FT_CMD_PACK_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flags.h"
#include "model/pack_cache.h"

typedef struct ft_pack_flags {
    bool off;
    int64_t mb;
    char *folder; /* of `cache` */
    ft_pack_cache cache;
} ft_pack_flags;

/* clang-format off */
#define FT_PACK_FLAGS_INIT {.mb = 16384}
/* clang-format on */

extern const ft_flag_group ft_flags_pack; /* of ft_pack_flags */

/* The flags that a load goes by. NULL under a memory budget: that counts the system's copies of
 * files, too, so nothing is mapped. */
ft_pack_flags *ft_pack_flags_unless(ft_pack_flags *flags, bool budget);
/* What a load is to use, borrowed until the close. flags NULL: none. NULL: nothing is kept, as
 * asked for, or because there is no folder for it: a line of the log says why. */
const ft_pack_cache *ft_pack_flags_open(ft_pack_flags *flags);
/* All zeros are legal. */
void ft_pack_flags_close(ft_pack_flags *flags);

#endif
