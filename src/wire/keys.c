// SPDX-License-Identifier: Apache-2.0
// Files of keys. All of a file is checked. An unknown field is refused, because a limit with a
// misspelt name would not hold. Messages name entries and fields and never show a value, which may
// be a secret in the wrong place. Stateless. Does not know sessions.
#include "wire/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_file.h"
#include "base/secret.h"

#define SPEED_MAX    1e6
#define SESSIONS_MAX (1 << 16)

/* Whether the string has `least` to `most` characters, and all of them are in `letters`; NULL: are
 * printable ASCII without the space. */
static bool made_of(const char *text, size_t least, size_t most, const char *letters)
{
    size_t n = text ? strlen(text) : 0;
    if (n < least || n > most)
        return false;
    if (letters)
        return strspn(text, letters) == n;
    for (size_t i = 0; i < n; i++)
        if (text[i] < '!' || text[i] > '~')
            return false;
    return true;
}

static ft_status bad(ft_error *err, size_t i, const char *what)
{
    return ft_error_set(err, FT_INVALID, "keys: entry %zu: %s", i + 1, what);
}

static ft_status read_limits(const json_t *speed, const json_t *sessions, size_t i, ft_error *err,
                             ft_key *out)
{
    double tokens_per_s = json_number_value(speed);
    json_int_t most = json_integer_value(sessions);
    if (speed && !(json_is_number(speed) && tokens_per_s >= 0 && tokens_per_s <= SPEED_MAX))
        return bad(err, i, "'slo_tokens_per_s' is no token speed (0: no promise; absent: any)");
    if (sessions && !(json_is_integer(sessions) && most >= 1 && most <= SESSIONS_MAX))
        return bad(err, i, "'sessions' is no number of 1 to 65536 (absent: the server's limit)");
    out->slo_tokens_per_s = speed ? (float)tokens_per_s : FT_KEY_ANY_SPEED;
    out->sessions = (uint32_t)most;
    return FT_OK;
}

static ft_status read_entry(json_t *entry, size_t i, ft_error *err, ft_keys *keys)
{
    ft_key *out = &keys->entry[i].key;
    json_t *name = NULL, *token = NULL, *speed = NULL, *sessions = NULL;
    if (json_unpack(entry, "{s?o, s?o, s?o, s?o!}", "name", &name, "token", &token,
                    "slo_tokens_per_s", &speed, "sessions", &sessions) != 0)
        return bad(err, i, "no object of 'token', 'name', 'slo_tokens_per_s' and 'sessions' alone");
    if (!made_of(json_string_value(name), 1, sizeof out->name - 1,
                 "abcdefghijklmnopqrstuvwxyz0123456789-"))
        return bad(err, i, "'name' is missing, or not 1 to 32 of a-z, 0-9 and -");
    if (!made_of(json_string_value(token), FT_KEY_TOKEN_MIN, FT_KEY_TOKEN_MAX, NULL))
        return bad(err, i, "'token' is missing, or not 16 to 256 printable characters");
    memcpy(out->name, json_string_value(name), json_string_length(name) + 1);
    memcpy(keys->entry[i].token, json_string_value(token), json_string_length(token) + 1);
    return read_limits(speed, sessions, i, err, out);
}

/* Compares an entry with those before it. */
static ft_status check_unique(const ft_keys *keys, size_t i, ft_error *err)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(keys->entry[j].key.name, keys->entry[i].key.name) == 0)
            return bad(err, i, "an entry before it has this name");
        if (ft_secret_equal_str(keys->entry[j].token, keys->entry[i].token))
            return bad(err, i, "an entry before it has this token");
    }
    return FT_OK;
}

static ft_status read_keys(json_t *root, ft_error *err, ft_keys **out)
{
    json_t *list = NULL;
    size_t n = json_unpack(root, "{s:o!}", "keys", &list) == 0 ? json_array_size(list) : 0;
    if (n == 0 || n > FT_KEYS_MAX)
        return ft_error_set(err, FT_INVALID,
                            "keys: not {\"keys\": [...]} with 1 to %d entries and nothing else",
                            FT_KEYS_MAX);
    ft_keys *keys = calloc(1, sizeof *keys + n * sizeof keys->entry[0]);
    if (!keys)
        return ft_error_set(err, FT_NOMEM, "keys: out of memory");
    keys->n = n;
    ft_status status = FT_OK;
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        status = read_entry(json_array_get(list, i), i, err, keys);
        if (status == FT_OK)
            status = check_unique(keys, i, err);
    }
    if (status != FT_OK)
        free(keys);
    else
        *out = keys;
    return status;
}

/* The JSON parser's message without the text that it quotes, which may be a secret. */
static ft_status refuse_json(ft_error *why, ft_error *err)
{
    char *quoted = strstr(why->message, " near '");
    if (quoted)
        *quoted = 0;
    return ft_error_set(err, why->code, "keys: %s", why->message);
}

ft_status ft_keys_read(const char *text, size_t n, ft_error *err, ft_keys **out)
{
    json_t *root;
    ft_error why = {0};
    *out = NULL;
    if (ft_json_parse(text, n, &why, &root) != FT_OK)
        return refuse_json(&why, err);
    ft_status status = read_keys(root, err, out);
    json_decref(root);
    return status;
}

ft_status ft_keys_load(const char *path, ft_error *err, ft_keys **out)
{
    json_t *root;
    struct stat file;
    ft_error why = {0};
    *out = NULL;
    if (stat(path, &file) == 0 && (file.st_mode & 077) != 0)
        return ft_error_set(err, FT_FORBIDDEN,
                            "keys: others may read or write %s (mode %03o): chmod 600 it", path,
                            (unsigned)(file.st_mode & 0777));
    if (ft_json_load(path, &why, &root) != FT_OK)
        return refuse_json(&why, err);
    ft_status status = read_keys(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}

const ft_key *ft_keys_find(const ft_keys *keys, const char *token)
{
    const ft_key *found = NULL;
    for (size_t i = 0; i < keys->n; i++)
        found = ft_secret_equal_str(keys->entry[i].token, token) ? &keys->entry[i].key : found;
    return found;
}

void ft_key_credential(const ft_key *key, char out[FT_KEY_CREDENTIAL_SIZE])
{
    snprintf(out, FT_KEY_CREDENTIAL_SIZE, "key:%s", key->name);
}
