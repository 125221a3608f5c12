/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client asks for beside temperature and filters: logits that change with the text so far.
 * Plain data, from the HTTP API to the server that draws. spec/penalties.h applies them.
 */
#ifndef FT_BASE_PENALTIES_H
#define FT_BASE_PENALTIES_H

#include <stdbool.h>
#include <stdint.h>

#define FT_BIAS_MAX         300 /* as OpenAI has it */
#define FT_BIAS_MOST        100.0f
#define FT_PENALTY_MOST     2.0f
#define FT_REPETITION_LEAST 0.01f
#define FT_REPETITION_MOST  10.0f

/* All zeros: nothing changes. */
typedef struct ft_penalties {
    float presence, frequency; /* -FT_PENALTY_MOST to FT_PENALTY_MOST */
    float repetition;          /* FT_REPETITION_LEAST to FT_REPETITION_MOST; 1 and 0: off */
    uint32_t n_bias;
    int32_t bias_token[FT_BIAS_MAX]; /* [n_bias], rising */
    float bias[FT_BIAS_MAX];         /* [n_bias], -FT_BIAS_MOST to FT_BIAS_MOST */
} ft_penalties;

/* Whether there is anything to apply. */
static inline bool ft_penalties_any(const ft_penalties *p)
{
    return p->presence != 0 || p->frequency != 0 || (p->repetition != 0 && p->repetition != 1) ||
           p->n_bias > 0;
}

#endif
