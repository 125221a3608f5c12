// SPDX-License-Identifier: Apache-2.0
// constrain/schema.h: what is written anew, and that a walk sees each part once, also behind
// references.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/schema.h"

static json_t *parse(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    return v;
}

/* expected: NULL: the schema stays as it is. */
static void check(const char *schema, const char *expected)
{
    json_t *root = parse(schema), *same = parse(expected ? expected : schema);
    bool changed = expected == NULL;
    assert_int_equal(ft_schema_rewrite(root, &changed), FT_OK);
    char *text = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY);
    if (changed != (expected != NULL) || !json_equal(root, same))
        fail_msg("%s: %s", schema, text);
    free(text);
    json_decref(root);
    json_decref(same);
}

static void test_rewrite(void **state)
{
    check("{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\"]}", NULL);
    check("{\"type\":\"string\",\"format\":\"date\",\"title\":\"x\"}", NULL);
    check("{\"type\":\"array\",\"required\":[\"a\"]}", NULL);
    check("true", NULL);
    check("{\"type\":\"object\",\"required\":[\"a\"]}",
          "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":true}}");
    check("{\"additionalProperties\":{\"type\":\"null\"},\"required\":[\"a\",\"b\"],\"shared\":1}",
          "{\"additionalProperties\":{\"$ref\":\"#/shared0/0\"},\"required\":[\"a\",\"b"
          "\"],\"shared\":1,"
          "\"properties\":{\"a\":{\"$ref\":\"#/shared0/0\"},\"b\":{\"$ref\":\"#/shared0/0\"}},"
          "\"shared0\":{\"0\":{\"type\":\"null\"}}}");
    check("{\"type\":\"string\",\"pattern\":\"a\\\\\\u00e9\\\\d\\u20ac\"}",
          "{\"type\":\"string\",\"pattern\":\"a\\\\u{e9}\\\\d\\\\u{20ac}\"}");
}

/* A schema that names itself is no endless walk, and what only a reference leads to is seen. */
static ft_status count(void *ctx, json_t *part, json_t *root)
{
    uint32_t *n = ctx;
    (*n)++;
    return json_object_get(part, "stop") ? FT_INVALID : FT_OK;
}

static void test_walk(void **state)
{
    uint32_t n = 0;
    json_t *root = parse("{\"type\":\"array\",\"items\":{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":"
                         "\"#//x/y\"},{\"$ref\":\"#/none\"}]},\"x\":{\"y\":{\"items\":{\"$ref\":"
                         "\"#/items\"}}}}");
    assert_int_equal(ft_schema_walk(root, count, &n), FT_OK);
    assert_int_equal(n, 7);
    json_decref(root);
    root = parse("{\"items\":{\"stop\":1}}");
    assert_int_equal(ft_schema_walk(root, count, &n), FT_INVALID);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rewrite), cmocka_unit_test(test_walk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
