// SPDX-License-Identifier: Apache-2.0
// Draws a plan by gnuplot: boxes of a colour for each batch. Stateless.
#include "cmd/plan_plot.h"

#include "base/plot.h"

#define ROUNDS_SHOWN 4 /* behind the first one; more become narrow stripes */

typedef struct drawing {
    FILE *out;
    double upload_s;
    uint32_t first, last; /* rounds */
} drawing;

/* A box: middle, left and right, bottom and top, colour. */
static void box(FILE *out, double from, double to, double y, uint32_t batch)
{
    fprintf(out, "%.9g %g %.9g %.9g %g %g %u\n", (from + to) / 2, y, from, to, y - 0.4, y + 0.4,
            batch + 1);
}

static void see(void *ctx, const ft_plan_moment *m)
{
    const drawing *d = ctx;
    if (m->round < d->first || m->round > d->last)
        return;
    if (m->draft_to_s > m->draft_from_s)
        box(d->out, d->upload_s + m->draft_from_s, d->upload_s + m->draft_to_s, 2, m->batch);
    box(d->out, d->upload_s + m->verify_from_s, d->upload_s + m->verify_to_s, 1, m->batch);
}

static ft_status draw_stations(const ft_plan_problem *problem, const ft_batch_plan *plan,
                               drawing *d, ft_error *err)
{
    fprintf(d->out,
            "set title 'rounds %u to %u'\n"
            "set yrange [0.4:2.6]\nset ytics ('verify station' 1, 'draft station' 2)\n"
            "plot '-' using 1:2:3:4:5:6:7 with boxxyerror linecolor variable\n",
            d->first, d->last);
    ft_status status = ft_plan_trace(problem, plan, see, d, err);
    fprintf(d->out, "e\n");
    return status;
}

static uint32_t rounds_of(const ft_batch_plan *plan)
{
    uint32_t rounds = 0;
    for (uint32_t i = 0; i < plan->n_batches; i++)
        rounds = plan->batches[i].rounds > rounds ? plan->batches[i].rounds : rounds;
    return rounds;
}

static void draw_batches(const ft_batch_plan *plan, FILE *out)
{
    fprintf(out,
            "set title 'each batch from the first upload (grey) to its end'\n"
            "set yrange [0.4:%u.6]\nset ytics 1\nset ylabel 'batch'\n"
            "plot '-' using 1:2:3:4:5:6 with boxxyerror fillcolor 'grey', "
            "'-' using 1:2:3:4:5:6:7 with boxxyerror linecolor variable\n",
            plan->n_batches);
    for (uint32_t i = 0; i < plan->n_batches; i++)
        box(out, 0, plan->com_s, i + 1, i);
    fprintf(out, "e\n");
    for (uint32_t i = 0; i < plan->n_batches; i++)
        box(out, plan->com_s, plan->batches[i].end_s, i + 1, i);
    fprintf(out, "e\n");
}

ft_status ft_plan_plot(const ft_plan_problem *problem, const ft_batch_plan *plan, const char *path,
                       ft_error *err)
{
    ft_error closed = {0};
    ft_plot p = {.command = "plan", .path = path, .width = 1200, .height = 1000};
    ft_status status = ft_plot_open(&p, err);
    if (status != FT_OK)
        return status;
    fprintf(p.gnuplot, "set multiplot layout 3,1\nset style fill solid 0.8 border -1\n"
                       "unset key\nset xlabel 'seconds'\n");
    drawing first = {p.gnuplot, plan->com_s, 1, 1};
    drawing later = {p.gnuplot, plan->com_s, 2, 1 + ROUNDS_SHOWN};
    status = draw_stations(problem, plan, &first, err);
    if (status == FT_OK && rounds_of(plan) > 1)
        status = draw_stations(problem, plan, &later, err);
    draw_batches(plan, p.gnuplot);
    fprintf(p.gnuplot, "unset multiplot\n");
    const ft_status end = ft_plot_close(&p, &closed);
    if (status == FT_OK && end != FT_OK)
        return ft_error_set(err, end, "%s", closed.message);
    return status;
}
