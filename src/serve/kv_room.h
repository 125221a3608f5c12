/* SPDX-License-Identifier: Apache-2.0
 *
 * Shares the KV pool: admits texts, and takes blocks from sessions when blocks are short. The
 * functions are called on the engine thread.
 */
#ifndef FT_SERVE_KV_ROOM_H
#define FT_SERVE_KV_ROOM_H

#include "serve/state.h"

/* The cache scope of sessions with this credential; 0: there is no prefix cache. */
uint64_t ft_kv_scope(const ft_verifier *v, const char *credential);
/* If the session holds no KV, takes over the KV of its text's start from the prefix cache. */
void ft_kv_attach(ft_sess *s);

/* Returns FT_EXHAUSTED if the pool is too small for the open texts and one more text of n_tok
 * tokens, of the tenant with this credential. Called when a text is opened or resumed. */
FT_WARN_UNUSED ft_status ft_kv_admit(const ft_verifier *v, const char *credential, uint32_t n_tok,
                                     ft_error *err);
/* The pass, which took pass_us, has computed n_tok tokens of missing KV. If none is missing any
 * more, the session's turn begins. */
void ft_kv_computed(ft_sess *s, uint32_t n_tok, int64_t pass_us, int64_t now_us);
/* Reserves blocks for `needs`, sorted by how long they have waited. Moves the one that is next
 * (ft_evict_next) to the front. A session without KV takes over KV from the prefix cache. If blocks
 * are short, sessions are evicted that are not in their turn. A need that still does not fit gets
 * need.out = true. If that is needs[0], no session without KV gets any, and it fits when the turns
 * of others are over: any other one may then be evicted for it. Returns how many blocks are free,
 * the reserved ones included. */
uint32_t ft_kv_make_room(ft_verifier *v, ft_need *needs, size_t n, int64_t now_us);
/* The time until the next turn ends; < 0: no session is in its turn. */
int64_t ft_kv_turn_left_us(const ft_verifier *v, int64_t now_us);

#endif
