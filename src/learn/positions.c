// SPDX-License-Identifier: Apache-2.0
// Positions and their file. A file may come from anywhere: a line is parsed and checked in full
// before anything is allocated from it. Memory follows the bytes of the file, about 20 bytes of
// memory for each number that was in it. Stateless.
#include "learn/positions.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_file.h"
#include "learn/fields.h"

#define DIGITS    3 /* of a probability in a file: within 0.5 %, less than 1,000 replays vary */
#define L_MAX     65535
#define BITS_MAX  (1 << 24) /* of a point; no code needs more than 65,535 tokens of 32 bits */
#define VOCAB_MAX (1 << 22)
#define NO_RANK   '-'

void ft_positions_deinit(ft_positions *positions)
{
    for (size_t i = 0; i < positions->n_texts; i++)
        free(positions->texts[i].p);
    free(positions->texts);
    *positions = (ft_positions){0};
}

ft_status ft_positions_add(ft_positions *positions, uint32_t n, ft_error *err,
                           ft_positions_text **out)
{
    const size_t n_l = positions->n_l, cells = n_l * n;
    *out = NULL;
    if (n > FT_POSITIONS_LENGTH || positions->n_texts >= FT_POSITIONS_TEXTS)
        return ft_error_set(err, FT_TOO_LARGE,
                            "positions: a file has at most %d texts, a text %d positions",
                            FT_POSITIONS_TEXTS, FT_POSITIONS_LENGTH);
    if ((positions->n_texts & (positions->n_texts - 1)) == 0) { /* doubles */
        const size_t cap = positions->n_texts ? 2 * positions->n_texts : 1;
        void *more = realloc(positions->texts, cap * sizeof *positions->texts);
        if (!more)
            return ft_error_set(err, FT_NOMEM, "positions: out of memory");
        positions->texts = more;
    }
    /* One block, the widest numbers first. */
    float *block =
        calloc((3 * n + 2 * cells) * sizeof(float) + cells * sizeof(uint16_t) + n + 1, 1);
    if (!block)
        return ft_error_set(err, FT_NOMEM, "positions: out of memory");
    ft_positions_text *text = &positions->texts[positions->n_texts++];
    *text = (ft_positions_text){.n = n, .p = block, .q = block + n, .top = block + 2 * n};
    text->sq_accept = text->top + n;
    text->adaptive_bits = (uint32_t *)(text->sq_accept + cells);
    text->count = (uint16_t *)(text->adaptive_bits + cells);
    text->rank = (uint8_t *)(text->count + cells);
    *out = text;
    return FT_OK;
}

uint32_t ft_positions_find_l(const ft_positions *positions, uint32_t l)
{
    uint32_t i = 0;
    while (i < positions->n_l && positions->l[i] != l)
        i++;
    return i;
}

/* ---- reading ---- */

static ft_status bad(ft_error *err, const char *field, const char *what)
{
    return ft_error_set(err, FT_INVALID, "'%s' is missing or is not %s", field, what);
}

/* Shares, from 0 to 1. */
static bool shares(const json_t *array, size_t n, float *out)
{
    return ft_field_floats(array, n, 0, 1, out);
}

static ft_status parse_header(const json_t *root, ft_error *err, ft_positions *out)
{
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const json_t *temperatures = json_object_get(root, "temperatures");
    const json_t *l = json_object_get(root, "l");
    if (!kind || strcmp(kind, FT_POSITIONS_KIND) != 0)
        return bad(err, "kind", "\"" FT_POSITIONS_KIND "\"");
    if (json_integer_value(json_object_get(root, "version")) != FT_POSITIONS_VERSION)
        return bad(err, "version", "one that this program knows");
    if (!ft_field_fingerprint(json_object_get(root, "target"), &out->target))
        return bad(err, "target", "a fingerprint of 16 hexadecimal digits");
    if (!ft_field_fingerprint(json_object_get(root, "draft"), &out->draft))
        return bad(err, "draft", "a fingerprint of 16 hexadecimal digits");
    if (!ft_field_whole(json_object_get(root, "vocab"), 2, VOCAB_MAX, &out->n_vocab))
        return bad(err, "vocab", "a number of tokens from 2 to 4194304");
    if (!ft_field_whole(json_object_get(root, "top_k"), 0, INT32_MAX, &out->top_k))
        return bad(err, "top_k", "a number of tokens; 0: all");
    out->n_temperatures = (uint32_t)json_array_size(temperatures);
    if (out->n_temperatures < 1 || out->n_temperatures > FT_POSITIONS_TEMPS)
        return bad(err, "temperatures", "a list of 1 to 16 temperatures");
    for (uint32_t i = 0; i < out->n_temperatures; i++) {
        double value;
        if (!ft_field_number(json_array_get(temperatures, i), 1e-3, 100, &value))
            return bad(err, "temperatures", "a list of temperatures from 0.001 to 100");
        out->temperature[i] = (float)value;
    }
    out->n_l = (uint32_t)json_array_size(l);
    if (out->n_l < 1 || out->n_l > FT_POSITIONS_L || !ft_field_wholes(l, out->n_l, L_MAX, out->l))
        return bad(err, "l", "a list of 1 to 8 numbers from 1 to 65535");
    if (!ft_field_wholes(json_object_get(root, "index_bits"), out->n_l, BITS_MAX, out->index_bits))
        return bad(err, "index_bits", "a number of bits for each l");
    return FT_OK;
}

/* A number for each l and position, as lists in a list. */
static bool has_table(const json_t *table, uint32_t n_l, size_t n)
{
    bool good = json_array_size(table) == n_l;
    for (uint32_t i = 0; i < n_l && good; i++)
        good = json_is_array(json_array_get(table, i)) &&
               json_array_size(json_array_get(table, i)) == n;
    return good;
}

/* The tables of lattices. Their sizes have been checked. */
static ft_status parse_tables(const json_t *root, const ft_positions *all, ft_error *err,
                              ft_positions_text *text)
{
    for (uint32_t i = 0; i < all->n_l; i++) {
        const json_t *count = json_array_get(json_object_get(root, "count"), i);
        const json_t *bits = json_array_get(json_object_get(root, "adaptive_bits"), i);
        const size_t row = (size_t)i * text->n;
        for (uint32_t k = 0; k < text->n; k++) {
            uint32_t x;
            if (!ft_field_whole(json_array_get(count, k), 0, all->l[i], &x))
                return bad(err, "count", "lists of numbers of at most l");
            text->count[row + k] = (uint16_t)x;
            if (!ft_field_whole(json_array_get(bits, k), 1, BITS_MAX,
                                &text->adaptive_bits[row + k]))
                return bad(err, "adaptive_bits", "lists of numbers of bits");
        }
        if (!shares(json_array_get(json_object_get(root, "sq_accept"), i), text->n,
                    text->sq_accept + row))
            return bad(err, "sq_accept", "lists of shares from 0 to 1");
    }
    return FT_OK;
}

static bool parse_ranks(const char *ranks, ft_positions_text *text)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t k = 0; k < text->n; k++) {
        const char *at = strchr(digits, ranks[k]);
        if (!at && ranks[k] != NO_RANK)
            return false;
        text->rank[k] = at ? (uint8_t)(at - digits) : FT_POSITIONS_RANKS;
    }
    return true;
}

static bool parse_temperature(const json_t *value, const ft_positions *all, uint32_t *out)
{
    for (*out = 0; json_is_number(value) && *out < all->n_temperatures; ++*out)
        if (all->temperature[*out] == (float)json_number_value(value))
            return true;
    return false;
}

static ft_status parse_text(const json_t *root, ft_error *err, ft_positions *all)
{
    static const char *const tables[] = {"count", "adaptive_bits", "sq_accept"};
    const char *ranks = json_string_value(json_object_get(root, "rank"));
    const size_t n = json_array_size(json_object_get(root, "p"));
    ft_positions_text *text;
    uint32_t temperature;
    if (!parse_temperature(json_object_get(root, "temperature"), all, &temperature))
        return bad(err, "temperature", "one of the header's");
    if (n < 1 || n > FT_POSITIONS_LENGTH)
        return bad(err, "p", "a list of 1 to 65536 numbers");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!has_table(json_object_get(root, tables[i]), all->n_l, n))
            return bad(err, tables[i], "a list for each l, as long as 'p'");
    if (!ranks || strlen(ranks) != n)
        return bad(err, "rank", "a string as long as 'p'");
    ft_status status = ft_positions_add(all, (uint32_t)n, err, &text);
    if (status != FT_OK)
        return status;
    text->temperature = temperature;
    if (!shares(json_object_get(root, "p"), n, text->p))
        return bad(err, "p", "a list of shares from 0 to 1");
    for (size_t k = 0; k < n; k++)
        if (!(text->p[k] > 0))
            return bad(err, "p", "a list of shares of more than 0: the target drew the tokens");
    if (!shares(json_object_get(root, "q"), n, text->q))
        return bad(err, "q", "a list of shares from 0 to 1, as long as 'p'");
    if (!shares(json_object_get(root, "top"), n, text->top))
        return bad(err, "top", "a list of shares from 0 to 1, as long as 'p'");
    if (!parse_ranks(ranks, text))
        return bad(err, "rank", "a string of 0 to 9, a to f and -");
    if (!shares(json_object_get(root, "qs_tv"), all->n_l, text->qs_tv) ||
        !shares(json_object_get(root, "sq_tv"), all->n_l, text->sq_tv))
        return bad(err, "qs_tv, sq_tv", "lists of a share for each l");
    return parse_tables(root, all, err, text);
}

static ft_status parse_line(const char *line, size_t n, bool header, ft_error *err,
                            ft_positions *out)
{
    json_error_t at;
    json_t *root;
    ft_status status = ft_json_read(line, n, &at, &root);
    if (status == FT_NOMEM)
        return ft_error_set(err, status, "out of memory");
    if (status != FT_OK)
        return ft_error_set(err, status, "%s", at.text);
    status = header ? parse_header(root, err, out) : parse_text(root, err, out);
    json_decref(root);
    return status;
}

ft_status ft_positions_parse(const char *data, size_t n, ft_error *err, ft_positions *out)
{
    ft_status status = FT_OK;
    ft_error why = {0};
    size_t line = 0;
    *out = (ft_positions){0};
    for (size_t at = 0; at < n && status == FT_OK; line++) {
        const char *end = memchr(data + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - data) - at : n - at;
        status = parse_line(data + at, length, line == 0, &why, out);
        at += length + 1;
    }
    if (status != FT_OK)
        ft_error_set(err, status, "positions: line %zu: %s", line, why.message);
    else if (out->n_texts == 0)
        status = ft_error_set(err, FT_INVALID,
                              "positions: there is no text: record some by foretoken record "
                              "positions");
    if (status != FT_OK)
        ft_positions_deinit(out);
    return status;
}

ft_status ft_positions_load(const char *path, ft_error *err, ft_positions *out)
{
    char *data;
    size_t n;
    ft_error why = {0};
    *out = (ft_positions){0};
    ft_status status = ft_file_read(path, FT_POSITIONS_FILE_MAX, &why, &data, &n);
    if (status != FT_OK)
        return ft_error_set(err, status, "positions: %s", why.message);
    status = ft_positions_parse(data, n, &why, out);
    free(data);
    return status == FT_OK ? FT_OK : ft_error_set(err, status, "%s: %s", path, why.message);
}

/* ---- writing ---- */

static json_t *header_json(const ft_positions *all)
{
    return json_pack("{s:s, s:i, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "kind", FT_POSITIONS_KIND,
                     "version", FT_POSITIONS_VERSION, "target",
                     ft_field_fingerprint_json(all->target), "draft",
                     ft_field_fingerprint_json(all->draft), "vocab", (json_int_t)all->n_vocab,
                     "top_k", (json_int_t)all->top_k, "temperatures",
                     ft_field_floats_json(all->temperature, all->n_temperatures), "l",
                     ft_field_wholes_json(all->l, all->n_l), "index_bits",
                     ft_field_wholes_json(all->index_bits, all->n_l));
}

static json_t *ranks_json(const ft_positions_text *text)
{
    char *ranks = malloc(text->n + 1);
    if (!ranks)
        return NULL;
    for (uint32_t k = 0; k < text->n; k++)
        ranks[k] = text->rank[k] < FT_POSITIONS_RANKS ? "0123456789abcdef"[text->rank[k]] : NO_RANK;
    json_t *out = json_stringn(ranks, text->n);
    free(ranks);
    return out;
}

static json_t *text_json(const ft_positions *all, const ft_positions_text *text)
{
    json_t *count = json_array(), *bits = json_array(), *sq = json_array();
    for (uint32_t i = 0; i < all->n_l; i++) {
        const size_t row = (size_t)i * text->n;
        json_t *counts = json_array();
        for (uint32_t k = 0; k < text->n; k++)
            json_array_append_new(counts, json_integer(text->count[row + k]));
        json_array_append_new(count, counts);
        json_array_append_new(bits, ft_field_wholes_json(text->adaptive_bits + row, text->n));
        json_array_append_new(sq, ft_field_floats_json(text->sq_accept + row, text->n));
    }
    return json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "temperature",
                     (double)all->temperature[text->temperature], "p",
                     ft_field_floats_json(text->p, text->n), "q",
                     ft_field_floats_json(text->q, text->n), "top",
                     ft_field_floats_json(text->top, text->n), "count", count, "adaptive_bits",
                     bits, "sq_accept", sq, "rank", ranks_json(text), "qs_tv",
                     ft_field_floats_json(text->qs_tv, all->n_l), "sq_tv",
                     ft_field_floats_json(text->sq_tv, all->n_l));
}

/* Takes the reference; NULL: out of memory. */
static bool write_line(json_t *line, FILE *file)
{
    const bool written = line &&
                         json_dumpf(line, file, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) == 0 &&
                         putc('\n', file) != EOF;
    json_decref(line);
    return written;
}

ft_status ft_positions_save(const ft_positions *positions, const char *path, ft_error *err)
{
    FILE *file = fopen(path, "w");
    bool written = file && write_line(header_json(positions), file);
    for (size_t i = 0; i < positions->n_texts && written; i++)
        written = write_line(text_json(positions, &positions->texts[i]), file);
    const int failed = written ? 0 : errno;
    if (file && fclose(file) != 0)
        written = false;
    return written ? FT_OK
                   : ft_error_set(err, FT_IO, "positions: %s cannot be written: %s", path,
                                  strerror(failed ? failed : errno));
}
