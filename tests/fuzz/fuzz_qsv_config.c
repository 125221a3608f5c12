// SPDX-License-Identifier: Apache-2.0
// A person's setting of simulate qsv. Whatever is taken must be in range, and rounds by it on a few
// positions must end with times and bits that are numbers.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/json_file.h"
#include "sim/qsv.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(const ft_qsv_config *c)
{
    require(c->n_l >= 1 && c->n_l <= FT_QSV_L && c->n_links >= 1 && c->n_links <= FT_QSV_LINKS);
    for (uint32_t i = 0; i < c->n_l; i++)
        require(c->l[i] >= 1 && c->l[i] <= 65535 && (i == 0 || c->l[i] > c->l[i - 1]));
    for (uint32_t i = 0; i < c->n_links; i++)
        require(c->link[i].name[0] && ft_qsv_link_kbit_s(&c->link[i]) >= 1);
    for (int i = 0; i < FT_QSV_CONSTS; i++)
        require(isfinite(c->k[i]) && c->k[i] >= 0);
}

/* Positions that have the setting's lattices. */
static void make_positions(const ft_qsv_config *c, ft_positions *out)
{
    ft_positions_text *text;
    *out = (ft_positions){.n_vocab = 100, .n_temperatures = 1, .temperature = {1}, .n_l = c->n_l};
    for (uint32_t i = 0; i < c->n_l; i++) {
        out->l[i] = c->l[i];
        out->index_bits[i] = 100;
    }
    require(ft_positions_add(out, 5, NULL, &text) == FT_OK);
    for (uint32_t k = 0; k < 5; k++) {
        text->p[k] = text->q[k] = text->top[k] = 0.5f;
        text->rank[k] = (uint8_t)k;
        for (uint32_t i = 0; i < c->n_l; i++) {
            text->count[i * 5 + k] = (uint16_t)((c->l[i] + 1) / 2);
            text->adaptive_bits[i * 5 + k] = 10;
            text->sq_accept[i * 5 + k] = 0.5f;
        }
    }
}

static void simulate(const ft_qsv_config *c)
{
    const uint32_t texts[] = {0};
    ft_positions positions;
    ft_qsv_setting setting;
    make_positions(c, &positions);
    require(ft_qsv_setting_init(c, &positions, NULL, &setting) == FT_OK);
    for (uint32_t link = 0; link < c->n_links; link++)
        for (int method = 0; method < FT_QSV_METHODS; method++) {
            if (method == FT_QSV_METHOD_POLICY)
                continue;
            const ft_qsv_opts opts = {.setting = &setting,
                                      .link = &c->link[link],
                                      .texts = texts,
                                      .n_texts = 1,
                                      .replays = 2,
                                      .seed = 1};
            const ft_qsv_way way = {.method = (ft_qsv_method)method,
                                    .length = (uint32_t)c->k[FT_QSV_LENGTH_MOST],
                                    .i_l = c->n_l - 1,
                                    .width = (uint32_t)c->k[FT_QSV_WIDTH_MOST],
                                    .threshold = 0.4};
            ft_qsv_result r;
            ft_qsv_run(&opts, &way, &r);
            require(r.tokens == 10 && r.accepted <= r.nodes && isfinite(ft_qsv_tokens_per_s(&r)));
        }
    ft_positions_deinit(&positions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_qsv_config config;
    ft_error err = {0};
    json_t *root;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_qsv_config_parse(root, &err, &config);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    check(&config);
    simulate(&config);
    return 0;
}
