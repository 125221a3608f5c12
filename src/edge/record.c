// SPDX-License-Identifier: Apache-2.0
// Records a generation's rounds in the trace store. Invariant: `node` is set exactly while it
// records. Owned by the generation's thread; generations share the store.
#include "edge/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/secret.h"

_Static_assert(FT_TRACE_NODES >= FT_TREE_MAX, "a draft is a round");

uint64_t ft_record_target(const char *name)
{
    return ft_fnv64(FT_FNV64_INIT, name, strlen(name));
}

void ft_record_begin(ft_record *r, ft_trace *trace, const ft_trace_session *session)
{
    ft_error err = {0};
    *r = (ft_record){.session = *session};
    if (!trace)
        return;
    if (ft_trace_begin(&r->session, &err) == FT_OK)
        r->node = calloc(FT_TREE_MAX, sizeof *r->node);
    if (r->node)
        r->trace = trace;
    else
        FT_LOGW("edge", "a generation is not recorded: %s",
                err.code == FT_OK ? "out of memory" : err.message);
}

void ft_record_draft(ft_record *r, const ft_tree *tree, const ft_drafter *drafter)
{
    for (uint32_t i = 0; r->trace && i < tree->n; i++) {
        r->node[i] = (ft_trace_node){.token = tree->token[i],
                                     .parent = tree->parent[i],
                                     .depth = tree->depth[i],
                                     .has_features = true};
        ft_drafter_features(drafter, i, r->node[i].feature);
    }
}

void ft_record_verdict(ft_record *r, ft_trace_round *round, const uint32_t *path, bool text_ends)
{
    if (!r->trace || round->n == 0)
        return;
    ft_trace_label(r->node, round->n, path, round->accepted, text_ends);
    round->node = r->node;
    ft_trace_add(r->trace, &r->session, round);
}

void ft_record_end(ft_record *r)
{
    free(r->node);
    *r = (ft_record){0};
}
