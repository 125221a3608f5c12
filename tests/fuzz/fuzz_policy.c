// SPDX-License-Identifier: Apache-2.0
// A draft policy's file, which may come from anywhere. What is taken is within its limits, and
// makes a choice of its own in any state.
#include <stdint.h>
#include <stdlib.h>

#include "base/json_file.h"
#include "learn/policy.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const float confidence[3] = {0, -1, 0.5f};
    ft_policy_past past = {0};
    ft_policy p = {0};
    ft_error err = {0};
    json_t *root = NULL;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_policy_parse(root, &err, &p);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    require(ft_mlp_n_params(&p.net.shape) <= FT_POLICY_PARAMS_MAX);
    for (size_t known = 0; known <= 3; known++) {
        float state[FT_POLICY_INPUTS];
        if (known > 0)
            ft_policy_saw(&past, confidence[known - 1]);
        ft_policy_state(&past, 1e3, state);
        const ft_policy_choice choice = ft_policy_choose(&p, state);
        require(choice.length >= 1 && choice.length <= p.n_lengths && choice.i_l < p.n_l);
    }
    ft_policy_deinit(&p);
    return 0;
}
