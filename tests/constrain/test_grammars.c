// SPDX-License-Identifier: Apache-2.0
// constrain/grammars.h: a constraint is compiled once for a tenant, errors come back, places are
// given up by age, and each tenant has its share.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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
static bool held;  /* guarded by lock: workers stay in `done` */

static void done(void *ctx)
{
    pthread_mutex_lock(&lock);
    n_done++;
    pthread_cond_broadcast(&changed);
    while (held)
        pthread_cond_wait(&changed, &lock);
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
    assert_int_equal(n_done, 2);
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

/* Compiles so many for the tenant, and drops them. */
static void compile_many(ft_grammars *g, const char *letter, int n, const char *tenant)
{
    ft_grammar *a;
    ft_error err = {0};
    char regex[32];
    for (int i = 0; i < n; i++) {
        snprintf(regex, sizeof regex, "%s{%d}", letter, i + 1);
        assert_int_equal(get(g, regex, tenant, &err, &a), FT_OK);
        ft_grammar_unref(a);
    }
}

/* Many of one tenant replace its own, but for one that is in use. */
static void test_tenants(void **state)
{
    ft_grammars *g = create();
    ft_grammar *used, *again;
    ft_error err = {0};
    assert_int_equal(get(g, "x", "one", &err, &used), FT_OK);
    compile_many(g, "b", 2, "two");
    compile_many(g, "a", FT_GRAMMARS_MAX, "one");
    const int before = n_done;
    compile_many(g, "b", 2, "two");
    assert_int_equal(get(g, "x", "one", &err, &again), FT_OK);
    assert_ptr_equal(used, again);
    assert_int_equal(n_done, before);
    ft_grammar_unref(used);
    ft_grammar_unref(again);
    ft_grammars_destroy(g);
}

static void hold(bool on)
{
    pthread_mutex_lock(&lock);
    held = on;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static ft_status ask(ft_grammars *g, int i, const char *tenant)
{
    ft_error err = {0};
    ft_grammar *none;
    char regex[32];
    snprintf(regex, sizeof regex, "a{%d}", i + 1);
    const ft_constraint c = {FT_CONSTRAINT_REGEX, regex, strlen(regex)};
    const ft_status status = ft_grammars_get(g, &c, tenant, &err, &none);
    assert_null(none);
    return status;
}

/* Who queues many is refused; others are not. */
static void test_queue(void **state)
{
    ft_grammars *g = create();
    ft_grammar *a;
    ft_error err = {0};
    int n = 0;
    hold(true);
    assert_int_equal(get(g, "x", "one", &err, &a), FT_OK); /* each keeps a worker */
    ft_grammar_unref(a);
    assert_int_equal(get(g, "y", "one", &err, &a), FT_OK);
    ft_grammar_unref(a);
    while (ask(g, n, "one") == FT_OK)
        n++;
    assert_int_equal(n, 16);
    assert_int_equal(ask(g, n, "one"), FT_EXHAUSTED);
    assert_int_equal(ask(g, n, "two"), FT_OK);
    hold(false);
    compile_many(g, "a", n, "one"); /* all are compiled */
    ft_grammars_destroy(g);
}

/* Refused, after some time: text number i. */
static char *refused(int i)
{
    char *text = malloc(FT_CONSTRAINT_MAX_BYTES + 1);
    size_t n = 0;
    assert_non_null(text);
    n += (size_t)sprintf(text, "(x%d|", i);
    while (n < 20000)
        n += (size_t)sprintf(text + n, "a{1,%zu}b|", 20 + n % 50);
    strcpy(text + n, "c)");
    return text;
}

/* Who sends constraints that are refused after much work gets no new ones compiled. What is there
 * stays, and others do not notice. */
static void test_waste(void **state)
{
    ft_grammars *g = create();
    ft_grammar *a;
    ft_error err = {0};
    ft_status status = FT_INVALID;
    assert_int_equal(get(g, "x", "one", &err, &a), FT_OK);
    ft_grammar_unref(a);
    for (int i = 0; status == FT_INVALID; i++) {
        char *text = refused(i);
        status = get(g, text, "one", &err, &a);
        free(text);
    }
    assert_int_equal(status, FT_EXHAUSTED);
    assert_non_null(strstr(err.message, "send no new one for"));
    assert_int_equal(get(g, "y", "one", &err, &a), FT_EXHAUSTED);
    assert_int_equal(get(g, "y", "two", &err, &a), FT_OK);
    ft_grammar_unref(a);
    assert_int_equal(get(g, "x", "one", &err, &a), FT_OK);
    ft_grammar_unref(a);
    ft_grammars_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_a_tenant), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_places),        cmocka_unit_test(test_tenants),
        cmocka_unit_test(test_queue),         cmocka_unit_test(test_waste),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
