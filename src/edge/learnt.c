// SPDX-License-Identifier: Apache-2.0
// Which texts learn from which others: those of one kind of rule and one class of temperatures. The
// edge owns what was learnt, under its mutex.
#include "edge/edge_internal.h"

ft_warmth ft_warmth_of(const ft_sampling *s)
{
    if (s->temperature <= 0)
        return FT_WARMTH_GREEDY;
    return s->temperature <= 0.5f ? FT_WARMTH_COOL
           : s->temperature <= 1  ? FT_WARMTH_WARM
                                  : FT_WARMTH_HOT;
}

const ft_edge_learnt *ft_edge_nearest(const ft_edge *edge, ft_rule_kind kind, ft_warmth warmth)
{
    for (int other = 0; other < FT_RULE_KINDS; other++)
        for (int far = 0; far < FT_WARMTHS; far++)
            for (int side = -1; side <= 1; side += 2) {
                const int k = (int)kind ^ other, w = (int)warmth + side * far;
                if (w >= 0 && w < FT_WARMTHS && edge->begun[k][w])
                    return &edge->learnt[k][w];
            }
    return &edge->learnt[kind][warmth];
}
