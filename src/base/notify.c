// SPDX-License-Identifier: Apache-2.0
// Messages to the service manager. The only state is the name of its socket, which does not change
// once there are threads.
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static const char *manager;

void ft_notify_to(const char *socket)
{
    manager = socket && socket[0] ? socket : NULL;
}

bool ft_notify_asked(void)
{
    return manager != NULL;
}

/* The socket's address; 0: its name is neither a path nor @NAME, or too long. */
static socklen_t address_of(const char *name, struct sockaddr_un *out)
{
    const size_t len = strlen(name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((name[0] != '/' && name[0] != '@') || len >= sizeof out->sun_path)
        return 0;
    memcpy(out->sun_path, name, len);
    if (name[0] == '@')
        out->sun_path[0] = 0; /* Linux' abstract names: no file, no end but the length */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

static void tell(const char *message)
{
    struct sockaddr_un to;
    if (!manager)
        return;
    const socklen_t len = address_of(manager, &to);
    if (len == 0) {
        FT_LOGW("base", "NOTIFY_SOCKET='%s' is no path and no @NAME", manager);
        return;
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        sendto(fd, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&to, len) < 0)
        FT_LOGW("base", "the service manager is not told at '%s': %s", manager, strerror(errno));
    if (fd >= 0)
        close(fd);
}

void ft_notify_ready(void)
{
    tell("READY=1");
}

/* The time tells this reload from an earlier one (sd_notify(3): CLOCK_MONOTONIC). */
void ft_notify_reloading(void)
{
    char message[64];
    snprintf(message, sizeof message, "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)ft_monotonic_us());
    tell(message);
}

void ft_notify_stopping(void)
{
    tell("STOPPING=1");
}
