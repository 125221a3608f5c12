/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that takes time for bytes: tools/netlab and the benches' emulated links send over it. Its
 * rate is constant, or steps between two values as a two-state Markov chain (the uplink of
 * Quantize-Sample-and-Verify, section V-A).
 *
 * The rate is a pure function of the seed and of the time since the line's first bytes. So two runs
 * with one seed have the same rate at the same time, whatever was sent. Owned by one thread. */
#ifndef FT_BASE_LINE_H
#define FT_BASE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ft_line_rate {
    double bits_per_s[2]; /* without steps [0] alone; 0 there: no limit, nothing takes time */
    int64_t step_ns;      /* the rate may change once in so long; 0: it does not */
    double stay;          /* chance that it does not change from one step to the next, 0 to 1 */
    uint64_t seed;        /* of the steps */
} ft_line_rate;

typedef struct ft_line {
    ft_line_rate rate;
    bool begun;       /* bytes have come */
    int64_t began_ns; /* when the first did: step 0 begins there */
    int64_t free_ns;  /* when all that was taken is sent */
    int64_t step;     /* one whose state is known: no step before it is looked at again */
    bool second;      /* that state: the rate is bits_per_s[1] */
} ft_line;

/* The rate so long after step 0 began. Looks at about 1 / (1 - stay) steps. */
double ft_line_rate_at(const ft_line_rate *rate, int64_t since_ns);

/* Reads "MBIT,MBIT", the value of a flag, into rate->bits_per_s. FT_INVALID names the flag. */
FT_WARN_UNUSED ft_status ft_line_parse_steps(const char *flag, const char *text, ft_error *err,
                                             ft_line_rate *rate);

/* The line is free. */
void ft_line_init(ft_line *line, const ft_line_rate *rate);
/* How long what comes now would wait until the line is free. */
int64_t ft_line_wait_ns(const ft_line *line, int64_t now_ns);
/* Takes n bytes, behind all that it has taken before; returns when they are sent. Times never go
 * back. */
int64_t ft_line_take(ft_line *line, int64_t now_ns, size_t n);

#endif
