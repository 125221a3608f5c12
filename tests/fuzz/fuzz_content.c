// SPDX-License-Identifier: Apache-2.0
// The file in which a cache of packed weights remembers a hash: a crash may tear it, and people may
// edit it. What is refused changes nothing.
#include <stdlib.h>

#include "model/content.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint64_t content = 1;
    ft_error err = {0};
    const ft_status st = ft_content_read((const char *)data, n, 7, &err, &content);
    require(st == FT_OK || (err.message[0] != 0 && content == 1));
    return 0;
}
