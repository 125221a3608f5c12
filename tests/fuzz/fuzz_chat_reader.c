// SPDX-License-Identifier: Apache-2.0
// What a model says to a conversation with tools, in pieces of any size: content and calls come
// out, in an order that a stream can tell, and words without a mark come out as they are. The first
// byte is the size of the pieces.
#include <stdlib.h>
#include <string.h>

#include "support/tiny_model.h"
#include "template/template.h"

static const char source[] =
    "{% if tools %}{{ '<|im_start|>system\n# Tools\n<tools>' }}{% for t in tools %}"
    "{{ t | tojson }}{% endfor %}{{ '</tools>\nFor each call return:\n<tool_call>\n"
    "{\"name\": <name>, \"arguments\": <arguments>}\n</tool_call><|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.content %}{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ '\n<tool_call>\n{\"name\": \"' + c.function.name + "
    "'\", \"arguments\": ' }}{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* NULL: this build has no `common`. */
static ft_template *make(void)
{
    ft_template *t = NULL;
    ft_error err = {0};
    tiny_quiet();
    const ft_status status = ft_template_create(tiny_vocab(), source, &err, &t);
    require(status == FT_OK || status == FT_UNSUPPORTED);
    return t;
}

/* Whether words have nothing that may begin a call. */
static bool is_plain(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strchr("<{[", text[i]) || (unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

static size_t trim(const char **text, size_t n)
{
    for (; n > 0 && strchr(" \t\r\n\v\f", **text); n--)
        (*text)++;
    while (n > 0 && strchr(" \t\r\n\v\f", (*text)[n - 1]))
        n--;
    return n;
}

/* The same but for white space at both ends, which the parser may leave out. */
static bool is_same(const char *a, size_t n_a, const char *b, size_t n_b)
{
    n_a = trim(&a, n_a);
    n_b = trim(&b, n_b);
    return n_a == n_b && memcmp(a, b, n_a) == 0;
}

static size_t check_parts(const ft_chat_part *parts, size_t n, size_t n_calls, ft_buf *content)
{
    for (size_t i = 0; i < n; i++) {
        const ft_chat_part *p = &parts[i];
        if (p->kind == FT_CHAT_PART_CALL)
            require(p->call == n_calls++ && p->n > 0);
        else if (p->kind == FT_CHAT_PART_ARGUMENTS)
            require(n_calls > 0 && p->call == n_calls - 1);
        else
            require(ft_buf_append(content, p->text, p->n) == FT_OK);
    }
    return n_calls;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ft_template *t;
    if (!t)
        t = make();
    if (!t || size == 0 || memchr(data + 1, 0, size - 1))
        return 0;
    const ft_chat_message talk = {.role = "user", .content = "x"};
    const ft_chat_tool tool = {
        .name = "add",
        .parameters = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}"};
    const ft_chat chat = {
        .messages = &talk, .n_messages = 1, .tools = &tool, .n_tools = 1, .parallel_calls = true};
    const char *said = (const char *)data + 1;
    const size_t n = size - 1, step = data[0] + 1;
    ft_template_prompt p;
    ft_error err = {0};
    ft_buf content = {0};
    size_t n_calls = 0;
    require(ft_template_apply(t, &chat, NULL, &err, &p) == FT_OK && p.reader.read);
    for (size_t at = 0; at <= n; at += step) {
        const ft_chat_part *parts;
        size_t n_parts;
        const size_t more = n - at < step ? n - at : step;
        require(p.reader.read(p.reader.ctx, said + at, more, at + step > n, &parts, &n_parts) ==
                FT_OK);
        n_calls = check_parts(parts, n_parts, n_calls, &content);
    }
    if (is_plain(said, n))
        require(n_calls == 0 && is_same(said, n, ft_buf_str(&content), content.len));
    ft_buf_deinit(&content);
    ft_template_prompt_deinit(&p);
    return 0;
}
