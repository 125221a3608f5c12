// SPDX-License-Identifier: Apache-2.0
// The file in which an edge keeps what it has learnt: a crash may tear it, and people may edit it.
// What is taken up makes choices within the limits; what is refused changes nothing.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "edge/kept.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const ft_control_opts opts = {.max_budget = 16, .max_depth = 8, .max_width = 4};
    ft_edge_learnt learnt[FT_EDGE_KEPT_LISTS], before[FT_EDGE_KEPT_LISTS];
    bool known[FT_EDGE_KEPT_LISTS] = {false};
    ft_error err = {0};
    memset(learnt, 0, sizeof learnt);
    for (int i = 0; i < FT_EDGE_KEPT_LISTS; i++)
        ft_control_init(&learnt[i].at[FT_PLACE_SERVER].control, &opts);
    memcpy(before, learnt, sizeof before);
    const ft_edge_kept kept = {7, learnt, known};
    if (ft_edge_kept_read((const char *)data, n, &kept, &err) != FT_OK) {
        require(err.message[0] != 0 && memcmp(before, learnt, sizeof before) == 0);
        return 0;
    }
    for (int i = 0; i < FT_EDGE_KEPT_LISTS; i++) {
        ft_control *c = &learnt[i].at[FT_PLACE_SERVER].control;
        ft_measured *m = &learnt[i].at[FT_PLACE_SERVER].predictor;
        for (int round = 0; round < 2 * FT_MEASURED_INTERVAL; round++)
            ft_measured_saw(m, 2, 10000);
        require(isfinite(ft_measured_tokens_per_s(m, true)) &&
                isfinite(ft_measured_tokens_per_s(m, false)));
        for (int round = 0; round < 4; round++) {
            const ft_control_choice choice =
                ft_control_choose(c, &(ft_control_room){.nodes = 12, .depth = 6});
            require(choice.speculate ? choice.budget >= 1 && choice.budget <= 12 &&
                                           choice.depth >= 1 && choice.depth <= 6
                                     : choice.run >= 1);
            require(isfinite(ft_control_token_us(c)) && isfinite(ft_control_row_us(c)));
        }
    }
    return 0;
}
