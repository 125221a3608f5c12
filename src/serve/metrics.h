/* SPDX-License-Identifier: Apache-2.0
 * The verifier's statistics as a Prometheus page. docs/METRICS.md explains each line. */
#ifndef FT_SERVE_METRICS_H
#define FT_SERVE_METRICS_H

#include "base/buf.h"
#include "serve/verifier.h"

/* Appends the page in Prometheus' text format. FT_NOMEM. */
ft_status ft_metrics_append(const ft_verifier_stats *stats, ft_buf *out);
/* What the page says by key; nothing without keys. FT_NOMEM. */
ft_status ft_metrics_append_keys(ft_verifier *verifier, ft_buf *out);

#endif
