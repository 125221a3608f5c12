// SPDX-License-Identifier: Apache-2.0
// Addresses and networks as text, and whose word about a client's address counts.
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/address.h"

static ft_address parsed(const char *text)
{
    ft_address address;
    if (!ft_address_parse(text, strlen(text), &address))
        fail_msg("'%s' was not read", text);
    return address;
}

static void expect_network(const ft_address *address, const char *wanted)
{
    char text[FT_CLIENT_ADDRESS_SIZE];
    ft_address_network(address, text);
    assert_string_equal(text, wanted);
}

static void test_text(void **state)
{
    static const char *good[][2] = {
        {"1.2.3.4", "1.2.3.4"},
        {"1.2.3.4:80", "1.2.3.4"},
        {"::ffff:1.2.3.4", "1.2.3.4"},
        {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
        {"[2001:db8::7]", "2001:db8::/64"},
        {"[2001:db8::7]:443", "2001:db8::/64"},
        {"::1", "::/64"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff::/64"},
    };
    static const char *bad[] = {
        "",
        "x",
        "1.2.3",
        "1.2.3.4.5",
        "[::1",
        "[::1]x",
        "unknown",
        "1.2.3.4, 5.6.7.8",
        "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:"};
    ft_address address;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        address = parsed(good[i][0]);
        expect_network(&address, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(ft_address_parse(bad[i], strlen(bad[i]), &address));
    assert_false(ft_address_parse("1.2.3.4\0", 8, &address));
}

static void test_sockets(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr other = {.sa_family = AF_UNIX};
    ft_address address;
    (void)state;
    assert_true(ft_address_of((const struct sockaddr *)&in, &address));
    expect_network(&address, "10.0.0.1");
    assert_true(ft_address_of((const struct sockaddr *)&in6, &address));
    expect_network(&address, "::/64");
    assert_false(ft_address_of(&other, &address));
}

static void test_networks(void **state)
{
    static const char *inside[] = {"10.1.2.3", "10.255.0.1", "192.168.7.127", "127.0.0.1",
                                   "2001:db8:ffff::1"};
    static const char *outside[] = {"11.0.0.1", "192.168.7.128", "127.0.0.2", "2001:db9::1", "::1"};
    static const char *bad[] = {"",  "10.0.0.0/33", "10.0.0.0/",   "10.0.0.0/8x", "::/129",
                                ",", "x/8",         "10.0.0.0/8,", "10.0.0.0/-1"};
    ft_networks networks = {0};
    ft_error err;
    (void)state;
    assert_int_equal(
        ft_networks_parse("flag", "10.0.0.0/8,192.168.7.0/25,127.0.0.1", &err, &networks), FT_OK);
    assert_int_equal(ft_networks_parse("flag", "2001:db8::/32", &err, &networks), FT_OK);
    assert_int_equal(networks.n, 4);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        const ft_address address = parsed(inside[i]);
        assert_true(ft_networks_hold(&networks, &address));
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        const ft_address address = parsed(outside[i]);
        assert_false(ft_networks_hold(&networks, &address));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        networks.n = 0;
        assert_int_equal(ft_networks_parse("--flag", bad[i], &err, &networks), FT_INVALID);
        assert_non_null(strstr(err.message, "--flag: '"));
    }
    networks.n = 0;
    for (int i = 0; i < FT_NETWORKS_MAX; i++)
        assert_int_equal(ft_networks_parse("flag", "::/0", &err, &networks), FT_OK);
    assert_int_equal(ft_networks_parse("flag", "::/0", &err, &networks), FT_INVALID);
    assert_true(ft_networks_hold(&networks, &(ft_address){0}));
}

static void test_proxies(void **state)
{
    ft_networks proxies = {0};
    const ft_address proxy = parsed("127.0.0.1"), stranger = parsed("127.0.0.2");
    static const char *said[][2] = {
        {"1.2.3.4", "1.2.3.4"},
        {"9.9.9.9, 1.2.3.4", "1.2.3.4"}, /* what the client claimed comes first */
        {"9.9.9.9,\t2001:db8::1 ", "2001:db8::/64"},
        {"1.2.3.4, unknown", "127.0.0.1"},
        {"1.2.3.4,", "127.0.0.1"},
        {"", "127.0.0.1"},
    };
    (void)state;
    assert_int_equal(ft_networks_parse("flag", "127.0.0.1/32", NULL, &proxies), FT_OK);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        const size_t n = strlen(said[i][0]);
        ft_address client = ft_networks_client(&proxies, &proxy, said[i][0], n);
        expect_network(&client, said[i][1]);
        client = ft_networks_client(&proxies, &stranger, said[i][0], n);
        expect_network(&client, "127.0.0.2");
    }
}

/* Before a request, a connection counts for its network, a proxy's for nobody. */
static void test_strangers(void **state)
{
    ft_networks proxies = {0};
    const ft_address proxy = parsed("10.1.2.3"), stranger = parsed("2001:db8:1:2:3::4");
    (void)state;
    assert_int_equal(ft_networks_parse("flag", "10.0.0.0/8", NULL, &proxies), FT_OK);
    assert_string_equal(ft_networks_stranger(&proxies, &proxy).address, "");
    assert_string_equal(ft_networks_stranger(NULL, &proxy).address, "10.1.2.3");
    assert_string_equal(ft_networks_stranger(&proxies, &stranger).address, "2001:db8:1:2::/64");
    assert_string_equal(ft_networks_stranger(&proxies, &stranger).tenant, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),      cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_networks),  cmocka_unit_test(test_proxies),
        cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
