/* SPDX-License-Identifier: Apache-2.0
 *
 * The features that predict from a draft model's logits whether a drafted token will be accepted
 * (WISP 3.3 and 4.1). The edge measures them (spec), the trace store keeps them (trace.h), and the
 * rejection predictor reads them. Their order is part of both file formats.
 */
#ifndef FT_LEARN_FEATURES_H
#define FT_LEARN_FEATURES_H

typedef enum ft_feature {
    FT_FEATURE_CONFIDENCE, /* probability of the drafted token */
    FT_FEATURE_ENTROPY,    /* of the distribution that the token was drawn from, nats */
    FT_FEATURE_MARGIN,     /* probability of the likeliest token minus that of the second */
    FT_FEATURE_DEVIATION,  /* standard deviation of the logits */
    FT_FEATURE_POSITION,   /* depth in the draft; 0: first token behind the text */
    FT_FEATURES
} ft_feature;

#endif
