// SPDX-License-Identifier: Apache-2.0
// A person's setting of simulate fleet. Whatever is taken must be in range, and half a simulated
// second of a small fleet must end with all texts accounted for.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/json_file.h"
#include "sim/fleet.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(const ft_fleet_config *c)
{
    require(c->server.n_classes >= 1 && c->server.n_classes <= FT_SIM_CLASSES);
    for (int i = 0; i < FT_SIM_CONSTS; i++)
        require(isfinite(c->server.k[i]) && c->server.k[i] >= 0);
    for (int i = 0; i < FT_FLEET_CONSTS; i++)
        require(isfinite(c->k[i]) && c->k[i] >= 0);
    require(c->k[FT_FLEET_LOST_S] < c->k[FT_FLEET_ADDED_S]);
}

static void run(const ft_fleet_config *c, ft_fleet_assign assign)
{
    ft_fleet_result r;
    ft_error err = {0};
    uint64_t begun = 0, gone = 0;
    const ft_fleet_opts opts = {.config = c,
                                .assign = assign,
                                .n_devices = 3,
                                .n_servers = 2,
                                .accident = true,
                                .n_threads = 1};
    if (ft_fleet_run(&opts, &err, &r) != FT_OK) {
        require(err.message[0] != 0);
        return;
    }
    for (int i = 0; i < FT_FLEET_PARTS; i++) {
        begun += r.part[i].begun;
        gone += r.part[i].ended;
        for (int k = 0; k < FT_SIM_CLASSES; k++)
            gone += r.part[i].given_up[k];
    }
    require(begun == gone + r.unfinished);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_fleet_config config;
    ft_error err = {0};
    json_t *root;
    ft_status status = ft_json_parse((const char *)data, n, &err, &root);
    if (status == FT_OK)
        status = ft_fleet_config_parse(root, &err, &config);
    json_decref(root);
    if (status != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    check(&config);
    config.k[FT_FLEET_RAMP_S] = 0.1;
    config.k[FT_FLEET_MEASURE_S] = 0.4;
    config.k[FT_FLEET_LOST_S] = 0.1;
    config.k[FT_FLEET_ADDED_S] = 0.2;
    for (int how = 0; how < FT_FLEET_ASSIGNS; how++)
        run(&config, (ft_fleet_assign)how);
    return 0;
}
