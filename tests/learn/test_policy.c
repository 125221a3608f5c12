// SPDX-License-Identifier: Apache-2.0
// The draft policy: what it looks at, which choice it makes, and its file. What is written is read
// again, and whatever is missing or wrong is refused by name.
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
#include "learn/policy.h"

enum { LENGTHS = 5 };

static ft_error err;

static ft_policy make(void)
{
    const ft_policy like = {
        .n_lengths = LENGTHS, .n_l = 2, .l = {240, 720}, .draft = 0xfedcba9876543210, .target = 7};
    ft_policy p;
    ft_rng rng;
    ft_rng_init(&rng, 4);
    assert_int_equal(ft_policy_init(&like, &err, &p), FT_OK);
    for (size_t i = 0; i < ft_mlp_n_params(&p.net.shape); i++)
        p.net.weight[0][i] = (float)ft_rng_normal(&rng);
    return p;
}

static void test_file_comes_back(void **state)
{
    char path[] = "/tmp/ft-policy-XXXXXX";
    ft_policy p = make(), read;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    json_t *root = ft_policy_json(&p);
    assert_int_equal(json_dump_file(root, path, JSON_REAL_PRECISION(9)), 0);
    json_decref(root);
    assert_int_equal(ft_policy_load(path, &err, &read), FT_OK);
    unlink(path);
    assert_true(read.draft == p.draft && read.target == p.target);
    assert_true(read.n_lengths == p.n_lengths && read.n_l == p.n_l);
    assert_memory_equal(read.l, p.l, sizeof p.l);
    assert_memory_equal(&read.net.shape, &p.net.shape, sizeof p.net.shape);
    assert_memory_equal(read.net.weight[0], p.net.weight[0],
                        ft_mlp_n_params(&p.net.shape) * sizeof(float));
    ft_policy_deinit(&p);
    ft_policy_deinit(&read);
    assert_int_equal(ft_policy_load(path, &err, &read), FT_IO);
}

static void assert_input(float input, double expected)
{
    assert_true(fabs((double)input - expected) < 1e-6);
}

static void test_state(void **state)
{
    float x[FT_POLICY_INPUTS];
    ft_policy_past past = {0};
    ft_policy_state(&past, 1e6, x); /* nothing is known */
    for (int i = 0; i < FT_POLICY_INPUTS; i++)
        assert_input(x[i], 0);
    ft_policy_saw(&past, 0.50f);
    ft_policy_saw(&past, 0.51f);
    ft_policy_state(&past, 1e5, x); /* of two tokens */
    assert_input(x[FT_POLICY_WINDOW - 3], 0);
    assert_input(x[FT_POLICY_WINDOW - 2], 2 * 0.50 - 1);
    assert_input(x[FT_POLICY_WINDOW - 1], 2 * 0.51 - 1);
    assert_input(x[FT_POLICY_WINDOW], 2 * 0.505 - 1);
    assert_input(x[FT_POLICY_WINDOW + 1], 2 * 0.51 - 1);
    assert_input(x[FT_POLICY_WINDOW + 2], -1);
    for (int i = 0; i < 100; i++)
        ft_policy_saw(&past, (float)i / 100);
    ft_policy_state(&past, 1e7, x); /* the last ones count */
    assert_input(x[0], 2 * 0.36 - 1);
    assert_input(x[FT_POLICY_WINDOW - 1], 2 * 0.99 - 1);
    assert_input(x[FT_POLICY_WINDOW], 2 * 0.675 - 1);
    assert_input(x[FT_POLICY_WINDOW + 2], 1);
    float beyond[FT_POLICY_INPUTS];
    ft_policy_state(&past, 1e8, x);
    ft_policy_state(&past, 1e12, beyond); /* no network was trained with such a rate */
    assert_memory_equal(x, beyond, sizeof x);
    ft_policy_state(&past, 1e4, x);
    ft_policy_state(&past, 1, beyond);
    assert_memory_equal(x, beyond, sizeof x);
}

/* Neither the place of a token of which nothing is known nor the mean says anything of it. */
static void test_unknown_tokens(void **state)
{
    float x[FT_POLICY_INPUTS];
    ft_policy_past past = {0};
    ft_policy_saw(&past, -1);
    ft_policy_state(&past, 1e6, x);
    for (int i = 0; i < FT_POLICY_INPUTS; i++)
        assert_input(x[i], 0);
    ft_policy_saw(&past, 0);
    ft_policy_saw(&past, 0.9f);
    ft_policy_saw(&past, -1);
    ft_policy_state(&past, 1e6, x);
    assert_input(x[FT_POLICY_WINDOW - 4], 0);
    assert_input(x[FT_POLICY_WINDOW - 3], -1);
    assert_input(x[FT_POLICY_WINDOW - 2], 2 * 0.9 - 1);
    assert_input(x[FT_POLICY_WINDOW - 1], 0);
    assert_input(x[FT_POLICY_WINDOW], 2 * 0.45 - 1);
    assert_input(x[FT_POLICY_WINDOW + 1], 0);
}

/* Each choice, by a bias that is higher than the others. */
static void test_choices(void **state)
{
    const ft_policy like = {.n_lengths = LENGTHS, .n_l = 2, .l = {240, 720}};
    const float x[FT_POLICY_INPUTS] = {0};
    ft_policy p;
    assert_int_equal(ft_policy_init(&like, &err, &p), FT_OK);
    assert_int_equal(ft_policy_choose(&p, x).length, 1); /* the first of equals */
    for (uint32_t length = 1; length <= LENGTHS; length++)
        for (uint32_t i = 0; i < 2; i++) {
            p.net.bias[2][(length - 1) * 2 + i] = (float)(length * 2 + i);
            const ft_policy_choice choice = ft_policy_choose(&p, x);
            assert_true(choice.length == length && choice.i_l == i);
        }
    ft_policy_deinit(&p);
}

/* The branches see their own inputs alone: 128 the tokens, 32 mean and last, 16 the rate. */
static void test_branches(void **state)
{
    ft_policy p = make();
    const size_t n = ft_mlp_n_params(&p.net.shape);
    uint8_t *mask = malloc(n);
    size_t used = 0;
    ft_policy_mask(&p, mask);
    for (size_t i = 0; i < n; i++)
        used += mask[i];
    const size_t n_biases = 128 + 32 + 16, n_trunk = (128 + 32 + 16) * 128 + 128;
    assert_int_equal(used,
                     64 * 128 + 2 * 32 + 16 + n_biases + n_trunk + 128 * LENGTHS * 2 + LENGTHS * 2);
    assert_true(mask[0] == 1 && mask[127] == 1 && mask[128] == 0);
    assert_true(mask[64 * 176 + 127] == 0 && mask[64 * 176 + 128] == 1);
    assert_true(mask[66 * 176 + 159] == 0 && mask[66 * 176 + 160] == 1);
    free(mask);
    ft_policy_deinit(&p);
}

static void test_another_draft(void **state)
{
    ft_policy p = {.draft = 7};
    assert_int_equal(ft_policy_check_draft(&p, 7, &err), FT_OK);
    assert_int_equal(ft_policy_check_draft(&p, 8, &err), FT_PRECONDITION);
    assert_non_null(strstr(err.message, "0000000000000007"));
    assert_non_null(strstr(err.message, "0000000000000008"));
    p.draft = 0;
    assert_int_equal(ft_policy_check_draft(&p, 8, &err), FT_OK);
}

static void test_too_many_choices(void **state)
{
    const ft_policy like = {.n_lengths = 64, .n_l = 17};
    ft_policy p;
    assert_int_equal(ft_policy_init(&like, &err, &p), FT_INVALID);
    assert_null(p.net.weight[0]);
}

/* The file with one field replaced by a JSON text, NULL: left out. */
static ft_status with(const char *field, const char *value, const char *named)
{
    ft_policy p = make(), read;
    json_t *root = ft_policy_json(&p);
    if (value)
        json_object_set_new(root, field, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(root, field);
    err = (ft_error){0};
    ft_status status = ft_policy_parse(root, &err, &read);
    if (status != FT_OK) {
        assert_non_null(strstr(err.message, named));
        assert_null(read.net.weight[0]);
    }
    ft_policy_deinit(&read);
    json_decref(root);
    ft_policy_deinit(&p);
    return status;
}

static void test_what_is_wrong_is_named(void **state)
{
    static const char *const fields[] = {"kind",   "version", "lengths", "draft",
                                         "target", "layers",  "biases",  "weights"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        assert_int_equal(with(fields[i], NULL, fields[i]), FT_INVALID);
        assert_int_equal(with(fields[i], "{}", fields[i]), FT_INVALID);
        assert_int_equal(with(fields[i], "[1, 2]", fields[i]), FT_INVALID);
    }
    assert_int_equal(with("l", NULL, "'l'"), FT_INVALID);
    assert_int_equal(with("l", "[240, 65536]", "'l'"), FT_INVALID);
    assert_int_equal(with("l", "[240]", "layers"), FT_INVALID); /* the network has ten outputs */
    assert_int_equal(with("l", "[8, 100]", ""), FT_OK);
    assert_int_equal(with("version", "2", "version"), FT_INVALID);
    assert_int_equal(with("lengths", "65", "lengths"), FT_INVALID);
    assert_int_equal(with("lengths", "6", "layers"), FT_INVALID);
    assert_int_equal(with("layers", "[67, 1024, 1024, 10]", "layers"), FT_INVALID);
    assert_int_equal(with("layers", "[67, 176, 127, 10]", "weights"), FT_INVALID);
    assert_int_equal(with("draft", "\"FEDCBA9876543210\"", "draft"), FT_INVALID);
    assert_int_equal(with("made_by", "\"somebody\"", ""), FT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_comes_back),  cmocka_unit_test(test_state),
        cmocka_unit_test(test_unknown_tokens),   cmocka_unit_test(test_choices),
        cmocka_unit_test(test_branches),         cmocka_unit_test(test_another_draft),
        cmocka_unit_test(test_too_many_choices), cmocka_unit_test(test_what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
