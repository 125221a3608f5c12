/* SPDX-License-Identifier: Apache-2.0
 *
 * The machines that lend devices over ggml's RPC. ggml ends the process when one does not answer;
 * this says which one first. The registry belongs to the process. Any thread.
 */
#ifndef FT_MODEL_PEERS_H
#define FT_MODEL_PEERS_H

#include <netdb.h>
#include <stddef.h>

#include "base/status.h"

#define FT_PEERS_MAX      16
#define FT_PEER_NAME_SIZE 300

/* Adds a server: its name, HOST:PORT, and its addresses. A known one, or one too many, changes
 * nothing. */
void ft_peers_add(const char *name, const struct addrinfo *addresses);

/* Finds ggml's connections to the servers, once they are there. Their ends are then noticed: the
 * kernel ends a connection whose machine has been silent for 30 s. */
void ft_peers_watch(void);

/* The other side: a client whose machine has vanished gives its place to the next one. ggml's
 * server opens the port itself, later, and inherits this to its connections; FT_EXHAUSTED: no
 * thread can wait for it. */
FT_WARN_UNUSED ft_status ft_peers_watch_clients(ft_error *err);

/* Writes the servers whose connections have ended, with commas between them; if none
 * has, all of them, with "one of " before them. Returns how many have ended. */
size_t ft_peers_lost(char *out, size_t size);

/* From now on ggml's aborts write one line to the log, which names the lost servers, and start no
 * debugger. */
void ft_aborts_tame(void);

#endif
