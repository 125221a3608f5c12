/* SPDX-License-Identifier: Apache-2.0
 *
 * A network namespace of its own with loopback and one TUN device, and a command in it. Nothing of
 * it has a name in the machine's own namespaces: it is gone when its processes are, and these end
 * with the process that made it, however that ends (a PID namespace holds them). Linux only. */
#ifndef FT_NET_SPACE_H
#define FT_NET_SPACE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

typedef struct ft_space {
    pid_t pid;     /* of its first process; 0: none */
    int tun;       /* its device's other end: one read or write is one IP packet */
    int control;   /* to its first process */
    bool started;  /* its command */
    int exit_code; /* of its command: 128 + signal if one ended it; -1 while it runs */
} ft_space;

typedef struct ft_space_opts {
    struct in_addr address; /* of the device, in a /24 */
    const char *command;    /* for /bin/sh -c */
    char *const *env;       /* the command's, NULL-terminated */
    bool no_input;          /* /dev/null instead of the caller's standard input */
} ft_space_opts;

/* Makes the namespace; its command waits for ft_space_start. The caller has one thread; opts are
 * borrowed until then. FT_FORBIDDEN (says what is missing), FT_IO. On failure *out owes nothing. */
FT_WARN_UNUSED ft_status ft_space_create(const ft_space_opts *opts, ft_error *err, ft_space *out);

/* Its command begins; once. */
void ft_space_start(ft_space *space);

/* Does anybody in it listen on this port, by TCP or UDP? Looked up, not tried: no packet is
 * sent. */
bool ft_space_listens(const ft_space *space, uint16_t port);

/* SIGTERM to all its processes; with `now`, SIGKILL. */
void ft_space_stop(ft_space *space, bool now);

/* After SIGCHLD: has it ended? Then exit_code is set, and pid 0. */
bool ft_space_reap(ft_space *space);

/* Kills and waits for what is left. All-zero is fine. */
void ft_space_destroy(ft_space *space);

#endif
