// SPDX-License-Identifier: Apache-2.0
// Chooses one thread or all threads, from the times of passes of about the same size. Owned by the
// engine's thread. It does not read the machine's load: only the times of our own passes show what
// that load costs them.
#include "engine/pace.h"

#include <math.h>

#define FAR        4.   /* times slower than alone: the pass is given up */
#define FAR_TRIAL  2.   /* the same for a trial, which was expected to be slow */
#define LATE       2.   /* passes that a choice may lose before the other one is taken */
#define PROBATION  1.   /* loss with which a choice starts after a single good trial */
#define FASTER     0.95 /* a trial wins below this share of the time of the present choice */
#define REST       4 /* fewest passes between trials: times of the present choice must be recent */
#define COST_LEAST 0.1 /* least cost of a trial, whatever is expected */
#define GUESS      1.5 /* a pass alone may take so many times its estimate or its primed time */
/* Shares of the time that trials may use, what they may use at the start, and the most they can
 * save up. All threads stay slow only while other programs' load lasts, and such load comes and
 * goes. It is rare that one thread is faster and all threads do not get late. */
#define SHARE_ALL   0.02
#define SHARE_ALONE 0.005
#define FIRST_ALL   3.
#define MAX_ALL     4.
#define MAX_ALONE   2.

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
        pace->by_size[i].credit_all = FIRST_ALL;
}

/* ---- what passes take ---- */

static void add(ft_pace_seen *seen, double us, bool primed)
{
    if (seen->primed && !primed)
        seen->n = seen->next = 0;
    seen->primed = primed;
    seen->us[seen->next] = us;
    seen->next = (seen->next + 1) % FT_PACE_KEPT;
    seen->n += seen->n < FT_PACE_KEPT;
}

/* For an even number of times, the lower of the two in the middle: noise only adds time. 0: no
 * times. */
static double median(const ft_pace_seen *seen)
{
    double sorted[FT_PACE_KEPT] = {0};
    for (uint32_t i = 0; i < seen->n; i++) {
        uint32_t j = i;
        for (; j > 0 && sorted[j - 1] > seen->us[i]; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = seen->us[i];
    }
    return seen->n ? sorted[(seen->n - 1) / 2] : 0;
}

/* Estimates a class's time alone from the nearest smaller and larger classes; 0: none is known. */
static double guess_alone(const ft_pace *pace, uint32_t class)
{
    double below = 0, above = 0, at;
    uint32_t i, j;
    for (i = class; i > 0 && below == 0; i--)
        below = median(&pace->by_size[i - 1].alone);
    for (j = class + 1; j < FT_PACE_CLASSES && above == 0; j++)
        above = median(&pace->by_size[j].alone);
    if (below == 0 || above == 0)
        return fmax(below, above);
    at = (double)(class - i) / (j - 1 - i); /* i and j - 1 are where they were found */
    return below * pow(above / below, at);
}

static double alone_us(const ft_pace *pace, uint32_t class)
{
    const ft_pace_seen *alone = &pace->by_size[class].alone;
    double us = median(alone);
    if (us > 0)
        return alone->primed ? GUESS * us : us;
    return GUESS * guess_alone(pace, class);
}

/* ---- the choice ---- */

/* What a trial of the other choice would lose, in passes of the present choice. */
static double trial_cost(const ft_pace *pace, uint32_t class)
{
    const ft_pace_class *c = &pace->by_size[class];
    double all = median(&c->all), alone = alone_us(pace, class);
    double cost = c->goes_alone ? fmin(all / alone - 1, FAR_TRIAL) : alone / all - 1;
    return fmax(cost, COST_LEAST);
}

static bool tries(const ft_pace *pace, uint32_t class)
{
    const ft_pace_class *c = &pace->by_size[class];
    double credit = c->goes_alone ? c->credit_all : c->credit_alone;
    return c->since >= REST && credit >= trial_cost(pace, class);
}

int ft_pace_threads(const ft_pace *pace, const ft_pace_size *size)
{
    uint32_t class = class_of(size->n_rows);
    bool alone = pace->by_size[class].goes_alone;
    /* the time alone is needed to compare */
    if (pace->n_threads == 1 || alone_us(pace, class) == 0)
        return 1;
    return alone != tries(pace, class) ? 1 : pace->n_threads;
}

int64_t ft_pace_alone_us(const ft_pace *pace, const ft_pace_size *size)
{
    return (int64_t)(alone_us(pace, class_of(size->n_rows)) * size->work);
}

int64_t ft_pace_limit_us(const ft_pace *pace, const ft_pace_size *size, int n_threads)
{
    uint32_t class = class_of(size->n_rows);
    double alone = alone_us(pace, class) * size->work;
    if (n_threads == 1 || alone == 0)
        return 0;
    return (int64_t)((pace->by_size[class].goes_alone ? FAR_TRIAL : FAR) * alone) + 1;
}

static void choose(ft_pace_class *c, bool alone, double late)
{
    c->goes_alone = alone;
    c->late = late;
    c->since = 0;
}

static void charge(ft_pace_class *c, bool alone, double cost)
{
    double *credit = alone ? &c->credit_alone : &c->credit_all;
    *credit = fmax(*credit - cost, -MAX_ALL);
}

/* A pass by the present choice took `us` for a unit of work. Only all threads can get late. Times
 * of all threads from before one thread was chosen say nothing about now, and they are tried again
 * soon. */
static void saw_choice(ft_pace_class *c, double us, double alone)
{
    c->since++;
    c->credit_all = fmin(c->credit_all + SHARE_ALL, MAX_ALL);
    c->credit_alone = fmin(c->credit_alone + SHARE_ALONE, MAX_ALONE);
    if (c->goes_alone)
        return;
    c->late = fmax(c->late + fmin(us / alone - 1, FAR), 0);
    if (c->late <= LATE)
        return;
    charge(c, false, c->late);
    choose(c, true, 0);
}

static void saw_trial(ft_pace_class *c, double us, double usual_us)
{
    double cost = us / usual_us - 1;
    c->since = 0;
    if (cost < FASTER - 1) {
        choose(c, !c->goes_alone, PROBATION);
        return;
    }
    if (c->goes_alone && us >= FAR_TRIAL * usual_us)
        cost += 1; /* the pass is repeated */
    charge(c, !c->goes_alone, cost);
}

static double work_us(const ft_pace_size *size, int64_t us)
{
    return (us > 1 ? (double)us : 1.0) / size->work;
}

void ft_pace_observe(ft_pace *pace, const ft_pace_size *size, int n_threads, int64_t us)
{
    uint32_t class = class_of(size->n_rows);
    ft_pace_class *c = &pace->by_size[class];
    double took = work_us(size, us), all = median(&c->all), alone = alone_us(pace, class);
    bool first = alone == 0;
    if (pace->n_threads == 1)
        return;
    add(n_threads == 1 ? &c->alone : &c->all, took, false);
    if (first)
        return;
    if ((n_threads == 1) == c->goes_alone)
        saw_choice(c, took, alone);
    else
        saw_trial(c, took, c->goes_alone ? alone : all);
}

void ft_pace_prime(ft_pace *pace, const ft_pace_size *size, int n_threads, int64_t us)
{
    ft_pace_class *c = &pace->by_size[class_of(size->n_rows)];
    if (pace->n_threads > 1)
        add(n_threads == 1 ? &c->alone : &c->all, work_us(size, us), true);
}
