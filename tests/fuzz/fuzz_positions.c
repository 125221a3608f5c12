// SPDX-License-Identifier: Apache-2.0
// A file of positions, which may come from anywhere. What is taken is within its limits.
#include <stdint.h>
#include <stdlib.h>

#include "learn/positions.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_text(const ft_positions *all, const ft_positions_text *text)
{
    require(text->n >= 1 && text->n <= FT_POSITIONS_LENGTH);
    require(text->temperature < all->n_temperatures);
    for (uint32_t k = 0; k < text->n; k++) {
        require(text->p[k] > 0 && text->p[k] <= 1 && text->q[k] >= 0 && text->q[k] <= 1);
        require(text->top[k] >= 0 && text->top[k] <= 1);
        require(text->rank[k] <= FT_POSITIONS_RANKS);
    }
    for (uint32_t i = 0; i < all->n_l; i++)
        for (size_t k = (size_t)i * text->n; k < (size_t)(i + 1) * text->n; k++)
            require(text->count[k] <= all->l[i] && text->adaptive_bits[k] > 0 &&
                    text->sq_accept[k] >= 0 && text->sq_accept[k] <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_positions all;
    ft_error err = {0};
    if (ft_positions_parse((const char *)data, n, &err, &all) != FT_OK) {
        require(err.message[0] != 0 && all.texts == NULL && all.n_texts == 0);
        return 0;
    }
    require(all.n_texts > 0 && all.n_l > 0 && all.n_l <= FT_POSITIONS_L && all.n_vocab > 1);
    for (size_t i = 0; i < all.n_texts; i++)
        check_text(&all, &all.texts[i]);
    ft_positions_deinit(&all);
    return 0;
}
