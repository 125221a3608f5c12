// SPDX-License-Identifier: Apache-2.0
// Checks the limits of keys (wire/keys.h): the fastest promise and the number of sessions. They are
// checked once, when a session is opened. The counts of a key are kept under the key's name. So the
// counts survive when the file of keys is read again. The engine thread writes the counts. Other
// threads read them, under the inbox's lock. This file does not know the tokens of keys: src/wire
// finds a client's key.
#include "serve/keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "serve/slo.h"
#include "serve/state.h"

/* A promise is a class. The class may be faster than the speed that the client asked for. */
ft_status ft_keys_check_speed(const ft_verifier *v, const ft_key *key, float tokens_per_s,
                              ft_error *err)
{
    float class = ft_slo_speed(v, tokens_per_s);
    float promised = class > 0 ? class : tokens_per_s; /* no class: ft_slo_admit refuses it */
    if (promised <= key->slo_tokens_per_s)
        return FT_OK;
    if (key->slo_tokens_per_s == 0)
        return ft_error_set(err, FT_FORBIDDEN,
                            "serve: key '%s' allows no promised token speed: ask for none",
                            key->name);
    return ft_error_set(err, FT_FORBIDDEN,
                        "serve: key '%s' allows a promise of at most %g tokens/s, and the class "
                        "for %g is %g",
                        key->name, (double)key->slo_tokens_per_s, (double)tokens_per_s,
                        (double)promised);
}

bool ft_keys_full(const ft_verifier *v, const ft_key *key)
{
    uint32_t n = 0;
    for (const ft_sess *s = v->sessions.first; s && key->sessions > 0; s = s->next)
        n += strcmp(s->who.key.name, key->name) == 0;
    return key->sessions > 0 && n >= key->sessions;
}

/* ---- counts; the caller holds the inbox's lock ---- */

static const ft_key_count *count_of(const ft_verifier *v, const char *name)
{
    for (size_t i = 0; i < v->published.n_keys; i++)
        if (strcmp(v->published.keys[i].name, name) == 0)
            return &v->published.keys[i];
    return NULL;
}

/* Returns the key's counts. Creates them if there are none. Returns NULL if there is no memory;
 * nothing is counted then. */
static ft_key_count *make_count(ft_verifier *v, const ft_key *key)
{
    const ft_key_count *found = count_of(v, key->name);
    if (found)
        return &v->published.keys[found - v->published.keys];
    ft_key_count *more = realloc(v->published.keys, (v->published.n_keys + 1) * sizeof *more);
    if (!more)
        return NULL;
    v->published.keys = more;
    more += v->published.n_keys++;
    *more = (ft_key_count){0};
    memcpy(more->name, key->name, sizeof more->name);
    return more;
}

/* ---- what happens to sessions ---- */

/* Adds `more` to the key's counts. gone: how many sessions have ended. Does nothing if the key is
 * empty, that is, if there is no key. */
static void count(ft_verifier *v, const ft_key *key, const ft_key_count *more, uint64_t gone)
{
    if (!key->name[0])
        return;
    pthread_mutex_lock(&v->inbox.lock);
    ft_key_count *sum = make_count(v, key);
    if (sum) {
        sum->opened += more->opened;
        sum->forbidden += more->forbidden;
        sum->exhausted += more->exhausted;
        sum->sessions += more->sessions;
        sum->sessions -= gone < sum->sessions ? gone : sum->sessions;
    }
    pthread_mutex_unlock(&v->inbox.lock);
}

void ft_keys_count_opened(const ft_sess *s)
{
    count(s->verifier, &s->who.key, &(ft_key_count){.opened = 1, .sessions = 1}, 0);
}

void ft_keys_count_gone(const ft_sess *s)
{
    count(s->verifier, &s->who.key, &(ft_key_count){.opened = 0}, 1);
}

void ft_keys_count_refused(ft_verifier *v, const ft_key *key, ft_status why)
{
    const ft_key_count more = {.forbidden = why == FT_FORBIDDEN, .exhausted = why == FT_EXHAUSTED};
    count(v, key, &more, 0);
}

/* ---- any thread ---- */

ft_keyring *ft_verifier_keys(const ft_verifier *verifier)
{
    return verifier->opts.keys;
}

static bool is_among(const ft_key *keys, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(keys[i].name, name) != 0)
        i++;
    return i < n;
}

/* Lists the counts of all valid keys. Behind them, lists the counts of removed keys that still have
 * sessions. The caller frees *out. Error: FT_NOMEM. */
static ft_status list(ft_verifier *v, ft_key_count **out, size_t *n)
{
    ft_key *key;
    size_t n_key;
    *out = NULL;
    if (ft_keyring_list(v->opts.keys, &key, &n_key) != FT_OK)
        return FT_NOMEM;
    pthread_mutex_lock(&v->inbox.lock);
    ft_key_count *all = calloc(n_key + v->published.n_keys, sizeof *all);
    *n = 0;
    for (size_t i = 0; all && i < n_key; i++) {
        const ft_key_count *known = count_of(v, key[i].name);
        if (known)
            all[*n] = *known;
        memcpy(all[(*n)++].name, key[i].name, sizeof key[i].name);
    }
    for (size_t i = 0; all && i < v->published.n_keys; i++) {
        const ft_key_count *used = &v->published.keys[i];
        if (used->sessions > 0 && !is_among(key, n_key, used->name))
            all[(*n)++] = *used;
    }
    pthread_mutex_unlock(&v->inbox.lock);
    free(key);
    *out = all;
    return all ? FT_OK : FT_NOMEM;
}

static const struct {
    const char *labels, *name, *help;
    ft_stat_kind kind;
    size_t at;
} table[] = {
#define F(kind, field, labels, name, help) \
    {labels, name, help, FT_STAT_##kind, offsetof(ft_key_count, field)},
    FT_KEY_STATS(F)
#undef F
};

ft_status ft_keys_append(ft_verifier *verifier, ft_buf *out)
{
    ft_key_count *key;
    size_t n;
    if (!verifier->opts.keys)
        return FT_OK;
    if (list(verifier, &key, &n) != FT_OK)
        return FT_NOMEM;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        if (table[k].help)
            ft_stat_append_head(out, table[k].name, table[k].help, table[k].kind);
        for (size_t i = 0; i < n; i++)
            ft_buf_printf(out, "foretoken_%s{key=\"%s\"%s} %" PRIu64 "\n", table[k].name,
                          key[i].name, table[k].labels,
                          *(const uint64_t *)((const char *)&key[i] + table[k].at));
    }
    free(key);
    return out->failed ? FT_NOMEM : FT_OK;
}
