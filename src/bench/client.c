// SPDX-License-Identifier: Apache-2.0
// The client of the measurements on a verifier. Its drafts are tokens that the target hardly ever
// says, so a round brings one token: this measures the server, not a drafter.
#include "bench/client.h"

#include <stdlib.h>
#include <string.h>

static int32_t any_token(ft_bench_client *c)
{
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((c->seed >> 33) % c->n_vocab);
}

ft_status ft_bench_client_init(ft_bench_client *c, uint64_t seed, uint32_t n_vocab, uint32_t n,
                               uint32_t more, ft_error *err)
{
    memset(c, 0, sizeof *c);
    c->seed = seed * 7919 + 1;
    c->n_vocab = n_vocab;
    c->cap = n + more;
    c->text = malloc(c->cap * sizeof *c->text);
    if (!c->text)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    ft_bench_client_append(c, n);
    return FT_OK;
}

void ft_bench_client_deinit(ft_bench_client *c)
{
    ft_bench_client_close(c);
    free(c->text);
    c->text = NULL;
}

void ft_bench_client_append(ft_bench_client *c, uint32_t n)
{
    while (n-- > 0 && c->n < c->cap)
        c->text[c->n++] = any_token(c);
}

ft_status ft_bench_client_open(ft_bench_client *c, ft_verifier *verifier, ft_error *err)
{
    ft_link_source source = ft_local_link_source(verifier);
    ft_client_msg msg = {.kind = FT_CLIENT_OPEN,
                         .open = {.protocol = FT_PROTOCOL,
                                  .sampling = {.top_p = 1},
                                  .n_prompt = c->n,
                                  .prompt = c->text,
                                  .max_tokens = c->cap - c->n}};
    ft_status status = source.open(source.ctx, err, &c->link);
    c->finished = false;
    c->draft.round = 0;
    return status == FT_OK ? c->link->vt->send(c->link, &msg, err) : status;
}

static void apply(ft_bench_client *c, const ft_msg_verdict *v)
{
    for (uint32_t i = 0; i < v->n_path && c->n < c->cap; i++)
        c->text[c->n++] = c->draft.token[v->path[i]];
    for (uint32_t i = 0; i < v->n_next && c->n < c->cap; i++)
        c->text[c->n++] = v->next[i];
    c->finished = v->finish != FT_FINISH_NONE;
}

ft_status ft_bench_client_round(ft_bench_client *c, ft_error *err)
{
    c->draft.round++;
    c->draft.base = c->n;
    c->draft.n = FT_BENCH_CHAIN;
    for (uint32_t i = 0; i < FT_BENCH_CHAIN; i++) {
        c->draft.token[i] = any_token(c);
        c->draft.parent[i] = (int32_t)i - 1;
    }
    ft_client_msg *msg = malloc(sizeof *msg); /* holds a whole tree: too much for the stack */
    if (!msg)
        return ft_error_set(err, FT_NOMEM, "out of memory");
    msg->kind = FT_CLIENT_DRAFT;
    msg->draft = c->draft;
    ft_status status = c->link->vt->send(c->link, msg, err);
    free(msg);
    for (bool done = false; !done && status == FT_OK;) {
        ft_server_msg *answer = NULL;
        status = c->link->vt->recv(c->link, -1, err, &answer);
        if (status != FT_OK)
            break;
        if (answer->kind == FT_SERVER_OPENED)
            c->cached_tokens = answer->opened.cached_tokens;
        else
            apply(c, &answer->verdict);
        done = answer->kind == FT_SERVER_VERDICT;
        ft_server_msg_free(answer);
    }
    return status;
}

void ft_bench_client_close(ft_bench_client *c)
{
    const ft_client_msg msg = {.kind = FT_CLIENT_CLOSE};
    ft_error err;
    if (!c->link)
        return;
    ft_status status = c->link->vt->send(c->link, &msg, &err);
    while (status == FT_OK) { /* until recv fails: the session is gone then */
        ft_server_msg *answer = NULL;
        status = c->link->vt->recv(c->link, -1, &err, &answer);
        ft_server_msg_free(answer);
    }
    c->link->vt->destroy(c->link);
    c->link = NULL;
}
