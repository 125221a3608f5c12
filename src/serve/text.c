// SPDX-License-Identifier: Apache-2.0
// Texts that grow. Invariant: n_prompt <= len <= room <= max_len. The engine thread owns them. This
// file knows no rounds.
#include "serve/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_sess_text_reserve(ft_sess_text *text, uint64_t n_tok)
{
    uint64_t room = text->room ? text->room : FT_TEXT_ROOM;
    if (n_tok > text->max_len)
        n_tok = text->max_len;
    if (n_tok <= text->room)
        return FT_OK;
    while (room < n_tok)
        room *= 2;
    if (room > text->max_len)
        room = text->max_len;
    int32_t *token = realloc(text->token, room * sizeof *token);
    if (!token)
        return FT_NOMEM;
    text->token = token;
    text->room = (uint32_t)room;
    return FT_OK;
}

ft_status ft_sess_text_init(ft_sess_text *text, const int32_t *prompt, uint32_t n_prompt,
                            uint32_t max_len)
{
    assert(n_prompt > 0 && n_prompt <= max_len);
    *text = (ft_sess_text){.len = n_prompt, .n_prompt = n_prompt, .max_len = max_len};
    if (ft_sess_text_reserve(text, n_prompt) != FT_OK)
        return FT_NOMEM;
    memcpy(text->token, prompt, n_prompt * sizeof *prompt);
    return FT_OK;
}

void ft_sess_text_deinit(ft_sess_text *text)
{
    free(text->token);
    text->token = NULL;
}

bool ft_sess_text_append(ft_sess_text *text, int32_t token, bool end)
{
    assert(text->len < text->room && text->finish == FT_FINISH_NONE);
    text->token[text->len++] = token;
    if (end)
        text->finish = FT_FINISH_STOP;
    else if (text->len == text->max_len)
        text->finish = FT_FINISH_LENGTH;
    return text->finish != FT_FINISH_NONE;
}
