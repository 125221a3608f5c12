/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells the service manager how this process is: systemd's sd_notify(3) protocol, one datagram for
 * each message. Without a service manager nothing is sent.
 */
#ifndef FT_BASE_NOTIFY_H
#define FT_BASE_NOTIFY_H

#include <stdbool.h>

/* Where to send: the value of NOTIFY_SOCKET, a path or @NAME; NULL or empty: nobody asked. Borrowed
 * for the life of the process. Call it before there are threads. */
void ft_notify_to(const char *socket);

/* True if somebody asked. */
bool ft_notify_asked(void);

/* Messages of a process that serves. Any thread may send; a failure is logged and goes on. A reload
 * ends with ft_notify_ready(), also if nothing changed. */
void ft_notify_ready(void);
void ft_notify_reloading(void);
void ft_notify_stopping(void);

#endif
