// SPDX-License-Identifier: Apache-2.0
// constrain/grammars.h: a constraint is compiled once for a tenant, errors come back, places are
// given up by age.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "constrain/grammars.h"

enum { END = 128, VOCAB };

static ft_status piece(const void *ctx, int32_t token, ft_buf *out)
{
    const char byte = (char)token;
    return token < END ? ft_buf_append(out, &byte, 1) : FT_OK;
}

static bool ends(const void *ctx, int32_t token)
{
    return token == END;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int n_done; /* guarded by lock */

static void done(void *ctx)
{
    pthread_mutex_lock(&lock);
    n_done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static ft_status get(ft_grammars *g, const char *regex, const char *tenant, ft_error *err,
                     ft_grammar **out)
{
    const ft_constraint c = {FT_CONSTRAINT_REGEX, regex, strlen(regex)};
    for (;;) {
        pthread_mutex_lock(&lock);
        const int before = n_done;
        pthread_mutex_unlock(&lock);
        const ft_status status = ft_grammars_get(g, &c, tenant, err, out);
        if (status != FT_OK || *out)
            return status;
        pthread_mutex_lock(&lock);
        while (n_done == before)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
}

static ft_grammars *create(void)
{
    const ft_grammars_opts opts = {.tokens = {.n = VOCAB, .piece = piece, .ends = ends},
                                   .done = done};
    ft_error err = {0};
    ft_grammars *g;
    if (!ft_constrain_available())
        skip();
    assert_int_equal(ft_grammars_create(&opts, &err, &g), FT_OK);
    n_done = 0;
    return g;
}

static void test_once_a_tenant(void **state)
{
    ft_grammars *g = create();
    ft_grammar *a, *again, *b, *none;
    ft_error err = {0};
    assert_int_equal(get(g, "a+", "one", &err, &a), FT_OK);
    assert_int_equal(get(g, "a+", "one", &err, &again), FT_OK);
    assert_int_equal(get(g, "a+", "two", &err, &b), FT_OK);
    assert_int_equal(get(g, "a+", NULL, &err, &none), FT_OK);
    assert_ptr_equal(a, again);
    assert_ptr_not_equal(a, b);
    assert_ptr_not_equal(a, none);
    assert_int_equal(n_done, 3);
    ft_grammar_unref(a);
    ft_grammar_unref(b);
    ft_grammar_unref(none);
    ft_grammars_destroy(g);
    ft_grammar_unref(again); /* outlives them */
}

static void test_errors(void **state)
{
    ft_grammars *g = create();
    ft_grammar *a;
    ft_error err = {0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get(g, "a)", "one", &err, &a), FT_INVALID);
        assert_null(a);
        assert_non_null(strstr(err.message, "constraint:"));
    }
    assert_int_equal(n_done, 1); /* kept as well */
    assert_int_equal(get(g, "", "one", &err, &a), FT_INVALID);
    assert_int_equal(n_done, 1);
    ft_grammars_destroy(g);
}

static void test_places(void **state)
{
    ft_grammars *g = create();
    ft_grammar *a;
    ft_error err = {0};
    char regex[32];
    for (int i = 0; i <= FT_GRAMMARS_MAX; i++) { /* one too many: the first goes */
        snprintf(regex, sizeof regex, "a{%d}", i + 1);
        assert_int_equal(get(g, regex, "one", &err, &a), FT_OK);
        ft_grammar_unref(a);
    }
    assert_int_equal(n_done, FT_GRAMMARS_MAX + 1);
    assert_int_equal(get(g, regex, "one", &err, &a), FT_OK);
    ft_grammar_unref(a);
    assert_int_equal(n_done, FT_GRAMMARS_MAX + 1);
    assert_int_equal(get(g, "a{1}", "one", &err, &a), FT_OK);
    ft_grammar_unref(a);
    assert_int_equal(n_done, FT_GRAMMARS_MAX + 2);
    ft_grammars_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_a_tenant),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
