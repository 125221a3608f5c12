// SPDX-License-Identifier: Apache-2.0
// What the paper says, and what came out of the simulation. A reading says which of both is higher,
// and shows the rounds behind the number that is farthest from the paper's. Stateless.
#include "sim/edgellm_claims.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

#define EVERY FT_EDGELLM_CLASSES /* class of claims about all pairs */

/* What else a reading shows. */
typedef enum note { PLAIN, ALONE, LENGTHS, AHEAD, DOUBT } note;

/* `fast` is so many times faster than `slow`: the paper's least and greatest number. */
typedef struct ratio {
    const char *name; /* before the class */
    ft_edgellm_method fast, slow;
    bool best; /* the best number of `slow` on each dataset */
    int class;
    double least, most;
    note note;
} ratio;

/* IV-C, figure 15 and 16: over std and the other baselines, and over the draft alone. IV-H, figure
 * 22: what BNV, PP and SF add, in this order. */
static const ratio ratios[] = {
    {"edgellm over std", FT_EDGELLM_ALL, FT_EDGELLM_STD, false, FT_EDGELLM_IOT, 2.9, 9.3, ALONE},
    {"edgellm over std", FT_EDGELLM_ALL, FT_EDGELLM_STD, false, FT_EDGELLM_PHONE, 3.47, 4.67,
     ALONE},
    {"draft alone over edgellm", FT_EDGELLM_DRAFT, FT_EDGELLM_ALL, false, FT_EDGELLM_IOT, 4.4, 4.4,
     PLAIN},
    {"draft alone over edgellm", FT_EDGELLM_DRAFT, FT_EDGELLM_ALL, false, FT_EDGELLM_PHONE, 2.7,
     2.7, PLAIN},
    {"edgellm over sp", FT_EDGELLM_ALL, FT_EDGELLM_SP, false, FT_EDGELLM_IOT, 1.93, 2.00, LENGTHS},
    {"edgellm over sp", FT_EDGELLM_ALL, FT_EDGELLM_SP, false, FT_EDGELLM_PHONE, 1.34, 1.77,
     LENGTHS},
    {"edgellm over the best sp", FT_EDGELLM_ALL, FT_EDGELLM_SP, true, EVERY, NAN, NAN, PLAIN},
    {"edgellm over specinfer", FT_EDGELLM_ALL, FT_EDGELLM_SPECINFER, false, FT_EDGELLM_IOT, NAN,
     1.66, PLAIN},
    {"edgellm over specinfer", FT_EDGELLM_ALL, FT_EDGELLM_SPECINFER, false, FT_EDGELLM_PHONE, NAN,
     1.42, PLAIN},
    {"edgellm over the best specinfer", FT_EDGELLM_ALL, FT_EDGELLM_SPECINFER, true, EVERY, NAN, NAN,
     PLAIN},
    {"BNV: bnv over sp", FT_EDGELLM_BNV, FT_EDGELLM_SP, false, EVERY, 1.4, 2.1, LENGTHS},
    {"PP: bnv+pp over bnv", FT_EDGELLM_BNV_PP, FT_EDGELLM_BNV, false, EVERY, NAN, 1.51, AHEAD},
    {"SF: edgellm over bnv+pp", FT_EDGELLM_ALL, FT_EDGELLM_BNV_PP, false, EVERY, 1.08, 1.20, DOUBT},
    {"edgellm over the best bnv+pp", FT_EDGELLM_ALL, FT_EDGELLM_BNV_PP, true, EVERY, NAN, NAN,
     DOUBT},
    {"pacer over best first", FT_EDGELLM_ALL, FT_EDGELLM_BEST, false, EVERY, NAN, NAN, DOUBT},
};

typedef struct maker {
    const ft_edgellm_config *config;
    const ft_edgellm_table *table;
    ft_edgellm_claims *out;
} maker;

/* ---- readings ---- */

/* Appends to a reading, which is cut where it is full. */
static void say(ft_edgellm_claim *claim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(ft_edgellm_claim *claim, const char *format, ...)
{
    const size_t at = strlen(claim->reading);
    va_list args;
    va_start(args, format);
    vsnprintf(claim->reading + at, sizeof claim->reading - at, format, args);
    va_end(args);
}

/* By how much a number is outside the paper's range. */
static double off(const double paper[2], double ours)
{
    const double low = isnan(paper[0]) ? paper[1] : paper[0];
    return ours < low ? low - ours : ours > paper[1] ? ours - paper[1] : 0;
}

/* Which of both is higher. What the error may make is no difference. */
static void say_where(ft_edgellm_claim *c)
{
    const double e = isnan(c->error) ? 0 : c->error;
    const double low = c->paper[0], high = c->paper[1];
    const bool less = c->ours[1] + e < (isnan(low) ? high : low);
    const bool more = (isnan(low) ? c->ours[1] : c->ours[0]) - e > high;
    if (isnan(high))
        say(c, "The paper has no such number. ");
    else if (less || more)
        say(c, "%s than %s. ", less ? "Less" : "More",
            isnan(low) ? "the paper's most" : "in the paper");
    else if (isnan(low))
        say(c, "As the paper's most. ");
    else
        say(c, "%s in the paper. ",
            c->ours[0] + e >= low && c->ours[1] - e <= high ? "As" : "Partly as");
}

static void say_row(const maker *m, ft_edgellm_claim *claim, const ft_edgellm_row *row)
{
    const ft_edgellm_result *r = &row->sum;
    const double n = (double)r->verifications;
    char name[96];
    ft_edgellm_way_name(m->config, &row->way, name, sizeof name);
    if (row->way.method < FT_EDGELLM_SP)
        say(claim, " A token of %s: %.2f s.", name, ft_edgellm_s_per_tok(r));
    else
        say(claim, " A round of %s: %.2f tokens in %.1f s, %.1f s of them drafting.", name,
            (double)r->tokens / n, (r->draft_s + r->verify_s) / n, r->draft_s / n);
}

static void say_note(const maker *m, ft_edgellm_claim *claim, note what,
                     const ft_edgellm_row *const rows[2])
{
    const ft_edgellm_pair *pair = &m->config->pair[rows[0]->pair];
    const ft_edgellm_result *r = &rows[0]->sum, *slow = &rows[1]->sum;
    const double n = (double)r->verifications;
    if (what == ALONE)
        say(claim, " A token of std takes %.2f of a verification.",
            pair->s[FT_EDGELLM_STD_S] / pair->s[FT_EDGELLM_VERIFY_S]);
    if (what == AHEAD)
        say(claim,
            " Of %.1f proactive tokens a verification, %.1f are kept: %.0f %% of the verifications "
            "find an error, and one branch is followed. If drafting took no time, it would be "
            "%.2f.",
            (double)r->proactive / n, (double)r->kept / n, 100 * (double)r->errors / n,
            1 + slow->draft_s / slow->verify_s);
    if (what == DOUBT)
        say(claim, " Alpha ends %.0f %% of edgellm's drafts. The others end with tree_most nodes.",
            100 * (double)r->in_doubt / n);
}

/* ---- ratios ---- */

static ft_edgellm_claim *add_claim(maker *m, double least, double most)
{
    ft_edgellm_claim *claim = &m->out->at[m->out->n++];
    *claim = (ft_edgellm_claim){.paper = {least, most}, .ours = {INFINITY, -INFINITY}, .error = 0};
    return claim;
}

/* The class of a claim, in its name. */
static void name_claim(ft_edgellm_claim *claim, const char *name, int class)
{
    snprintf(claim->name, sizeof claim->name, "%s%s%s", name, class == EVERY ? "" : ", ",
             class == EVERY ? "" : ft_edgellm_class_title[class]);
}

static void take(ft_edgellm_claim *claim, double ours, double error)
{
    claim->ours[0] = fmin(claim->ours[0], ours);
    claim->ours[1] = fmax(claim->ours[1], ours);
    claim->error = fmax(claim->error, error);
}

/* The rows of a ratio on one dataset. */
static bool rows_of(const maker *m, const ratio *of, const ft_edgellm_row *like,
                    const ft_edgellm_row *found[2])
{
    ft_edgellm_row wanted = {.pair = like->pair, .dataset = like->dataset};
    wanted.way.method = of->fast;
    found[0] = ft_edgellm_table_find(m->table, m->config, &wanted, false);
    wanted.way.method = of->slow;
    found[1] = ft_edgellm_table_find(m->table, m->config, &wanted, of->best);
    return found[0] && found[1];
}

static bool is_about(const maker *m, int class, uint32_t pair)
{
    return class == EVERY || class == (int)m->config->pair[pair].class;
}

/* The same over chains of each length. */
static void say_lengths(const maker *m, const ratio *of, ft_edgellm_claim *claim)
{
    for (uint32_t k = 0; k < m->config->n_lengths; k++) {
        const ft_edgellm_row *rows[2];
        ft_edgellm_claim here = {.ours = {INFINITY, -INFINITY}};
        for (size_t i = 0; i < m->table->n_rows; i++) {
            const ft_edgellm_row *row = &m->table->rows[i];
            if (row->way.method == FT_EDGELLM_SP && row->way.tok == m->config->lengths[k] &&
                is_about(m, of->class, row->pair) && rows_of(m, of, row, rows))
                take(&here, ft_edgellm_compare(&rows[0]->sum, &row->sum).times, 0);
        }
        say(claim, "%s sp %g: %.2f-%.2f", k ? "," : " Over", m->config->lengths[k], here.ours[0],
            here.ours[1]);
    }
    say(claim, ".");
}

static void claim_ratio(maker *m, const ratio *of)
{
    const ft_edgellm_row *rows[2], *far[2] = {NULL, NULL};
    double farthest = -1;
    ft_edgellm_claim *claim = add_claim(m, of->least, of->most);
    name_claim(claim, of->name, of->class);
    for (size_t i = 0; i < m->table->n_rows; i++) {
        const ft_edgellm_row *row = &m->table->rows[i];
        if (row->way.method != FT_EDGELLM_STD || !is_about(m, of->class, row->pair) ||
            !rows_of(m, of, row, rows))
            continue;
        const ft_edgellm_gain gain = ft_edgellm_compare(&rows[0]->sum, &rows[1]->sum);
        const double here = isnan(of->most) ? 1 / gain.times : off(claim->paper, gain.times);
        take(claim, gain.times, gain.error);
        if (here > farthest) {
            farthest = here;
            memcpy(far, rows, sizeof far);
        }
    }
    if (!far[0]) {
        m->out->n--; /* the setting has no such pair */
        return;
    }
    say_where(claim);
    say(claim, "%s: %s.", isnan(of->most) ? "Least" : "Farthest",
        m->config->pair[far[0]->pair].dataset[far[0]->dataset].name);
    say_row(m, claim, far[0]);
    say_row(m, claim, far[1]);
    say_note(m, claim, of->note, far);
    if (of->note == LENGTHS)
        say_lengths(m, of, claim);
}

/* ---- other claims ---- */

/* IV-G: verifications that find an error. III-B: tokens that are drafted until one. */
static void claim_rounds(maker *m, bool errors)
{
    const int class = errors ? FT_EDGELLM_PHONE : EVERY;
    ft_edgellm_claim *claim = errors ? add_claim(m, 0.528, 0.763) : add_claim(m, 12, 15);
    name_claim(claim,
               errors ? "share of verifications that find an error"
                      : "drafted tokens a verification",
               class);
    double proactive = 0, tokens = 0, n = 0;
    for (size_t i = 0; i < m->table->n_rows; i++) {
        const ft_edgellm_row *row = &m->table->rows[i];
        const double rounds = (double)row->sum.verifications;
        if (row->way.method != FT_EDGELLM_ALL || row->way.chain || !is_about(m, class, row->pair))
            continue;
        take(claim, (double)(errors ? row->sum.errors : row->sum.drafted) / rounds, 0);
        proactive += (double)row->sum.kept;
        tokens += (double)row->sum.tokens;
        n += rounds;
    }
    claim->error = NAN;
    if (n == 0) {
        m->out->n--;
        return;
    }
    say_where(claim);
    if (errors)
        say(claim, "%.2f tokens a verification are right, with the target's own.", tokens / n);
    else
        say(claim, "%.1f more were kept that were drafted while a verification ran.",
            proactive / n);
}

/* IV-D, figure 18: the gain over sp grows as the budget shrinks. paper: at the largest and at the
 * smallest budget; ours, too. */
static void claim_memory(maker *m, int class, double at_most, double at_least)
{
    const ft_edgellm_budget *last = NULL;
    bool grows = true;
    ft_edgellm_claim *claim = add_claim(m, at_most, at_least);
    name_claim(claim, "edgellm over sp, largest to smallest budget", class);
    for (uint32_t i = 0; i < m->table->n_budgets; i++) {
        const ft_edgellm_budget *b = &m->table->budgets[i];
        if (!is_about(m, class, b->pair) || (last && b->pair != last->pair))
            continue; /* the first pair of the class */
        say(claim, "%s%g GB, a pass of %.1f s: %.2f", last ? "; " : "", b->budget_gb, b->verify_s,
            b->gain.times);
        if (!last)
            claim->ours[1] = b->gain.times;
        else
            grows = grows && b->gain.times < last->gain.times;
        claim->ours[0] = b->gain.times;
        claim->error = fmax(claim->error, b->gain.error);
        last = b;
    }
    if (!last)
        m->out->n--;
    else
        say(claim, ". It %s as the budget shrinks.",
            grows ? "grows with every step" : "does not grow with every step");
}

void ft_edgellm_claims_make(const ft_edgellm_config *config, const ft_edgellm_table *table,
                            ft_edgellm_claims *out)
{
    maker m = {.config = config, .table = table, .out = out};
    *out = (ft_edgellm_claims){0};
    for (size_t i = 0; i < FT_COUNT(ratios); i++)
        claim_ratio(&m, &ratios[i]);
    claim_rounds(&m, true);
    claim_rounds(&m, false);
    claim_memory(&m, FT_EDGELLM_IOT, 1.76, 1.91);
    claim_memory(&m, FT_EDGELLM_PHONE, NAN, 1.55);
}
