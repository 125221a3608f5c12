/* SPDX-License-Identifier: Apache-2.0
 *
 * A draft model that a server offers (serve --offer-draft), and that an edge without one takes.
 * Main thread. */
#ifndef FT_CMD_OFFER_H
#define FT_CMD_OFFER_H

#include "model/vocab.h"
#include "serve/server.h"
#include "wire/client.h"

/* Opens and hashes the file. FT_INVALID: its vocabulary is not the target's; as ft_vocab_load;
 * FT_IO. The caller closes out->fd, which is -1 after an error. */
FT_WARN_UNUSED ft_status ft_cmd_offer_open(const char *path, const ft_vocab *target, ft_error *err,
                                           ft_server_offer *out);

/* Takes the draft model that the first of n servers offers which answers, unless it is in the cache
 * already. most_bytes: a larger one is refused. The caller frees *path. FT_TOO_LARGE;
 * FT_PRECONDITION: none of them offers one; as ft_blob_ensure and ft_wire_client_fetch. */
FT_WARN_UNUSED ft_status ft_cmd_offer_fetch(ft_wire_client *const *clients, uint32_t n,
                                            uint64_t most_bytes, ft_error *err, char **path);

#endif
