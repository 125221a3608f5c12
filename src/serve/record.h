/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a session's last verdict. If an edge asks for that round again, the server answers
 * from the record. The record keeps the path and the counts. The tokens are read from the text. The
 * engine thread owns the record.
 */
#ifndef FT_SERVE_RECORD_H
#define FT_SERVE_RECORD_H

#include "serve/text.h"

/* How often a stream gets the same verdict from the record. An edge that has lost its stream asks
 * once on the next one. More would let a client have answers made for which no pass is computed. */
#define FT_REPEATS_MAX 4

typedef struct ft_sess_record {
    uint32_t round; /* rounds are numbered from 1; 0: no verdict yet */
    uint32_t base;  /* length of the text that the round's draft extended */
    uint32_t n_drafted;
    uint32_t repeats; /* how often the session's present stream got this verdict from the record */
    bool whole;       /* one verdict answered the whole round; false: a run of several passes */
    uint32_t n_path, n_next;
    uint32_t queue_us, verify_us, others_us, read_tok, read_us;
    ft_msg_hints hints;
    uint8_t path[FT_WIRE_PATH_MAX]; /* [n_path] */
} ft_sess_record;

/* Keeps the verdict. Its tokens must be the last tokens of the text. ft_sess_record explains base,
 * n_drafted and whole. */
void ft_sess_record_keep(ft_sess_record *record, const ft_msg_verdict *verdict, uint32_t base,
                         uint32_t n_drafted, bool whole);
/* Whether the record holds the whole answer to this round with this base. */
bool ft_sess_record_holds(const ft_sess_record *record, uint32_t round, uint32_t base);
/* Makes the verdict again. logprobs: the log-probabilities of its tokens, borrowed; NULL: none. */
void ft_sess_record_verdict(const ft_sess_record *record, const ft_sess_text *text,
                            ft_token_logprob *logprobs, ft_msg_verdict *out);

#endif
