// SPDX-License-Identifier: Apache-2.0
// The accept loop. Without a free descriptor or memory it closes the refused connections, and then
// waits a little; connections wait in the kernel meanwhile. All state belongs to the loop's thread
// while that runs.
#include "http/accept.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/listen.h"
#include "base/log.h"
#include "base/thread.h"

#define STARVED_MS 100

/* False: there is no descriptor or no memory for a connection. Any other failure is about one
 * connection, which is gone. */
static bool accept_one(ft_http_accept *a)
{
    struct sockaddr_storage from = {0};
    socklen_t n;
    bool starved;
    const int fd = ft_listen_accept(a->listener, &from, &n, &starved);
    if (fd >= 0 && !a->take(a->ctx, fd, (const struct sockaddr *)&from, n))
        ft_refused_add(&a->refused, fd, ft_monotonic_us());
    return !starved || ft_refused_close_all(&a->refused) > 0;
}

/* How long the loop may wait, in ms; -1: until something happens. */
static int wait_ms(ft_http_accept *a, bool starved)
{
    const int64_t now = ft_monotonic_us(), due = ft_refused_close_due(&a->refused, now);
    if (starved)
        return STARVED_MS;
    return due == FT_NO_DEADLINE ? -1 : (int)((due - now) / 1000 + 1);
}

static void *loop(void *arg)
{
    ft_http_accept *a = arg;
    bool starved = false;
    ft_thread_lower_priority(FT_THREAD_ACCEPTS);
    for (;;) {
        struct pollfd p[] = {{.fd = a->wake, .events = POLLIN},
                             {.fd = starved ? -1 : a->listener, .events = POLLIN}};
        const int n = poll(p, 2, wait_ms(a, starved));
        if (n > 0 && p[0].revents)
            return NULL;
        const bool before = starved;
        starved = (starved || (n > 0 && p[1].revents)) && !accept_one(a);
        if (starved && !before)
            FT_LOGW("http", "cannot accept connections now: the limit of open files is too low");
    }
}

ft_status ft_http_accept_start(ft_http_accept *accept, int listener, ft_error *err)
{
    accept->listener = listener;
    accept->wake = eventfd(0, EFD_CLOEXEC);
    ft_status status = accept->wake < 0 ? FT_IO : ft_refused_init(&accept->refused, err);
    accept->running = status == FT_OK && pthread_create(&accept->thread, NULL, loop, accept) == 0;
    if (accept->running)
        return FT_OK;
    if (status == FT_OK)
        status = FT_NOMEM;
    ft_refused_deinit(&accept->refused);
    if (accept->wake >= 0)
        close(accept->wake);
    close(listener);
    return ft_error_set(err, status, "http: no %s to accept connections",
                        status == FT_IO ? "descriptor" : "thread");
}

void ft_http_accept_stop(ft_http_accept *accept)
{
    if (!accept->running)
        return;
    while (eventfd_write(accept->wake, 1) != 0 && errno == EINTR) {
    }
    pthread_join(accept->thread, NULL);
    ft_refused_deinit(&accept->refused);
    close(accept->wake);
    close(accept->listener);
    accept->running = false;
}
