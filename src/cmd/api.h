/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenAI API over an edge as commands offer it: `edge` to the apps of its machine, `serve` to
 * clients that have no edge. Both have the same flags and the same checks. */
#ifndef FT_CMD_API_H
#define FT_CMD_API_H

#include "base/flags.h"
#include "edge/edge.h"
#include "edge/openai_backend.h"
#include "wire/keyring.h"

typedef struct ft_api_flags {
    const char *api_key_file;
    const char *chat_template_file;
    ft_flag_list alias, allow_hosts, allow_origins;
    ft_http_opts http; /* address and TLS; host and port come from the command */
    ft_flag_list trusted_proxies;
    ft_networks proxies; /* of trusted_proxies, once they were checked */
} ft_api_flags;

extern const ft_flag_group ft_flags_api; /* of ft_api_flags */
/* Of ft_api_flags, too: what one client may have. `serve` has flags of these names itself, which
 * hold for gRPC, too. */
extern const ft_flag_group ft_flags_api_clients;

/* Whether any was given; --no-page, which is about the metrics, too, does not count. */
bool ft_api_flags_given(const ft_api_flags *flags);
/* FT_INVALID for flags that contradict each other, and for an API that other machines can reach
 * without a key, unless `insecure`. Sets what follows from them: the proxies, and the share of a
 * client where none was given. who: the command, for the message; host_flag: the flag that set the
 * address. */
FT_WARN_UNUSED ft_status ft_api_flags_check(ft_api_flags *flags, const char *who,
                                            const char *host_flag, bool insecure, ft_error *err);

typedef struct ft_api {
    char *key; /* of api_key_file */
    ft_openai *openai;
    ft_http *http;
} ft_api;

/* Listens and serves at once; owes a stop, also where it fails. model_id of `openai` is taken from
 * the flags. keys: borrowed, their tokens are the API's keys; NULL: the flag's key. FT_IO,
 * FT_INVALID: the key's file, the address, TLS. */
FT_WARN_UNUSED ft_status ft_api_start(ft_api *api, const ft_api_flags *flags, ft_openai_opts openai,
                                      ft_keyring *keys, ft_error *err);
/* After a SIGHUP: reads certificate and key again. Wrong ones change nothing; it logs either. */
void ft_api_reload(const ft_api *api, const ft_api_flags *flags);
/* Cancels what runs, waits, frees; the edge may be destroyed then. All-zero is legal. */
void ft_api_stop(ft_api *api);

#endif
