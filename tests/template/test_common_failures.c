// SPDX-License-Identifier: Apache-2.0
// template/common.h when memory runs out: whichever allocation of the calling thread fails, the
// call says FT_NOMEM or goes on without it, nothing is thrown out of it, and nothing leaks. Within
// `common`, whose threads are left alone, nlohmann's JSON ends the process: it allocates while it
// moves members, and says that it does not throw then.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef FT_HAVE_COMMON
int main(void)
{
    return 0;
}
#else
#include "support/failing_new.h"
#include "template/common.h"

static const char source[] =
    "{% if tools %}{{ '<|im_start|>system\n<tools>' }}{% for t in tools %}"
    "{{ t | tojson }}{% endfor %}{{ '</tools>\nFor each call return:\n<tool_call>\n"
    "{\"name\": <name>, \"arguments\": <arguments>}\n</tool_call><|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.content %}{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ '\n<tool_call>\n{\"name\": \"' + c.function.name + "
    "'\", \"arguments\": ' }}{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static const ft_chat_call call = {"id", "add", "{\"a\":[1,{\"b\":\"c\"}]}"};
static const ft_chat_message talk[] = {
    {.role = "user", .content = "a word that does not fit into a small string"},
    {.role = "assistant", .reasoning = "a thought", .calls = &call, .n_calls = 1},
    {.role = "tool", .content = "3", .call_id = "id", .name = "add"}};
static const ft_chat_tool tool = {
    .name = "add",
    .description = "adds two numbers, which are integers",
    .parameters = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}"};
static const ft_chat chat = {.messages = talk,
                             .n_messages = 3,
                             .tools = &tool,
                             .n_tools = 1,
                             .template_args = "{\"word\":\"a\",\"enable_thinking\":true}",
                             .reasoning_effort = "high",
                             .reasoning_apart = true};

static bool no_threads;

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    return no_threads ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

static ft_common *common;
static ft_common_parser *parser;

static ft_common *make(ft_error *err, ft_status *status)
{
    ft_common *c;
    *status = ft_common_create(source, "<s>", "</s>", err, &c);
    return c;
}

/* Each does one call, and owes nothing after it. */

static ft_status create(ft_error *err)
{
    ft_status status;
    ft_common *c = make(err, &status);
    assert_true((status == FT_OK) == (c != NULL));
    ft_common_destroy(c);
    return status;
}

static ft_status render(ft_error *err)
{
    ft_buf out = {0};
    const ft_status status = ft_common_render(common, &chat, err, &out);
    assert_true(status != FT_OK || out.len > 0);
    ft_buf_deinit(&out);
    return status;
}

static ft_status create_parser(ft_error *err)
{
    ft_common_parser *p;
    const ft_status status = ft_common_parser_create(common, &chat, err, &p);
    assert_true((status == FT_OK) == (p != NULL));
    ft_common_parser_destroy(p);
    return status;
}

static ft_status parse(ft_error *err)
{
    static const char said[] = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 12, \"b\": "
                               "[1, 2, \"a word that is long\"]}}\n</tool_call>";
    ft_common_said out;
    const ft_status status = ft_common_parse(parser, said, strlen(said), false, &out);
    assert_true(status != FT_OK || failing_new_thrown() || out.n_calls == 1);
    if (status != FT_OK)
        ft_error_set(err, status, "parse");
    return status;
}

static void fail_each(ft_status (*one)(ft_error *err))
{
    ft_error err = {0};
    failing_new_at(0);
    assert_int_equal(one(&err), FT_OK); /* what it makes once stays */
    const int64_t before = failing_new_live();
    bool thrown = true;
    for (uint64_t nth = 1; thrown; nth++) {
        err = (ft_error){0};
        failing_new_at(nth);
        const ft_status status = one(&err);
        thrown = failing_new_thrown();
        failing_new_at(0);
        assert_true(status == FT_OK || err.message[0]);
        assert_true(status == FT_OK || thrown);
        if (one != parse) /* a parser keeps what was said last */
            assert_int_equal(failing_new_live(), before);
    }
    assert_int_equal(one(&err), FT_OK); /* it goes on */
    assert_int_equal(failing_new_live(), before);
}

static int setup(void **state)
{
    ft_status status;
    ft_error err = {0};
    common = make(&err, &status);
    return status != FT_OK || ft_common_parser_create(common, &chat, &err, &parser) != FT_OK;
}

static int teardown(void **state)
{
    ft_common_parser_destroy(parser);
    ft_common_destroy(common);
    return 0;
}

static void test_create(void **state)
{
    fail_each(create);
}

static void test_render(void **state)
{
    fail_each(render);
}

static void test_create_parser(void **state)
{
    fail_each(create_parser);
}

static void test_parse(void **state)
{
    fail_each(parse);
}

/* Without a thread nothing runs, and what there is can be destroyed. */
static void test_no_thread(void **state)
{
    ft_error err = {0};
    ft_status status;
    const int64_t before = failing_new_live();
    ft_common *c = make(&err, &status);
    assert_int_equal(status, FT_OK);
    no_threads = true;
    assert_int_equal(render(&err), FT_NOMEM);
    assert_int_equal(create(&err), FT_NOMEM);
    assert_non_null(strstr(err.message, "thread"));
    ft_common_destroy(c);
    no_threads = false;
    assert_int_equal(failing_new_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_create), cmocka_unit_test(test_render),
                                       cmocka_unit_test(test_create_parser),
                                       cmocka_unit_test(test_parse),
                                       cmocka_unit_test(test_no_thread)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
#endif
