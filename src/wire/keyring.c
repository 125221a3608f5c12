// SPDX-License-Identifier: Apache-2.0
// A set of keys with a lock. Does not read files.
#include "wire/keyring.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ft_keyring {
    pthread_mutex_t lock;
    ft_keys *keys; /* guarded by lock */
};

ft_status ft_keyring_create(ft_keys *keys, ft_error *err, ft_keyring **out)
{
    ft_keyring *ring = calloc(1, sizeof *ring);
    *out = ring;
    if (!ring) {
        free(keys);
        return ft_error_set(err, FT_NOMEM, "keys: out of memory");
    }
    pthread_mutex_init(&ring->lock, NULL);
    ring->keys = keys;
    return FT_OK;
}

void ft_keyring_destroy(ft_keyring *ring)
{
    if (!ring)
        return;
    free(ring->keys);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

void ft_keyring_replace(ft_keyring *ring, ft_keys *keys)
{
    pthread_mutex_lock(&ring->lock);
    ft_keys *old = ring->keys;
    ring->keys = keys;
    pthread_mutex_unlock(&ring->lock);
    free(old);
}

bool ft_keyring_find(ft_keyring *ring, const char *token, ft_key *out)
{
    pthread_mutex_lock(&ring->lock);
    const ft_key *key = ft_keys_find(ring->keys, token);
    if (key)
        *out = *key;
    pthread_mutex_unlock(&ring->lock);
    return key != NULL;
}

bool ft_keyring_named(ft_keyring *ring, const char *name, ft_key *out)
{
    bool found = false;
    pthread_mutex_lock(&ring->lock);
    for (size_t i = 0; i < ring->keys->n && !found; i++) {
        found = strcmp(ring->keys->entry[i].key.name, name) == 0;
        if (found)
            *out = ring->keys->entry[i].key;
    }
    pthread_mutex_unlock(&ring->lock);
    return found;
}

ft_status ft_keyring_list(ft_keyring *ring, ft_key **out, size_t *n)
{
    pthread_mutex_lock(&ring->lock);
    *n = ring->keys->n;
    *out = malloc(*n * sizeof **out);
    for (size_t i = 0; *out && i < *n; i++)
        (*out)[i] = ring->keys->entry[i].key;
    pthread_mutex_unlock(&ring->lock);
    return *out ? FT_OK : FT_NOMEM;
}
