// SPDX-License-Identifier: Apache-2.0
// The virtual world's chance, and messages on their way. Invariant: messages of one direction stay
// in order. The world's thread owns everything.
#include <assert.h>
#include <math.h>

#include "base/secret.h"
#include "bench/ablate_internal.h"

#define RESEND_US 200000

/* Kinds of luck. */
#define UP   1
#define DOWN 2

double ft_ablate_noisy(ft_rng *rng, double sigma)
{
    return exp(sigma * ft_rng_normal(rng) - sigma * sigma / 2);
}

double ft_ablate_between(ft_rng *rng, double least, double most)
{
    return least * pow(most / least, ft_rng_unit(rng));
}

double ft_ablate_luck(const ft_ablate_world *w, uint32_t position, uint32_t what)
{
    const uint64_t place[4] = {w->seed, w->session.number, position, what};
    return (double)(ft_fnv64(FT_FNV64_INIT, place, sizeof place) >> 11 & 0xfffff) / 0x100000;
}

static int64_t way_us(ft_ablate_world *w, uint32_t what)
{
    double us = w->how->net.rtt_us / 2 * ft_ablate_noisy(&w->net, w->how->net.jitter);
    if (ft_ablate_luck(w, w->session.at, what) < w->how->net.lost)
        us += w->how->net.rtt_us + RESEND_US;
    return (int64_t)us;
}

void ft_ablate_reply(ft_ablate_world *w, ft_server_msg *msg, int64_t at_us)
{
    int64_t came_us = at_us + way_us(w, DOWN);
    assert(w->n_inbox < FT_ABLATE_INBOX);
    w->down_us = came_us > w->down_us ? came_us : w->down_us;
    w->inbox[w->n_inbox++] = (ft_ablate_parcel){w->down_us, msg};
}

void ft_ablate_send(ft_ablate_world *w)
{
    int64_t at_us = w->now_us + way_us(w, UP);
    w->up_us = at_us > w->up_us ? at_us : w->up_us;
}
