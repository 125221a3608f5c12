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

/* Returns FT_FORBIDDEN if the class that would serve this speed is faster than the key allows. */
FT_WARN_UNUSED ft_status ft_keys_check_speed(const ft_verifier *v, const ft_key *key,
                                             float tokens_per_s, ft_error *err);
/* Whether the key has as many sessions as it allows. Detached sessions count, too. */
bool ft_keys_full(const ft_verifier *v, const ft_key *key);
/* ft_keys_count_opened counts a session that was opened. ft_keys_count_gone counts a session that
 * has ended. ft_keys_count_refused counts an Open that was refused. Without a key they do nothing.
 * The caller must not hold the inbox's lock. */
void ft_keys_count_opened(const ft_sess *s);
void ft_keys_count_gone(const ft_sess *s);
void ft_keys_count_refused(ft_verifier *v, const ft_key *key, ft_status why);

/* ---- any thread ---- */

/* Returns opts.keys. NULL: there are no keys. */
ft_keyring *ft_verifier_keys(const ft_verifier *verifier);
/* Appends the metrics of every key to a page for Prometheus. Appends nothing if there are no keys.
 * ft_stats_append appends all other metrics. Error: FT_NOMEM. */
ft_status ft_keys_append(ft_verifier *verifier, ft_buf *out);

#endif
