// SPDX-License-Identifier: Apache-2.0
// From verdicts to text without a link: which verdicts are refused, and what of the others people
// see.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "edge/output.h"
#include "support/tiny_model.h"

#define FIRST_BYTE 3 /* token of byte 0 in the tiny vocabulary */
#define EOS        2

static ft_vocab *vocab;

static int setup(void **state)
{
    (void)state;
    tiny_quiet();
    vocab = tiny_vocab();
    return 0;
}

static int teardown(void **state)
{
    ft_vocab_destroy(vocab);
    return 0;
}

static int32_t byte(char c)
{
    return FIRST_BYTE + (unsigned char)c;
}

/* ---- checking ---- */

/* The text has 10 tokens; node 0 is followed by 1 and 2. */
static const ft_msg_draft tree = {.n = 3, .token = {5, 6, 7}, .parent = {-1, 0, 0}};

static ft_status check(const ft_msg_draft *draft, uint32_t run_left, ft_msg_verdict v)
{
    const ft_awaited awaited = {
        .draft = draft, .run_left = run_left, .length = 10, .n_vocab = ft_vocab_size(vocab)};
    ft_error err = {0};
    v.length = v.length ? v.length : 10 + v.n_path + v.n_next;
    return ft_output_check(&awaited, &v, &err);
}

static void test_verdicts_on_trees(void **state)
{
    assert_int_equal(check(&tree, 0, (ft_msg_verdict){.n_next = 1}), FT_OK);
    assert_int_equal(check(&tree, 0, (ft_msg_verdict){.n_path = 2, .path = {0, 2}, .n_next = 1}),
                     FT_OK);
    const ft_msg_verdict ended = {.n_path = 1, .finish = FT_FINISH_STOP};
    assert_int_equal(check(&tree, 0, ended), FT_OK);
    const ft_msg_verdict lies[] = {
        {0},                                           /* nothing */
        {.n_path = 1},                                 /* nothing of its own */
        {.n_path = 1, .path = {1}, .n_next = 1},       /* no root */
        {.n_path = 2, .path = {0, 3}, .n_next = 1},    /* no node */
        {.n_path = 3, .path = {0, 1, 2}, .n_next = 1}, /* no path */
        {.n_next = 2},                                 /* too much */
        {.n_next = 1, .more = true},                   /* it is no run */
        {.n_next = 1, .next = {-1}},                   /* no token */
        {.n_next = 1, .next = {1 << 20}},              /* no token */
        {.n_next = 1, .length = 12},                   /* another length */
        {.n_next = 1, .early_taken = true},            /* nothing was sent early */
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++)
        assert_int_equal(check(&tree, 0, lies[i]), FT_CORRUPT);
}

static void test_verdicts_of_runs(void **state)
{
    const ft_msg_draft run = {.run = 4};
    assert_int_equal(check(&run, 3, (ft_msg_verdict){.n_next = 2, .more = true}), FT_OK);
    assert_int_equal(check(&run, 3, (ft_msg_verdict){.n_next = 3}), FT_OK);
    assert_int_equal(check(&run, 3, (ft_msg_verdict){.n_next = 1, .finish = FT_FINISH_STOP}),
                     FT_OK);
    assert_int_equal(check(&run, 3, (ft_msg_verdict){.n_next = 4}), FT_CORRUPT);
    assert_int_equal(check(&run, 3, (ft_msg_verdict){.n_next = 2}), FT_CORRUPT);
    assert_int_equal(check(&run, 3, (ft_msg_verdict){.n_next = 3, .more = true}), FT_CORRUPT);
    assert_int_equal(check(&run, 3, (ft_msg_verdict){.n_path = 1, .n_next = 1}), FT_CORRUPT);
}

static void test_log_probabilities_that_were_asked_for(void **state)
{
    ft_awaited awaited = {.draft = &tree, .length = 10, .n_vocab = 100, .logprobs = true};
    ft_msg_verdict v = {.n_path = 1, .n_next = 1, .length = 12, .n_logprobs = 2};
    ft_error err = {0};
    assert_int_equal(ft_output_check(&awaited, &v, &err), FT_OK);
    v.n_logprobs = 0;
    assert_int_equal(ft_output_check(&awaited, &v, &err), FT_CORRUPT);
    awaited.logprobs = false;
    awaited.early = true;
    v.early_taken = true;
    assert_int_equal(ft_output_check(&awaited, &v, &err), FT_OK);
}

/* ---- text ---- */

typedef struct shown {
    char text[64];
    size_t n, n_tokens;
    float logprob;
    bool refuses;
} shown;

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    shown *s = ctx;
    memcpy(s->text + s->n, text, n);
    s->n += n;
    s->text[s->n] = 0;
    s->n_tokens += n_tokens;
    if (n_tokens > 0 && tokens[0].has_logprob)
        s->logprob = tokens[0].logprob.logprob;
    return !s->refuses;
}

typedef struct fixture {
    shown shown;
    ft_gen_sink sink;
    ft_tokens text;
    ft_output o;
} fixture;

static void begin(fixture *f, uint32_t max_tokens, const char *const *stops, size_t n_stops)
{
    ft_error err = {0};
    f->sink = (ft_gen_sink){.ctx = &f->shown, .on_text = on_text};
    const ft_output_opts opts = {.vocab = vocab,
                                 .sink = &f->sink,
                                 .text = &f->text,
                                 .max_tokens = max_tokens,
                                 .stops = stops,
                                 .n_stops = n_stops};
    assert_int_equal(ft_output_init(&f->o, &opts, &err), FT_OK);
}

static void end(fixture *f)
{
    ft_output_deinit(&f->o);
    ft_tokens_deinit(&f->text);
}

static ft_finish add(fixture *f, const ft_msg_draft *draft, const ft_msg_verdict *v)
{
    ft_error err = {0};
    ft_finish finish;
    assert_int_equal(ft_output_add(&f->o, draft, v, &err, &finish), FT_OK);
    return finish;
}

static ft_finish add_run(fixture *f, const char *tokens)
{
    const ft_msg_draft run = {.run = 9};
    ft_msg_verdict v = {.n_next = (uint32_t)strlen(tokens)};
    for (uint32_t i = 0; i < v.n_next; i++)
        v.next[i] = tokens[i] == '$' ? EOS : byte(tokens[i]);
    return add(f, &run, &v);
}

static void test_path_and_next(void **state)
{
    const ft_msg_draft draft = {
        .n = 3, .token = {byte('a'), byte('x'), byte('b')}, .parent = {-1, -1, 0}};
    ft_token_logprob logprobs[3] = {{.logprob = -0.5f}};
    const ft_msg_verdict v = {.n_path = 2,
                              .path = {0, 2},
                              .n_next = 1,
                              .next = {byte('c')},
                              .n_logprobs = 3,
                              .logprobs = logprobs};
    fixture f = {0};
    begin(&f, 0, NULL, 0);
    assert_int_equal(add(&f, &draft, &v), FT_FINISH_NONE);
    assert_string_equal(f.shown.text, "abc");
    assert_float_equal(f.shown.logprob, -0.5, 0);
    assert_int_equal(f.text.n, 3);
    assert_int_equal(f.o.generated, 3);
    end(&f);
}

static void test_ends(void **state)
{
    const char *stops[] = {"cd"};
    fixture f = {0};
    begin(&f, 0, NULL, 0);
    assert_int_equal(add_run(&f, "ab$"), FT_FINISH_STOP); /* the end token is no text */
    assert_string_equal(f.shown.text, "ab");
    assert_int_equal(f.text.n, 3);
    assert_int_equal(f.o.generated, 2);
    end(&f);
    f = (fixture){0};
    begin(&f, 3, NULL, 0);
    assert_int_equal(add_run(&f, "abcd"), FT_FINISH_LENGTH);
    assert_string_equal(f.shown.text, "abc");
    end(&f);
    f = (fixture){0};
    begin(&f, 0, stops, 1);
    assert_int_equal(add_run(&f, "abc"), FT_FINISH_NONE); /* c is held back */
    assert_string_equal(f.shown.text, "ab");
    assert_int_equal(add_run(&f, "de"), FT_FINISH_STOP);
    assert_string_equal(f.shown.text, "ab");
    end(&f);
    f = (fixture){.shown.refuses = true};
    begin(&f, 0, NULL, 0);
    assert_int_equal(add_run(&f, "a"), FT_FINISH_STOP);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts_on_trees),
        cmocka_unit_test(test_verdicts_of_runs),
        cmocka_unit_test(test_log_probabilities_that_were_asked_for),
        cmocka_unit_test(test_path_and_next),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
