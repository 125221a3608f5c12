// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back. `content` is llama.cpp's name of the text, which gets no BOS unless
// add_special says so; `prompt` is vLLM's, which gets it. Answers have the members of both. No
// state, any thread.
#include "http/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "http/json.h"
#include "http/unsupported.h"

static ft_status check_model(json_t *root, const ft_http_model *model, ft_http_fail *fail)
{
    json_t *v = json_object_get(root, "model");
    if (!v || json_is_null(v))
        return FT_OK;
    if (!json_is_string(v))
        return ft_http_fail_set(fail, 400, "invalid_type", "model", "'model' must be a string.");
    return ft_http_model_find(model, json_string_value(v))
               ? FT_OK
               : ft_http_fail_model(fail, json_string_value(v), model->id);
}

static ft_status refuse(json_t *root, const char *name, ft_http_fail *fail)
{
    json_t *v = json_object_get(root, name);
    if (!v || json_is_null(v) || json_is_false(v))
        return FT_OK;
    return ft_http_fail_set(fail, 400, "unsupported_parameter", name,
                            "'%s' is unsupported by this server: leave it out.", name);
}

static ft_status read_switch(json_t *root, const char *name, ft_http_fail *fail, bool *out)
{
    json_t *v = json_object_get(root, name);
    if (!v || json_is_null(v))
        return FT_OK;
    *out = json_is_true(v);
    return json_is_boolean(v) ? FT_OK
                              : ft_http_fail_set(fail, 400, "invalid_type", name,
                                                 "'%s' must be true or false.", name);
}

static ft_status read_text(ft_http_tokenize *t, const ft_http_model *model, ft_http_fail *fail)
{
    json_t *content = json_object_get(t->root, "content"),
           *prompt = json_object_get(t->root, "prompt"), *text = content ? content : prompt;
    const char *name = content ? "content" : "prompt";
    if (!json_is_string(text) || (content && prompt))
        return ft_http_fail_set(fail, 400, "invalid_type", name,
                                "Give one text, as a string: 'content', 'prompt' or 'messages'.");
    if (json_string_length(text) > model->text_bytes)
        return ft_http_fail_set(fail, 400, "context_length_exceeded", name,
                                "The text has %zu bytes, and the model's context holds %zu at "
                                "most.",
                                json_string_length(text), model->text_bytes);
    t->request = (ft_http_request){.prompt = json_string_value(text)};
    t->bos = !content;
    return read_switch(t->root, content ? "add_special" : "add_special_tokens", fail, &t->bos);
}

ft_status ft_http_tokenize_parse(const char *body, size_t n, const ft_http_model *model,
                                 ft_http_fail *fail, ft_http_tokenize *out)
{
    ft_status status;
    *out = (ft_http_tokenize){0};
    *fail = (ft_http_fail){0};
    if ((status = ft_http_body_read(body, n, "prompt", model->text_bytes, fail, &out->root)) !=
            FT_OK ||
        (status = check_model(out->root, model, fail)) != FT_OK ||
        (status = ft_http_refuse_unsupported(out->root, fail)) != FT_OK ||
        (status = refuse(out->root, "parse_special", fail)) != FT_OK ||
        (status = refuse(out->root, "with_pieces", fail)) != FT_OK ||
        (status = refuse(out->root, "return_token_strs", fail)) != FT_OK)
        goto out;
    if (!json_object_get(out->root, "messages")) {
        status = read_text(out, model, fail);
    } else {
        status = ft_http_parse(body, n, true, model, fail, &out->parsed);
        out->request = out->parsed.request;
    }
out:
    if (status != FT_OK)
        ft_http_tokenize_deinit(out);
    return status;
}

void ft_http_tokenize_deinit(ft_http_tokenize *t)
{
    ft_http_parsed_deinit(&t->parsed);
    json_decref(t->root);
    *t = (ft_http_tokenize){0};
}

/* The answer; NULL: out of memory. */
static json_t *json_tokens(const ft_http_model *model, const int32_t *token, size_t n)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < n; i++)
        failed |= json_array_append_new(list, json_integer(token[i]));
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return json_pack("{s:I,s:I,s:o}", "count", (json_int_t)n, "max_model_len",
                     (json_int_t)model->context_tok, "tokens", list);
}

ft_status ft_http_tokenize_answer(const ft_http_backend *backend, const ft_http_model *model,
                                  const char *body, size_t n, ft_http_fail *fail, json_t **out)
{
    ft_http_tokenize t;
    ft_error err = {0};
    int32_t *token = NULL;
    size_t n_tokens = 0;
    *out = NULL;
    if (ft_http_tokenize_parse(body, n, model, fail, &t) != FT_OK)
        return FT_INVALID;
    const ft_status status =
        backend->tokenize(backend->ctx, &t.request, t.bos, &err, &token, &n_tokens);
    if (status == FT_OK)
        *out = json_tokens(model, token, n_tokens);
    if (!*out)
        ft_http_fail_from(fail, status == FT_OK ? FT_NOMEM : status, &err);
    free(token);
    ft_http_tokenize_deinit(&t);
    return *out ? FT_OK : FT_INVALID;
}

static ft_status append_tokens(const ft_http_backend *backend, const ft_http_model *model,
                               json_t *list, ft_http_fail *fail, ft_buf *text)
{
    if (!json_is_array(list))
        return ft_http_fail_set(fail, 400, "invalid_type", "tokens",
                                "'tokens' must be a list of token ids.");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *v = json_array_get(list, i);
        const json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id >= (json_int_t)model->n_vocab)
            return ft_http_fail_set(fail, 400, "invalid_value", "tokens",
                                    "'tokens' must be made of ids below %u, those of this model's "
                                    "vocabulary.",
                                    model->n_vocab);
        if (text->len > model->text_bytes)
            return ft_http_fail_set(fail, 400, "context_length_exceeded", "tokens",
                                    "The text has more than %zu bytes, those of the model's "
                                    "context.",
                                    model->text_bytes);
        if (backend->token_text(backend->ctx, (int32_t)id, text) != FT_OK) {
            ft_http_fail_from(fail, FT_NOMEM, NULL);
            return FT_INVALID;
        }
    }
    return FT_OK;
}

ft_status ft_http_detokenize_answer(const ft_http_backend *backend, const ft_http_model *model,
                                    const char *body, size_t n, ft_http_fail *fail, json_t **out)
{
    json_t *root = NULL;
    ft_buf text = {0};
    *out = NULL;
    *fail = (ft_http_fail){0};
    ft_status status = ft_http_body_read(body, n, "tokens", model->text_bytes, fail, &root);
    if (status == FT_OK)
        status = check_model(root, model, fail);
    if (status == FT_OK)
        status = append_tokens(backend, model, json_object_get(root, "tokens"), fail, &text);
    if (status == FT_OK) {
        json_t *all = ft_http_json_text(ft_buf_str(&text), text.len);
        *out = json_pack("{s:O,s:o}", "content", all, "prompt", all);
        if (!*out)
            ft_http_fail_from(fail, FT_NOMEM, NULL);
    }
    ft_buf_deinit(&text);
    json_decref(root);
    return *out ? FT_OK : FT_INVALID;
}

json_t *ft_http_props(const ft_http_model *model)
{
    const char *template = model->chat_template ? model->chat_template : "";
    json_t *text = ft_http_json_text(template, strlen(template));
    return json_pack("{s:{s:I},s:s,s:o,s:{s:b,s:b},s:s}", "default_generation_settings", "n_ctx",
                     (json_int_t)model->context_tok, "model_alias", model->id, "chat_template",
                     text, "modalities", "vision", 0, "audio", 0, "build_info",
                     "foretoken " FT_VERSION);
}
