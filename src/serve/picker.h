/* SPDX-License-Identifier: Apache-2.0
 *
 * Three gauges of load under names of the operator's choice. Programs that pick a server for a
 * request (the Gateway API inference extension) look for those of another server. Pure.
 */
#ifndef FT_SERVE_PICKER_H
#define FT_SERVE_PICKER_H

#include "base/buf.h"
#include "serve/stats.h"

#define FT_PICKER_GAUGES 3 /* rounds waiting, texts running, share of KV in use */

typedef struct ft_picker {
    char name[FT_PICKER_GAUGES][80];
} ft_picker;

/* "WAITING,RUNNING,KV", or "vllm" for the names that vLLM has. FT_INVALID: not three different
 * names of metrics, or one of the server's own. */
FT_WARN_UNUSED ft_status ft_picker_parse(const char *text, ft_error *err, ft_picker *out);

/* Appends the gauges to a page. FT_NOMEM. */
ft_status ft_picker_append(const ft_picker *picker, const ft_verifier_stats *stats, ft_buf *out);

#endif
