// SPDX-License-Identifier: Apache-2.0
// A person's setting of simulate zhu. Whatever is taken must be in range, and a small cell by it
// must have times that are numbers, or an error.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/json_file.h"
#include "sim/zhu_claims.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

/* All schemes on a cell of four tasks. */
static void simulate(const ft_zhu_config *c)
{
    ft_zhu_point point = ft_zhu_point_of(c, 1);
    ft_zhu_cell cell;
    ft_error err = {0};
    point.tasks = point.tasks < 4 ? point.tasks : 4;
    if (ft_zhu_cell_run(c, &point, 1, UINT32_MAX, &err, &cell) != FT_OK) {
        require(err.message[0] != 0);
        return;
    }
    require(isfinite(cell.total_s[FT_ZHU_PLANNED]) && cell.total_s[FT_ZHU_PLANNED] >= 0);
    for (uint32_t i = 0; i < FT_ZHU_SCHEMES; i++)
        require(isnan(cell.total_s[i]) || cell.total_s[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_zhu_config config;
    ft_error err = {0};
    json_t *root;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_zhu_config_parse(root, &err, &config);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    for (int i = 0; i < FT_ZHU_CONSTS; i++)
        require(isfinite(config.k[i]));
    for (int i = 0; i < FT_ZHU_PAIRS; i++)
        require(config.pair[i].name[0] && config.pair[i].models.draft.layers >= 1 &&
                config.pair[i].models.verify.hidden >= 1);
    simulate(&config);
    return 0;
}
