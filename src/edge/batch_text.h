/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of a task, while ft_batch_run works on it: a generation, and what its verdicts tell
 * the planner. Inside the room; the thread of ft_batch_run owns it. */
#ifndef FT_EDGE_BATCH_TEXT_H
#define FT_EDGE_BATCH_TEXT_H

#include "edge/batch.h"
#include "edge/batch_passes.h"
#include "edge/generation.h"

/* What all texts of a batch run share. */
typedef struct ft_batch_work {
    const ft_batch_opts *how;
    ft_task_answers *answers;
    ft_batch_stats *stats;
    ft_batch_known *known;
    ft_batch_passes passes;
    int64_t began_us;
    double began_s;     /* the batch's clock then */
    uint32_t n_open;    /* texts */
    uint32_t n_reading; /* of them, those whose prompt the server may be reading */
    uint64_t room_tok;  /* of them (ft_task_room_tok) */
    bool no_memory;     /* a sink could not keep a token */
} ft_batch_work;

/* WAITING --open--> OPEN --hear, close--> DONE. A text that is whole when it is opened goes from
 * WAITING to DONE. */
typedef enum ft_batch_text_state {
    FT_BATCH_TEXT_WAITING,
    FT_BATCH_TEXT_OPEN,
    FT_BATCH_TEXT_DONE
} ft_batch_text_state;

typedef struct ft_batch_text {
    ft_batch_work *work;
    uint32_t task;
    ft_batch_text_state state;
    ft_gen *gen;      /* OPEN */
    ft_tokens prompt; /* the task's, and what an earlier process has got */
    ft_gen_request request;
    ft_gen_sink sink;
    ft_gen_stats stats;
    bool heard;   /* a verdict came */
    bool started; /* the draft model has its text, if it has room */
} ft_batch_text;

/* The batch's clock. */
double ft_batch_work_clock_s(const ft_batch_work *w);
int64_t ft_batch_work_now_us(const ft_batch_work *w);
/* Tokens of KV that the task's text needs. */
uint64_t ft_batch_work_room_tok(const ft_batch_work *w, uint32_t task);

/* WAITING: opens the text with what is known of the answer. The server begins to read it. Errors
 * name the task, here and below. */
FT_WARN_UNUSED ft_status ft_batch_text_open(ft_batch_text *t, ft_error *err);
/* OPEN: its next drafts have so many tokens. */
void ft_batch_text_set_length(ft_batch_text *t, uint32_t length);
/* OPEN, once, before the first draft: the draft model reads the text. */
void ft_batch_text_read(ft_batch_text *t);
/* OPEN, and a round is outstanding: waits for a verdict, and ends the text if it is complete. */
FT_WARN_UNUSED ft_status ft_batch_text_hear(ft_batch_text *t, ft_error *err);
/* Ends the generation, if there is one. status: of the batch. */
void ft_batch_text_close(ft_batch_text *t, ft_status status);

#endif
