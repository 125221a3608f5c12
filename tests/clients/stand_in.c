// SPDX-License-Identifier: Apache-2.0
// A model that is none, behind the real HTTP room: for agents that choose tools by themselves and
// send longer prompts than a demo model holds. To a request with the tool TOOL it answers with a
// call of it; to a result, with what the result says; to all others, with a text.
//   stand_in TOOL ARGUMENTS PORT_FILE      until SIGTERM
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/openai.h"

#define CONTEXT 200000

typedef struct stand_in {
    const char *tool, *arguments;
} stand_in;

static ft_status model(void *ctx, ft_error *err, ft_http_model *out)
{
    *out = (ft_http_model){
        .id = "stand-in", .context_tok = CONTEXT, .n_vocab = 9, .text_bytes = 16 << 20};
    return FT_OK;
}

/* ---- the reader of a call: the whole text is its arguments ---- */

typedef struct call_reader {
    const stand_in *who;
    ft_chat_part parts[2];
} call_reader;

static ft_status read_call(void *ctx, const char *text, size_t n, bool last,
                           const ft_chat_part **parts, size_t *n_parts)
{
    call_reader *r = ctx;
    const char *tool = r->who->tool;
    r->parts[0] = (ft_chat_part){.kind = FT_CHAT_PART_CALL, .text = tool, .n = strlen(tool)};
    r->parts[1] = (ft_chat_part){.kind = FT_CHAT_PART_ARGUMENTS, .text = text, .n = n};
    *parts = r->parts;
    *n_parts = n > 0 ? 2 : 0;
    return FT_OK;
}

/* ---- answers ---- */

static ft_status say(const ft_gen_sink *sink, const char *text)
{
    return sink->on_text(sink->ctx, text, strlen(text), NULL, 0) ? FT_OK : FT_CANCELLED;
}

static ft_status call(const stand_in *who, const ft_gen_sink *sink)
{
    call_reader *r = calloc(1, sizeof *r);
    if (!r)
        return FT_NOMEM;
    r->who = who;
    const ft_chat_reader reader = {.ctx = r, .read = read_call, .destroy = free};
    sink->on_reader(sink->ctx, &reader);
    return say(sink, who->arguments);
}

static bool has_tool(const ft_chat *chat, const char *name)
{
    for (size_t i = 0; i < chat->n_tools; i++)
        if (strcmp(chat->tools[i].name, name) == 0)
            return true;
    return false;
}

static ft_status generate(void *ctx, const ft_http_request *q, const ft_gen_sink *sink,
                          ft_error *err, ft_http_result *result)
{
    const stand_in *who = ctx;
    const ft_chat *chat = &q->conversation;
    for (size_t i = 0; i < chat->n_tools; i++) /* for who adds an agent */
        fprintf(stderr, "%s%s", i > 0 ? " " : "tools: ", chat->tools[i].name);
    fprintf(stderr, "\n");
    const ft_chat_message *last = &chat->messages[chat->n_messages - 1];
    char text[600];
    *result = (ft_http_result){.prompt_tokens = 9, .completion_tokens = 9};
    if (strcmp(last->role, "tool") == 0) {
        snprintf(text, sizeof text, "The tool says: %.500s", last->content ? last->content : "");
        return say(sink, text);
    }
    return has_tool(chat, who->tool) ? call(who, sink) : say(sink, "A title");
}

static ft_status tokenize(void *ctx, const ft_http_request *q, bool bos, ft_error *err,
                          int32_t **tokens, size_t *n)
{
    *n = 1;
    *tokens = calloc(1, sizeof **tokens);
    return *tokens ? FT_OK : FT_NOMEM;
}

static ft_status token_text(void *ctx, int32_t token, ft_buf *out)
{
    return ft_buf_puts(out, "x");
}

static ft_status health(void *ctx, ft_error *err)
{
    return FT_OK;
}

int main(int argc, char **argv)
{
    ft_http *http;
    ft_error err = {0};
    sigset_t end;
    int signal_number;
    if (argc != 4)
        return fprintf(stderr, "usage: stand_in TOOL ARGUMENTS PORT_FILE\n"), 2;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    stand_in who = {argv[1], argv[2]};
    const ft_http_opts opts = {.backend = {.ctx = &who,
                                           .model = model,
                                           .generate = generate,
                                           .tokenize = tokenize,
                                           .token_text = token_text,
                                           .health = health},
                               .refusal_ms = 1};
    if (ft_http_create(&opts, &err, &http) != FT_OK)
        return fprintf(stderr, "stand_in: %s\n", err.message), 1;
    FILE *f = fopen(argv[3], "w");
    if (!f || fprintf(f, "%d\n", ft_http_port(http)) < 0 || fclose(f) != 0)
        return perror(argv[3]), 1;
    sigwait(&end, &signal_number);
    ft_http_destroy(http);
    return 0;
}
