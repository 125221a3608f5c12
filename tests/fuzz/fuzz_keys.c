// SPDX-License-Identifier: Apache-2.0
// What a person's file of keys says. Whatever is taken is within its limits, and each token finds
// its own key.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/keys.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    ft_keys *keys;
    ft_error err = {0};
    if (ft_keys_read((const char *)data, n, &err, &keys) != FT_OK) {
        require(err.message[0] != 0 && !keys);
        return 0;
    }
    require(keys->n >= 1 && keys->n <= FT_KEYS_MAX);
    for (size_t i = 0; i < keys->n; i++) {
        const ft_key *key = &keys->entry[i].key;
        require(key->name[0] && key->slo_tokens_per_s >= 0 && key->sessions <= 1 << 16);
        size_t length = strlen(keys->entry[i].token);
        require(length >= FT_KEY_TOKEN_MIN && length <= FT_KEY_TOKEN_MAX);
        require(ft_keys_find(keys, keys->entry[i].token) == key);
        for (size_t j = 0; j < i; j++)
            require(strcmp(keys->entry[j].key.name, key->name) != 0);
    }
    free(keys);
    return 0;
}
