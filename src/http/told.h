/* SPDX-License-Identifier: Apache-2.0
 *
 * The object `foretoken` of an event, with include_draft: where the event's text comes from
 * (docs/HTTP.md). Internal to the room.
 */
#ifndef FT_HTTP_TOLD_H
#define FT_HTTP_TOLD_H

#include "base/buf.h"
#include "base/sink.h"
#include "base/status.h"

/* Appends what a verdict brought, as a JSON object. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_told_append(const ft_told *told, ft_buf *out);
/* Appends that the text looks for a server. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_away_append(ft_buf *out);

#endif
