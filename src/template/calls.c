// SPDX-License-Identifier: Apache-2.0
// Renders three short conversations: a question; the same and a call; the same and a word. What the
// call has behind the question and before its arguments is `begin`. Behind them stands `end`, and
// then what stands behind the word, too: the end of the message.
#include "template/calls.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* They stand for a tool's name, for its arguments and for a word. No template has them. */
#define NAME "ftPlaceholder"
#define MARK "ft_mark"
#define ID   "ftcall000" /* as long as Mistral's templates want it */

typedef struct renderings {
    ft_buf asked, called, said;
} renderings;

static void deinit(renderings *r)
{
    ft_buf_deinit(&r->asked);
    ft_buf_deinit(&r->called);
    ft_buf_deinit(&r->said);
}

static ft_status render(const ft_common *common, const ft_chat *chat, ft_error *err, renderings *r)
{
    static const ft_chat_call call = {ID, NAME, "{\"" MARK "\":0}"};
    const ft_chat_message called[] = {{.role = "user", .content = "x"},
                                      {.role = "assistant", .calls = &call, .n_calls = 1}};
    const ft_chat_message said[] = {called[0], {.role = "assistant", .content = MARK}};
    ft_chat small = *chat;
    small.messages = called;
    small.n_messages = 1;
    ft_status status = ft_common_render(common, &small, err, &r->asked);
    small.n_messages = 2;
    if (status == FT_OK)
        status = ft_common_render(common, &small, err, &r->called);
    small.messages = said;
    if (status == FT_OK)
        status = ft_common_render(common, &small, err, &r->said);
    return status;
}

static const char *skip_blank(const char *at)
{
    return at + strspn(at, " \n\t");
}

/* The last place of `what`; NULL: none. */
static const char *find_last(const char *text, const char *what)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, what)); at++)
        last = at;
    return last;
}

/* The arguments {"ft_mark": 0}, from their brace to behind the other one. */
static bool find_arguments(const char *text, const char **begin, const char **end)
{
    const char *mark = find_last(text, "\"" MARK "\"");
    if (!mark)
        return false;
    const char *at = mark, *after = skip_blank(mark + strlen("\"" MARK "\""));
    while (at > text && strchr(" \n\t", at[-1]))
        at--;
    if (at == text || at[-1] != '{' || *after != ':')
        return false;
    after = skip_blank(after + 1);
    if (*after != '0')
        return false;
    after = skip_blank(after + 1);
    *begin = at - 1;
    *end = after + 1;
    return *after == '}';
}

/* <think> and <tool_call> begin alike: the place in front of a tag that ends behind `at`. */
static size_t outside_tag(const char *text, size_t at)
{
    for (size_t i = at; i > 0 && text[i - 1] != '>'; i--)
        if (text[i - 1] == '<')
            return i - 1;
    return at;
}

/* What the template has begun for the model must have an end before the call. */
static bool add_begin(const renderings *r, const char *arguments, ft_buf *begin)
{
    const char *asked = ft_buf_str(&r->asked), *called = ft_buf_str(&r->called);
    size_t same = 0;
    while (asked[same] && asked[same] == called[same])
        same++;
    same = asked[same] ? outside_tag(asked, same) : same;
    if (called + same > arguments)
        return false;
    const char *begun = skip_blank(asked + same);
    if (strncmp(begun, "<think>", 7) == 0 && *skip_blank(begun + 7) == 0)
        ft_buf_puts(begin, FT_TEMPLATE_THOUGHT_END);
    else if (*begun)
        return false;
    ft_buf_append(begin, called + same, (size_t)(arguments - called) - same);
    return true;
}

static bool add_end(const renderings *r, const char *behind, ft_buf *end)
{
    const char *said = find_last(ft_buf_str(&r->said), MARK);
    const char *tail = said ? said + strlen(MARK) : "";
    const size_t n = strlen(behind), n_tail = strlen(tail);
    if (!said || n < n_tail || strcmp(behind + n - n_tail, tail) != 0)
        return false;
    ft_buf_append(end, behind, n - n_tail);
    return true;
}

/* With the tool's name where the placeholder is. Returns how often it is there. */
static size_t name(const ft_buf *form, const char *tool, ft_buf *out)
{
    const char *at = ft_buf_str(form), *next;
    size_t n = 0;
    for (; (next = strstr(at, NAME)); at = next + strlen(NAME), n++) {
        ft_buf_append(out, at, (size_t)(next - at));
        ft_buf_puts(out, tool);
    }
    ft_buf_puts(out, at);
    return n;
}

static bool is_blank(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && strchr(" \n\t", text[i]))
        i++;
    return i == n;
}

/* What a call that the model begins by itself begins with: a tag, which ends no message. */
static bool find_mark(const renderings *r, const ft_buf *begin, const char **mark, size_t *n)
{
    const char *thought = strstr(ft_buf_str(begin), "</think>");
    *mark = skip_blank(thought ? thought + strlen("</think>") : ft_buf_str(begin));
    *n = **mark == '<' ? strcspn(*mark, ">") + 1 : **mark == '[' ? strcspn(*mark, "]") + 1 : 0;
    if (*n < 3 || *n > strlen(*mark))
        return false;
    char *tag = strndup(*mark, *n);
    const bool apart = tag && !strstr(find_last(ft_buf_str(&r->said), MARK), tag) &&
                       !strstr(tag, NAME) && !strstr(tag, ID);
    free(tag);
    return apart;
}

/* Whether the parser reads calls of the tool, and nothing else: one, or one and another. */
static ft_status check_calls(ft_common_parser *parser, const ft_buf *call, const ft_buf *another,
                             const char *tool)
{
    ft_buf text = {0};
    ft_common_said said;
    const size_t n = another->len > 0 ? 2 : 1;
    ft_buf_printf(&text, "%s%s", ft_buf_str(call), ft_buf_str(another));
    ft_status status =
        text.failed ? FT_NOMEM : ft_common_parse(parser, ft_buf_str(&text), text.len, false, &said);
    if (status == FT_OK && (said.n_calls != n || !is_blank(said.content, said.n_content)))
        status = FT_INVALID;
    for (size_t i = 0; status == FT_OK && i < n; i++) {
        const char *id = ft_common_said_call(parser, i).id;
        const char *first = ft_common_said_call(parser, 0).id;
        if (strcmp(ft_common_said_call(parser, i).name, tool) != 0 ||
            (i > 0 && *id && strcmp(id, first) == 0))
            status = FT_INVALID;
    }
    ft_buf_deinit(&text);
    return status == FT_INVALID ? FT_UNSUPPORTED : status;
}

/* Calls of a tool join the list, without their mark. */
static ft_status add_tool(const ft_chat_tool *tool, const ft_buf *begin, const ft_buf *end,
                          json_t *list)
{
    ft_buf b = {0}, e = {0};
    ft_status status = FT_OK;
    name(begin, tool->name, &b);
    name(end, tool->name, &e);
    json_t *schema = tool->parameters ? json_loads(tool->parameters, 0, NULL)
                                      : json_pack("{s:s,s:{},s:b}", "type", "object", "properties",
                                                  "additionalProperties", 0);
    if (b.failed || e.failed ||
        json_array_append_new(list, json_pack("{s:s,s:O,s:s}", "begin", ft_buf_str(&b), "schema",
                                              schema, "end", ft_buf_str(&e))) != 0)
        status = FT_NOMEM;
    json_decref(schema);
    ft_buf_deinit(&b);
    ft_buf_deinit(&e);
    return status;
}

static ft_status write_forms(const ft_chat *chat, const ft_buf *begin, const ft_buf *end,
                             const ft_buf *mark, ft_buf *out)
{
    const ft_chat_tool *tools = chat->choice_tool ? chat->choice_tool : chat->tools;
    const size_t n = chat->choice_tool ? 1 : chat->n_tools;
    json_t *list = json_array();
    ft_status status = list ? FT_OK : FT_NOMEM;
    for (size_t i = 0; status == FT_OK && i < n; i++)
        status = add_tool(&tools[i], begin, end, list);
    json_t *root = status != FT_OK  ? NULL
                   : mark->len == 0 ? json_pack("{s:O}", "calls", list)
                                    : json_pack("{s:s,s:b,s:O}", "mark", ft_buf_str(mark), "many",
                                                chat->parallel_calls, "calls", list);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    if (status == FT_OK)
        status = text ? ft_buf_append(out, text, strlen(text)) : FT_NOMEM;
    free(text);
    json_decref(root);
    json_decref(list);
    return status;
}

/* Whether the parser reads calls of this form; tried with one tool, as names alone differ. */
static ft_status check_form(const ft_chat *chat, const ft_buf *begin, const ft_buf *end,
                            const ft_buf *mark, const ft_buf *behind_mark, ft_common_parser *parser)
{
    const char *tool = (chat->choice_tool ? chat->choice_tool : chat->tools)->name;
    ft_buf call = {0}, another = {0};
    size_t n = name(begin, tool, &call);
    ft_buf_puts(&call, "{}");
    n += name(end, tool, &call);
    if (mark->len > 0 && chat->parallel_calls) {
        ft_buf_puts(&another, ft_buf_str(mark));
        name(behind_mark, tool, &another);
        ft_buf_puts(&another, "{}");
        name(end, tool, &another);
    }
    const ft_status status = call.failed || another.failed ? FT_NOMEM
                             : n == 0                      ? FT_UNSUPPORTED
                                      : check_calls(parser, &call, &another, tool);
    ft_buf_deinit(&call);
    ft_buf_deinit(&another);
    return status;
}

/* begin and end of a call, and for a call that the model begins by itself its mark. */
static ft_status find_form(const renderings *r, const ft_chat *chat, ft_buf *begin, ft_buf *end,
                           ft_buf *mark, ft_buf *behind_mark)
{
    const char *arguments, *behind, *tag;
    size_t n;
    if (!find_arguments(ft_buf_str(&r->called), &arguments, &behind) ||
        !add_begin(r, arguments, begin) || !add_end(r, behind, end))
        return FT_UNSUPPORTED;
    if (chat->choice == FT_CHAT_CHOICE_AUTO) {
        if (!find_mark(r, begin, &tag, &n) || strstr(ft_buf_str(begin), ID) ||
            strstr(ft_buf_str(end), ID))
            return FT_UNSUPPORTED;
        ft_buf_append(mark, tag, n);
        ft_buf_puts(behind_mark, tag + n);
    }
    return begin->failed || end->failed || mark->failed || behind_mark->failed ? FT_NOMEM : FT_OK;
}

ft_status ft_template_calls(const ft_common *common, const ft_chat *chat, ft_common_parser *parser,
                            ft_error *err, ft_buf *out)
{
    renderings r = {0};
    ft_buf begin = {0}, end = {0}, mark = {0}, behind_mark = {0};
    ft_status status = render(common, chat, err, &r);
    if (status == FT_OK)
        status = find_form(&r, chat, &begin, &end, &mark, &behind_mark);
    if (status == FT_OK)
        status = check_form(chat, &begin, &end, &mark, &behind_mark, parser);
    if (status == FT_OK)
        status = write_forms(chat, mark.len > 0 ? &behind_mark : &begin, &end, &mark, out);
    ft_buf_deinit(&begin);
    ft_buf_deinit(&end);
    ft_buf_deinit(&mark);
    ft_buf_deinit(&behind_mark);
    deinit(&r);
    if (status == FT_UNSUPPORTED)
        return ft_error_set(err, status,
                            "'tool_choice': the calls of this model's chat template cannot be "
                            "required, as its arguments are no JSON or stand behind other text");
    return status == FT_NOMEM ? ft_error_set(err, status, "out of memory for a conversation")
                              : status;
}
