// SPDX-License-Identifier: Apache-2.0
// Rates of uploads. Pure.
#include "plan/radio.h"

#include <math.h>

double ft_plan_dbm_w(double dbm)
{
    return pow(10, dbm / 10) * 1e-3;
}

double ft_plan_gain(double g0, double fading, double metres)
{
    return g0 * fading / (metres * metres);
}

/* log1p: far users' signal is below the noise, so its ratio may be small. */
double ft_plan_radio_rate(const ft_plan_radio *radio, double gain)
{
    return radio->bandwidth_hz * log1p(radio->power_w * gain / radio->noise_w) / log(2);
}

double ft_plan_embedding_bits(double draft_hidden, double verify_hidden)
{
    return 16 * (draft_hidden + verify_hidden);
}
