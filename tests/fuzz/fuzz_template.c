// SPDX-License-Identifier: Apache-2.0
// Conversations with tools, as clients send them, under a chat template: six texts, each ended by
// a zero byte, behind a byte of choices. A prompt has the special tokens of a harmless conversation
// of the same form and no others, and the calls that it asks for have the form of a constraint.
#include <stdlib.h>
#include <string.h>

#include "constrain/constraint.h"
#include "support/tiny_model.h"
#include "template/template.h"

enum { SYSTEM, USER, THOUGHT, ARGUMENTS, DESCRIPTION, PARAMETERS, TEXTS };

static const char source[] =
    "{% if tools %}{{ '<|im_start|>system\n# Tools\n<tools>' }}{% for t in tools %}"
    "{{ t | tojson }}{% endfor %}{{ '</tools>\nFor each call return:\n<tool_call>\n"
    "{\"name\": <name>, \"arguments\": <arguments>}\n</tool_call><|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
    "{% if m.content %}{{ m.content | trim }}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ '\n<tool_call>\n{\"name\": \"' + c.function.name + "
    "'\", \"arguments\": ' }}{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static const ft_vocab *vocab;

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* NULL: this build has no `common`. */
static ft_template *make(void)
{
    vocab = tiny_vocab();
    ft_template *t = NULL;
    ft_error err = {0};
    tiny_quiet();
    const ft_status status = ft_template_create(vocab, source, &err, &t);
    require(status == FT_OK || status == FT_UNSUPPORTED);
    return t;
}

static size_t count_special(const ft_tokens *tokens)
{
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++)
        for (size_t k = 0; k < ft_vocab_n_special(vocab); k++) {
            int32_t special;
            (void)ft_vocab_special(vocab, k, &special);
            n += special == tokens->id[i];
        }
    return n;
}

/* The prompt's special tokens; SIZE_MAX: the conversation is refused. */
static size_t render(const ft_template *t, uint8_t choices, const char *const text[TEXTS])
{
    const ft_chat_call call = {"call00000", "f", text[ARGUMENTS]};
    const ft_chat_message talk[] = {
        {.role = "system", .content = text[SYSTEM]},
        {.role = "user", .content = text[USER]},
        {.role = "assistant",
         .content = "",
         .reasoning = text[THOUGHT],
         .calls = &call,
         .n_calls = choices & 1},
        {.role = choices & 1 ? "tool" : "user", .content = text[USER], .call_id = "call00000"}};
    const ft_chat_tool tool = {
        .name = "f", .description = text[DESCRIPTION], .parameters = text[PARAMETERS]};
    const ft_chat chat = {.messages = talk,
                          .n_messages = 4,
                          .tools = &tool,
                          .n_tools = choices >> 1 & 1,
                          .choice = choices & 4 ? FT_CHAT_CHOICE_REQUIRED : FT_CHAT_CHOICE_AUTO,
                          .parallel_calls = choices & 8,
                          .no_thought = choices & 16,
                          .reasoning_apart = choices & 32};
    ft_template_prompt p;
    ft_error err = {0};
    ft_buf loose = {0};
    const ft_status status = ft_template_apply(t, &chat, NULL, &err, &p);
    require(status == FT_OK || ((status == FT_INVALID || status == FT_UNSUPPORTED) &&
                                err.message[0] && p.tokens.n == 0));
    if (status != FT_OK)
        return SIZE_MAX;
    const ft_constraint calls = {FT_CONSTRAINT_CALL, ft_buf_str(&p.call), p.call.len};
    require(p.call.len == 0 || ft_constraint_loosen(&calls, FT_LOOSEN_REFUSED, &loose) == FT_OK);
    const size_t n = count_special(&p.tokens);
    ft_buf_deinit(&loose);
    ft_template_prompt_deinit(&p);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const harmless[TEXTS] = {"a", "b", "c", "{}", "d", "{}"};
    static ft_template *t;
    static size_t of_harmless[256]; /* of choices, and 1 more; 0: not known */
    const char *text[TEXTS];
    if (!t)
        t = make();
    if (!t || size == 0 || size > 4096)
        return 0;
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    for (size_t i = 0; i < TEXTS; i++) {
        const char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero)
            return 0;
        text[i] = at;
        at = zero + 1;
    }
    const size_t n = render(t, data[0], text);
    if (!of_harmless[data[0]])
        of_harmless[data[0]] = render(t, data[0], harmless) + 1;
    require(n == SIZE_MAX || n + 1 == of_harmless[data[0]]);
    return 0;
}
