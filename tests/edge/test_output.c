// SPDX-License-Identifier: Apache-2.0
// From verdicts to text without a link: which verdicts are refused, and what of the others people
// see.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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
    char spans[64];    /* of the last verdict: "D3 T1" */
    char rejected[64]; /* of the last verdict, with a slash behind each */
    size_t n_told, span_bytes;
    uint32_t tokens;
    float logprob;
    bool refuses;
    size_t n_stops, stop; /* calls of on_stop; what the last one said */
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

static void on_told(void *ctx, const ft_told *told)
{
    shown *s = ctx;
    s->n_told++;
    s->spans[0] = s->rejected[0] = 0;
    s->tokens = told->tokens;
    for (size_t i = 0; i < told->n_spans; i++) {
        char one[16];
        snprintf(one, sizeof one, "%s%c%u", i > 0 ? " " : "", "TDER"[told->spans[i].origin],
                 told -> spans[i].bytes);
        strcat(s->spans, one);
        s->span_bytes += told->spans[i].bytes;
    }
    for (size_t i = 0; i < told->n_rejected; i++) {
        strncat(s->rejected, told->rejected[i].bytes, told->rejected[i].n);
        strcat(s->rejected, "/");
    }
}

static void on_stop(void *ctx, size_t stop)
{
    shown *s = ctx;
    s->n_stops++;
    s->stop = stop;
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
    f->sink =
        (ft_gen_sink){.ctx = &f->shown, .on_text = on_text, .on_told = on_told, .on_stop = on_stop};
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
    const char *stops[] = {"no", "cd"};
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
    begin(&f, 0, stops, 2);
    assert_int_equal(add_run(&f, "abc"), FT_FINISH_NONE); /* c is held back */
    assert_string_equal(f.shown.text, "ab");
    assert_int_equal(f.shown.n_stops, 0);
    assert_int_equal(add_run(&f, "de"), FT_FINISH_STOP);
    assert_string_equal(f.shown.text, "ab");
    assert_true(f.shown.n_stops == 1 && f.shown.stop == 1);
    end(&f);
    f = (fixture){.shown.refuses = true};
    begin(&f, 0, NULL, 0);
    assert_int_equal(add_run(&f, "a"), FT_FINISH_STOP);
    end(&f);
}

static ft_told *told(fixture *f)
{
    return &f->o.teller.told;
}

/* Accepted nodes, then the target's own token; what else was drafted in its place. */
static void test_origins(void **state)
{
    const ft_msg_draft draft = {
        .n = 6,
        .token = {byte('a'), byte('x'), byte('b'), byte('y'), byte('z'), byte('q')},
        .parent = {-1, -1, 0, 0, 2, 2}};
    const ft_msg_verdict v = {.n_path = 2, .path = {0, 2}, .n_next = 1, .next = {byte('c')}};
    const ft_msg_verdict none = {.n_next = 1, .next = {byte('d')}};
    fixture f = {0};
    begin(&f, 0, NULL, 0);
    add(&f, &draft, &v);
    assert_string_equal(f.shown.spans, "D2 T1");
    assert_string_equal(f.shown.rejected, "z/q/");
    assert_int_equal(f.shown.tokens, 3);
    told(&f)->early = true;
    add(&f, &draft, &v);
    assert_string_equal(f.shown.spans, "E2 T1");
    told(&f)->early = false;
    add(&f, &draft, &none); /* a, then its likeliest children */
    assert_string_equal(f.shown.spans, "T1");
    assert_string_equal(f.shown.rejected, "abz/x/");
    told(&f)->undrafted = FT_UNDRAFTED_NOT_WORTH;
    add_run(&f, "ef");
    assert_string_equal(f.shown.spans, "R2");
    assert_string_equal(f.shown.rejected, "");
    end(&f);
}

/* Held back, cut off, completed by another origin, and broken. */
static void test_spans_are_of_what_is_shown(void **state)
{
    const char *stops[] = {"bcX"};
    const ft_msg_draft draft = {.n = 2, .token = {byte('a'), byte('b')}, .parent = {-1, 0}};
    ft_msg_verdict v = {.n_path = 2, .path = {0, 1}, .n_next = 1, .next = {byte('c')}};
    fixture f = {0};
    begin(&f, 0, stops, 1);
    add(&f, &draft, &v);
    assert_string_equal(f.shown.spans, "D1"); /* "bc" may begin a stop string */
    told(&f)->undrafted = FT_UNDRAFTED_ASKED;
    add_run(&f, "d");
    assert_string_equal(f.shown.text, "abcd");
    assert_string_equal(f.shown.spans, "D1 T1 R1");
    add_run(&f, "ebcX");
    assert_string_equal(f.shown.spans, "R1");
    assert_int_equal(f.shown.span_bytes, f.shown.n);
    end(&f);

    const ft_msg_draft half = {.n = 2, .token = {byte('a'), byte('\xc3')}, .parent = {-1, 0}};
    f = (fixture){0};
    begin(&f, 0, NULL, 0);
    v.next[0] = byte('\xa9');
    add(&f, &half, &v);
    assert_string_equal(f.shown.text, "a\xc3\xa9");
    assert_string_equal(f.shown.spans, "D1 T2"); /* the character is its last token's */
    v.next[0] = byte('\xc3');
    add(&f, &half, &v); /* the first half is broken: it is shown as U+FFFD; the second waits */
    assert_string_equal(f.shown.spans, "D4");
    told(&f)->undrafted = FT_UNDRAFTED_ASKED;
    assert_int_equal(add_run(&f, "$"), FT_FINISH_STOP);
    assert_string_equal(f.shown.spans, "T3");
    assert_int_equal(f.shown.span_bytes, f.shown.n);
    assert_int_equal(f.shown.n_told, 3); /* also of the end, which brings no token */
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
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_spans_are_of_what_is_shown),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
