// SPDX-License-Identifier: Apache-2.0
// The file of positions: what is written comes back to three digits; what is missing or wrong is
// named with its line, and nothing of it is kept.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <jansson.h>

#include "base/file.h"
#include "support/positions.h"

static ft_error err;
static char path[] = "/tmp/ft-positions-XXXXXX";

static int set_up(void **state)
{
    ft_positions made = made_positions(1, 2, 20);
    const int fd = mkstemp(path);
    close(fd);
    const ft_status status = ft_positions_save(&made, path, &err);
    ft_positions_deinit(&made);
    return fd < 0 || status != FT_OK;
}

static int tear_down(void **state)
{
    return unlink(path);
}

static void assert_near(float read, float made)
{
    assert_true(fabsf(read - made) <= 0.0051f * made);
}

static void test_file_comes_back(void **state)
{
    ft_positions made = made_positions(1, 2, 20), read;
    assert_int_equal(ft_positions_load(path, &err, &read), FT_OK);
    assert_true(read.target == made.target && read.draft == made.draft);
    assert_true(read.n_vocab == made.n_vocab && read.top_k == made.top_k);
    assert_true(read.n_l == made.n_l && read.n_temperatures == made.n_temperatures);
    assert_memory_equal(read.l, made.l, sizeof made.l);
    assert_memory_equal(read.index_bits, made.index_bits, sizeof made.index_bits);
    assert_memory_equal(read.temperature, made.temperature, sizeof made.temperature);
    assert_int_equal(read.n_texts, 4);
    for (size_t i = 0; i < read.n_texts; i++) {
        const ft_positions_text *r = &read.texts[i], *m = &made.texts[i];
        assert_true(r->n == m->n && r->temperature == m->temperature);
        assert_memory_equal(r->rank, m->rank, m->n);
        assert_memory_equal(r->count, m->count, MADE_L * m->n * sizeof *m->count);
        assert_memory_equal(r->adaptive_bits, m->adaptive_bits,
                            MADE_L * m->n * sizeof *m->adaptive_bits);
        for (uint32_t k = 0; k < m->n; k++) {
            assert_near(r->p[k], m->p[k]);
            assert_near(r->q[k], m->q[k]);
            assert_near(r->top[k], m->top[k]);
        }
        for (uint32_t k = 0; k < MADE_L * m->n; k++)
            assert_near(r->sq_accept[k], m->sq_accept[k]);
        for (uint32_t k = 0; k < MADE_L; k++)
            assert_near(r->sq_tv[k], m->sq_tv[k]);
    }
    assert_int_equal(ft_positions_find_l(&read, 720), 2);
    assert_int_equal(ft_positions_find_l(&read, 721), 3);
    ft_positions_deinit(&read);
    ft_positions_deinit(&made);
}

/* The file with a field of the header (line 1) or of the first text (line 2) replaced by a JSON
 * text, NULL: left out. Returns what the reader says. */
static ft_status with(int line, const char *field, const char *value)
{
    char *data, *all = NULL;
    size_t n, all_n = 0;
    ft_positions read;
    assert_int_equal(ft_file_read(path, 1 << 20, &err, &data, &n), FT_OK);
    FILE *out = open_memstream(&all, &all_n);
    int at = 1;
    for (char *text = strtok(data, "\n"); text; text = strtok(NULL, "\n"), at++) {
        json_t *root = json_loads(text, 0, NULL);
        if (at == line && value)
            json_object_set_new(root, field, json_loads(value, JSON_DECODE_ANY, NULL));
        else if (at == line)
            json_object_del(root, field);
        json_dumpf(root, out, 0);
        fputc('\n', out);
        json_decref(root);
    }
    fclose(out);
    err = (ft_error){0};
    ft_status status = ft_positions_parse(all, all_n, &err, &read);
    if (status != FT_OK) {
        char where[16];
        snprintf(where, sizeof where, "line %d", line);
        if (!strstr(err.message, where) || !strstr(err.message, field))
            fail_msg("of %s in line %d it says: %s", field, line, err.message);
        assert_null(read.texts);
    }
    ft_positions_deinit(&read);
    free(all);
    free(data);
    return status;
}

static void test_what_is_wrong_is_named(void **state)
{
    static const char *const fields[2][10] = {
        {"kind", "version", "target", "draft", "vocab", "top_k", "temperatures", "l", "index_bits"},
        {"temperature", "p", "q", "count", "adaptive_bits", "sq_accept", "rank", "qs_tv", "sq_tv",
         "top"}};
    for (int line = 1; line <= 2; line++)
        for (int i = 0; i < 10 && fields[line - 1][i]; i++) {
            assert_int_equal(with(line, fields[line - 1][i], NULL), FT_INVALID);
            assert_int_equal(with(line, fields[line - 1][i], "{}"), FT_INVALID);
            assert_int_equal(with(line, fields[line - 1][i], "[-1]"), FT_INVALID);
            assert_int_equal(with(line, fields[line - 1][i], "\"no\""), FT_INVALID);
        }
    assert_int_equal(with(1, "l", "[8, 240, 65536]"), FT_INVALID);
    assert_int_equal(with(1, "vocab", "1"), FT_INVALID);
    assert_int_equal(with(1, "temperatures", "[0.3, 1, 1e300]"), FT_INVALID);
    assert_int_equal(with(1, "l", "[1,2,3,4,5,6,7,8,9]"), FT_INVALID);
    assert_int_equal(with(2, "temperature", "0.31"), FT_INVALID);
    assert_int_equal(with(2, "p", "[0.5, 0.5]"), FT_INVALID);
    assert_int_equal(with(2, "rank", "\"0123456789abcdefg-00\""), FT_INVALID);
    assert_int_equal(with(2, "rank", "\"0123456789abcdef--00\""), FT_OK);
    assert_int_equal(with(2, "made_by", "\"somebody\""), FT_OK);
}

static void test_no_positions(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {{"", "no text"},
               {"\n", "line 1"},
               {"{\"kind\":", "line 1"},
               {"[]", "kind"},
               {"{\"kind\":\"foretoken predictor\"}", "kind"}};
    ft_positions read;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ft_positions_parse(bad[i].text, strlen(bad[i].text), &err, &read),
                         FT_INVALID);
        assert_non_null(strstr(err.message, bad[i].said));
        assert_null(strchr(err.message, '\n'));
    }
    assert_int_equal(ft_positions_load("/nowhere/positions.jsonl", &err, &read), FT_IO);
    assert_non_null(strstr(err.message, "/nowhere"));
    ft_positions made = made_positions(1, 1, 3);
    assert_int_equal(ft_positions_save(&made, "/nowhere/positions.jsonl", &err), FT_IO);
    assert_non_null(strstr(err.message, "/nowhere"));
    ft_positions_deinit(&made);
}

static void test_longest(void **state)
{
    ft_positions all = {.n_l = 1};
    ft_positions_text *text;
    assert_int_equal(ft_positions_add(&all, FT_POSITIONS_LENGTH + 1, &err, &text), FT_TOO_LARGE);
    assert_int_equal(ft_positions_add(&all, FT_POSITIONS_LENGTH, &err, &text), FT_OK);
    for (int i = 0; i < 9; i++)
        assert_int_equal(ft_positions_add(&all, 1, &err, &text), FT_OK);
    assert_true(all.n_texts == 10 && all.texts[0].n == FT_POSITIONS_LENGTH);
    ft_positions_deinit(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_comes_back),
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_no_positions),
        cmocka_unit_test(test_longest),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
