/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening sockets. Any thread.
 */
#ifndef FT_BASE_LISTEN_H
#define FT_BASE_LISTEN_H

#include "base/status.h"

/* Listens on a TCP port; 0: any free one. host: a name or an address; "*": all addresses. The
 * caller closes *fd. FT_INVALID: no such host. FT_UNAVAILABLE: the port is taken or not allowed. On
 * failure *fd is -1. */
FT_WARN_UNUSED ft_status ft_listen(const char *host, int port, ft_error *err, int *fd);

#endif
