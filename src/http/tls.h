/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificate that an HTTPS server shows. It can be read again while the server runs: later
 * connections get the new one, present ones go on. Internal to the room. Any thread.
 */
#ifndef FT_HTTP_TLS_H
#define FT_HTTP_TLS_H

#include <microhttpd.h>

#include "base/status.h"

typedef struct ft_http_tls ft_http_tls;

/* Reads the PEM files of a certificate and its key and checks that they fit. FT_INVALID names the
 * file; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_tls_create(const char *cert, const char *key, ft_error *err,
                                            ft_http_tls **out);
/* No connection may use it any more. NULL is legal. */
void ft_http_tls_destroy(ft_http_tls *tls);
/* Reads the files again, as create does. If they are wrong, those before stay in use. */
FT_WARN_UNUSED ft_status ft_http_tls_reload(ft_http_tls *tls, ft_error *err);

/* The option that makes a daemon ask for the certificate at each handshake. The socket context of
 * its connections must be an ft_http_conn, which knows its ft_http_tls. */
struct MHD_OptionItem ft_http_tls_option(void);

#endif
