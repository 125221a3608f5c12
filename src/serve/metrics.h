/* SPDX-License-Identifier: Apache-2.0
 * The metrics of keys on the Prometheus page. ft_stats_append (base/stats.h) writes the others from
 * ft_verifier_stat_list (serve/stats.h). docs/METRICS.md lists every metric. */
#ifndef FT_SERVE_METRICS_H
#define FT_SERVE_METRICS_H

#include "base/buf.h"
#include "serve/keys.h"

/* Appends the metrics of every key; nothing without keys. FT_NOMEM. */
ft_status ft_metrics_append_keys(ft_verifier *verifier, ft_buf *out);

#endif
