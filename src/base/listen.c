// SPDX-License-Identifier: Apache-2.0
// Listening sockets. Stateless.
#include "base/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int try_listen(const struct addrinfo *a)
{
    int one = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

ft_status ft_listen(const char *host, int port, ft_error *err, int *fd)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[16];
    *fd = -1;
    snprintf(service, sizeof service, "%d", port);
    int failed = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, service, &hints, &list);
    if (failed)
        return ft_error_set(err, FT_INVALID, "'%.128s' is no address to listen on: %s", host,
                            gai_strerror(failed));
    /* IPv4 first: "localhost" should be where most clients look */
    for (int pass = 0; *fd < 0 && pass < 2; pass++)
        for (struct addrinfo *a = list; *fd < 0 && a; a = a->ai_next)
            if ((a->ai_family == AF_INET) == (pass == 0))
                *fd = try_listen(a);
    ft_status status = FT_OK;
    if (*fd < 0)
        status =
            ft_error_set(err, FT_UNAVAILABLE, "cannot listen on %.128s port %d: %s%s", host, port,
                         strerror(errno), errno == EADDRINUSE ? ": choose another port" : "");
    freeaddrinfo(list);
    return status;
}

int ft_listen_accept(int listener, struct sockaddr_storage *from, socklen_t *n, bool *starved)
{
    *n = sizeof *from;
    const int fd = accept4(listener, (struct sockaddr *)from, n, SOCK_CLOEXEC | SOCK_NONBLOCK);
    *starved =
        fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
    return fd;
}
