// SPDX-License-Identifier: Apache-2.0
// `foretoken run --trace` on tiny models, then `foretoken trace`: every draft of the run is in the
// file, with what the run itself says of it (edge/record.c); the file grows by the next run; what
// is no trace file is refused.
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

#include "support/program.h"
#include "support/tiny_gguf.h"

static char *target, *draft, *trace;

static int set_up(void **state)
{
    target = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1});
    draft = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .seed = 1, .n_layer = 1});
    trace = tiny_temp_path();
    return target && draft && trace ? 0 : -1;
}

static int tear_down(void **state)
{
    unlink(target);
    unlink(draft);
    unlink(trace);
    free(target);
    free(draft);
    free(trace);
    return 0;
}

static json_t *run(const char *args, int *status)
{
    return program_json(status,
                        "run -m '%s' -md '%s' -p 'hello there' --raw -n 40 -t 1 --seed 5 --json %s",
                        target, draft, args);
}

static json_t *recorded_run(const char *how)
{
    char args[256];
    int status = -1;
    snprintf(args, sizeof args, "--trace '%s' %s", trace, how);
    json_t *o = run(args, &status);
    assert_int_equal(status, 0);
    assert_non_null(o);
    const json_t *t = json_object_get(o, "trace");
    assert_true(program_number(t, "rounds") == program_number(o, "rounds"));
    assert_true(program_number(t, "dropped") == 0);
    return o;
}

static json_t *look(void)
{
    int status = -1;
    json_t *o = program_json(&status, "trace --json '%s'", trace);
    assert_int_equal(status, 0);
    assert_non_null(o);
    return o;
}

static void check_near(double a, double b)
{
    assert_true(a <= b + 1e-3 && b <= a + 1e-3);
}

static void test_chain_then_tree(void **state)
{
    json_t *chain = recorded_run("--draft 3 --temp 0"), *one = look();
    const double rounds = program_number(chain, "rounds"), nodes = program_number(chain, "drafted");
    const double accepted = program_number(chain, "accepted");
    assert_true(rounds > 0);
    assert_true(program_number(one, "sessions") == 1 && program_number(one, "model_pairs") == 1);
    assert_true(program_number(one, "rounds") == rounds && program_number(one, "nodes") == nodes);
    assert_true(program_number(one, "accepted") == accepted);
    assert_true(program_number(one, "judged") <=
                accepted + rounds); /* one rejected a chain at most */
    assert_true(program_number(one, "samples") == program_number(one, "judged"));
    assert_true(program_number(one, "last_s") > 1.7e9);
    /* the run's own figures, of the same rounds */
    assert_true(program_number(one, "wasted_tokens") == nodes - accepted);
    check_near(1e3 * program_number(one, "wasted_draft_s"),
               program_number(chain, "wasted_draft_ms"));
    check_near(1e3 * program_number(one, "useful_draft_s"),
               program_number(chain, "useful_draft_ms"));
    check_near(program_number(one, "wasted_draft_share"),
               program_number(chain, "wasted_draft_share"));
    assert_true(nodes == accepted || program_number(one, "wasted_draft_s") > 0);
    const json_t *depths = json_object_get(one, "by_depth"), *depth;
    size_t i;
    double sum = 0;
    assert_true(json_array_size(depths) >= 1 && json_array_size(depths) <= 3);
    json_array_foreach(depths, i, depth)
    {
        assert_true(program_number(depth, "depth") == (double)i);
        assert_true(program_number(depth, "acceptance") >= 0 &&
                    program_number(depth, "acceptance") <= 1);
        sum += program_number(depth, "accepted");
    }
    assert_true(sum == accepted);

    json_t *tree = recorded_run("--draft tree:9:3 --proactive"), *two = look();
    assert_true(program_number(two, "sessions") == 2);
    assert_true(program_number(two, "rounds") == rounds + program_number(tree, "rounds"));
    assert_true(program_number(two, "nodes") == nodes + program_number(tree, "drafted"));
    assert_true(program_number(two, "accepted") == accepted + program_number(tree, "accepted"));
    json_decref(chain);
    json_decref(one);
    json_decref(tree);
    json_decref(two);
}

/* Recording changes nothing; without --trace there is nothing of it. */
static void test_same_text(void **state)
{
    int status = -1;
    json_t *plain = run("--draft 3", &status), *recorded = recorded_run("--draft 3");
    assert_null(json_object_get(plain, "trace"));
    assert_string_equal(json_string_value(json_object_get(plain, "text")),
                        json_string_value(json_object_get(recorded, "text")));
    json_decref(plain);
    json_decref(recorded);
}

/* By features: every judged node is in one row. By waste: every text is. */
static void test_by(void **state)
{
    static const char *const features[] = {"confidence", "entropy", "margin", "deviation", "depth"};
    int status = -1;
    json_t *ran = recorded_run("--draft tree:9:3 --temp 1"), *all = look();
    for (size_t f = 0; f < sizeof features / sizeof *features; f++) {
        double nodes = 0, accepted = 0, last = -1;
        size_t i;
        const json_t *bin;
        json_t *o = program_json(&status, "trace --json --by %s '%s'", features[f], trace);
        assert_int_equal(status, 0);
        json_array_foreach(json_object_get(o, "bins"), i, bin)
        {
            assert_true(program_number(bin, "from") > last);
            last = program_number(bin, "to");
            nodes += program_number(bin, "nodes");
            accepted += program_number(bin, "accepted");
            assert_true(program_number(bin, "acceptance_low") <= program_number(bin, "acceptance"));
            assert_true(program_number(bin, "acceptance_high") >=
                        program_number(bin, "acceptance"));
        }
        assert_true(nodes == program_number(all, "samples"));
        assert_true(accepted == program_number(all, "accepted"));
        assert_int_equal(json_object_size(json_object_get(o, "pearson")), 5);
        json_decref(o);
    }
    json_t *waste = program_json(&status, "trace --json --by waste '%s'", trace);
    double texts = 0;
    size_t i;
    const json_t *bin;
    json_array_foreach(json_object_get(waste, "bins"), i, bin) texts +=
        program_number(bin, "texts");
    assert_true(texts > 0 && texts == program_number(waste, "texts"));
    assert_true(program_number(waste, "rounds") + program_number(waste, "rounds_without_times") ==
                program_number(all, "rounds"));
    json_decref(waste);
    json_decref(all);
    json_decref(ran);
}

static void test_by_is_refused(void **state)
{
    int status = 0;
    assert_null(program_json(&status, "trace --json --by colour '%s'", trace));
    assert_int_equal(status, 2);
    assert_null(program_json(&status, "trace --json --plot /tmp/x.svg '%s'", trace));
    assert_int_equal(status, 2);
    assert_null(program_json(&status, "trace --json --by entropy --plot /tmp/x.doc '%s'", trace));
    assert_int_equal(status, 2);
    assert_null(program_json(&status, "trace --json --by entropy --predictor /tmp/x '%s'", trace));
    assert_int_equal(status, 2);
    assert_null(program_json(&status, "trace --json --by waste /nowhere/trace.db"));
    assert_int_equal(status, 1);
}

static void test_refused(void **state)
{
    char args[256];
    int status = 0;
    snprintf(args, sizeof args, "--trace '%s'", target);
    assert_null(run(args, &status)); /* a model file */
    assert_int_equal(status, 1);
    assert_null(program_json(&status, "trace --json '%s'", target));
    assert_int_equal(status, 1);
    assert_null(program_json(&status, "trace --json /nowhere/trace.db"));
    assert_int_equal(status, 1);
    assert_null(program_json(&status, "trace --json"));
    assert_int_equal(status, 2);
    assert_null(run("--trace /tmp/x --trace-mb 0", &status));
    assert_int_equal(status, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_then_tree),
        cmocka_unit_test(test_same_text),
        cmocka_unit_test(test_by),
        cmocka_unit_test(test_by_is_refused),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
