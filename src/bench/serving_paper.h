/* SPDX-License-Identifier: Apache-2.0
 *
 * What the papers reached, for plots and reports to set beside our own figures: SpecEdge's text and
 * tables, and WISP's tables 5 and 6. Stateless. */
#ifndef FT_BENCH_SERVING_PAPER_H
#define FT_BENCH_SERVING_PAPER_H

#include <jansson.h>

/* SpecEdge over a server that drafts by itself: abstract and 5.2, means. */
#define FT_SPECEDGE_THROUGHPUT 2.22
#define FT_SPECEDGE_COST       1.91
#define FT_SPECEDGE_ITL        0.8876 /* 11.24 % less */
#define FT_SPECEDGE_PER_VERIFY 1.132
/* The server's time for a token, over server-spec's: figure 7. */
#define FT_SPECEDGE_TIME_LEAST 0.5
#define FT_SPECEDGE_TIME_MOST  0.6
/* ITL in ms by round-trip time: figure 11. */
#define FT_SPECEDGE_SPEC_MS     42.36 /* the server that drafts by itself */
#define FT_SPECEDGE_15_MS       36.47
#define FT_SPECEDGE_50_MS       40.26
#define FT_SPECEDGE_65_MS       44.47
#define FT_SPECEDGE_SPLIT_15_MS 99.63 /* layers split between edge and server */
#define FT_SPECEDGE_SPLIT_50_MS 134.90
/* ITL of plain decoding over that of edges: table 3. */
#define FT_SPECEDGE_SPEEDUP_LEAST 1.54
#define FT_SPECEDGE_SPEEDUP_MOST  2.03
/* Chains: appendix E, means of its three pairs of models. */
#define FT_SPECEDGE_CHAIN_THROUGHPUT ((1.61 + 1.96 + 1.52) / 3)
#define FT_SPECEDGE_CHAIN_COST       ((1.41 + 1.67 + 1.29) / 3)

/* The draft depth that SpecEdge chose at a round-trip time (figure 10); 0: it does not say. */
int ft_specedge_depth(double rtt_ms);
/* By how much WISP's predictor raises tokens a second, by the number of devices (table 6). 0: it
 * does not say. */
double ft_wisp_predictor_gain(double devices);

/* All of this as a new object, under the names of our own figures. */
json_t *ft_serving_paper_json(void);

#endif
