// SPDX-License-Identifier: Apache-2.0
// Differences of sums in two lines of text. No state.
#include "cmd/run_verbose.h"

#include <inttypes.h>

/* Passes of a model in an answer. */
typedef struct passes {
    uint64_t n, alone, us;
    int threads;
} passes;

void ft_run_passes_get(ft_edge *edge, ft_verifier *verifier, ft_run_passes *out)
{
    ft_edge_draft_stats(edge, &out->draft);
    ft_verifier_get_stats(verifier, &out->target);
}

static passes draft_passes(const ft_run_verbose *v)
{
    const ft_engine_stats *a = &v->before->draft, *b = &v->after->draft;
    return (passes){b->forwards - a->forwards, b->alone - a->alone, b->compute_us - a->compute_us,
                    b->n_threads};
}

static passes target_passes(const ft_run_verbose *v)
{
    const ft_verifier_stats *a = &v->before->target, *b = &v->after->target;
    return (passes){b->passes.n - a->passes.n, b->passes_alone - a->passes_alone,
                    b->forward_us + b->head_us - a->forward_us - a->head_us, v->target_threads};
}

static void print_passes(FILE *out, const char *who, const passes *p)
{
    fprintf(out, "[%s: %" PRIu64 " passes of %.2f ms", who, p->n,
            p->n ? (double)p->us / 1e3 / (double)p->n : 0.0);
    if (p->alone == 0 || p->alone == p->n)
        fprintf(out, " on %d of %d threads", p->alone ? 1 : p->threads, p->threads);
    else
        fprintf(out, ", %" PRIu64 " on 1 of %d threads", p->alone, p->threads);
}

void ft_run_verbose_print(FILE *out, const ft_run_verbose *v)
{
    const ft_gen_stats *s = v->answer;
    const passes draft = draft_passes(v), target = target_passes(v);
    if (draft.threads > 0)
        print_passes(out, "draft", &draft);
    else
        fputs("[draft: no model", out);
    fprintf(out, "; %" PRIu64 " ahead of a verdict, %" PRIu64 " tokens of them kept]\n",
            s->proactive_forwards, s->proactive_kept);
    print_passes(out, "target", &target);
    fprintf(out, "; behind a draft in %" PRIu64 " rounds%s, for %" PRIu64 " tokens without one]\n",
            s->rounds, s->proactive_forwards ? ", beside the next one" : "", s->run_tokens);
}
