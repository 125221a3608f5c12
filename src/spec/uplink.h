/* SPDX-License-Identifier: Apache-2.0
 *
 * The rate of an edge's uplink, estimated from its round trips: what a message takes, less the
 * server's own time, grows with its bytes.
 *
 *   time = empty_us + us_per_byte * bytes + noise
 *
 * Each kind of message has a line of its own, as the server takes some time that it does not tell.
 * The rate is the mean of both slopes, weighted by how well they are known.
 *
 * Noise: jitter, threads that wait for a processor, other texts' messages ahead on the line,
 * packets sent again. So the line is fitted robustly, and its rate is unknown until it is known
 * well.
 *
 * The rate may change. When the last FT_UPLINK_MOVED Drafts all lie off their line, on the same
 * side, and more than noise does, the older samples are forgotten but for the times of empty
 * messages. So the estimate follows a change within FT_UPLINK_MOVED samples. Without a change it is
 * made from the last FT_UPLINK_SAMPLES of each kind.
 *
 * Pure: no clock, no thread. The state is plain data; all-zero knows nothing.
 *
 *   [saw]* -> rate */
#ifndef FT_SPEC_UPLINK_H
#define FT_SPEC_UPLINK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Twice of it knows a tenth more of the links with noise, and takes four times as long to
     * compute. */
    FT_UPLINK_SAMPLES = 32,
    /* Half of it takes two late messages for a change; twice of it follows half as soon. */
    FT_UPLINK_MOVED = 4,
    /* Larger messages tell nothing: TCP sends no more at once (RFC 6928: ten segments), and then
     * waits for the other side, so they take more round trips. */
    FT_UPLINK_MOST_BYTES = 14600
};

typedef struct ft_uplink_sample {
    double bytes, us;
} ft_uplink_sample;

typedef struct ft_uplink_line {
    bool known; /* there are two sizes of messages at least */
    double empty_us, us_per_byte;
    double scatter_us; /* a round trip's usual distance from the line */
    double doubt;      /* standard error of us_per_byte, in its unit */
} ft_uplink_line;

/* Round trips of one kind, and the line through them. */
typedef struct ft_uplink_trips {
    ft_uplink_sample sample[FT_UPLINK_SAMPLES]; /* oldest first */
    uint32_t n;
    uint32_t n_measured; /* since the last change; sample[] may begin with others */
    double scatter_before_us;
    bool fitted; /* line is that of the samples */
    ft_uplink_line line;
} ft_uplink_trips;

/* What was answered. Besides the network and what the server tells, kinds take different times. */
typedef enum ft_uplink_kind {
    FT_UPLINK_DRAFT,
    FT_UPLINK_OPEN, /* the server also makes a session */
    FT_UPLINK_KINDS
} ft_uplink_kind;

typedef struct ft_uplink_rate {
    bool known;        /* within 10 %, by 19 in 20 estimates */
    double bits_per_s; /* of messages' bytes (wire/client.h) */
    double empty_us;   /* the round trip of a Draft without bytes; 0: not known */
} ft_uplink_rate;

typedef struct ft_uplink {
    ft_uplink_trips kind[FT_UPLINK_KINDS];
    /* What was last told as known. Small messages may have taken the place of those that told it; a
     * change of the rate was not seen since. */
    ft_uplink_rate last;
} ft_uplink;

/* A message of so many bytes was answered after `us`, the server's own time taken off. Too large
 * ones and times of 0 or less are ignored. */
void ft_uplink_saw(ft_uplink *uplink, ft_uplink_kind kind, uint64_t bytes, int64_t us);

/* What is known now. Finds the lines, if there are new samples. */
ft_uplink_rate ft_uplink_rate_now(ft_uplink *uplink);
/* The round trip of a Draft without bytes, if this is the rate, at least 1; 0: not known. */
double ft_uplink_empty_us(const ft_uplink *uplink, double bits_per_s);

#endif
