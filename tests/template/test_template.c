// SPDX-License-Identifier: Apache-2.0
// Chat templates: they render as written, what people and tools wrote never becomes a special token
// (every template of llama.cpp's tests, with the special tokens of all families), errors have the
// template's words, limits hold, and without `common` the table of known templates is there.
#include "template/template.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "base/thread.h"
#include "support/sanitized.h"
#include "support/tiny_gguf.h"
#include "template/common.h"

static const char *const control[] = {"<|user|>",
                                      "<|assistant|>",
                                      "<|system|>",
                                      "<|end|>",
                                      "<|begin_of_text|>",
                                      "<|eot_id|>",
                                      "<|start_header_id|>",
                                      "<|end_header_id|>",
                                      "<|python_tag|>",
                                      "<bos>",
                                      "<start_of_turn>",
                                      "<end_of_turn>",
                                      "<|turn>",
                                      "<turn|>",
                                      "<s>",
                                      "</s>",
                                      "[INST]",
                                      "[/INST]",
                                      "[TOOL_CALLS]",
                                      "[AVAILABLE_TOOLS]",
                                      "[TOOL_RESULTS]",
                                      "[/TOOL_RESULTS]",
                                      "[SYSTEM_PROMPT]",
                                      "[ARGS]",
                                      "<|start|>",
                                      "<|message|>",
                                      "<|channel|>",
                                      "<|call|>",
                                      "<|return|>",
                                      "<|constrain|>",
                                      "<|tool_call_begin|>",
                                      "<|tool_call_end|>",
                                      "<|start_of_role|>",
                                      "<|end_of_role|>",
                                      "<|end_of_text|>",
                                      "<|observation|>",
                                      "<|START_OF_TURN_TOKEN|>",
                                      "<|END_OF_TURN_TOKEN|>",
                                      "<|USER_TOKEN|>",
                                      "<|CHATBOT_TOKEN|>",
                                      "<\xef\xbd\x9c"
                                      "User\xef\xbd\x9c>",
                                      "<\xef\xbd\x9c"
                                      "Assistant\xef\xbd\x9c>",
                                      "<\xef\xbd\x9c"
                                      "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                      "<|im_system|>",
                                      "<|im_middle|>",
                                      "<|role_sep|>",
                                      "<|message_sep|>",
                                      "<|eom_id|>",
                                      "<|tool_list_start|>",
                                      "<function>",
                                      "<parameter>",
                                      NULL};
enum { N_CONTROL = sizeof control / sizeof *control - 1 };

static ft_vocab *load(const tiny_gguf_opts *opts)
{
    char *path = tiny_gguf_temp(opts);
    ft_error err = {0};
    ft_vocab *v = NULL;
    if (ft_vocab_load(path, &err, &v) != FT_OK)
        fail_msg("%s", err.message);
    unlink(path);
    free(path);
    return v;
}

static int setup(void **state)
{
    const tiny_gguf_opts opts = {.n_vocab = 1200, .control = control};
    *state = load(&opts);
    return 0;
}

static int teardown(void **state)
{
    ft_vocab_destroy(*state);
    return 0;
}

static ft_template *make(const ft_vocab *v, const char *source)
{
    ft_template *t = NULL;
    ft_error err = {0};
    if (ft_template_create(v, source, &err, &t) != FT_OK)
        fail_msg("%s", err.message);
    return t;
}

static bool is_special(const ft_vocab *v, int32_t id)
{
    int32_t token;
    for (size_t i = 0; i < ft_vocab_n_special(v); i++) {
        (void)ft_vocab_special(v, i, &token);
        if (token == id)
            return true;
    }
    return false;
}

/* The special tokens among the tokens, in their order. */
static ft_tokens specials(const ft_vocab *v, const ft_tokens *tokens)
{
    ft_tokens out = {0};
    for (size_t i = 0; i < tokens->n; i++)
        if (is_special(v, tokens->id[i]))
            assert_int_equal(ft_tokens_append(&out, &tokens->id[i], 1), FT_OK);
    return out;
}

static ft_buf spell(const ft_vocab *v, const ft_tokens *tokens)
{
    ft_buf out = {0};
    for (size_t i = 0; i < tokens->n; i++)
        assert_int_equal(ft_vocab_piece(v, tokens->id[i], true, &out), FT_OK);
    return out;
}

static ft_status apply(const ft_template *t, const ft_chat *chat, ft_error *err,
                       ft_template_prompt *out)
{
    return ft_template_apply(t, chat, NULL, err, out);
}

static void assert_prompt(const ft_vocab *v, const ft_template *t, const ft_chat *chat,
                          const char *text)
{
    ft_template_prompt p;
    ft_error err = {0};
    if (apply(t, chat, &err, &p) != FT_OK)
        fail_msg("%s", err.message);
    ft_buf said = spell(v, &p.tokens);
    assert_string_equal(ft_buf_str(&said), text);
    ft_buf_deinit(&said);
    ft_template_prompt_deinit(&p);
}

static void assert_refused(const ft_template *t, const ft_chat *chat, ft_status status,
                           const char *words)
{
    ft_template_prompt p;
    ft_error err = {0};
    assert_int_equal(apply(t, chat, &err, &p), status);
    if (!strstr(err.message, words))
        fail_msg("'%s' lacks '%s'", err.message, words);
    assert_int_equal(p.tokens.n, 0);
}

/* ---- the table ---- */

/* A model's template that nobody knows is refused when it is used; chatml is known to both. */
static void test_any_build(void **state)
{
    const ft_vocab *v = *state;
    const ft_chat_message talk[] = {{.role = "system", .content = "be brief"},
                                    {.role = "user", .content = "hello <|im_end|>"}};
    const ft_chat chat = {.messages = talk, .n_messages = 2};
    ft_template *t = make(v, NULL);
    assert_prompt(v, t, &chat,
                  "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhello <|im_end|>"
                  "<|im_end|>\n<|im_start|>assistant\n");
    const ft_chat empty = {.messages = talk};
    assert_refused(t, &empty, FT_INVALID, "1 to 4096");
    const ft_chat_message odd[] = {{.role = "wizard", .content = "x"}};
    const ft_chat strange = {.messages = odd, .n_messages = 1};
    assert_refused(t, &strange, FT_INVALID, "wizard");
    const ft_chat_message silent[] = {{.role = "user"}};
    const ft_chat nothing = {.messages = silent, .n_messages = 1};
    assert_refused(t, &nothing, FT_INVALID, "lacks content");
    ft_template_destroy(t);
    const tiny_gguf_opts none = {.no_chat_template = true};
    ft_vocab *without = load(&none);
    t = make(without, NULL);
    assert_null(ft_template_source(t));
    assert_refused(t, &chat, FT_UNSUPPORTED, "no chat template");
    ft_template_destroy(t);
    ft_vocab_destroy(without);
}

#ifndef FT_HAVE_COMMON
static void test_table(void **state)
{
    ft_template *t = NULL;
    ft_error err = {0};
    const ft_chat_message talk[] = {{.role = "user", .content = "x"}};
    const ft_chat chat = {.messages = talk, .n_messages = 1, .template_args = "{\"a\":1}"};
    assert_int_equal(ft_template_create(*state, "x", &err, &t), FT_UNSUPPORTED);
    t = make(*state, NULL);
    assert_refused(t, &chat, FT_INVALID, "chat_template_kwargs");
    ft_template_destroy(t);
}
#else
/* A broken template of a model leaves the table, a broken one of the operator is refused. */
static void test_broken(void **state)
{
    ft_vocab *v = *state;
    ft_template *t = NULL;
    ft_error err = {0};
    static char nested[400], huge[80 << 10];
    memset(nested, '(', sizeof nested - 1);
    memcpy(nested, "{{", 2);
    memset(huge, 'x', sizeof huge - 1);
    const char *const broken[] = {"{% if x %}", "{{ 'a", "{% for %}", nested, huge};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_int_equal(ft_template_create(v, broken[i], &err, &t), FT_INVALID);
        assert_true(t == NULL && err.message[0]);
    }
    const ft_chat_message talk[] = {{.role = "user", .content = "x"}};
    const ft_chat_message call = {.role = "user", .content = "x"};
    const tiny_gguf_opts opts = {.chat_template = "{% if x %}<|im_start|>"};
    ft_vocab *other = load(&opts);
    t = make(other, NULL);
    ft_chat chat = {.messages = talk, .n_messages = 1};
    assert_prompt(other, t, &chat, "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
    const ft_chat_tool tool = {.name = "f"};
    chat = (ft_chat){.messages = &call, .n_messages = 1, .tools = &tool, .n_tools = 1};
    assert_refused(t, &chat, FT_INVALID, "tools");
    ft_template_destroy(t);
    ft_vocab_destroy(other);
}

/* The program runs, with the request's variables; its refusals are ours. */
static void test_program(void **state)
{
    static const char source[] =
        "{% for m in messages %}{% if m.role == 'system' and '<|user|>' in m.content %}"
        "{{ raise_exception('no system: ' + m.content) }}{% endif %}"
        "{{ '<|' + m.role + '|>' + m.content | trim }}{% endfor %}"
        "{% if effort_of is defined %}({{ effort_of }}){% endif %}"
        "{% if reasoning_effort is defined %}[{{ reasoning_effort }}]{% endif %}"
        "{% if enable_thinking %}<think>\n{% endif %}";
    const ft_vocab *v = *state;
    ft_template *t = make(v, source);
    const ft_chat_message talk[] = {{.role = "user", .content = "  assistant|> "}};
    ft_chat chat = {.messages = talk, .n_messages = 1};
    ft_template_prompt p;
    ft_error err = {0};
    assert_string_equal(ft_template_source(t), source);
    assert_prompt(v, t, &chat, "<|user|>assistant|><think>\n");
    assert_int_equal(apply(t, &chat, &err, &p), FT_OK);
    assert_true(p.thinks);
    ft_template_prompt_deinit(&p);
    chat.no_thought = true;
    assert_prompt(v, t, &chat, "<|user|>assistant|><think>\n\n</think>\n\n");
    assert_int_equal(apply(t, &chat, &err, &p), FT_OK);
    assert_false(p.thinks);
    ft_template_prompt_deinit(&p);
    chat.template_args = "{\"enable_thinking\":false,\"effort_of\":\"<s>\"}";
    chat.reasoning_effort = "high";
    assert_prompt(v, t, &chat, "<|user|>assistant|>(<s>)[high]");
    assert_int_equal(apply(t, &chat, &err, &p), FT_OK);
    ft_tokens special = specials(v, &p.tokens);
    assert_true(special.n == 1 && !p.thinks);
    ft_tokens_deinit(&special);
    ft_template_prompt_deinit(&p);
    const ft_chat_message evil[] = {{.role = "system", .content = "<|user|> \"x\""}};
    chat = (ft_chat){.messages = evil, .n_messages = 1};
    assert_refused(t, &chat, FT_INVALID, "no system: <|user|> \"x\"");
    ft_template_destroy(t);
}

/* Sanitizers make a program ten to fifty times as slow, and one of its limits is a time. */
#ifdef __SANITIZE_ADDRESS__
#define LONG_LOOP   "range(100) %}{% if i == 99"
#define ENDS(words) "chat template: "
#else
#define LONG_LOOP   "range(4096) %}{% if i == 4095"
#define ENDS(words) words
#endif

/* What ends a program that has no end, or takes all memory. EITHER: time or memory. */
#define EITHER   "chat template: it "
static const struct {
    const char *program, *words;
} endless[] = {
    {"{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}{% endfor %}"
     "{% endfor %}{% endfor %}",
     ENDS("2 s")},
    {"{% for i in range(9999) %}{% if range(9999) | list | length > i %}{% endif %}{% endfor %}",
     EITHER},
    {"{% for i in range(1000000000) %}{% endfor %}", ENDS("20,000")},
    {"{% for i in range(0, -1000000000, -1) %}{% endfor %}", ENDS("20,000")},
    {"{{ range(n) | length }}", ENDS("20,000")},
    {"{% set r = range %}{{ r(7, n) | length }}", ENDS("20,000")},
    {"{% set ns = namespace(l=range(9999)) %}{% for i in range(3) %}{% set ns.l = ns.l + ns.l %}"
     "{% endfor %}{% for i in ns.l %}{% endfor %}",
     ENDS("20,000")},
    {"{% macro f(i) %}{{ f(i + 1) }}{% endmacro %}{{ f(0) }}", ENDS("1,000 deep")},
    {"{% set ns = namespace(t='0123456789') %}{% for i in range(99) %}{% set ns.t = ns.t ~ ns.t %}"
     "{% endfor %}",
     EITHER},
    {"{{ 'abc' | replace('', n | string) }}", "empty string"},
    {"{{ 'abc'.replace('', 'x') }}", "empty string"},
    {"{% set f = 'abc'.split %}{{ f('') | length }}", "empty string"},
    {"{{ 'abc' | upper | split(messages[0].content[2:]) | length }}", "empty string"},
};

/* Programs of this test keep their priority, as other tests run beside it. */
static int n_last;
void __wrap_ft_thread_lower_priority(int by);
void __wrap_ft_thread_lower_priority(int by)
{
    n_last += by == FT_THREAD_LAST;
}

static void test_endless(void **state)
{
    const ft_vocab *v = *state;
    const ft_chat_message go[] = {{.role = "user", .content = "go"}};
    const ft_chat_message stay[] = {{.role = "user", .content = "stay"}};
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
        ft_buf source = {0};
        ft_buf_printf(&source, "{%% if messages[0].content == 'go' %%}%s{%% endif %%}x",
                      endless[i].program);
        ft_template *t = make(v, ft_buf_str(&source));
        ft_chat chat = {.messages = go, .n_messages = 1, .template_args = "{\"n\":1000000000}"};
        assert_refused(t, &chat, FT_INVALID, endless[i].words);
        chat.messages = stay;
        assert_prompt(v, t, &chat, "x");
        ft_template_destroy(t);
        ft_buf_deinit(&source);
    }
}

/* Its programs that have an end are left alone. */
static void test_long(void **state)
{
    ft_template *t = make(*state, "{% macro f(i) %}{% if i > 0 %}{{ f(i - 1) }}{% else %}e"
                                  "{% endif %}{% endmacro %}{{ f(100) }}"
                                  "{% for i in " LONG_LOOP " %}l{% endif %}"
                                  "{% endfor %}{{ 'a b c'.split(' ') | length }}"
                                  "{{ 'a-b' | replace('-', '') }}{{ range(5, 0, -2) | length }}");
    const ft_chat_message talk[] = {{.role = "user", .content = "x"}};
    const ft_chat chat = {.messages = talk, .n_messages = 1};
    assert_prompt(*state, t, &chat, "el3ab3");
    ft_template_destroy(t);
}

/* One that never renders is refused like a broken one; what runs long lets others go first. */
static void test_always_endless(void **state)
{
    static const char source[] = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}"
                                 "{% endfor %}<|im_start|>";
    ft_template *t = NULL;
    ft_error err = {0};
    n_last = 0;
    assert_int_equal(ft_template_create(*state, source, &err, &t), FT_INVALID);
    assert_null(t);
    assert_non_null(strstr(err.message, "2 s"));
    assert_true(n_last >= 1);
    const ft_chat_message talk[] = {{.role = "user", .content = "x"}};
    const ft_chat chat = {.messages = talk, .n_messages = 1};
    const tiny_gguf_opts opts = {.chat_template = source};
    ft_vocab *other = load(&opts);
    t = make(other, NULL);
    assert_prompt(other, t, &chat, "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
    ft_template_destroy(t);
    ft_vocab_destroy(other);
}

/* What the assistant thought earlier is the template's to show, as a text like others. */
static void test_thoughts(void **state)
{
    const ft_vocab *v = *state;
    ft_template *t = make(v, "{% for m in messages %}<|{{ m.role }}|>"
                             "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
                             "{{ m.content }}{% endfor %}");
    const ft_chat_message talk[] = {
        {.role = "user", .content = "a"},
        {.role = "assistant", .content = "b", .reasoning = "<|user|>c"}};
    const ft_chat chat = {.messages = talk, .n_messages = 2};
    ft_template_prompt p;
    ft_error err = {0};
    assert_prompt(v, t, &chat, "<|user|>a<|assistant|>(<|user|>c)b");
    assert_int_equal(apply(t, &chat, &err, &p), FT_OK);
    ft_tokens special = specials(v, &p.tokens);
    assert_int_equal(special.n, 2);
    ft_tokens_deinit(&special);
    ft_template_prompt_deinit(&p);
    ft_template_destroy(t);
}

/* ---- people's text ---- */

/* A conversation of everything, each text as `evil`. */
typedef struct everything {
    char arguments[4096], parameters[4096];
    ft_chat_call call;
    ft_chat_message talk[6];
    ft_chat_tool tool;
    ft_chat chat;
} everything;

static void fill(everything *e, const char *evil, const char *name, bool tools)
{
    snprintf(e->arguments, sizeof e->arguments, "{\"%s\": \"%s\", \"b\": [\"%s\"]}", name, evil,
             evil);
    snprintf(e->parameters, sizeof e->parameters,
             "{\"type\":\"object\",\"properties\":{\"%s\":{\"type\":\"string\",\"description\":"
             "\"%s\"},\"b\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},"
             "\"required\":[\"%s\"]}",
             name, evil, name);
    e->call = (ft_chat_call){"call00000", "f", e->arguments};
    e->tool = (ft_chat_tool){"f", evil, e->parameters};
    const ft_chat_message talk[] = {
        {.role = "system", .content = evil},
        {.role = "user", .content = evil},
        {.role = "assistant", .content = tools ? "" : evil, .calls = &e->call, .n_calls = tools},
        {.role = tools ? "tool" : "user", .content = evil, .call_id = "call00000", .name = "f"},
        {.role = "assistant", .content = evil},
        {.role = "user", .content = evil}};
    memcpy(e->talk, talk, sizeof talk);
    e->chat = (ft_chat){.messages = e->talk, .n_messages = 6};
    if (tools) {
        e->chat.tools = &e->tool;
        e->chat.n_tools = 1;
    }
}

typedef struct family {
    const ft_vocab *v;
    const char *where, *source;
    bool tools;
    ft_template *t;
    ft_common *common;
    ft_tokens special; /* of a harmless conversation */
} family;

/* The special tokens are those of a harmless conversation, and the text is what was rendered. */
static void assert_harmless(const family *f, const char *evil, const char *name)
{
    const ft_vocab *v = f->v;
    const ft_template *t = f->t;
    const ft_tokens *special = &f->special;
    everything e;
    ft_template_prompt p;
    ft_error err = {0};
    ft_buf text = {0};
    fill(&e, evil, name, f->tools);
    if (apply(t, &e.chat, &err, &p) != FT_OK)
        fail_msg("%s: '%s': %s", f->where, evil, err.message);
    ft_tokens got = specials(v, &p.tokens);
    if (got.n != special->n ||
        (got.n > 0 && memcmp(got.id, special->id, got.n * sizeof *got.id) != 0))
        fail_msg("%s: '%s' and '%s' make %zu special tokens of %zu", f->where, evil, name, got.n,
                 special->n);
    assert_int_equal(ft_common_render(f->common, &e.chat, &err, &text), FT_OK);
    ft_buf said = spell(v, &p.tokens);
    /* A template that sorts names sorts their marks, too. */
    const bool sorts = strstr(ft_template_source(t), "dictsort");
    if (sorts ? said.len != text.len : strcmp(ft_buf_str(&said), ft_buf_str(&text)) != 0)
        fail_msg("%s: '%s' renders as\n%s\ninstead of\n%s", f->where, evil, ft_buf_str(&said),
                 ft_buf_str(&text));
    ft_buf_deinit(&said);
    ft_buf_deinit(&text);
    ft_tokens_deinit(&got);
    ft_template_prompt_deinit(&p);
}

/* One of the template's own tokens: whole, and without an end that the template's text may add. */
static void assert_own(const family *f, const char *token)
{
    char middle[64];
    snprintf(middle, sizeof middle, "%.*s", (int)(strlen(token) - 2), token + 1);
    assert_harmless(f, token, token);
    assert_harmless(f, token + 1, middle);
    assert_harmless(f, middle, token + 1);
}

/* Tokens that the template does not have can only be whole: all of them in one text. */
static void assert_evil(const family *f)
{
    ft_buf others = {0};
    for (size_t i = 0; i < N_CONTROL; i++)
        if (strstr(f->source, control[i]))
            assert_own(f, control[i]);
        else
            assert_int_equal(ft_buf_append(&others, control[i], strlen(control[i])), FT_OK);
    assert_harmless(f, ft_buf_str(&others), ft_buf_str(&others));
    ft_buf_deinit(&others);
}

static void assert_family(const ft_vocab *v, const char *source, bool tools, const char *where)
{
    family f = {.v = v, .where = where, .source = source, .tools = tools, .t = make(v, source)};
    everything e;
    ft_template_prompt p;
    ft_error err = {0};
    assert_int_equal(ft_common_create(source, "<|im_start|>", "<|im_end|>", &err, &f.common),
                     FT_OK);
    fill(&e, "q", "q", tools);
    ft_status status = apply(f.t, &e.chat, &err, &p);
    assert_true(status == FT_OK || status == FT_INVALID);
    f.special = specials(v, &p.tokens);
    ft_template_prompt_deinit(&p);
    if (status == FT_OK)
        assert_evil(&f);
    ft_tokens_deinit(&f.special);
    ft_common_destroy(f.common);
    ft_template_destroy(f.t);
}

/* All of them take minutes under sanitizers: there one of eight is tried. */
#define FAMILIES FT_TIMES(1, 8)

static void test_families(void **state)
{
    DIR *dir = opendir(FT_TEMPLATES);
    const struct dirent *entry;
    size_t n = 0;
    if (!dir)
        skip(); /* a system's llama.cpp has none */
    while ((entry = readdir(dir))) {
        char path[4096], *source;
        size_t bytes;
        ft_error err = {0};
        if (!strstr(entry->d_name, ".jinja") || n++ % FAMILIES != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", FT_TEMPLATES, entry->d_name);
        assert_int_equal(ft_file_read(path, 1 << 20, &err, &source, &bytes), FT_OK);
        assert_family(*state, source, false, entry->d_name);
        assert_family(*state, source, true, entry->d_name);
        free(source);
    }
    closedir(dir);
    assert_true(n > 0);
}

/* The form of a call that a template's own rendering gives. */
#define ENTRY(begin, end) \
    "\"calls\":[{\"begin\":\"" begin "\",\"schema\":{\"type\":\"object\"},\"end\":\"" end "\"}]}"
#define CALL(begin, end)        "{" ENTRY(begin, end)
#define MARKED(mark, rest, end) "{\"mark\":\"" mark "\",\"many\":true," ENTRY(rest, end)
#define HERMES                  "\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": "
#define HERMES_END              "}\\n</tool_call>"
#define HERMES_MARKED           MARKED("<tool_call>", HERMES, HERMES_END)
#define KIMI                    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
#define KIMI_END                "<|tool_call_end|><|tool_calls_section_end|>"

static const struct form {
    const char *file, *required, *of_its_own; /* NULL: it cannot be required; not constrained */
} forms[] = {
    {"Qwen-Qwen2.5-7B-Instruct", CALL("<tool_call>" HERMES, HERMES_END), HERMES_MARKED},
    {"Qwen-Qwen3-0.6B", CALL("<think>\\n\\n</think>\\n\\n<tool_call>" HERMES, HERMES_END),
     HERMES_MARKED},
    {"Qwen-QwQ-32B", CALL("\\n</think>\\n\\n<tool_call>" HERMES, HERMES_END), HERMES_MARKED},
    {"meta-llama-Llama-3.1-8B-Instruct",
     CALL("{\\\"name\\\": \\\"f\\\", \\\"parameters\\\": ", "}"), NULL}, /* it has no mark */
    {"unsloth-mistral-Devstral-Small-2507", CALL("[TOOL_CALLS]f[ARGS]", ""),
     MARKED("[TOOL_CALLS]", "f[ARGS]", "")},
    {"mistralai-Mistral-Nemo-Instruct-2407", /* the model chooses ids */
     CALL("[TOOL_CALLS][{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": ",
          ", \\\"id\\\": \\\"ftcall000\\\"}]"),
     NULL},
    {"Kimi-K2-Instruct", CALL("<|tool_calls_section_begin|>" KIMI, KIMI_END), NULL}, /* as well */
    {"Qwen3-Coder", NULL, NULL}, /* arguments between tags */
};

static void assert_form(const ft_template *t, const ft_chat *chat, const struct form *form)
{
    const bool required = chat->choice == FT_CHAT_CHOICE_REQUIRED;
    const char *expected = required ? form->required : form->of_its_own;
    ft_template_prompt p;
    ft_error err = {0};
    const ft_status status = apply(t, chat, &err, &p);
    if (required && !expected) {
        assert_int_equal(status, FT_UNSUPPORTED);
        assert_non_null(strstr(err.message, "tool_choice"));
        return;
    }
    if (status != FT_OK)
        fail_msg("%s: %s", form->file, err.message);
    if (strcmp(ft_buf_str(&p.call), expected ? expected : "") != 0)
        fail_msg("%s: %s", form->file, ft_buf_str(&p.call));
    ft_template_prompt_deinit(&p);
}

static void test_forms_of_calls(void **state)
{
    const ft_chat_message talk = {.role = "user", .content = "x"};
    const ft_chat_tool tools[] = {{.name = "f", .parameters = "{\"type\":\"object\"}"},
                                  {.name = "g"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char path[4096], *source;
        size_t bytes;
        ft_error err = {0};
        snprintf(path, sizeof path, "%s/%s.jinja", FT_TEMPLATES, forms[i].file);
        if (ft_file_read(path, 1 << 20, &err, &source, &bytes) != FT_OK)
            skip(); /* a system's llama.cpp has none */
        ft_template *t = make(*state, source);
        ft_chat chat = {.messages = &talk,
                        .n_messages = 1,
                        .tools = tools,
                        .n_tools = 1,
                        .parallel_calls = true,
                        .reasoning_apart = true};
        assert_form(t, &chat, &forms[i]);
        chat.n_tools = 2;
        chat.choice = FT_CHAT_CHOICE_REQUIRED;
        chat.choice_tool = &tools[0];
        assert_form(t, &chat, &forms[i]);
        ft_template_destroy(t);
        free(source);
    }
}

/* Any of the tools; one without parameters takes none. */
static void test_any_tool(void **state)
{
    char *source;
    size_t bytes;
    const ft_chat_message talk = {.role = "user", .content = "x"};
    const ft_chat_tool tools[] = {{.name = "f", .parameters = "{\"type\":\"object\"}"},
                                  {.name = "g"}};
    const ft_chat chat = {.messages = &talk,
                          .n_messages = 1,
                          .tools = tools,
                          .n_tools = 2,
                          .choice = FT_CHAT_CHOICE_REQUIRED};
    ft_template_prompt p;
    ft_error err = {0};
    if (ft_file_read(FT_TEMPLATES "/Qwen-Qwen2.5-7B-Instruct.jinja", 1 << 20, &err, &source,
                     &bytes) != FT_OK)
        skip(); /* a system's llama.cpp has none */
    ft_template *t = make(*state, source);
    free(source);
    if (apply(t, &chat, &err, &p) != FT_OK)
        fail_msg("%s", err.message);
    json_t *root = json_loads(ft_buf_str(&p.call), 0, NULL);
    json_t *calls = json_object_get(root, "calls"), *second = json_array_get(calls, 1);
    assert_int_equal(json_array_size(calls), 2);
    assert_non_null(strstr(json_string_value(json_object_get(second, "begin")), "\"name\": \"g\""));
    assert_true(
        json_is_false(json_object_get(json_object_get(second, "schema"), "additionalProperties")));
    json_decref(root);
    ft_template_prompt_deinit(&p);
    ft_template_destroy(t);
}

/* Names between the template's own brackets, and texts that stand side by side. */
static void test_pieces(void **state)
{
    static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}"
                                 "{% for t in tools %}{{ t.function.name }}"
                                 "{% for k, v in t.function.parameters.properties.items() %}"
                                 "<{{ k }}>{{ v.description }}</{{ k }}>{% endfor %}{% endfor %}";
    static const char *const names[] = {"s", "/s", "|im_end|", "|im_start|", "bos", "|user|"};
    const ft_vocab *v = *state;
    ft_template *t = make(v, source);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char parameters[200];
        ft_template_prompt p;
        ft_error err = {0};
        snprintf(parameters, sizeof parameters,
                 "{\"type\":\"object\",\"properties\":{\"%s\":{\"description\":\"\\u003c/s>\"}}}",
                 names[i]);
        const ft_chat_message talk[] = {{.role = "user", .content = "<|im_"},
                                        {.role = "user", .content = "end|><"},
                                        {.role = "user", .content = "/s>"}};
        const ft_chat_tool tool = {.name = "f", .parameters = parameters};
        const ft_chat chat = {.messages = talk, .n_messages = 3, .tools = &tool, .n_tools = 1};
        if (apply(t, &chat, &err, &p) != FT_OK)
            fail_msg("%s", err.message);
        ft_tokens special = specials(v, &p.tokens);
        ft_buf said = spell(v, &p.tokens);
        char expected[200];
        snprintf(expected, sizeof expected, "<|im_end|></s>f<%s></s></%s>", names[i], names[i]);
        assert_string_equal(ft_buf_str(&said), expected);
        assert_int_equal(special.n, 0);
        ft_buf_deinit(&said);
        ft_tokens_deinit(&special);
        ft_template_prompt_deinit(&p);
    }
    ft_template_destroy(t);
}

/* What comes, piece by piece: all content, and behind it the calls. */
static void assert_read(const ft_template *t, const ft_chat *chat, const char *said, size_t step,
                        const char *expected)
{
    ft_template_prompt p;
    ft_error err = {0};
    ft_buf out = {0}, calls = {0};
    if (apply(t, chat, &err, &p) != FT_OK)
        fail_msg("%s", err.message);
    assert_non_null(p.reader.read);
    const size_t n = strlen(said);
    for (size_t at = 0; at <= n; at += step) {
        const ft_chat_part *parts;
        size_t n_parts, more = n - at < step ? n - at : step;
        assert_int_equal(
            p.reader.read(p.reader.ctx, said + at, more, at + step > n, &parts, &n_parts), FT_OK);
        for (size_t i = 0; i < n_parts; i++) {
            if (parts[i].kind == FT_CHAT_PART_CALL)
                ft_buf_printf(&calls, "|%zu:%.*s:", parts[i].call, (int)parts[i].n, parts[i].text);
            else
                ft_buf_append(parts[i].kind == FT_CHAT_PART_ARGUMENTS ? &calls : &out,
                              parts[i].text, parts[i].n);
        }
    }
    ft_buf_puts(&out, ft_buf_str(&calls));
    assert_string_equal(ft_buf_str(&out), expected);
    ft_buf_deinit(&out);
    ft_buf_deinit(&calls);
    ft_template_prompt_deinit(&p);
}

static void test_reader(void **state)
{
    char path[4096], *source;
    size_t bytes;
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/Qwen-Qwen2.5-7B-Instruct.jinja", FT_TEMPLATES);
    if (access(path, R_OK) != 0)
        skip();
    assert_int_equal(ft_file_read(path, 1 << 20, &err, &source, &bytes), FT_OK);
    ft_template *t = make(*state, source);
    const ft_chat_message talk = {.role = "user", .content = "x"};
    const ft_chat_tool tool = {.name = "add",
                               .parameters = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                                             "\"integer\"}},\"required\":[\"a\"]}"};
    ft_chat chat = {.messages = &talk,
                    .n_messages = 1,
                    .tools = &tool,
                    .n_tools = 1,
                    .parallel_calls = true,
                    .reasoning_apart = true};
    static const char one[] = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 12}}\n"
                              "</tool_call>";
    for (size_t step = 1; step < 90; step += FT_TIMES(11, 44)) {
        assert_read(t, &chat, "plain words", step, "plain words");
        assert_read(t, &chat, one, step, "|0:add:{\"a\": 12}");
        assert_read(t, &chat, "<tool_call>\nwhat", step, "<tool_call>\nwhat");
        assert_read(t, &chat,
                    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
                    "<tool_call>\nwhat",
                    step, "\n</tool_call>\n<tool_call>\nwhat|0:add:{\"a\": 1}");
        assert_read(t, &chat, "so <tool_call>\nwhat\n</tool_call> or not", step,
                    "so <tool_call>\nwhat\n</tool_call> or not");
    }
    ft_buf lines = {0}, said = {0}, expected = {0};
    for (int i = 0; i < 300; i++)
        ft_buf_printf(&lines, "<line %d>\n", i);
    ft_buf_printf(&said, "%s\n<tool_call>\nwhat\n%s", one, ft_buf_str(&lines));
    ft_buf_printf(&expected, "\n</tool_call>\n<tool_call>\nwhat\n%s|0:add:{\"a\": 12}",
                  ft_buf_str(&lines));
    assert_read(t, &chat, ft_buf_str(&said), 50, ft_buf_str(&expected));
    ft_buf_deinit(&lines);
    ft_buf_deinit(&said);
    ft_buf_deinit(&expected);
    chat.choice = FT_CHAT_CHOICE_NONE;
    ft_template_prompt p;
    assert_int_equal(apply(t, &chat, &err, &p), FT_OK);
    assert_null(p.reader.read);
    ft_template_prompt_deinit(&p);
    ft_template_destroy(t);
    t = make(*state, "{% for m in messages %}{{ m.content }}{% endfor %}");
    assert_refused(t, &chat, FT_INVALID, "does not show tools");
    ft_template_destroy(t);
    free(source);
}

/* JSON that is too deep, or none, is refused before the template sees it. */
static void test_json(void **state)
{
    ft_template *t = make(*state, "{{ messages[0].content }}{{ tools | tojson }}");
    char deep[300];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    deep[200] = 0;
    const ft_chat_message talk = {.role = "user", .content = "x"};
    ft_chat_tool tool = {.name = "f", .parameters = deep};
    const ft_chat chat = {.messages = &talk, .n_messages = 1, .tools = &tool, .n_tools = 1};
    assert_refused(t, &chat, FT_INVALID, "nested more deeply than 64");
    tool.parameters = "{";
    assert_refused(t, &chat, FT_INVALID, "not JSON");
    ft_template_destroy(t);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_build),
#ifdef FT_HAVE_COMMON
        cmocka_unit_test(test_broken),    cmocka_unit_test(test_program),
        cmocka_unit_test(test_thoughts),  cmocka_unit_test(test_families),
        cmocka_unit_test(test_pieces),    cmocka_unit_test(test_json),
        cmocka_unit_test(test_reader),    cmocka_unit_test(test_forms_of_calls),
        cmocka_unit_test(test_any_tool),  cmocka_unit_test(test_endless),
        cmocka_unit_test(test_long),      cmocka_unit_test(test_always_endless),
#else
        cmocka_unit_test(test_table),
#endif
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, setup, teardown);
}
