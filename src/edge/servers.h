/* SPDX-License-Identifier: Apache-2.0
 *
 * The servers of an edge, in the order in which texts try them. Generations share what they have
 * learnt of each: a server that could not take a text is *away* for some time. New texts then
 * prefer the others. When that time is over, one text tries the server again; the others follow
 * when it has answered.
 *
 * The last one may be the *fallback target*, in this process. Everything here treats it as a
 * server, but texts take it only when no other has taken them for some time (edge/offline.h). From
 * then on the edge is *offline*, until a server answers: new texts go to the fallback target at
 * once.
 *
 * Any thread. `mutex` is taken inside; no link is called under it.
 */
#ifndef FT_EDGE_SERVERS_H
#define FT_EDGE_SERVERS_H

#include <pthread.h>

#include "base/clock.h"
#include "edge/link.h"

/* Bit i stands for server i. */
typedef uint32_t ft_server_set;

typedef struct ft_servers {
    uint32_t
        n; /* at least 1, the fallback target included; with what follows constant after init */
    ft_link_source source[FT_SERVERS_MAX];
    bool has_fallback;     /* it is the last one */
    pthread_mutex_t mutex; /* guards what follows */
    bool offline;
    struct {
        bool away;
        int64_t until_us;
        char said[128]; /* why it was skipped, as last logged */
    } known[FT_SERVERS_MAX];
} ft_servers;

/* Copies the sources, at most FT_SERVERS_MAX in all. What they refer to is borrowed. fallback: NULL
 * if there is none. */
void ft_servers_init(ft_servers *s, const ft_link_source *first, const ft_link_source *more,
                     uint32_t n_more, const ft_link_source *fallback);
void ft_servers_deinit(ft_servers *s);
ft_server_set ft_servers_all(const ft_servers *s);
/* Whether there are several, the fallback target not counted. */
bool ft_servers_several(const ft_servers *s);
/* The fallback target alone; 0: there is none. */
ft_server_set ft_servers_fallback(const ft_servers *s);
bool ft_servers_is_fallback(const ft_servers *s, uint32_t server);
/* For logs: the name of its source. */
const char *ft_servers_name(const ft_servers *s, uint32_t server);

/* The first server that is neither in `not_these` nor away, else the first that is not in
 * `not_these`, which must not have all. If its time away is over, no other call prefers it before
 * it has answered or the same time has passed again. */
uint32_t ft_servers_choose(ft_servers *s, ft_server_set not_these, int64_t now_us);
/* The server has taken a text. */
void ft_servers_answered(ft_servers *s, uint32_t server);
/* It could not take one. after_us: it asked to be left alone so long; 0: it did not say. */
void ft_servers_failed(ft_servers *s, uint32_t server, int64_t now_us, int64_t after_us);
/* No server has taken a text for too long. */
void ft_servers_went_offline(ft_servers *s);
/* So it is, and no server has answered since. */
bool ft_servers_offline(ft_servers *s);
/* It does not fit, for this reason, which is logged unless it was the last that was. */
void ft_servers_unfit(ft_servers *s, uint32_t server, int64_t now_us, const char *why);

typedef struct ft_servers_asking {
    ft_clock clock;
    /* FT_OK if a server with this Info fits; NULL: all do. */
    ft_status (*fits)(void *ctx, const ft_msg_info *info, ft_error *err);
    void *ctx;
} ft_servers_asking;

/* Asks the servers for Info, in the order of ft_servers_choose, until one answers and fits. If none
 * does: FT_UNAVAILABLE or FT_TIMEOUT if one could not be reached, else the first one's error; the
 * fallback target is not asked then. FT_CANCELLED: a source says so. */
FT_WARN_UNUSED ft_status ft_servers_info(ft_servers *s, const ft_servers_asking *how, ft_error *err,
                                         ft_msg_info *out, uint32_t *server);

#endif
