// SPDX-License-Identifier: Apache-2.0
// Caps with a share for each client: shares, the reserve, what is given back, and many clients
// against a plain count.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/quota.h"
#include "base/rng.h"

static ft_client_id at(const char *address)
{
    ft_client_id client = {0};
    snprintf(client.address, sizeof client.address, "%s", address);
    return client;
}

static ft_quota make(uint32_t max, uint32_t percent)
{
    ft_quota quota;
    assert_int_equal(ft_quota_init(&quota, "streams", max, percent, NULL), FT_OK);
    return quota;
}

/* Takes until the client is refused; returns how many it took. */
static uint32_t take_all(ft_quota *quota, const ft_client_id *client, ft_error *err)
{
    uint32_t n = 0;
    while (ft_quota_take(quota, client, err) == FT_OK)
        n++;
    return n;
}

static void test_share(void **state)
{
    ft_quota quota = make(64, 25);
    const ft_client_id greedy = at("127.0.0.2"), other = at("127.0.0.1");
    ft_client_id tenant = at("127.0.0.2");
    ft_error err;
    (void)state;
    strcpy(tenant.tenant, "team-a"); /* another client than one without a key */
    assert_int_equal(take_all(&quota, &greedy, &err), 16);
    assert_int_equal(err.code, FT_EXHAUSTED);
    assert_non_null(strstr(err.message, "127.0.0.2 has 16 of the server's 64 streams"));
    assert_non_null(strstr(err.message, "--per-client-share 25"));
    assert_int_equal(ft_quota_look(&quota, &greedy), FT_QUOTA_SHARE);
    assert_int_equal(take_all(&quota, &tenant, &err), 16);
    assert_non_null(strstr(err.message, "team-a at 127.0.0.2 has 16"));
    assert_int_equal(ft_quota_take(&quota, &other, &err), FT_OK);
    ft_quota_give_back(&quota, &greedy);
    assert_int_equal(take_all(&quota, &greedy, &err), 1);
    ft_quota_deinit(&quota);
}

/* Four clients with large shares do not take the reserve; a client that has none yet finds it. */
static void test_reserve(void **state)
{
    static const char *large[] = {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"};
    ft_quota quota = make(64, 30);
    uint32_t n = 0;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        const ft_client_id client = at(large[i]);
        n += take_all(&quota, &client, &err);
    }
    assert_int_equal(n, 61); /* 20 each, and one of the reserve for the last */
    assert_non_null(strstr(err.message, "all 64 streams of this server are in use, but for 3"));
    const ft_client_id new = at("127.0.0.1");
    assert_int_equal(take_all(&quota, &new, &err), 1); /* the second would be of the reserve */
    for (int i = 0; i < 2; i++) {
        char address[16];
        snprintf(address, sizeof address, "127.0.1.%d", i);
        const ft_client_id client = at(address);
        assert_int_equal(take_all(&quota, &client, &err), 1);
    }
    const ft_client_id last = at("127.0.2.1");
    assert_int_equal(ft_quota_take(&quota, &last, &err), FT_EXHAUSTED);
    ft_quota_deinit(&quota);
}

/* Without shares one client may take all. This process itself never has a share. */
static void test_no_share(void **state)
{
    const ft_client_id client = at("127.0.0.1"), own = {0};
    ft_error err;
    (void)state;
    for (uint32_t percent = 0; percent <= 100; percent += 100) {
        ft_quota quota = make(33, percent);
        assert_int_equal(take_all(&quota, &client, &err), 33);
        assert_non_null(strstr(err.message, "all 33 streams"));
        ft_quota_deinit(&quota);
    }
    ft_quota quota = make(32, 25);
    assert_int_equal(take_all(&quota, &own, &err), 32);
    assert_int_equal(ft_quota_look(&quota, &client), FT_QUOTA_FULL);
    ft_quota_give_back(&quota, &own);
    assert_int_equal(take_all(&quota, &client, &err), 1);
    ft_quota_deinit(&quota);
    quota = make(1, 1); /* a share is at least one */
    assert_int_equal(take_all(&quota, &client, &err), 1);
    ft_quota_deinit(&quota);
}

/* Clients come and go at random; a plain array of counts says what each has. */
static void test_many_clients(void **state)
{
    enum { CLIENTS = 50, STEPS = 20000, MAX = 100, PERCENT = 5, SHARE = 5 };
    ft_quota quota = make(MAX, PERCENT);
    uint32_t have[CLIENTS] = {0}, n = 0;
    ft_rng rng;
    (void)state;
    ft_rng_init(&rng, 7);
    for (int step = 0; step < STEPS; step++) {
        const uint32_t i = ft_rng_below(&rng, CLIENTS);
        char address[16];
        snprintf(address, sizeof address, "10.0.0.%u", i);
        const ft_client_id client = at(address);
        if (ft_rng_below(&rng, 2) == 0) {
            const uint32_t open_to_it = have[i] > 0 ? MAX - MAX / 16 : MAX;
            const bool room = have[i] < SHARE && n < open_to_it;
            assert_int_equal(ft_quota_take(&quota, &client, NULL) == FT_OK, room);
            have[i] += room;
            n += room;
        } else if (have[i] > 0) {
            ft_quota_give_back(&quota, &client);
            have[i]--;
            n--;
        }
        assert_int_equal(quota.n, n);
    }
    ft_quota_deinit(&quota);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_no_share),
        cmocka_unit_test(test_many_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
