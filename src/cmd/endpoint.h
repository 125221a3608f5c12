/* SPDX-License-Identifier: Apache-2.0
 * What commands that listen or connect share: secrets from files, port files, addresses. */
#ifndef FT_CMD_ENDPOINT_H
#define FT_CMD_ENDPOINT_H

#include <stdbool.h>

#include "base/status.h"

/* FT_INVALID: a secret that this server asks for is so short that it can be guessed. NULL is legal:
 * it asks for none. */
FT_WARN_UNUSED ft_status ft_cmd_check_secret(const char *secret, const char *who, ft_error *err);
/* Reads the first line of a file, 1 to 4,096 bytes, as a secret; the caller frees *out. */
FT_WARN_UNUSED ft_status ft_cmd_read_secret(const char *path, ft_error *err, char **out);

/* Writes "PORT\n" to a new file and renames it, so that a reader sees all of it or nothing. */
FT_WARN_UNUSED ft_status ft_cmd_write_port(const char *path, int port, ft_error *err);

/* True for localhost, 127.*, ::1. */
bool ft_cmd_is_loopback(const char *host);

/* Parses "HOST:PORT", "[ADDRESS]:PORT" or "PORT" (then the host is 127.0.0.1). what: the flag, for
 * the message. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_cmd_parse_endpoint(const char *text, const char *what, ft_error *err,
                                               char host[256], int *port);

#endif
