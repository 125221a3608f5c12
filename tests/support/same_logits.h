/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether two models compute the same to the last bit. */
#ifndef FT_TESTS_SAME_LOGITS_H
#define FT_TESTS_SAME_LOGITS_H

#include "engine/engine.h"

/* Fails the test unless both give the same logits for a prompt, for the likeliest tokens behind it
 * one by one, and for a tree. */
void same_logits(ft_model *a, ft_model *b, ft_attn_route route);

#endif
