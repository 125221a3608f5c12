// SPDX-License-Identifier: Apache-2.0
// What a refused request counts as, over the wire: 8 KiB of its body are one more, and so is some
// time of a processor; what is answered is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "base/throttle.h"
#include "http/openai.h"
#include "support/http_backend.h"
#include "support/http_client.h"

static http_backend backend;
static ft_http *http;

/* The linker sends the server's calls here. */
static atomic_uint counted;

int64_t __wrap_ft_throttle_take_many(ft_throttle *throttle, const ft_client_id *client, uint32_t n,
                                     int64_t now_us);
int64_t __wrap_ft_throttle_take_many(ft_throttle *throttle, const ft_client_id *client, uint32_t n,
                                     int64_t now_us)
{
    (void)throttle;
    (void)client;
    (void)now_us;
    atomic_fetch_add(&counted, n);
    return 0; /* nobody waits */
}

static int setup(void **state)
{
    ft_error err = {0};
    (void)state;
    http_backend_init(&backend);
    const ft_http_opts opts = {.backend = http_backend_of(&backend)};
    return ft_http_create(&opts, &err, &http) == FT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    ft_http_destroy(http);
    http_backend_deinit(&backend);
    return 0;
}

/* Of a body of so many bytes that begins so, and goes on with spaces. */
static unsigned counts_as(int status, const char *begin, size_t bytes)
{
    http_response r;
    char *body = malloc(bytes + 1);
    assert_non_null(body);
    memset(body, ' ', bytes);
    memcpy(body, begin, strlen(begin));
    body[bytes] = 0;
    atomic_store(&counted, 0);
    assert_int_equal(http_ask(ft_http_port(http), "POST", "/v1/completions", "", body, &r), status);
    http_response_deinit(&r);
    free(body);
    return atomic_load(&counted);
}

static void test_size(void **state)
{
    (void)state;
    assert_int_equal(counts_as(400, "{", 1), 1);
    assert_int_equal(counts_as(400, "{", 8191), 1);
    assert_int_equal(counts_as(400, "{", 8192), 2);
    assert_int_equal(counts_as(400, "{", 65536), 9);
    assert_int_equal(counts_as(200, "{\"prompt\":\"x\",\"max_tokens\":1}", 65536), 0);
}

/* So does what it takes of a processor, beyond what a usual one takes: 0.5 ms are one more. */
static void test_time(void **state)
{
    (void)state;
    assert_int_equal(counts_as(400, "{\"prompt\":\"refuse\"}", 64), 1);
    assert_in_range(counts_as(400, "{\"prompt\":\"labour\"}", 64), 250, 1000);
    assert_int_equal(counts_as(503, "{\"prompt\":\"compile\"}", 64), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_size), cmocka_unit_test(test_time)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
