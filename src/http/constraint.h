/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of a request that say what the answer's text must be: OpenAI's `response_format`,
 * vLLM's `structured_outputs`, llama.cpp's `grammar` and `json_schema`, and `regex`. Pure; any
 * thread.
 */
#ifndef FT_HTTP_CONSTRAINT_H
#define FT_HTTP_CONSTRAINT_H

#include <jansson.h>

#include "base/buf.h"
#include "base/constraint.h"
#include "http/fail.h"

/* One of the fields at most may say something. *out borrows from *text, which the caller frees, and
 * *field is a literal, the field's name; kind NONE: any text. Only the form is checked here, not
 * whether a schema or a grammar can be had. FT_INVALID names the field; FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_http_read_constraint(json_t *root, ft_http_fail *fail, ft_buf *text,
                                                 ft_constraint *out, const char **field);

#endif
