/* SPDX-License-Identifier: Apache-2.0
 *
 * Records drafts in the trace store (learn/trace.h): the features of each node when it was drafted,
 * and whether it was accepted. A generation is a session there. Only rounds with a tree are kept,
 * no runs. A failure ends the recording of this generation; it never delays a generation.
 */
#ifndef FT_EDGE_RECORD_H
#define FT_EDGE_RECORD_H

#include "learn/trace.h"
#include "spec/drafter.h"

typedef struct ft_record {
    ft_trace *trace; /* borrowed; NULL: nothing is recorded, and all calls do nothing */
    ft_trace_session session;
    ft_trace_node *node; /* [FT_TREE_MAX] of the outstanding draft */
} ft_record;

/* The number of a target in the trace store: a hash of its name, as an edge knows only the name. */
uint64_t ft_record_target(const char *name);

/* A generation begins; `session` describes it. trace NULL: it is not recorded. */
void ft_record_begin(ft_record *r, ft_trace *trace, const ft_trace_session *session);
void ft_record_end(ft_record *r);
/* The tree is about to be sent. Its drafter must not have changed since it drafted the tree. */
void ft_record_draft(ft_record *r, const ft_tree *tree, const ft_drafter *drafter);
/* Records the verdict on that tree and its path. Fills in the nodes of *round. text_ends: the text
 * ends inside the path. */
void ft_record_verdict(ft_record *r, ft_trace_round *round, const uint32_t *path, bool text_ends);

#endif
