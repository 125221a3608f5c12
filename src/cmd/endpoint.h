/* SPDX-License-Identifier: Apache-2.0
 * What commands that listen or connect share: secrets from files, port files, which hosts are
 * reachable from outside. */
#ifndef FT_CMD_ENDPOINT_H
#define FT_CMD_ENDPOINT_H

#include <stdbool.h>

#include "base/status.h"

/* The first line of a file, at most 4,096 bytes, as a secret; the caller frees *out. */
FT_WARN_UNUSED ft_status ft_cmd_read_secret(const char *path, ft_error *err, char **out);

/* Writes "PORT\n" so that a reader sees all of it or nothing (a rename). */
FT_WARN_UNUSED ft_status ft_cmd_write_port(const char *path, int port, ft_error *err);

/* True for localhost, 127.*, ::1. */
bool ft_cmd_is_loopback(const char *host);

/* "HOST:PORT", "[ADDRESS]:PORT" or "PORT" (then the host is 127.0.0.1) into host[size] and *port;
 * what names the flag. FT_INVALID. */
FT_WARN_UNUSED ft_status ft_cmd_parse_endpoint(const char *text, const char *what, ft_error *err,
                                               char host[256], int *port);

#endif
