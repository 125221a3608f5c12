// SPDX-License-Identifier: Apache-2.0
// A person's setting of simulate edgellm. Whatever is taken must be in range, and a short
// simulation by it must end with times that are numbers.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "sim/edgellm_claims.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_pair(const ft_edgellm_config *c, const ft_edgellm_pair *p)
{
    const ft_edgellm_memory *m = &p->memory;
    require(p->name[0] && strlen(p->name) < FT_EDGELLM_NAME && p->class < FT_EDGELLM_CLASSES);
    require(p->n_datasets >= 1 && p->n_datasets <= FT_EDGELLM_DATASETS);
    for (int i = 0; i < FT_EDGELLM_TIMES; i++)
        require(isfinite(p->s[i]) && p->s[i] > 0);
    for (uint32_t i = 0; i < p->n_datasets; i++)
        require(p->dataset[i].name[0] && p->dataset[i].correctness > 0 &&
                p->dataset[i].correctness < 1);
    require(m->n <= FT_EDGELLM_LIST);
    for (uint32_t i = 0; i < m->n; i++) {
        const double s = ft_edgellm_verify_s(c, p, m->budgets_gb[i]);
        require(isfinite(s) && s >= 0);
    }
}

static void check(ft_edgellm_config *c)
{
    ft_edgellm_knob knobs[FT_EDGELLM_KNOBS];
    require(c->n_pairs >= 1 && c->n_pairs <= FT_EDGELLM_PAIRS);
    require(c->n_lengths >= 1 && c->n_trees >= 1 && c->n_alphas >= 1 && c->n_widths >= 1);
    require(c->n_lengths <= FT_EDGELLM_LIST && c->n_trees <= FT_EDGELLM_LIST &&
            c->n_alphas <= FT_EDGELLM_LIST && c->n_widths <= FT_EDGELLM_LIST);
    for (int i = 0; i < FT_EDGELLM_CONSTS; i++)
        require(isfinite(c->k[i]) && c->k[i] >= 0);
    for (uint32_t i = 0; i < c->n_pairs; i++)
        check_pair(c, &c->pair[i]);
    const uint32_t n = ft_edgellm_knobs(c, knobs);
    for (uint32_t i = 0; i < n; i++) {
        ft_edgellm_knob_turn(&knobs[i], 2);
        ft_edgellm_knob_turn(&knobs[i], 0.5);
        require(*knobs[i].value >= knobs[i].least && *knobs[i].value <= knobs[i].most);
    }
}

/* Each way of one dataset, on two short texts. */
static void simulate(ft_edgellm_config *c)
{
    ft_edgellm_table table;
    ft_edgellm_claims claims;
    c->n_pairs = c->pair[0].n_datasets = 1;
    c->pair[0].memory.n = c->pair[0].memory.n > 0;
    c->k[FT_EDGELLM_TEXTS] = 2;
    c->k[FT_EDGELLM_TEXT_TOK] = 8;
    const ft_edgellm_table_opts opts = {.config = c, .seed = 1};
    require(ft_edgellm_table_make(&opts, NULL, &table) == FT_OK);
    ft_edgellm_claims_make(c, &table, &claims);
    require(claims.n > 0);
    for (size_t i = 0; i < table.n_rows; i++) {
        const ft_edgellm_result *r = &table.rows[i].sum;
        require(r->tokens == 16 && isfinite(ft_edgellm_s_per_tok(r)) &&
                ft_edgellm_s_per_tok(r) > 0);
    }
    for (uint32_t i = 0; i < claims.n; i++)
        require(claims.at[i].ours[0] >= 0 && claims.at[i].reading[0]);
    ft_edgellm_table_deinit(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_edgellm_config config;
    ft_error err = {0};
    json_t *root;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_edgellm_config_parse(root, &err, &config);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    check(&config);
    simulate(&config);
    return 0;
}
