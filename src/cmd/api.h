/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenAI API over an edge as commands offer it: `edge` to the apps of its machine, `serve` to
 * clients that have no edge. The same flags and guards for both. */
#ifndef FT_CMD_API_H
#define FT_CMD_API_H

#include "base/flags.h"
#include "edge/edge.h"
#include "wire/keyring.h"

typedef struct ft_api_flags {
    const char *alias, *api_key, *api_key_file, *https_cert, *https_key;
    ft_flag_list allow_hosts, allow_origins;
} ft_api_flags;

extern const ft_flag_group ft_flags_api; /* of ft_api_flags */

/* Whether any was given. */
bool ft_api_flags_given(const ft_api_flags *flags);
/* FT_INVALID for what contradicts itself, and for an API that others reach without a key where
 * nobody said `insecure`. who: the command, for the message; host_flag: what the address came
 * by. */
FT_WARN_UNUSED ft_status ft_api_flags_check(const ft_api_flags *flags, const char *who,
                                            const char *host_flag, const char *host, bool insecure,
                                            ft_error *err);

typedef struct ft_api ft_api;

typedef struct ft_api_opts {
    const ft_api_flags *flags;
    const char *host;
    int port;
    uint32_t max_connections; /* 0: ft_http's default */
    ft_edge *edge;            /* borrowed; NULL: there is none yet */
    const ft_vocab *vocab;    /* borrowed */
    bool no_speculation;      /* of this edge's own drafting */
    ft_keyring
        *keys; /* whose tokens are the API's keys, instead of a flag's; borrowed; NULL: none */
} ft_api_opts;

/* Listens and serves at once. FT_IO, FT_INVALID: the key's file, the address, TLS. */
FT_WARN_UNUSED ft_status ft_api_create(const ft_api_opts *opts, ft_error *err, ft_api **out);
int ft_api_port(const ft_api *api);
/* As ft_openai_set_absent and ft_openai_set_edge. */
void ft_api_set_absent(ft_api *api, const char *why);
void ft_api_set_edge(ft_api *api, ft_edge *edge);
/* As ft_http_drain. NULL is legal. */
void ft_api_drain(ft_api *api, int64_t timeout_us);
/* Cancels what runs, waits, frees; the edge may go after it. NULL is legal. */
void ft_api_destroy(ft_api *api);

#endif
