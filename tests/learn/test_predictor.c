// SPDX-License-Identifier: Apache-2.0
// The predictor's file: what is written is read again, and whatever is missing or wrong in it is
// refused by name; features that are no numbers do no harm.
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

#include "base/rng.h"
#include "learn/predictor.h"

static ft_error err;

static ft_predictor make(void)
{
    const ft_mlp_shape shape = {3, {FT_FEATURES, 8, 4, 1}};
    ft_predictor p = {.mean = {0.5f, 2, 0.3f, 3, 2},
                      .scale = {3, 0.5f, 4, 1, 0.25f},
                      .draft = UINT64_C(0xfedcba9876543210),
                      .target = 7};
    ft_rng rng;
    ft_rng_init(&rng, 4);
    assert_int_equal(ft_mlp_init(&shape, &err, &p.mlp), FT_OK);
    for (size_t i = 0; i < ft_mlp_n_params(&shape); i++)
        p.mlp.weight[0][i] = (float)ft_rng_normal(&rng);
    p.least = ft_predictor_odds(&p, p.mean) + 0.01f; /* so that some are above, some below */
    return p;
}

static void test_file_comes_back(void **state)
{
    char path[] = "/tmp/ft-predictor-XXXXXX";
    ft_predictor p = make(), read;
    ft_rng rng;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    json_t *root = ft_predictor_json(&p);
    assert_int_equal(json_dump_file(root, path, JSON_REAL_PRECISION(9)), 0);
    json_decref(root);
    assert_int_equal(ft_predictor_load(path, &err, &read), FT_OK);
    unlink(path);
    assert_true(read.draft == p.draft && read.target == p.target && read.least == p.least);
    assert_memory_equal(read.mean, p.mean, sizeof p.mean);
    assert_memory_equal(read.scale, p.scale, sizeof p.scale);
    assert_memory_equal(read.mlp.weight[0], p.mlp.weight[0],
                        ft_mlp_n_params(&p.mlp.shape) * sizeof(float));
    ft_rng_init(&rng, 5);
    for (int i = 0, in = 0; i < 200; i++) {
        float f[FT_FEATURES];
        for (int k = 0; k < FT_FEATURES; k++)
            f[k] = (float)ft_rng_normal(&rng);
        assert_true(ft_predictor_odds(&read, f) == ft_predictor_odds(&p, f));
        in += ft_predictor_accepts(&p, f);
        assert_true(i < 199 || (in > 0 && in < 200));
    }
    ft_predictor_deinit(&p);
    ft_predictor_deinit(&read);
    assert_int_equal(ft_predictor_load(path, &err, &read), FT_IO);
}

/* It is for its own draft, or nobody knows for which. */
static void test_another_draft(void **state)
{
    ft_predictor p = {.draft = 7};
    assert_int_equal(ft_predictor_check_draft(&p, 7, &err), FT_OK);
    assert_int_equal(ft_predictor_check_draft(&p, 8, &err), FT_PRECONDITION);
    assert_non_null(strstr(err.message, "0000000000000007"));
    assert_non_null(strstr(err.message, "0000000000000008"));
    p.draft = 0;
    assert_int_equal(ft_predictor_check_draft(&p, 8, &err), FT_OK);
}

static void write_file(const char *folder, const char *name, const ft_predictor *p)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *root = p ? ft_predictor_json(p) : json_pack("{s:i}", "kind", 1);
    assert_int_equal(json_dump_file(root, path, JSON_REAL_PRECISION(9)), 0);
    json_decref(root);
}

/* The file that is found, without its folder; "": none. */
static void expect_found(const char *folder, uint64_t draft, const char *name)
{
    char beside[256];
    ft_predictor p;
    char *path;
    snprintf(beside, sizeof beside, "%s/draft.gguf", folder);
    assert_int_equal(ft_predictor_find(beside, draft, &err, &p, &path), FT_OK);
    assert_string_equal(path ? path + strlen(folder) + 1 : "", name);
    assert_true(path ? p.draft == draft : !p.mlp.weight[0]);
    ft_predictor_deinit(&p);
    free(path);
}

/* Beside the draft's file, by the draft's fingerprint; what is broken or another's is passed
 * over. */
static void test_is_found_beside_the_draft(void **state)
{
    static const char *const names[] = {"a-predictor.json", "b-predictor.json", "c-predictor.json",
                                        "d-predictor.json", "predictor.json.old"};
    char folder[] = "/tmp/ft-predictors-XXXXXX", path[256];
    ft_predictor p = make();
    assert_non_null(mkdtemp(folder));
    expect_found(folder, p.draft, "");
    write_file(folder, names[4], &p); /* another ending */
    expect_found(folder, p.draft, "");
    write_file(folder, names[0], NULL);
    write_file(folder, names[3], &p);
    write_file(folder, names[2], &p);
    const uint64_t own = p.draft;
    p.draft = 8;
    write_file(folder, names[1], &p);
    expect_found(folder, own, names[2]);
    expect_found(folder, 8, names[1]);
    expect_found(folder, 9, "");
    p.draft = 0; /* nobody knows for which */
    write_file(folder, names[1], &p);
    expect_found(folder, 0, "");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
    expect_found(folder, own, ""); /* no folder */
    ft_predictor_deinit(&p);
}

static void test_no_number_is_the_mean(void **state)
{
    const float odd[] = {NAN, INFINITY, -INFINITY};
    ft_predictor p = make();
    const float expected = ft_predictor_odds(&p, p.mean);
    for (size_t i = 0; i < 3; i++) {
        float f[FT_FEATURES];
        for (int k = 0; k < FT_FEATURES; k++)
            f[k] = odd[(i + (size_t)k) % 3];
        assert_true(ft_predictor_odds(&p, f) == expected);
    }
    ft_predictor_deinit(&p);
}

/* The file with one field replaced by a JSON text, NULL: left out. */
static ft_status with(const char *field, const char *value, const char *named)
{
    ft_predictor p = make(), read;
    json_t *root = ft_predictor_json(&p);
    if (value)
        json_object_set_new(root, field, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(root, field);
    err = (ft_error){0};
    ft_status status = ft_predictor_parse(root, &err, &read);
    if (status != FT_OK) {
        assert_non_null(strstr(err.message, named));
        assert_null(read.mlp.weight[0]);
    }
    ft_predictor_deinit(&read);
    json_decref(root);
    ft_predictor_deinit(&p);
    return status;
}

static void test_what_is_wrong_is_named(void **state)
{
    static const char *const fields[] = {"kind",   "version", "features",      "mean",
                                         "scale",  "draft",   "target",        "layers",
                                         "biases", "weights", "least_log_odds"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        assert_int_equal(with(fields[i], NULL, fields[i]), FT_INVALID);
        assert_int_equal(with(fields[i], "{}", fields[i]), FT_INVALID);
        assert_int_equal(with(fields[i], "[1, 2]", fields[i]), FT_INVALID);
    }
    assert_int_equal(with("version", "2", "version"), FT_INVALID);
    assert_int_equal(with("least_log_odds", "1e300", "least_log_odds"), FT_INVALID);
    assert_int_equal(with("layers", "[5, 1024, 1024, 1024, 1]", "layers"), FT_INVALID);
    assert_int_equal(with("layers", "[5, 8, 5, 1]", "weights"), FT_INVALID);
    assert_int_equal(with("layers", "[4, 8, 4, 1]", "layers"), FT_INVALID);
    assert_int_equal(with("mean", "[0, 0, 0, 0, null]", "mean"), FT_INVALID);
    assert_int_equal(with("draft", "\"FEDCBA9876543210\"", "draft"), FT_INVALID);
    assert_int_equal(with("features",
                          "[\"entropy\", \"confidence\", \"margin\", \"deviation\", \"position\"]",
                          "features"),
                     FT_INVALID);
    assert_int_equal(with("made_by", "\"somebody\"", ""), FT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_comes_back),
        cmocka_unit_test(test_another_draft),
        cmocka_unit_test(test_is_found_beside_the_draft),
        cmocka_unit_test(test_no_number_is_the_mean),
        cmocka_unit_test(test_what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
