// SPDX-License-Identifier: Apache-2.0
// The file in which an engine keeps how long passes took: a crash may tear it, and people may edit
// it. What is taken up is within the limits; what is refused changes nothing.
#include <stdlib.h>
#include <string.h>

#include "engine/warm_kept.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_warm warm = {0}, before = {0};
    ft_error err = {0};
    if (ft_warm_kept_read((const char *)data, n, 7, 1700000000, &err, &warm) != FT_OK) {
        require(err.message[0] != 0 && memcmp(&before, &warm, sizeof warm) == 0);
        return 0;
    }
    require(warm.n > 0 && warm.n <= FT_WARM_PASSES);
    for (uint32_t i = 0; i < warm.n; i++) {
        require(warm.rows[i] == FT_WARM_ROWS(i));
        require(warm.us[i] >= 0 && warm.us[i] <= FT_WARM_LIMIT_US && warm.us[i] <= warm.all_us[i]);
    }
    return 0;
}
