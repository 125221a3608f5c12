/* SPDX-License-Identifier: Apache-2.0
 *
 * What an answer of `run` costs from its first piece of text to its last: time, processor time,
 * energy of the machine, bytes of weights read. Loading and the prompt are outside. Owned by the
 * thread that generates.
 */
#ifndef FT_CMD_RUN_METER_H
#define FT_CMD_RUN_METER_H

#include <jansson.h>

#include "base/energy.h"
#include "model/streamed.h"

typedef struct ft_run_mark {
    int64_t us, cpu_us; /* monotonic; processor time of this process so far */
    ft_energy energy;
    ft_weight_stream_stats stream;
} ft_run_mark;

typedef struct ft_run_meter {
    ft_streamed *streamed; /* borrowed; NULL: no weights are streamed */
    ft_run_mark first, last;
    uint64_t pieces, tokens; /* of the text; tokens behind the first piece */
    int64_t start_us;        /* from the start of the process to the first piece; 0: none */
} ft_run_meter;

/* An answer begins. */
void ft_run_meter_begin(ft_run_meter *m, ft_streamed *streamed);
/* A piece of text of n tokens is there. */
void ft_run_meter_piece(ft_run_meter *m, size_t n_tokens);
/* Of the tokens behind the first piece: that is one token, or all that the first pass brought. 0:
 * there are none. */
double ft_run_meter_tokens_per_s(const ft_run_meter *m);
/* Sets `start_ms` and `decode` in the object, and with weights that are streamed what the stream
 * has done since it was opened. */
void ft_run_meter_json(const ft_run_meter *m, json_t *object);

#endif
