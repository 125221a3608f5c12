// SPDX-License-Identifier: Apache-2.0
// Reads the environment. Stateless.
#include "support/device.h"

#include <stdlib.h>

const char *test_device(void)
{
    return getenv("FT_TEST_DEVICE");
}

int test_patience_s(int usual)
{
    return test_device() ? 10 * usual : usual;
}
