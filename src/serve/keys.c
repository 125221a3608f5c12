// SPDX-License-Identifier: Apache-2.0
// What a key may have (wire/keys.h): how fast a promise, how many sessions; and what became of its
// opens. Asked once, when a session is opened. Owned by the engine thread; the counts are read by others
// too, under the verifier's lock. Does not know tokens: who shows which key is the wire's matter.
#include <stdlib.h>

#include "serve/internal.h"

ft_status ft_keys_check_speed(const ft_key *key, float tokens_per_s, ft_error *err)
{
    if (tokens_per_s <= key->slo_tokens_per_s)
        return FT_OK;
    if (key->slo_tokens_per_s == 0)
        return ft_error_set(err, FT_FORBIDDEN,
                            "serve: key '%s' may be promised no token speed: ask for none",
                            key->name);
    return ft_error_set(err, FT_FORBIDDEN,
                        "serve: key '%s' may be promised %g tokens/s at most, %g were asked for",
                        key->name, (double)key->slo_tokens_per_s, (double)tokens_per_s);
}

bool ft_keys_full(const ft_verifier *v, const ft_key *key)
{
    uint32_t n = 0;
    for (const ft_sess *s = v->sessions; s && key->sessions > 0; s = s->next)
        n += s->key == key;
    return key->sessions > 0 && n >= key->sessions;
}

/* ---- counts ---- */

ft_status ft_keys_count_init(ft_verifier *v, ft_error *err)
{
    if (!v->opts.keys)
        return FT_OK;
    v->key_counts = calloc(v->opts.keys->n, sizeof *v->key_counts);
    return v->key_counts ? FT_OK : ft_error_set(err, FT_NOMEM, "serve: out of memory");
}

/* The count of a key under the lock, which the caller gives back. */
static ft_key_count *lock_count(ft_verifier *v, const ft_key *key)
{
    pthread_mutex_lock(&v->lock);
    return &v->key_counts[key - v->opts.keys->key];
}

void ft_keys_count_opened(const ft_sess *s)
{
    if (!s->key)
        return;
    ft_key_count *count = lock_count(s->verifier, s->key);
    count->opened++;
    count->sessions++;
    pthread_mutex_unlock(&s->verifier->lock);
}

void ft_keys_count_gone(const ft_sess *s)
{
    if (!s->key)
        return;
    lock_count(s->verifier, s->key)->sessions--;
    pthread_mutex_unlock(&s->verifier->lock);
}

void ft_keys_count_refused(ft_verifier *v, const ft_key *key, ft_status why)
{
    if (!key)
        return;
    ft_key_count *count = lock_count(v, key);
    count->forbidden += why == FT_FORBIDDEN;
    count->exhausted += why == FT_EXHAUSTED;
    pthread_mutex_unlock(&v->lock);
}

const ft_keys *ft_verifier_keys(const ft_verifier *verifier)
{
    return verifier->opts.keys;
}

ft_key_count ft_verifier_key_count(ft_verifier *verifier, size_t i)
{
    ft_key_count count = *lock_count(verifier, &verifier->opts.keys->key[i]);
    pthread_mutex_unlock(&verifier->lock);
    return count;
}
