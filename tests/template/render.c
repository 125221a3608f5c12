// SPDX-License-Identifier: Apache-2.0
// For tools/check-templates: the prompts that a chat template makes of requests, by the same code
// as in an edge. A vocabulary with bytes and the special tokens that are named turns them into
// tokens; what these spell is the prompt. Each line of the input is the body of a request for
// /v1/chat/completions; the answer is a line {"prompt": text} or {"refused": message}.
//   template_render FILE [SPECIAL...]
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "http/request.h"
#include "support/tiny_gguf.h"
#include "template/template.h"

#define SOURCE_MAX ((size_t)1 << 20)
#define N_VOCAB    2000

static ft_vocab *load(const char *const *control)
{
    const tiny_gguf_opts opts = {.n_vocab = N_VOCAB, .control = control};
    char *path = tiny_gguf_temp(&opts);
    ft_error err = {0};
    ft_vocab *vocab = NULL;
    tiny_quiet();
    if (ft_vocab_load(path, &err, &vocab) != FT_OK)
        fprintf(stderr, "%s\n", err.message);
    unlink(path);
    free(path);
    return vocab;
}

static ft_template *make(const ft_vocab *vocab, const char *path)
{
    char *source;
    size_t n;
    ft_error err = {0};
    ft_template *t = NULL;
    ft_status status = ft_file_read(path, SOURCE_MAX, &err, &source, &n);
    if (status == FT_OK) {
        status = ft_template_create(vocab, source, &err, &t);
        free(source);
    }
    if (status != FT_OK)
        fprintf(stderr, "%s: %s\n", path, err.message);
    return t;
}

static ft_status spell(const ft_vocab *vocab, const ft_tokens *tokens, ft_buf *out)
{
    ft_status status = FT_OK;
    for (size_t i = 0; status == FT_OK && i < tokens->n; i++)
        status = ft_vocab_piece(vocab, tokens->id[i], true, out);
    return status;
}

static json_t *refusal(const char *why)
{
    return json_pack("{s:s}", "refused", why);
}

static json_t *answer(const ft_vocab *vocab, const ft_template *t, const char *line, size_t n)
{
    const ft_http_model model = {.id = "m", .text_bytes = 64 << 20, .n_vocab = N_VOCAB};
    ft_http_parsed parsed;
    ft_http_fail fail;
    ft_template_prompt prompt;
    ft_error err = {0};
    ft_buf text = {0};
    if (ft_http_parse(line, n, true, &model, &fail, &parsed) != FT_OK)
        return refusal(fail.message);
    ft_chat chat = parsed.request.conversation;
    chat.reasoning_apart = true;
    ft_status status = ft_template_apply(t, &chat, NULL, &err, &prompt);
    if (status == FT_OK)
        status = spell(vocab, &prompt.tokens, &text);
    json_t *said = status == FT_OK
                       ? json_pack("{s:o}", "prompt", json_stringn(ft_buf_str(&text), text.len))
                       : refusal(err.message);
    ft_template_prompt_deinit(&prompt);
    ft_http_parsed_deinit(&parsed);
    ft_buf_deinit(&text);
    return said;
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    if (argc < 2)
        return fprintf(stderr, "usage: template_render FILE [SPECIAL...]\n"), 2;
    ft_vocab *vocab = load((const char *const *)argv + 2);
    ft_template *t = vocab ? make(vocab, argv[1]) : NULL;
    while (t && (n = getline(&line, &room, stdin)) > 0) {
        json_t *said = answer(vocab, t, line, (size_t)n);
        char *text = json_dumps(said, JSON_COMPACT);
        puts(text ? text : "{\"refused\":\"the prompt is no UTF-8\"}");
        free(text);
        json_decref(said);
    }
    free(line);
    const int status = t ? 0 : 1;
    ft_template_destroy(t);
    ft_vocab_destroy(vocab);
    return status;
}
