// SPDX-License-Identifier: Apache-2.0
// Chats: the words come from a file, the answers from the target. The first prompts of two chats
// differ, so that no chat finds another one's KV.
#include "bench/load_chats.h"

#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/chat_prefix.h"

/* What the user of chat i says in a turn. */
static const char *words_of(const ft_bench_load_chats *c, size_t i, uint32_t turn)
{
    return c->words.items[(i + (size_t)turn * c->n) % c->words.n].text;
}

void ft_bench_load_chats_deinit(ft_bench_load_chats *chats)
{
    for (uint32_t i = 0; i < chats->n && chats->chats; i++) {
        ft_bench_load_chat *c = &chats->chats[i];
        for (uint32_t k = 0; k < c->n_turns; k++) {
            ft_tokens_deinit(&c->turns[k].tokens);
            ft_tokens_deinit(&c->turns[k].text);
        }
        free(c->turns);
    }
    free(chats->chats);
    ft_template_destroy(chats->template);
    ft_bench_prompts_deinit(&chats->words);
    *chats = (ft_bench_load_chats){0};
}

static ft_status make(ft_bench_load_chats *chats, const ft_bench_load_chats_opts *o, ft_error *err)
{
    ft_rng rng;
    ft_rng_init(&rng, o->seed);
    chats->chats = calloc(o->n, sizeof *chats->chats);
    if (!chats->chats)
        return ft_error_set(err, FT_NOMEM, "out of memory for chats");
    for (; chats->n < o->n; chats->n++) {
        ft_bench_load_chat *c = &chats->chats[chats->n];
        const ft_chat_message first = {.role = "user",
                                       .content = chats->words.items[chats->n].text};
        const uint32_t n_turns = 1 + ft_rng_below(&rng, 2 * o->turns - 1);
        c->turns = calloc(n_turns, sizeof *c->turns);
        if (!c->turns)
            return ft_error_set(err, FT_NOMEM, "out of memory for chats");
        c->n_turns = n_turns;
        c->prefix = ft_chat_prefix_of(&first, 1);
    }
    return FT_OK;
}

ft_status ft_bench_load_chats_read(const ft_bench_load_chats_opts *o, ft_error *err,
                                   ft_bench_load_chats *out)
{
    *out = (ft_bench_load_chats){.vocab = o->vocab};
    ft_status status = ft_bench_prompts_load(o->path, 0, err, &out->words);
    if (status == FT_OK && out->words.n < o->n)
        status = ft_error_set(err, FT_INVALID, "%s: %zu prompts are too few for %u chats", o->path,
                              out->words.n, o->n);
    if (status == FT_OK)
        status = ft_template_create(o->vocab, NULL, err, &out->template);
    if (status == FT_OK)
        status = make(out, o, err);
    if (status != FT_OK)
        ft_bench_load_chats_deinit(out);
    return status;
}

ft_bench_load_chats_shape ft_bench_load_chats_shape_of(const ft_bench_load_chats *chats)
{
    ft_bench_load_chats_shape s = {0};
    double n = 0, later = 0;
    for (uint32_t i = 0; i < chats->n; i++) {
        const ft_bench_load_prompt *turns = chats->chats[i].turns;
        s.first += (double)turns[0].tokens.n / chats->n;
        for (uint32_t k = 0; k < chats->chats[i].n_turns; k++) {
            n++;
            s.text += (double)turns[k].text.n;
            if (k == 0)
                continue;
            later++;
            s.more += (double)turns[k].tokens.n - (double)turns[k - 1].tokens.n -
                      (double)turns[k - 1].text.n;
        }
    }
    s.text = n > 0 ? s.text / n : 0;
    s.more = later > 0 ? s.more / later : 0;
    return s;
}

/* ---- a user ---- */

void ft_bench_load_user_begin(ft_bench_load_user *user, uint32_t i, bool midway)
{
    user->chat = &user->chats->chats[i];
    user->turn = midway ? ft_rng_below(&user->rng, user->chat->n_turns) : 0;
}

static ft_status answer_of(const ft_bench_load_chats *c, const ft_tokens *text, ft_buf *out)
{
    ft_status status = FT_OK;
    for (size_t i = 0; i < text->n && status == FT_OK; i++)
        status = ft_vocab_piece(c->vocab, text->id[i], false, out);
    return status;
}

static ft_status render(const ft_bench_load_user *user, ft_error *err, ft_tokens *out)
{
    const ft_bench_load_chats *c = user->chats;
    const size_t n = 2 * (size_t)user->turn + 1;
    ft_chat_message *messages = calloc(n, sizeof *messages);
    ft_buf *answers = calloc(user->turn + 1, sizeof *answers);
    ft_status status = messages && answers ? FT_OK : FT_NOMEM;
    for (uint32_t k = 0; k <= user->turn && status == FT_OK; k++) {
        const size_t i = (size_t)(user->chat - c->chats);
        messages[2 * k] = (ft_chat_message){.role = "user", .content = words_of(c, i, k)};
        if (k == user->turn)
            break;
        status = answer_of(c, &user->chat->turns[k].text, &answers[k]);
        messages[2 * k + 1] =
            (ft_chat_message){.role = "assistant", .content = ft_buf_str(&answers[k])};
    }
    status = status == FT_OK ? ft_template_chat(c->template, messages, n, NULL, err, out)
                             : ft_error_set(err, FT_NOMEM, "out of memory for a chat");
    for (uint32_t k = 0; answers && k <= user->turn; k++)
        ft_buf_deinit(&answers[k]);
    free(answers);
    free(messages);
    return status;
}

ft_status ft_bench_load_user_prompt(ft_bench_load_user *user, ft_error *err,
                                    ft_bench_load_prompt **out)
{
    ft_bench_load_prompt *prompt = &user->chat->turns[user->turn];
    *out = prompt;
    return prompt->tokens.n > 0 ? FT_OK : render(user, err, &prompt->tokens);
}

uint32_t ft_bench_load_user_before(const ft_bench_load_user *user)
{
    const ft_bench_load_prompt *turns = user->chat->turns;
    return user->turn == 0
               ? 0
               : (uint32_t)(turns[user->turn - 1].tokens.n + turns[user->turn - 1].text.n);
}

void ft_bench_load_user_next(ft_bench_load_user *user)
{
    if (++user->turn == user->chat->n_turns)
        user->chat = NULL;
}

int64_t ft_bench_load_user_think_us(ft_bench_load_user *user, double mean_s)
{
    return (int64_t)(-log(ft_rng_unit(&user->rng)) * mean_s * 1e6);
}
