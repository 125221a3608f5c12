// SPDX-License-Identifier: Apache-2.0
// A file of costs, which may have been edited by hand. Whatever is taken is finite and in range,
// and as text reads the same again.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_file.h"
#include "sched/cost_file.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_costs costs, again;
    ft_error err = {0};
    json_t *root;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_costs_parse(root, &err, &costs);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    require(costs.error >= 0 && costs.error <= 1);
    for (int i = 0; i < FT_COST_FACTORS; i++)
        require(isfinite(costs.us[i]) && costs.us[i] >= 0);
    root = ft_costs_json(&costs);
    require(root != NULL);
    require(ft_costs_parse(root, &err, &again) == FT_OK);
    require(strcmp(costs.model, again.model) == 0);
    json_decref(root);
    return 0;
}
