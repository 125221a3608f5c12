// SPDX-License-Identifier: Apache-2.0
// The gauges of load under an operator's names.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/picker.h"

static void test_page(void **state)
{
    const ft_verifier_stats stats = {.rounds_waiting = 3, .texts_running = 17, .kv_used = 0.25};
    ft_picker picker;
    ft_error err = {0};
    ft_buf page = {0};
    (void)state;
    assert_int_equal(ft_picker_parse("vllm", &err, &picker), FT_OK);
    assert_int_equal(ft_picker_append(&picker, &stats, &page), FT_OK);
    assert_non_null(strstr(page.data, "# TYPE vllm:num_requests_waiting gauge\n"
                                      "vllm:num_requests_waiting 3\n"));
    assert_non_null(strstr(page.data, "\nvllm:num_requests_running 17\n"));
    assert_non_null(strstr(page.data, "\nvllm:kv_cache_usage_perc 0.25\n"));
    ft_buf_deinit(&page);
    page = (ft_buf){0};
    assert_int_equal(ft_picker_parse("sglang:num_queue_reqs,_b2,c", &err, &picker), FT_OK);
    assert_int_equal(ft_picker_append(&picker, &stats, &page), FT_OK);
    assert_non_null(strstr(page.data, "\nsglang:num_queue_reqs 3\n"));
    assert_non_null(strstr(page.data, "\n_b2 17\n"));
    assert_non_null(strstr(page.data, "\nc 0.25\n"));
    ft_buf_deinit(&page);
}

static void test_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "a",
                                        "a,b",
                                        "a,b,c,d",
                                        "a,b,",
                                        ",b,c",
                                        "a,a,c",
                                        "a,b,a",
                                        "a,b c,d",
                                        "a,2b,c",
                                        "a,b\n,c",
                                        "vllm,a",
                                        "a-b,c,d",
                                        "a,b,c ",
                                        "VLLM",
                                        "a,b,\"c\"",
                                        "foretoken_rounds_total,b,c"};
    char longest[400];
    ft_picker picker;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ft_error err = {0};
        assert_int_equal(ft_picker_parse(wrong[i], &err, &picker), FT_INVALID);
        assert_non_null(strstr(err.message, "--picker-metrics"));
    }
    ft_error err = {0};
    memset(longest, 'a', sizeof longest);
    memcpy(longest + sizeof longest - 5, ",b,c", 5);
    assert_int_equal(ft_picker_parse(longest, &err, &picker), FT_INVALID);
    assert_int_equal(ft_picker_parse(longest + sizeof longest - 5 - 79, &err, &picker), FT_OK);
    assert_int_equal(strlen(picker.name[0]), 79);
    assert_int_equal(ft_picker_parse(longest + sizeof longest - 5 - 80, &err, &picker), FT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_page), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
