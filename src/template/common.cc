// SPDX-License-Identifier: Apache-2.0
// Calls llama.cpp's `common`, and catches what it throws. It is C++ for this alone. Plain
// conversations are rendered by the template as it is written. With tools or thoughts, `common`
// also changes messages as a family of models needs it.
#include "template/common.h"

#include <pthread.h>

#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "chat.h"
#include "log.h"

struct ft_common {
    common_chat_templates_ptr templates;
    bool has_tools;
};

struct ft_common_parser {
    common_chat_parser_params params;
    std::vector<std::string> marks;
    common_chat_msg said;
};

/* ---- what may go wrong ---- */

/* The template's own words, of an error that says where it was raised. */
static std::string words_of(const char *what)
{
    static const char *const marks[] = {"Jinja Exception: ", "\nError: "};
    const std::string all = what;
    for (const char *mark : marks) {
        const size_t at = all.rfind(mark);
        if (at != std::string::npos)
            return all.substr(at + strlen(mark));
    }
    return all;
}

/* Not by std::function, whose making may throw in front of the call. */
template <class F> static ft_status guarded(ft_error *err, F &&call) noexcept
{
    try {
        call();
        return FT_OK;
    } catch (const std::bad_alloc &) {
        return ft_error_set(err, FT_NOMEM, "chat template: out of memory");
    } catch (const std::exception &e) {
        try {
            return ft_error_set(err, FT_INVALID, "the model's chat template: %s",
                                words_of(e.what()).c_str());
        } catch (...) {
            return ft_error_set(err, FT_NOMEM, "chat template: out of memory");
        }
    } catch (...) {
        return ft_error_set(err, FT_INTERNAL, "chat template: an exception of an unknown type");
    }
}

/* The parser and the program call themselves for each level of the source. */
#define STACK_BYTES ((size_t)128 << 20)

/* Levels of brackets in what a model says; each takes some kilobytes of an ordinary stack. */
#define PARSE_DEPTH_MAX 200

template <class F> struct deep_call {
    F *call;
    ft_error *err;
    ft_status status;
};

template <class F> static void *run_deep(void *arg)
{
    auto *d = static_cast<deep_call<F> *>(arg);
    d->status = guarded(d->err, *d->call);
    return nullptr;
}

/* Calls it on a large stack, of which only what it uses takes memory. */
template <class F> static ft_status on_deep_stack(ft_error *err, F &&call) noexcept
{
    using callable = std::remove_reference_t<F>;
    pthread_attr_t attr;
    pthread_t thread;
    deep_call<callable> d = {&call, err, FT_NOMEM};
    if (pthread_attr_init(&attr) != 0)
        return ft_error_set(err, FT_NOMEM, "chat template: out of memory");
    const bool started = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 &&
                         pthread_create(&thread, &attr, run_deep<callable>, &d) == 0;
    if (started)
        pthread_join(thread, nullptr);
    pthread_attr_destroy(&attr);
    return started ? d.status
                   : ft_error_set(err, FT_NOMEM, "chat template: no memory for a thread");
}

/* ---- templates ---- */

static ft_status check_source(const char *source, ft_error *err)
{
    const size_t n = strlen(source);
    size_t depth = 0;
    if (n > FT_COMMON_SOURCE_MAX)
        return ft_error_set(err, FT_INVALID,
                            "a chat template of %zu bytes is too long, %zu at most", n,
                            FT_COMMON_SOURCE_MAX);
    for (size_t i = 0; i < n; i++) {
        if (strchr("([{", source[i]))
            depth++;
        else if (strchr(")]}", source[i]) && depth > 0)
            depth--;
        if (depth > FT_COMMON_DEPTH_MAX)
            return ft_error_set(err, FT_INVALID, "a chat template with brackets %d deep",
                                FT_COMMON_DEPTH_MAX);
    }
    return FT_OK;
}

ft_status ft_common_create(const char *source, const char *bos, const char *eos, ft_error *err,
                           ft_common **out)
{
    *out = nullptr;
    ft_status status = check_source(source, err);
    if (status != FT_OK)
        return status;
    return on_deep_stack(err, [&] {
        static const bool quiet = (common_log_set_verbosity_thold(-1), true); // it logs prompts
        (void)quiet;
        auto common = std::make_unique<ft_common>();
        common_chat_template(source, bos, eos); // says what is wrong, which the call below does not
        common->templates = common_chat_templates_init(nullptr, source, bos, eos);
        const auto caps = common_chat_templates_get_caps(common->templates.get());
        const auto tools = caps.find("supports_tools");
        common->has_tools = tools != caps.end() && tools->second;
        *out = common.release();
    });
}

bool ft_common_has_tools(const ft_common *common)
{
    return common->has_tools;
}

/* Takes 1 MB of an ordinary stack at most, of the deepest chain of operators that a source has. */
void ft_common_destroy(ft_common *common)
{
    delete common;
}

/* ---- rendering ---- */

static std::string text_of(const char *text)
{
    return text ? text : "";
}

static common_chat_msg message_of(const ft_chat_message &m)
{
    common_chat_msg out;
    out.role = m.role;
    out.content = text_of(m.content);
    out.reasoning_content = text_of(m.reasoning);
    out.tool_call_id = text_of(m.call_id);
    out.tool_name = text_of(m.name);
    for (size_t i = 0; i < m.n_calls; i++)
        out.tool_calls.push_back({m.calls[i].name, m.calls[i].arguments, text_of(m.calls[i].id)});
    return out;
}

/* Whether there is more than text. */
static bool is_plain(const ft_chat *chat)
{
    for (size_t i = 0; i < chat->n_messages; i++)
        if (chat->messages[i].n_calls > 0 || chat->messages[i].reasoning ||
            strcmp(chat->messages[i].role, "tool") == 0)
            return false;
    return chat->n_tools == 0;
}

static void add_arguments(const ft_chat *chat, common_chat_templates_inputs *in)
{
    if (chat->template_args) {
        const common_json args = common_json::parse(chat->template_args);
        for (const auto &[name, value] : args.items()) {
            in->chat_template_kwargs[name] = value.dump();
            if (name == "enable_thinking" && value.is_boolean())
                in->enable_thinking = value.get<bool>();
        }
    }
    if (chat->reasoning_effort)
        in->chat_template_kwargs["reasoning_effort"] = common_json(chat->reasoning_effort).dump();
}

static common_chat_templates_inputs inputs_of(const ft_chat *chat)
{
    common_chat_templates_inputs in;
    for (size_t i = 0; i < chat->n_messages; i++)
        in.messages.push_back(message_of(chat->messages[i]));
    for (size_t i = 0; i < chat->n_tools; i++) {
        const ft_chat_tool &t = chat->tools[i];
        in.tools.push_back({t.name, text_of(t.description), t.parameters ? t.parameters : "{}"});
    }
    if (chat->choice == FT_CHAT_CHOICE_NONE)
        in.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
    if (chat->choice == FT_CHAT_CHOICE_REQUIRED)
        in.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    in.parallel_tool_calls = chat->parallel_calls;
    in.reasoning_format =
        chat->reasoning_apart ? COMMON_REASONING_FORMAT_DEEPSEEK : COMMON_REASONING_FORMAT_NONE;
    in.force_pure_content = is_plain(chat);
    add_arguments(chat, &in);
    return in;
}

ft_status ft_common_render(const ft_common *common, const ft_chat *chat, ft_error *err, ft_buf *out)
{
    return on_deep_stack(err, [&] {
        const auto params = common_chat_templates_apply(common->templates.get(), inputs_of(chat));
        if (ft_buf_append(out, params.prompt.data(), params.prompt.size()) != FT_OK)
            throw std::bad_alloc();
    });
}

/* ---- what the model says ---- */

ft_status ft_common_parser_create(const ft_common *common, const ft_chat *chat, ft_error *err,
                                  ft_common_parser **out)
{
    *out = nullptr;
    return on_deep_stack(err, [&] {
        ft_chat callable = *chat;
        if (chat->choice_tool) {
            callable.tools = chat->choice_tool;
            callable.n_tools = 1;
        }
        const auto inputs = inputs_of(&callable);
        const auto params = common_chat_templates_apply(common->templates.get(), inputs);
        auto parser = std::make_unique<ft_common_parser>();
        parser->params = common_chat_parser_params(params);
        parser->params.reasoning_format = inputs.reasoning_format;
        if (!params.parser.empty())
            parser->params.parser.load(params.parser);
        parser->marks = params.preserved_tokens;
        *out = parser.release();
    });
}

void ft_common_parser_destroy(ft_common_parser *parser)
{
    delete parser;
}

const char *ft_common_parser_mark(const ft_common_parser *parser, size_t i)
{
    return i < parser->marks.size() ? parser->marks[i].c_str() : nullptr;
}

/* The parser calls itself for each level of JSON. */
static bool too_deep(const char *text, size_t n)
{
    size_t depth = 0;
    for (size_t i = 0; i < n && depth <= PARSE_DEPTH_MAX; i++) {
        if (text[i] == '[' || text[i] == '{')
            depth++;
        else if ((text[i] == ']' || text[i] == '}') && depth > 0)
            depth--;
    }
    return depth > PARSE_DEPTH_MAX;
}

ft_status ft_common_parse(ft_common_parser *parser, const char *text, size_t n, bool partial,
                          ft_common_said *out)
{
    *out = {};
    if (too_deep(text, n))
        return FT_INVALID;
    return guarded(nullptr, [&] {
        parser->said = common_chat_parse(std::string(text, n), partial, parser->params);
        const common_chat_msg &m = parser->said;
        *out = {m.content.data(), m.reasoning_content.data(), m.content.size(),
                m.reasoning_content.size(), m.tool_calls.size()};
    });
}

ft_chat_call ft_common_said_call(const ft_common_parser *parser, size_t i)
{
    const common_chat_tool_call &call = parser->said.tool_calls[i];
    return {call.id.c_str(), call.name.c_str(), call.arguments.c_str()};
}
