// SPDX-License-Identifier: Apache-2.0
// What a person's config of a simulation says. Whatever is taken must be in range, and a short
// simulation of it must end.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/json_file.h"
#include "sim/wisp.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(const ft_sim_config *c)
{
    require(c->n_classes >= 1 && c->n_classes <= FT_SIM_CLASSES);
    for (size_t i = 0; i < c->n_classes; i++)
        require(c->tokens_per_s[i] > 0 && (i == 0 || c->tokens_per_s[i] > c->tokens_per_s[i - 1]));
    for (int i = 0; i < FT_SIM_CONSTS; i++) {
        require(isfinite(c->k[i]) && c->k[i] >= 0);
        require(ft_sim_const_scaled((ft_sim_const)i, c->k[i], 1) == c->k[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_sim_config config;
    ft_error err = {0};
    json_t *root;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_sim_config_parse(root, &err, &config);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    check(&config);
    for (int mode = 0; mode < FT_SIM_MODES; mode++) {
        ft_sim_result r;
        const ft_sim_opts opts = {.config = &config,
                                  .mode = (ft_sim_mode)mode,
                                  .n_devices = 3,
                                  .class = FT_SIM_MIXED,
                                  .ramp_us = 1000,
                                  .until_us = 20000};
        if (ft_sim_wisp_run(&opts, &err, &r) == FT_OK)
            require(r.tokens == r.tokens_all && r.accepted <= r.drafted);
    }
    return 0;
}
