// SPDX-License-Identifier: Apache-2.0
// {"version": 1, "of": "HASH", "at": SECONDS, "passes": [[ROWS, US, US ALONE], ...]}. Stateless.
#include "engine/warm_kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_file.h"
#include "base/log.h"

#define VERSION 1
#define KIND    "warm"

static void name_subject(uint64_t subject, char out[17])
{
    snprintf(out, 17, "%016" PRIx64, subject);
}

static int append(const char *bytes, size_t n, void *out)
{
    return ft_buf_append(out, bytes, n) == FT_OK ? 0 : -1;
}

ft_status ft_warm_kept_write(uint64_t subject, int64_t at_s, const ft_warm *warm, ft_buf *out)
{
    char of[17];
    name_subject(subject, of);
    json_t *passes = json_array();
    json_t *file = json_pack("{s:i, s:s, s:I, s:o}", "version", VERSION, "of", of, "at",
                             (json_int_t)at_s, "passes", passes);
    bool ok = file != NULL;
    for (uint32_t i = 0; i < warm->n && ok; i++)
        ok = json_array_append_new(passes, json_pack("[I, I, I]", (json_int_t)warm->rows[i],
                                                     (json_int_t)warm->all_us[i],
                                                     (json_int_t)warm->alone_us[i])) == 0;
    ok = ok && json_dump_callback(file, append, out, 0) == 0;
    json_decref(file);
    return ok ? FT_OK : FT_NOMEM;
}

static bool read_time(const json_t *pass, size_t i, int64_t *out)
{
    const json_t *number = json_array_get(pass, i);
    *out = json_integer_value(number);
    return json_is_integer(number) && *out >= 0 && *out <= FT_WARM_LIMIT_US;
}

static bool read_passes(const json_t *passes, ft_warm *warm)
{
    const size_t n = json_array_size(passes);
    for (size_t i = 0; i < n && n <= FT_WARM_PASSES; i++) {
        const json_t *pass = json_array_get(passes, i);
        int64_t *all = &warm->all_us[i], *alone = &warm->alone_us[i];
        warm->rows[i] = FT_WARM_ROWS(i);
        if (json_integer_value(json_array_get(pass, 0)) != warm->rows[i] ||
            !read_time(pass, 1, all) || !read_time(pass, 2, alone))
            return false;
        warm->us[i] = *alone > 0 && *alone < *all ? *alone : *all;
    }
    warm->n = (uint32_t)n;
    return n > 0 && n <= FT_WARM_PASSES;
}

static ft_status read_file(const json_t *file, uint64_t subject, int64_t now_s, ft_error *err,
                           ft_warm *warm)
{
    const char *of = json_string_value(json_object_get(file, "of"));
    const json_t *at = json_object_get(file, "at");
    char own[17];
    name_subject(subject, own);
    const ft_status status = ft_kept_file_check_version(file, VERSION, err);
    if (status != FT_OK)
        return status;
    if (!of || !json_is_integer(at))
        return ft_error_set(err, FT_INVALID, "it does not say what it is about, and of when");
    if (strcmp(of, own) != 0)
        return ft_error_set(err, FT_NOT_FOUND, "about another model or machine");
    if (json_integer_value(at) > now_s || json_integer_value(at) < now_s - FT_WARM_KEPT_S)
        return ft_error_set(err, FT_NOT_FOUND, "too old");
    ft_warm next = {0};
    if (!read_passes(json_object_get(file, "passes"), &next))
        return ft_error_set(err, FT_INVALID, "wrong times of passes");
    *warm = next;
    return FT_OK;
}

ft_status ft_warm_kept_read(const char *text, size_t n, uint64_t subject, int64_t now_s,
                            ft_error *err, ft_warm *warm)
{
    json_t *file = NULL;
    ft_status status = ft_json_parse(text, n, err, &file);
    if (status == FT_OK)
        status = read_file(file, subject, now_s, err, warm);
    json_decref(file);
    return status;
}

bool ft_warm_kept_load(const ft_kept_place *place, uint64_t subject, ft_warm *warm)
{
    ft_error err = {0};
    char *text = NULL;
    size_t n = 0;
    if (!place || !place->folder)
        return false;
    ft_status status = ft_kept_file_read(place, KIND, subject, &err, &text, &n);
    if (status == FT_OK)
        status = ft_warm_kept_read(text, n, subject, (int64_t)time(NULL), &err, warm);
    if (status != FT_OK && status != FT_NOT_FOUND)
        FT_LOGW("engine", "times of an earlier process are ignored folder=%s why=\"%s\"",
                place->folder, err.message);
    free(text);
    return status == FT_OK;
}

void ft_warm_kept_save(const ft_kept_place *place, uint64_t subject, const ft_warm *warm)
{
    ft_error err = {0};
    ft_buf text = {0};
    if (!place || !place->folder || warm->n == 0)
        return;
    ft_status status = ft_warm_kept_write(subject, (int64_t)time(NULL), warm, &text);
    if (status == FT_OK)
        status = ft_kept_file_write(place, KIND, subject, text.data, text.len, &err);
    if (status != FT_OK)
        FT_LOGW("engine", "times of passes are not kept why=\"%s\"", err.message);
    ft_buf_deinit(&text);
}
