// SPDX-License-Identifier: Apache-2.0
// Packs a verdict into few bytes and unpacks it. Invariant: the text's last n_path + n_next tokens
// are the tokens of the verdict. The engine thread owns the record. This file does not read drafts
// (drafts.c).
#include "serve/record.h"

#include <string.h>

_Static_assert(FT_WIRE_TREE_MAX <= UINT8_MAX + 1, "a node's number fits a byte");

void ft_sess_record_keep(ft_sess_record *record, const ft_msg_verdict *verdict, uint32_t base,
                         uint32_t n_drafted, bool whole)
{
    record->round = verdict->round;
    record->base = base;
    record->n_drafted = n_drafted;
    record->whole = whole;
    record->repeats = 0;
    record->n_path = verdict->n_path;
    record->n_next = verdict->n_next;
    record->queue_us = verdict->queue_us;
    record->verify_us = verdict->verify_us;
    record->others_us = verdict->others_us;
    record->read_tok = verdict->read_tok;
    record->read_us = verdict->read_us;
    record->hints = verdict->hints;
    for (uint32_t i = 0; i < verdict->n_path; i++)
        record->path[i] = (uint8_t)verdict->path[i];
}

bool ft_sess_record_holds(const ft_sess_record *record, uint32_t round, uint32_t base)
{
    return record->round > 0 && record->whole && round == record->round && base == record->base;
}

void ft_sess_record_verdict(const ft_sess_record *record, const ft_sess_text *text,
                            ft_token_logprob *logprobs, ft_msg_verdict *out)
{
    *out = (ft_msg_verdict){.round = record->round,
                            .n_path = record->n_path,
                            .n_next = record->n_next,
                            .length = text->len,
                            .n_logprobs = logprobs ? record->n_path + record->n_next : 0,
                            .logprobs = logprobs,
                            .queue_us = record->queue_us,
                            .verify_us = record->verify_us,
                            .others_us = record->others_us,
                            .read_tok = record->read_tok,
                            .read_us = record->read_us,
                            .finish = text->finish,
                            .hints = record->hints};
    for (uint32_t i = 0; i < record->n_path; i++)
        out->path[i] = record->path[i];
    memcpy(out->next, text->token + text->len - record->n_next, record->n_next * sizeof *out->next);
}
