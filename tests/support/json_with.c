// SPDX-License-Identifier: Apache-2.0
// Changes one field of a JSON file in memory. No state.
#include "support/json_with.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

json_t *json_with(const char *file, const char *path, const char *value)
{
    char names[64];
    json_t *root = json_load_file(file, 0, NULL), *at = root;
    snprintf(names, sizeof names, "%s", path);
    char *last = names;
    for (char *dot; (dot = strchr(last, '.')); last = dot + 1) {
        *dot = 0;
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(last)) : json_object_get(at, last);
        assert_non_null(at);
    }
    if (value)
        json_object_set_new(at, last, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(at, last);
    return root;
}
