/* SPDX-License-Identifier: Apache-2.0
 *
 * The uplink from users to the draft station, eq. (15), as the paper's section IV has it. Pure; any
 * thread. */
#ifndef FT_PLAN_RADIO_H
#define FT_PLAN_RADIO_H

#include "plan/plan.h"

typedef struct ft_plan_radio {
    double bandwidth_hz; /* B_w */
    double power_w;      /* p_k */
    double noise_w;      /* sigma^2 */
} ft_plan_radio;

/* Watts of a level in dBm. */
double ft_plan_dbm_w(double dbm);
/* Gain g_k at a distance: g0 fading / metres^2. */
double ft_plan_gain(double g0, double fading, double metres);
/* Bits per second that a user would have with the whole bandwidth: r_k / w_k. */
double ft_plan_radio_rate(const ft_plan_radio *radio, double gain);
/* Lambda: bits of a token's embeddings for both models, 2 bytes a number (below eq. (15)). */
double ft_plan_embedding_bits(double draft_hidden, double verify_hidden);

#endif
