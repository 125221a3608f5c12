/* SPDX-License-Identifier: Apache-2.0
 *
 * What an edge has learnt of its server, models and machine, in a small file: where the next
 * process begins. Only what the controller has learnt by its own choices is kept: rounds of a draft
 * that was asked for say too little of others. Text does not depend on it. A file that cannot be
 * read or is broken is ignored, with a line in the log, and one of an older version without; the
 * last process to end overwrites it. */
#ifndef FT_EDGE_KEPT_H
#define FT_EDGE_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "edge/edge_internal.h"

#define FT_EDGE_KEPT_LISTS (FT_RULE_KINDS * FT_WARMTHS)

/* What is known of the server's place, by kind of rule and warmth. */
typedef struct ft_edge_kept {
    uint64_t of; /* hash of what it is about: other models or servers know nothing of it */
    ft_edge_learnt *learnt; /* [FT_RULE_KINDS, FT_WARMTHS] */
    bool *known;            /* [FT_RULE_KINDS, FT_WARMTHS] */
} ft_edge_kept;

/* Appends the file's text. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_edge_kept_write(const ft_edge_kept *kept, ft_buf *out);
/* Takes up a file's text: sets kept->learnt, which is new, and kept->known of the lists that it
 * has. FT_NOT_FOUND: it is about something else, or of an older version. FT_INVALID says what is
 * wrong; then nothing was taken up. FT_NOMEM. */
FT_WARN_UNUSED ft_status ft_edge_kept_read(const char *text, size_t n, const ft_edge_kept *kept,
                                           ft_error *err);

/* In the edge's folder (ft_edge_opts.kept), if it has one, and if a server answered at its
 * creation: at the end of its creation, and before it is destroyed. */
void ft_edge_kept_load(ft_edge *edge);
void ft_edge_kept_save(ft_edge *edge);

#endif
