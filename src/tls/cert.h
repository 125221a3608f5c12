/* SPDX-License-Identifier: Apache-2.0
 *
 * The certificate that a server shows, from PEM files. The files can be read again while the server
 * runs: later connections get the new certificate, present ones keep theirs. Any thread.
 */
#ifndef FT_TLS_CERT_H
#define FT_TLS_CERT_H

#include <gnutls/gnutls.h>
#include <stdbool.h>

#include "base/status.h"

/* TLS 1.2 and later, in GnuTLS's words. */
#define FT_TLS_PRIORITIES "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"

typedef struct ft_tls_files {
    const char *cert, *key; /* both, or neither */
    const char *ca;         /* who signs the other side's certificates. NULL: of a server, clients
                               need none; of a client, the system's authorities */
} ft_tls_files;

/* What one reading of the files gave. Shared: the last one who gives it back frees it. */
typedef struct ft_tls_creds ft_tls_creds;

typedef struct ft_tls_cert ft_tls_cert;

/* Reads the files, and checks that certificate and key fit. *files is not kept.
 * FT_INVALID names the file; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_tls_cert_create(const ft_tls_files *files, ft_error *err,
                                            ft_tls_cert **out);
/* Credentials that are held stay. NULL is legal. */
void ft_tls_cert_destroy(ft_tls_cert *cert);
/* Reads the files again, as create does. If they are wrong, what was read before stays in use. */
FT_WARN_UNUSED ft_status ft_tls_cert_reload(ft_tls_cert *cert, ft_error *err);

/* What a new connection uses. It holds them until its session has ended. */
ft_tls_creds *ft_tls_cert_hold(ft_tls_cert *cert);
/* NULL is legal. */
void ft_tls_creds_give_back(ft_tls_creds *creds);
/* For gnutls_credentials_set. */
gnutls_certificate_credentials_t ft_tls_creds_of(const ft_tls_creds *creds);
/* Whether clients must show a certificate. */
bool ft_tls_creds_ask(const ft_tls_creds *creds);

#endif
