/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the limits of keys, and counts for each key its sessions and refusals. Called on the
 * engine thread, except the last two functions, which any thread may call.
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

/* opts.keys; NULL: none. */
ft_keyring *ft_verifier_keys(const ft_verifier *verifier);
/* Appends the metrics of every key to a page for Prometheus (ft_stats_append writes the others);
 * nothing without keys. FT_NOMEM. */
ft_status ft_keys_append(ft_verifier *verifier, ft_buf *out);

#endif
