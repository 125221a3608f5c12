/* SPDX-License-Identifier: Apache-2.0
 *
 * Links whose verifier remembers nothing: every draft opens a session of its own with the whole
 * text so far, as in SLED (WISP 5.2.1), and closes the one before. The edge sees one session. Wraps
 * the links of another source; a link is used as edge/link.h says, by its generation's thread. */
#ifndef FT_BENCH_LOAD_ANEW_H
#define FT_BENCH_LOAD_ANEW_H

#include "edge/link.h"

/* `inner` is borrowed and outlives every link. */
ft_link_source ft_bench_load_anew_source(const ft_link_source *inner);

#endif
