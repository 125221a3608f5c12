// SPDX-License-Identifier: Apache-2.0
// The division of a memory budget. What comes first: the least that a pass can run with; rows, so
// that a prompt takes few passes; the ring, so that reads never stop; then the output head, layers
// and the embedding, because each resident byte saves reading it in every pass. No state.
#include "model/memory_plan.h"

#include <stdio.h>
#include <string.h>

/* With fewer slots a read or the pass has to wait for the other. */
#define SLOTS_LEAST 2
/* The ring holds the reads that are under way, and a layer that is computed. A larger one would
 * only take room from resident layers. */
#define RING_BYTES ((uint64_t)16 << 20)
/* Of few small layers the ring holds one part in so many. */
#define RING_SHARE 4
/* A budget's share for more rows in a pass, beyond the least: one part in so many. Prompts are read
 * in fewer passes then, but each pass has fewer resident layers. */
#define ROWS_SHARE 8

/* What is decided. */
typedef struct choice {
    uint32_t rows, n_slots, n_resident;
    bool head, embedding; /* resident */
} choice;

static uint64_t fixed_bytes(const ft_memory_ask *ask)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ask->n_fixed; i++)
        sum += ask->fixed[i].bytes;
    return sum;
}

/* Whether the layer is one of k resident ones, which are spread evenly. */
static bool chosen(uint32_t layer, uint32_t k, uint32_t n)
{
    return (uint64_t)(layer + 1) * k / n > (uint64_t)layer * k / n;
}

static uint64_t layer_bytes(const ft_memory_weights *w, uint32_t k)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->n_layer; i++)
        sum += chosen(i, k, w->n_layer) ? w->layer[i] : 0;
    return sum;
}

static bool streams(const ft_memory_weights *w, const choice *c)
{
    return c->n_resident < w->n_layer || !c->head || !c->embedding;
}

static uint32_t out_of(const ft_memory_ask *ask, uint32_t rows)
{
    return ask->out_most && ask->out_most < rows ? ask->out_most : rows;
}

static uint64_t pass_of(const ft_memory_ask *ask, const choice *c)
{
    return ask->pass_bytes(ask->ctx, c->rows, out_of(ask, c->rows), !c->head);
}

static uint64_t resident_bytes(const ft_memory_weights *w, const choice *c)
{
    return w->vectors + layer_bytes(w, c->n_resident) + (c->head ? w->head : 0) +
           (c->embedding ? w->embedding : 0);
}

static uint64_t ring_bytes(const ft_memory_weights *w, const choice *c)
{
    return streams(w, c) ? c->n_slots * w->slot + w->reader : 0;
}

static uint64_t bytes_of(const ft_memory_ask *ask, const choice *c)
{
    return fixed_bytes(ask) + resident_bytes(&ask->weights, c) + ring_bytes(&ask->weights, c) +
           pass_of(ask, c);
}

static bool fits(const ft_memory_ask *ask, const choice *c)
{
    return bytes_of(ask, c) <= ask->budget_bytes;
}

static uint32_t more_rows(const ft_memory_ask *ask, uint32_t rows)
{
    return rows < ask->rows_most / 2 ? 2 * rows : ask->rows_most;
}

static void choose_rows(const ft_memory_ask *ask, choice *c)
{
    const uint64_t least = bytes_of(ask, c), more = (ask->budget_bytes - least) / ROWS_SHARE;
    for (choice next = *c; c->rows < ask->rows_most; *c = next) {
        next.rows = more_rows(ask, c->rows);
        if (bytes_of(ask, &next) - least > more)
            return;
    }
}

static void choose_slots(const ft_memory_ask *ask, choice *c)
{
    const ft_memory_weights *w = &ask->weights;
    const uint32_t most = w->n_layer / RING_SHARE;
    for (choice next = *c; c->n_slots < most && c->n_slots * w->slot < RING_BYTES; *c = next) {
        next.n_slots++;
        if (!fits(ask, &next))
            return;
    }
}

/* The most layers that fit; *next has the rest of the choice. */
static void choose_layers(const ft_memory_ask *ask, choice *c)
{
    choice next = *c;
    for (next.n_resident = ask->weights.n_layer; next.n_resident > c->n_resident; next.n_resident--)
        if (fits(ask, &next)) {
            *c = next;
            return;
        }
}

static choice all_weights(const ft_memory_ask *ask)
{
    return (choice){.rows = ask->rows_least,
                    .n_resident = ask->weights.n_layer,
                    .head = true,
                    .embedding = true};
}

/* All weights in memory, and as many rows as fit then. */
static bool choose_all(const ft_memory_ask *ask, choice *c)
{
    choice all = all_weights(ask);
    if (!fits(ask, &all))
        return false;
    for (*c = all; c->rows < ask->rows_most; *c = all) {
        all.rows = more_rows(ask, c->rows);
        if (!fits(ask, &all))
            return true;
    }
    return true;
}

static void choose(const ft_memory_ask *ask, choice *c)
{
    choice next;
    if (choose_all(ask, c))
        return;
    choose_rows(ask, c);
    choose_slots(ask, c);
    next = *c;
    next.head = true;
    next.embedding = ask->weights.embedding == 0;
    if (fits(ask, &next))
        *c = next;
    choose_layers(ask, c);
    /* Rows of the embedding are looked up by the reader, which exists for streamed layers. */
    if (c->head && c->n_resident == ask->weights.n_layer)
        c->n_resident--;
    next = *c;
    next.embedding = true;
    if (c->head && fits(ask, &next))
        *c = next;
}

static void add(ft_memory_plan *plan, const char *name, uint64_t bytes, const char *lower)
{
    plan->parts[plan->n_parts++] = (ft_memory_part){name, bytes, lower};
    plan->bytes += bytes;
}

static void add_parts(const ft_memory_ask *ask, const choice *c, ft_memory_plan *plan)
{
    const ft_memory_weights *w = &ask->weights;
    plan->n_parts = 0;
    plan->bytes = 0;
    for (size_t i = 0; i < ask->n_fixed; i++)
        add(plan, ask->fixed[i].name, ask->fixed[i].bytes, ask->fixed[i].lower);
    add(plan, "vectors", w->vectors, NULL);
    add(plan, "resident layers", layer_bytes(w, c->n_resident), NULL);
    add(plan, "output head", c->head ? w->head : 0, NULL);
    add(plan, "embedding", c->embedding ? w->embedding : 0, NULL);
    add(plan, "ring", ring_bytes(w, c), NULL);
    add(plan, "activations", pass_of(ask, c), NULL);
}

/* Says what is too large, and what lowers it. */
static ft_status refuse(const ft_memory_ask *ask, const ft_memory_plan *plan, ft_error *err)
{
    char lower[200] = "";
    size_t n = 0;
    for (size_t i = 0; i < plan->n_parts && n < sizeof lower; i++) {
        const ft_memory_part *p = &plan->parts[i];
        if (p->lower && p->bytes > 0)
            n += (size_t)snprintf(lower + n, sizeof lower - n, "%s %s takes %.1f MB (%s)",
                                  n ? ";" : ":", p->name, (double)p->bytes / 1e6, p->lower);
    }
    return ft_error_set(
        err, FT_EXHAUSTED, "a memory budget of %llu bytes is too small: at least %llu are needed%s",
        (unsigned long long)ask->budget_bytes, (unsigned long long)plan->least_bytes, lower);
}

ft_status ft_memory_plan_make(const ft_memory_ask *ask, ft_error *err, ft_memory_plan *plan)
{
    const ft_memory_weights *w = &ask->weights;
    choice c = {.rows = ask->rows_least, .n_slots = SLOTS_LEAST};
    *plan = (ft_memory_plan){.n_layer = w->n_layer};
    if (w->n_layer == 0 || w->n_layer > FT_MEMORY_LAYERS || ask->n_fixed + 6 > FT_MEMORY_PARTS)
        return ft_error_set(err, FT_INVALID, "a memory plan of %u layers and %zu other parts",
                            w->n_layer, ask->n_fixed);
    const choice all = all_weights(ask); /* less than a ring takes, if the model is tiny */
    const uint64_t streamed = bytes_of(ask, &c), whole = bytes_of(ask, &all);
    plan->least_bytes = streamed < whole ? streamed : whole;
    if (plan->least_bytes > ask->budget_bytes) {
        add_parts(ask, streamed < whole ? &c : &all, plan);
        return refuse(ask, plan, err);
    }
    choose(ask, &c);
    plan->n_resident = c.n_resident;
    for (uint32_t i = 0; i < w->n_layer; i++)
        if (chosen(i, c.n_resident, w->n_layer))
            plan->resident[i / 64] |= 1ull << i % 64;
    plan->head_resident = c.head;
    plan->embedding_resident = c.embedding;
    plan->all_resident = !streams(w, &c);
    plan->n_slots = plan->all_resident ? 0 : c.n_slots;
    plan->slot_bytes = plan->all_resident ? 0 : w->slot;
    plan->rows = c.rows;
    plan->out = out_of(ask, c.rows);
    add_parts(ask, &c, plan);
    return FT_OK;
}
