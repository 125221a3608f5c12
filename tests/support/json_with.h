/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON file with one field changed, for tests of parsers. */
#ifndef FT_TEST_JSON_WITH_H
#define FT_TEST_JSON_WITH_H

#include <jansson.h>

/* The file with the field at `path` ("a.b", "a.0.b") replaced by a JSON text; value NULL: left out.
 * The caller decrefs it. Fails the test if there is no such place. */
json_t *json_with(const char *file, const char *path, const char *value);

#endif
