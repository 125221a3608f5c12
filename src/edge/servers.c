// SPDX-License-Identifier: Apache-2.0
// Which of an edge's servers to try. Invariant: what is known of a server decides the order in
// which texts try it, never whether: a text that finds all others wanting tries it too. Does not
// open streams (stream.c).
#include "edge/servers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* How long new texts leave a server alone that failed and did not say for how long. Half of it
 * doubles what a dead server costs; with twice of it texts come back to a good one later. */
#define AWAY_US 10000000

void ft_servers_init(ft_servers *s, const ft_link_source *first, const ft_link_source *more,
                     uint32_t n_more, const ft_link_source *fallback)
{
    assert(n_more + (fallback != NULL) < FT_SERVERS_MAX);
    *s = (ft_servers){.n = 1 + n_more, .source[0] = *first, .has_fallback = fallback != NULL};
    for (uint32_t i = 0; i < n_more; i++)
        s->source[1 + i] = more[i];
    if (fallback)
        s->source[s->n++] = *fallback;
    pthread_mutex_init(&s->mutex, NULL);
}

void ft_servers_deinit(ft_servers *s)
{
    pthread_mutex_destroy(&s->mutex);
}

ft_server_set ft_servers_all(const ft_servers *s)
{
    return (1u << s->n) - 1;
}

bool ft_servers_several(const ft_servers *s)
{
    return s->n - s->has_fallback > 1;
}

ft_server_set ft_servers_fallback(const ft_servers *s)
{
    return s->has_fallback ? 1u << (s->n - 1) : 0;
}

bool ft_servers_is_fallback(const ft_servers *s, uint32_t server)
{
    return ft_servers_fallback(s) >> server & 1;
}

const char *ft_servers_name(const ft_servers *s, uint32_t server)
{
    return s->source[server].name ? s->source[server].name : "local";
}

uint32_t ft_servers_choose(ft_servers *s, ft_server_set not_these, int64_t now_us)
{
    uint32_t chosen = s->n;
    assert(ft_servers_all(s) & ~not_these);
    pthread_mutex_lock(&s->mutex);
    for (uint32_t i = 0; i < s->n && chosen == s->n; i++)
        if (!(not_these >> i & 1) && !(s->known[i].away && now_us < s->known[i].until_us))
            chosen = i;
    for (uint32_t i = 0; i < s->n && chosen == s->n; i++)
        if (!(not_these >> i & 1))
            chosen = i;
    if (s->known[chosen].away)
        s->known[chosen].until_us = now_us + AWAY_US;
    pthread_mutex_unlock(&s->mutex);
    return chosen;
}

/* It is there. Under the mutex. */
static void is_back(ft_servers *s, uint32_t server)
{
    s->known[server].away = false;
    if (!ft_servers_is_fallback(s, server))
        s->offline = false;
}

void ft_servers_answered(ft_servers *s, uint32_t server)
{
    pthread_mutex_lock(&s->mutex);
    is_back(s, server);
    s->known[server].said[0] = 0;
    pthread_mutex_unlock(&s->mutex);
}

void ft_servers_went_offline(ft_servers *s)
{
    pthread_mutex_lock(&s->mutex);
    const bool news = !s->offline;
    s->offline = true;
    pthread_mutex_unlock(&s->mutex);
    if (news)
        FT_LOGW("edge", "offline: no server takes texts, they go on here");
}

bool ft_servers_offline(ft_servers *s)
{
    pthread_mutex_lock(&s->mutex);
    const bool offline = s->offline;
    pthread_mutex_unlock(&s->mutex);
    return offline;
}

void ft_servers_failed(ft_servers *s, uint32_t server, int64_t now_us, int64_t after_us)
{
    pthread_mutex_lock(&s->mutex);
    s->known[server].away = true;
    s->known[server].until_us = now_us + (after_us > 0 ? after_us : AWAY_US);
    pthread_mutex_unlock(&s->mutex);
}

void ft_servers_unfit(ft_servers *s, uint32_t server, int64_t now_us, const char *why)
{
    char said[sizeof s->known[server].said];
    snprintf(said, sizeof said, "%s", why);
    ft_servers_failed(s, server, now_us, 0);
    pthread_mutex_lock(&s->mutex);
    const bool news = strcmp(said, s->known[server].said) != 0;
    memcpy(s->known[server].said, said, sizeof said);
    pthread_mutex_unlock(&s->mutex);
    if (news)
        FT_LOGW("edge", "server skipped server=%s reason=\"%s\"", ft_servers_name(s, server), why);
}

/* Asks one server. */
static ft_status ask(ft_servers *s, uint32_t server, const ft_servers_asking *how, ft_error *err,
                     ft_msg_info *out)
{
    const ft_link_source *source = &s->source[server];
    ft_status status = source->info(source->ctx, err, out);
    if (status != FT_OK) {
        ft_servers_failed(s, server, ft_clock_now_us(&how->clock), 0);
        return status;
    }
    pthread_mutex_lock(&s->mutex);
    is_back(s, server);
    pthread_mutex_unlock(&s->mutex);
    status = how->fits ? how->fits(how->ctx, out, err) : FT_OK;
    if (status != FT_OK && s->n > 1)
        ft_servers_unfit(s, server, ft_clock_now_us(&how->clock), err->message);
    return status;
}

static bool is_absent(ft_status code)
{
    return code == FT_UNAVAILABLE || code == FT_TIMEOUT;
}

ft_status ft_servers_info(ft_servers *s, const ft_servers_asking *how, ft_error *err,
                          ft_msg_info *out, uint32_t *server)
{
    ft_error first = {0};
    for (ft_server_set asked = 0; asked != ft_servers_all(s); asked |= 1u << *server) {
        ft_error why = {0};
        *server = ft_servers_choose(s, asked, ft_clock_now_us(&how->clock));
        if (ft_servers_is_fallback(s, *server) && first.code != FT_OK && !is_absent(first.code))
            break; /* it would hide that a server does not fit */
        const ft_status status = ask(s, *server, how, &why, out);
        if (status == FT_OK || status == FT_CANCELLED) {
            *err = why;
            return status;
        }
        if (first.code == FT_OK || (is_absent(status) && first.code != FT_UNAVAILABLE))
            first = why;
    }
    *err = first;
    return first.code;
}
