/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the limits of keys, and counts for each key its sessions and refusals. Called on the
 * engine thread, except the last three functions, which any thread may call.
 */
#ifndef FT_SERVE_KEYS_H
#define FT_SERVE_KEYS_H

#include "serve/stats.h"
#include "wire/keyring.h"

typedef struct ft_verifier ft_verifier;
typedef struct ft_sess ft_sess;

/* FT_FORBIDDEN: the class that would serve this speed is faster than the key allows. */
FT_WARN_UNUSED ft_status ft_keys_check_speed(const ft_verifier *v, const ft_key *key,
                                             float tokens_per_s, ft_error *err);
/* Whether the key has as many sessions, detached ones included, as it allows. */
bool ft_keys_full(const ft_verifier *v, const ft_key *key);
/* Count a session that was opened, that has ended, and an Open that was refused. Do nothing without
 * a key. The caller must not hold the inbox's lock. */
void ft_keys_count_opened(const ft_sess *s);
void ft_keys_count_gone(const ft_sess *s);
void ft_keys_count_refused(ft_verifier *v, const ft_key *key, ft_status why);

/* ---- any thread ---- */

/* Counts of a key: Opens by result since the verifier was created, and sessions now, detached ones
 * included. */
typedef struct ft_key_count {
    char name[FT_KEY_NAME_SIZE];
#define F(kind, field, labels, help_name, help) uint64_t field;
    FT_KEY_STATS(F)
#undef F
} ft_key_count;

/* opts.keys; NULL: none. */
ft_keyring *ft_verifier_keys(const ft_verifier *verifier);
/* The counts of the key with this name. */
ft_key_count ft_verifier_key_count(ft_verifier *verifier, const char *name);
/* The counts of all valid keys, then of removed keys that still have sessions. The caller frees
 * *out. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_verifier_list_keys(ft_verifier *verifier, ft_key_count **out,
                                               size_t *n);

#endif
