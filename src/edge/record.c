// SPDX-License-Identifier: Apache-2.0
// Drafts into the trace store (learn/trace.h): what a node's features were when it was drafted, and what
// the verdict made of it. A generation is a session there; only rounds with a draft are kept, no runs.
// Recording is nobody's concern: what goes wrong here ends it for this generation, and never delays one.
//
// Owned by the generation's thread; the store is everybody's.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "edge/edge_internal.h"

_Static_assert(FT_TRACE_NODES >= FT_TREE_MAX, "a draft is a round");

uint64_t ft_record_target(const char *name)
{
    return ft_fnv64(FT_FNV64_INIT, name, strlen(name));
}

void ft_gen_record_begin(ft_gen *gen)
{
    const ft_edge *edge = gen->edge;
    const ft_sampling *s = &gen->request->sampling;
    ft_error err = {0};
    if (!edge->trace || edge->draft_ctx == 0)
        return;
    gen->recorded = (ft_trace_session){.draft = edge->draft_fingerprint,
                                       .target = ft_record_target(edge->info.model),
                                       .vocab = edge->fingerprint,
                                       .temperature = s->temperature,
                                       .top_p = s->top_p,
                                       .min_p = s->min_p,
                                       .top_k = (uint32_t)s->top_k};
    if (ft_trace_begin(&gen->recorded, &err) == FT_OK)
        gen->record = calloc(FT_TREE_MAX, sizeof *gen->record);
    if (!gen->record)
        FT_LOGW("edge", "a generation is not recorded: %s",
                err.code == FT_OK ? "out of memory" : err.message);
}

void ft_gen_record_draft(ft_gen *gen)
{
    const ft_tree *tree = &gen->tree;
    for (uint32_t i = 0; gen->record && i < tree->n; i++) {
        gen->record[i] = (ft_trace_node){.token = tree->token[i],
                                         .parent = tree->parent[i],
                                         .depth = tree->depth[i],
                                         .has_features = true};
        ft_drafter_features(gen->drafter, i, gen->record[i].feature);
    }
}

void ft_gen_record_verdict(ft_gen *gen, const ft_msg_verdict *v)
{
    const uint32_t n = gen->out.draft.n;
    if (!gen->record || n == 0)
        return;
    ft_trace_label(gen->record, n, v->path, v->n_path, v->n_next == 0);
    const ft_trace_round round = {.number = gen->stats->rounds,
                                  .length = gen->out.draft.base,
                                  .depth = gen->levels,
                                  .accepted = v->n_path,
                                  .next = v->n_next > 0 ? v->next[0] : -1,
                                  .draft_us = gen->out.draft.draft_us,
                                  .rtt_us = gen->rtt_sample_us,
                                  .queue_us = v->queue_us,
                                  .verify_us = v->verify_us,
                                  .n = n,
                                  .node = gen->record};
    ft_trace_add(gen->edge->trace, &gen->recorded, &round);
}

void ft_gen_record_end(ft_gen *gen)
{
    free(gen->record);
    gen->record = NULL;
}
