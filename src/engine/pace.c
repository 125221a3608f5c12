// SPDX-License-Identifier: Apache-2.0
// One thread or all, by what passes of that size took. Owned by the engine's thread. It does not look
// at the machine's load: only the time of our own passes says what that load does to them.
#include "engine/pace.h"

#define BACKOFF_MIN 4   /* passes alone after all threads were slower */
#define BACKOFF_MAX 512 /* a few seconds of decoding: how late a quiet machine is noticed */
#define FAR         4   /* times slower than alone: no second look needed */
#define SMOOTH      0.25

static uint32_t class_of(uint32_t n_rows)
{
    uint32_t c = 0;
    while (c + 1 < FT_PACE_CLASSES && n_rows > 1u << c)
        c++;
    return c;
}

void ft_pace_init(ft_pace *pace, int n_threads)
{
    *pace = (ft_pace){.n_threads = n_threads};
    for (int i = 0; i < FT_PACE_CLASSES; i++)
        pace->by_size[i].backoff = BACKOFF_MIN;
}

int ft_pace_threads(const ft_pace *pace, const ft_pace_size *size)
{
    const ft_pace_class *c = &pace->by_size[class_of(size->n_rows)];
    /* The first pass of a size goes alone, to have something to compare with. */
    return c->alone_left > 0 || c->alone_us == 0 ? 1 : pace->n_threads;
}

int64_t ft_pace_limit_us(const ft_pace *pace, const ft_pace_size *size, int n_threads)
{
    double alone_us = pace->by_size[class_of(size->n_rows)].alone_us * size->work;
    return n_threads == 1 ? 0 : (int64_t)(FAR * alone_us) + 1;
}

static void observe_all(ft_pace_class *c, double us)
{
    if (us <= c->alone_us) {
        c->slow = 0;
        c->backoff = BACKOFF_MIN;
        return;
    }
    if (++c->slow < 2 && us < FAR * c->alone_us)
        return;
    c->slow = 0;
    c->alone_left = c->backoff;
    c->backoff = c->backoff < BACKOFF_MAX / 2 ? c->backoff * 2 : BACKOFF_MAX;
}

static void observe_alone(ft_pace_class *c, double us)
{
    c->alone_us = c->alone_us == 0 ? us : c->alone_us + SMOOTH * (us - c->alone_us);
    if (c->alone_left > 0)
        c->alone_left--;
}

void ft_pace_observe(ft_pace *pace, const ft_pace_size *size, int n_threads, int64_t us)
{
    ft_pace_class *c = &pace->by_size[class_of(size->n_rows)];
    double time = (us > 1 ? (double)us : 1.0) / size->work; /* of a unit of work */
    if (pace->n_threads == 1)
        return;
    if (n_threads == 1)
        observe_alone(c, time);
    else
        observe_all(c, time);
}
