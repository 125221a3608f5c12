// SPDX-License-Identifier: Apache-2.0
// Calls llama.cpp's `common`, and catches what it throws. It is C++ for this alone. Plain
// conversations are rendered by the template as it is written. With tools or thoughts, `common`
// also changes messages as a family of models needs it.
//
// Nothing in `common` stops a program. But it evaluates every node of a program by one function,
// which its library exports; ours has the same name, and the linker takes ours. So each node counts
// and looks at the limits here, on the thread that runs the program. What it throws ends the
// program, as raise_exception does: no thread is left behind.
#include "template/common.h"

#include <pthread.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "chat.h"
#include "log.h"

extern "C" {
#include "base/thread.h"
}

struct ft_common {
    common_chat_templates_ptr templates;
    bool has_tools, limited;
};

struct ft_common_parser {
    common_chat_parser_params params;
    std::vector<std::string> marks;
    common_chat_msg said;
};

/* ---- limits of a run ---- */

/* Of a processor, for all programs that a call runs: 1 to 50 ms usually. With a quarter, long
 * conversations with many tools fail on slow machines. */
#ifdef __SANITIZE_ADDRESS__ /* where everything takes ten to fifty times as long */
#define RUN_US 6000000
#else
#define RUN_US 2000000
#endif
/* Of a processor, after which a call lets others go first: a usual one is over by then. */
#define BEHIND_AFTER_US 100000
/* Nodes between two looks at the clock: one takes 10 ms at most, usually less than 1 us. */
#define LOOK_NODES 16
/* Items of a loop, 10 us each before its first round, in which nothing is looked at; and numbers of
 * a range. A conversation has 4096 messages at most. */
#define LOOP_ITEMS 20000
/* Calls within calls, each 20 KB: of a macro that calls itself. */
#define CALLS_DEEP 1000
/* Strings and lists that nodes have as values, together. Most are shared, so that a program takes
 * less memory than this; conversations that fit into a context stay far below. */
#define VALUE_BYTES ((size_t)512 << 20)

/* The parser and the program call themselves for each level of the source. */
#define STACK_BYTES ((size_t)128 << 20)
/* What is left of it for functions that look at no limit. */
#define STACK_SPARE ((size_t)16 << 20)

/* A node whose value is looked at, as the next step of its parent would take it and look at
 * nothing: a loop its items, a search for a string that string. */
struct watch {
    const jinja::statement *node;
    bool items;
};

/* On the thread's stack while it runs programs. */
struct run_limits {
    const char *lowest = (const char *)__builtin_frame_address(0) - STACK_BYTES + STACK_SPARE;
    bool behind = false; /* this thread lets others go first */
    uint64_t nodes = 0;
    size_t bytes = 0;
    uint32_t calls = 0;
    watch watched = {};
    const char *why = nullptr; /* the limit that was reached; NULL: none */
};
static thread_local run_limits *running; /* NULL: no limits */

/* Once a limit is reached, every node ends: a caller may have caught what the first one threw. */
static void hold(bool within, const char *why)
{
    if (!within && !running->why)
        running->why = why;
    if (running->why)
        throw std::length_error(running->why);
}

static void hold_items(size_t n)
{
    hold(n <= LOOP_ITEMS, "a loop or a range has more than 20,000 items");
}

static void hold_bytes(size_t n)
{
    running->bytes += n;
    hold(running->bytes <= VALUE_BYTES, "it makes more than 512 MiB of text and lists");
}

/* `common` looks for the empty string again and again at the same place. */
static void hold_sought(const jinja::value &sought)
{
    hold(!jinja::is_val<jinja::value_string>(sought) || sought->val_str.length() > 0,
         "it splits or replaces at the empty string");
}

static bool seeks(const std::string &function)
{
    return function == "replace" || function == "split" || function == "rsplit";
}

static watch watch_of(const jinja::statement *node)
{
    if (const auto *loop = dynamic_cast<const jinja::for_statement *>(node)) {
        const auto *some = dynamic_cast<const jinja::select_expression *>(loop->iterable.get());
        return {some ? some->lhs.get() : loop->iterable.get(), true};
    }
    const auto *filter = dynamic_cast<const jinja::filter_expression *>(node);
    const auto *call =
        filter ? dynamic_cast<const jinja::call_expression *>(filter->filter.get()) : nullptr;
    const auto *name = call ? dynamic_cast<const jinja::identifier *>(call->callee.get()) : nullptr;
    return {name && seeks(name->val) && !call->args.empty() ? call->args[0].get() : nullptr, false};
}

static jinja::value limited_range(const jinja::func_handler &range, const jinja::func_args &args)
{
    int64_t at[] = {0, 0, 1};
    for (size_t i = 0; i < 3 && i < args.count(); i++)
        at[i] = args.get_pos(i)->as_int();
    const double first = args.count() == 1 ? 0 : (double)at[0];
    const double last = (double)(args.count() == 1 ? at[0] : at[1]);
    const double n = at[2] == 0 ? 0 : (last - first) / (double)at[2];
    hold_items(n > LOOP_ITEMS ? LOOP_ITEMS + 1 : 0);
    hold_bytes(n > 0 ? (size_t)n * sizeof(jinja::value_int_t) : 0);
    return range(args);
}

/* A function of `common` that was just looked up. */
static void limit_function(jinja::value_func_t *function)
{
    const jinja::func_handler own = function->val_func;
    if (seeks(function->name))
        function->val_func = [own](const jinja::func_args &args) {
            if (args.count() > 1)
                hold_sought(args.get_pos(1));
            return own(args);
        };
    else if (function->name == "range")
        function->val_func = [own](const jinja::func_args &args) {
            return limited_range(own, args);
        };
}

/* Of a node. mine: what its parent watches. */
static void look_at(const jinja::statement *node, const watch &mine, jinja::value &value)
{
    const bool is_new = value.use_count() == 1;
    if (mine.node == node && mine.items)
        hold_items(std::max(value->val_arr.size(), value->val_obj.size()));
    else if (mine.node == node)
        hold_sought(value);
    if (jinja::is_val<jinja::value_string>(value))
        hold_bytes(value->val_str.length());
    else if (is_new && !value->val_arr.empty())
        hold_bytes(value->val_arr.size() * sizeof value);
    else if (is_new && jinja::is_val<jinja::value_func>(value))
        limit_function(jinja::cast_val<jinja::value_func>(value));
}

/* The node runs: its parent's watch comes back behind it. */
class stepping
{
  public:
    const watch mine = running->watched;

    explicit stepping(const jinja::statement *node)
        : is_call(dynamic_cast<const jinja::call_expression *>(node) != nullptr)
    {
        running->calls += is_call;
        running->watched = watch_of(node);
    }
    ~stepping()
    {
        running->calls -= is_call;
        running->watched = mine;
    }

  private:
    const bool is_call;
};

/* The thread is this call's own, so its clock began with it. */
static void look_at_clock()
{
    const int64_t spent = ft_thread_cpu_us();
    if (!running->behind && spent >= BEHIND_AFTER_US) {
        ft_thread_lower_priority(FT_THREAD_LAST);
        running->behind = true;
    }
    hold(spent < RUN_US, "it ran for 2 s and had no end");
}

/* In place of the library's. */
jinja::value jinja::statement::execute(jinja::context &ctx) const
{
    if (!running)
        return execute_impl(ctx);
    const stepping step(this);
    if (running->nodes++ % LOOK_NODES == 0)
        look_at_clock();
    hold((const char *)__builtin_frame_address(0) > running->lowest && running->calls <= CALLS_DEEP,
         "its calls are nested more than 1,000 deep");
    jinja::value value = execute_impl(ctx);
    look_at(this, step.mine, value);
    return value;
}

/* What a call has made is good: `common` has not gone on beyond a limit. */
static void hold_all()
{
    hold(true, nullptr);
}

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

/* Levels of brackets in what a model says; each takes some kilobytes of an ordinary stack. */
#define PARSE_DEPTH_MAX 200

template <class F> struct deep_call {
    F *call;
    ft_error *err;
    ft_status status;
    int64_t cpu_us;
};

template <class F> static void *run_deep(void *arg)
{
    auto *d = static_cast<deep_call<F> *>(arg);
    run_limits limits;
    ft_thread_lower_priority(FT_THREAD_LARGE);
    running = &limits;
    d->status = guarded(d->err, *d->call);
    running = nullptr;
    d->cpu_us = ft_thread_cpu_us();
    if (d->status == FT_INVALID && limits.why)
        ft_error_set(d->err, FT_INVALID, "the model's chat template: %s", limits.why);
    return nullptr;
}

/* Calls it on a large stack, of which only what it uses takes memory. */
template <class F> static ft_status on_deep_stack(ft_error *err, F &&call) noexcept
{
    using callable = std::remove_reference_t<F>;
    pthread_attr_t attr;
    pthread_t thread;
    deep_call<callable> d = {&call, err, FT_NOMEM, 0};
    if (pthread_attr_init(&attr) != 0)
        return ft_error_set(err, FT_NOMEM, "chat template: out of memory");
    const bool started = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 &&
                         pthread_create(&thread, &attr, run_deep<callable>, &d) == 0;
    if (started)
        pthread_join(thread, nullptr);
    ft_thread_add_cpu_us(d.cpu_us);
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
        common->limited = running->nodes > 0;
        hold_all();
        *out = common.release();
    });
}

bool ft_common_has_tools(const ft_common *common)
{
    return common->has_tools;
}

bool ft_common_is_limited(const ft_common *common)
{
    return common->limited;
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
        hold_all();
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
        hold_all();
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
