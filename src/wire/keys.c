// SPDX-License-Identifier: Apache-2.0
// Files of keys. What a file says is checked in full, and a field that is not known is refused:
// whoever misspelt a limit has none. Messages name entries and fields and never show a value, which
// may be a secret in the wrong place. Stateless. Does not know what a session is.
#include "wire/keys.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json_file.h"
#include "base/secret.h"

#define SPEED_MAX    1e6
#define SESSIONS_MAX (1 << 16)

static bool only(json_t *object, const char *const *names, size_t n)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        size_t i = 0;
        while (i < n && strcmp(names[i], name) != 0)
            i++;
        if (i == n)
            return false;
    }
    return true;
}

/* A string of so many characters, all of them among `letters`, or printable ASCII but the space
 * (NULL). */
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

static ft_status read_limits(const json_t *entry, size_t i, ft_error *err, ft_key *out)
{
    const json_t *speed = json_object_get(entry, "slo_tokens_per_s");
    const json_t *sessions = json_object_get(entry, "sessions");
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
    ft_key *out = &keys->key[i];
    static const char *const names[] = {"token", "name", "slo_tokens_per_s", "sessions"};
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *token = json_string_value(json_object_get(entry, "token"));
    if (!json_is_object(entry) || !only(entry, names, 4))
        return bad(err, i, "no object of 'token', 'name', 'slo_tokens_per_s' and 'sessions' alone");
    if (!made_of(name, 1, sizeof out->name - 1, "abcdefghijklmnopqrstuvwxyz0123456789-"))
        return bad(err, i, "'name' is missing, or not 1 to 32 of a-z, 0-9 and -");
    if (!made_of(token, FT_KEY_TOKEN_MIN, FT_KEY_TOKEN_MAX, NULL))
        return bad(err, i, "'token' is missing, or not 16 to 256 printable characters");
    ft_status status = read_limits(entry, i, err, out);
    if (status != FT_OK)
        return status;
    memcpy(out->name, name, strlen(name) + 1);
    keys->token[i] = strdup(token);
    return keys->token[i] ? FT_OK : ft_error_set(err, FT_NOMEM, "keys: out of memory");
}

/* Against the entries before it. */
static ft_status check_unique(const ft_keys *keys, size_t i, ft_error *err)
{
    for (size_t j = 0; j < i; j++) {
        if (strcmp(keys->key[j].name, keys->key[i].name) == 0)
            return bad(err, i, "an entry before it has this name");
        if (ft_secret_equal_str(keys->token[j], keys->token[i]))
            return bad(err, i, "an entry before it has this token");
    }
    return FT_OK;
}

static ft_status parse(json_t *root, ft_error *err, ft_keys **out)
{
    static const char *const names[] = {"keys"};
    const json_t *list = json_object_get(root, "keys");
    size_t n = json_array_size(list);
    *out = NULL;
    if (n == 0 || n > FT_KEYS_MAX || !only(root, names, 1))
        return ft_error_set(err, FT_INVALID,
                            "keys: not {\"keys\": [...]} with 1 to %d entries and nothing else",
                            FT_KEYS_MAX);
    ft_keys *keys = calloc(1, sizeof *keys);
    ft_status status = FT_OK;
    if (keys) {
        keys->key = calloc(n, sizeof *keys->key);
        keys->token = calloc(n, sizeof *keys->token);
    }
    if (!keys || !keys->key || !keys->token)
        status = ft_error_set(err, FT_NOMEM, "keys: out of memory");
    for (size_t i = 0; i < n && status == FT_OK; i++) {
        keys->n = i + 1;
        status = read_entry(json_array_get(list, i), i, err, keys);
        if (status == FT_OK)
            status = check_unique(keys, i, err);
    }
    if (status != FT_OK)
        ft_keys_destroy(keys);
    else
        *out = keys;
    return status;
}

/* The JSON parser's message without the text that it stopped at. */
static void hide_text(char *message)
{
    char *near = strstr(message, " near '");
    if (near)
        *near = 0;
}

ft_status ft_keys_read(const char *text, size_t n, ft_error *err, ft_keys **out)
{
    json_t *root;
    ft_error why = {0};
    *out = NULL;
    ft_status status = ft_json_parse(text, n, &why, &root);
    hide_text(why.message);
    if (status != FT_OK)
        return ft_error_set(err, status, "keys: %s", why.message);
    status = parse(root, err, out);
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
    ft_status status = ft_json_load(path, &why, &root);
    hide_text(why.message);
    if (status != FT_OK)
        return ft_error_set(err, status, "keys: %s", why.message);
    status = parse(root, &why, out);
    json_decref(root);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}

void ft_keys_destroy(ft_keys *keys)
{
    if (!keys)
        return;
    for (size_t i = 0; i < keys->n; i++)
        free(keys->token[i]);
    free(keys->token);
    free(keys->key);
    free(keys);
}

const ft_key *ft_keys_find(const ft_keys *keys, const char *token)
{
    const ft_key *found = NULL;
    for (size_t i = 0; i < keys->n; i++)
        found = ft_secret_equal_str(keys->token[i], token) ? &keys->key[i] : found;
    return found;
}

void ft_key_credential(const ft_key *key, char out[FT_KEY_CREDENTIAL_SIZE])
{
    snprintf(out, FT_KEY_CREDENTIAL_SIZE, "key:%s", key->name);
}
