// SPDX-License-Identifier: Apache-2.0
// Comparison of credentials says equal for equal ones only (its timing is a property of the code,
// not of this test), hexadecimal, SipHash and FNV-1a against published values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/secret.h"

static void test_equal(void **state)
{
    uint8_t a[33], b[33];
    memset(a, 0x5a, sizeof a);
    memcpy(b, a, sizeof a);
    assert_true(ft_secret_equal(a, b, sizeof a));
    assert_true(ft_secret_equal(a, b, 0));
    for (size_t i = 0; i < sizeof a; i++)
        for (int bit = 0; bit < 8; bit++) {
            b[i] ^= (uint8_t)(1 << bit);
            assert_false(ft_secret_equal(a, b, sizeof a));
            assert_true(ft_secret_equal(a, b, i));
            b[i] ^= (uint8_t)(1 << bit);
        }
    b[0] ^= 1; /* two differences must not cancel out */
    b[1] ^= 1;
    assert_false(ft_secret_equal(a, b, sizeof a));
}

static void test_equal_str(void **state)
{
    assert_true(ft_secret_equal_str("s3cret", "s3cret"));
    assert_true(ft_secret_equal_str("", ""));
    assert_true(ft_secret_equal_str("\xc3\xa9", "\xc3\xa9"));
    assert_false(ft_secret_equal_str("s3cret", "s3creT"));
    assert_false(ft_secret_equal_str("s3cret", "s3cre"));
    assert_false(ft_secret_equal_str("s3cret", "s3crets"));
    assert_false(ft_secret_equal_str("s3cret", ""));
    assert_false(ft_secret_equal_str("", "s"));
    assert_false(ft_secret_equal_str("a", "aa"));
    assert_false(ft_secret_equal_str(NULL, "x"));
    assert_false(ft_secret_equal_str("x", NULL));
    assert_false(ft_secret_equal_str(NULL, NULL));
}

static void test_hex(void **state)
{
    static const uint8_t data[] = {0x00, 0x0f, 0xf0, 0xab, 0xff};
    char out[11];
    ft_hex(data, sizeof data, out);
    assert_string_equal(out, "000ff0abff");
    assert_true(ft_hex_is(out, strlen(out)));
    assert_false(ft_hex_is(out, strlen(out) - 1));
    assert_false(ft_hex_is("0G", 2));
    assert_false(ft_hex_is("0A", 2));
    ft_hex(data, 0, out);
    assert_string_equal(out, "");
}

static void test_fnv(void **state)
{
    assert_true(ft_fnv64(FT_FNV64_INIT, "", 0) == 0xcbf29ce484222325ull);
    assert_true(ft_fnv64(FT_FNV64_INIT, "a", 1) == 0xaf63dc4c8601ec8cull);
    assert_true(ft_fnv64(FT_FNV64_INIT, "foobar", 6) == 0x85944171f73967e8ull);
    uint64_t hash = ft_fnv64(FT_FNV64_INIT, "foo", 3);
    assert_true(ft_fnv64(hash, "bar", 3) == 0x85944171f73967e8ull);
}

/* Of the paper's appendix A, and the reference's table of test vectors. */
static void test_siphash(void **state)
{
    uint8_t key[16], data[16];
    for (uint8_t i = 0; i < 16; i++)
        key[i] = data[i] = i;
    assert_true(ft_siphash(key, data, 0) == 0x726fdb47dd0e0e31ull);
    assert_true(ft_siphash(key, data, 1) == 0x74f839c593dc67fdull);
    assert_true(ft_siphash(key, data, 8) == 0x93f5f5799a932462ull);
    assert_true(ft_siphash(key, data, 15) == 0xa129ca6149be45e5ull);
    key[0] = 1;
    assert_true(ft_siphash(key, data, 15) != 0xa129ca6149be45e5ull);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal), cmocka_unit_test(test_equal_str), cmocka_unit_test(test_hex),
        cmocka_unit_test(test_fnv),   cmocka_unit_test(test_siphash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
