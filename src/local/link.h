/* SPDX-License-Identifier: Apache-2.0
 *
 * Links (edge/link.h) to a verifier in the same process. `run`, the OpenAI API of `serve`, benches
 * and tests use them.
 */
#ifndef FT_LOCAL_LINK_H
#define FT_LOCAL_LINK_H

#include "edge/link.h"
#include "serve/verifier.h"

/* Links to this verifier, which is borrowed and outlives every link. */
ft_link_source ft_local_link_source(ft_verifier *verifier);

#endif
