/* SPDX-License-Identifier: Apache-2.0
 *
 * The KV that texts leave in a server when they end, for the next turn of their chats: a list of
 * copies, the oldest first. They are in blocks that nobody holds; the oldest is evicted when these
 * are needed. All servers' copies have places in one array, which the caller assigns. Pure; owned
 * by the server's thread. Inside the room.
 */
#ifndef FT_SIM_PREFIXES_H
#define FT_SIM_PREFIXES_H

#include <stdbool.h>
#include <stdint.h>

/* A copy. All-zero: none is kept in this place. */
typedef struct ft_sim_prefix {
    uint32_t blocks;       /* full ones, of 16 tokens; 0: none, and it is in no list */
    uint32_t older, newer; /* 1 + place; 0: none */
} ft_sim_prefix;

typedef struct ft_sim_prefixes {
    ft_sim_prefix *of;       /* [places], borrowed; servers share it */
    uint32_t oldest, newest; /* 1 + place; 0: none */
    uint32_t blocks;         /* of all in the list */
} ft_sim_prefixes;

/* Keeps the full blocks of n_tok tokens as the newest copy, in a place that has none. */
void ft_sim_prefixes_put(ft_sim_prefixes *p, uint32_t place, uint32_t n_tok);
/* Removes the copy of that place, if there is one; returns how many tokens it has. */
uint32_t ft_sim_prefixes_take(ft_sim_prefixes *p, uint32_t place);
/* Evicts from the oldest one, the last blocks of its text first, until at most `blocks` are
 * left. */
void ft_sim_prefixes_trim(ft_sim_prefixes *p, uint32_t blocks);

#endif
