// SPDX-License-Identifier: Apache-2.0
// Fields that are accepted only with a value that changes nothing: OpenAI's own, and those of other
// servers with this API (llama.cpp, vLLM), whose clients would otherwise get another text than they
// asked for without a word. null means absent.
#include "http/unsupported.h"

#include <string.h>

#define EMPTY   "[[],{},\"\"]"
#define NO_TOOL "[\"none\",\"auto\"]" /* there are no tools to choose from */
#define NULL_   "[]"                  /* only null */
#define ZERO    "[0,0.0]"
#define ONE     "[1,1.0]"
static const ft_http_restricted restricted[] = {
    /* OpenAI */
    {"best_of", "[1]", "1"},
    {"echo", "[false]", "false"},
    {"suffix", EMPTY, "an empty string"},
    {"functions", EMPTY, "an empty list"},
    {"function_call", NO_TOOL, "\"none\""},
    {"modalities", "[[\"text\"]]", "[\"text\"]"},
    {"audio", EMPTY, "null"},
    {"web_search_options", EMPTY, "null"},
    {"verbosity", "[\"medium\"]", "\"medium\""},
    /* grammars by older names, and templates */
    {"guided_*", NULL_, "null"},
    {"chat_template", NULL_, "null"},
    {"add_generation_prompt", "[true]", "true"},
    {"continue_final_message", "[false]", "false"},
    {"documents", EMPTY, "an empty list"},
    /* other sampling */
    {"repeat_penalty", ONE, "1"},
    {"min_tokens", "[0]", "0"},
    {"ignore_eos", "[false]", "false"},
    {"typical_p", ONE, "1"},
    {"top_n_sigma", "[-1,-1.0,0,0.0]", "-1"},
    {"mirostat", "[0]", "0"},
    {"dynatemp_range", ZERO, "0"},
    {"xtc_probability", ZERO, "0"},
    {"dry_multiplier", ZERO, "0"},
    {"use_beam_search", "[false]", "false"},
    {"logits_processors", EMPTY, "null"},
    {"allowed_token_ids", NULL_, "null"},
    {"bad_words", EMPTY, "an empty list"},
    {"lora", EMPTY, "an empty list"},
    /* where the text ends and what is shown of it */
    {"n_predict", "[-1]", "-1: 'max_tokens' is its name here"},
    {"stop_token_ids", EMPTY, "an empty list"},
    {"include_stop_str_in_output", "[false]", "false"},
    {"truncate_prompt_tokens", NULL_, "null"},
    {"prompt_logprobs", NULL_, "null"},
    {"skip_special_tokens", "[true]", "true"},
};

/* FT_INVALID: it is none of them. */
static ft_status is_one_of(json_t *v, const char *list)
{
    json_t *values = json_loads(list, 0, NULL); /* of this file: only memory can be missing */
    bool found = false;
    if (!values)
        return FT_NOMEM;
    for (size_t i = 0; i < json_array_size(values) && !found; i++)
        found = json_equal(v, json_array_get(values, i));
    json_decref(values);
    return found ? FT_OK : FT_INVALID;
}

bool ft_http_is_empty(json_t *v)
{
    if (json_is_string(v))
        return json_string_length(v) == 0;
    return json_is_array(v) ? json_array_size(v) == 0
                            : json_is_object(v) && json_object_size(v) == 0;
}

static bool goes_by(const char *name, const char *pattern)
{
    const size_t n = strlen(pattern) - 1;
    return pattern[n] == '*' ? strncmp(name, pattern, n) == 0 : strcmp(name, pattern) == 0;
}

static ft_status check(const char *name, json_t *v, const ft_http_restricted *r, ft_http_fail *fail)
{
    if (json_is_null(v) || !goes_by(name, r->name))
        return FT_OK;
    const ft_status status = is_one_of(v, r->harmless);
    if (status == FT_NOMEM)
        ft_http_fail_from(fail, status, NULL);
    if (status != FT_INVALID)
        return status;
    return ft_http_fail_set(fail, 400, "unsupported_parameter", name,
                            "'%.64s' is unsupported by this server: leave it out (only %s is "
                            "accepted).",
                            name, r->only);
}

ft_status ft_http_refuse_restricted(json_t *root, const ft_http_restricted *list, size_t n,
                                    ft_http_fail *fail)
{
    const char *name;
    json_t *v;
    json_object_foreach(root, name, v)
    {
        for (size_t i = 0; i < n; i++) {
            const ft_status status = check(name, v, &list[i], fail);
            if (status != FT_OK)
                return status;
        }
    }
    return FT_OK;
}

ft_status ft_http_refuse_unsupported(json_t *root, ft_http_fail *fail)
{
    return ft_http_refuse_restricted(root, restricted, sizeof restricted / sizeof *restricted,
                                     fail);
}
