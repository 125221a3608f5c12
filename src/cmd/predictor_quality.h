/* SPDX-License-Identifier: Apache-2.0
 *
 * How right a rejection predictor is on judged tokens: for `train predictor`, and for
 * `trace --predictor`. Pure functions; any thread. */
#ifndef FT_CMD_PREDICTOR_QUALITY_H
#define FT_CMD_PREDICTOR_QUALITY_H

#include <jansson.h>

#include "base/status.h"
#include "cmd/train_set.h"
#include "learn/binary.h"
#include "learn/predictor.h"

/* WISP table 4: its predictor's figures. */
extern const ft_binary_quality ft_predictor_quality_paper;

/* Sets p->least by the samples, as ft_binary_threshold says, and measures with it. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_predictor_quality_choose(ft_predictor *p, const ft_train_set *samples,
                                                     double max_fpr, ft_error *err,
                                                     ft_binary_quality *out);
/* FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_predictor_quality_measure(const ft_predictor *p,
                                                      const ft_train_set *samples, ft_error *err,
                                                      ft_binary_quality *out);
/* The figures and the reliability diagram as an object; the caller owns it. */
json_t *ft_predictor_quality_json(const ft_binary_quality *quality);
/* Prints the titles of five columns, and their values, without an end of line. */
void ft_predictor_quality_print_head(void);
void ft_predictor_quality_print(const ft_binary_quality *quality);

/* `trace FILE --predictor PATH`: compares what the predictor says of each judged token of the trace
 * with its verdict. *report: the object of --json. If `text`, a table goes to standard output.
 * Errors of the two files. FT_PRECONDITION: the predictor was trained on another draft model, or
 * the trace has several. FT_NOT_FOUND: the trace has no judged tokens with features. */
FT_WARN_UNUSED ft_status ft_cmd_trace_predictor(const char *trace, const char *path, bool text,
                                                ft_error *err, json_t **report);

#endif
