// SPDX-License-Identifier: Apache-2.0
// A predictor's file, which may come from anywhere. What is taken is within its limits, and says of
// any token something.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/json_file.h"
#include "learn/predictor.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const float features[3][FT_FEATURES] = {
        {0.5f, 2, 0.3f, 3, 2}, {NAN, INFINITY, -INFINITY, 1e30f, -1}, {0}};
    ft_predictor p = {0};
    ft_error err = {0};
    json_t *root = NULL;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_predictor_parse(root, &err, &p);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    require(p.mlp.shape.width[0] == FT_FEATURES);
    require(p.mlp.shape.width[p.mlp.shape.n_layers] == 1);
    require(ft_mlp_n_params(&p.mlp.shape) <= FT_PREDICTOR_PARAMS_MAX);
    for (int i = 0; i < 3; i++)
        require(ft_predictor_accepts(&p, features[i]) ==
                (ft_predictor_odds(&p, features[i]) >= p.least));
    ft_predictor_deinit(&p);
    return 0;
}
