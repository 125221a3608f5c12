// SPDX-License-Identifier: Apache-2.0
// The program's `model pack` (cmd_model_pack), and what other commands say of its files: info tells
// the same as of the original, run says the same text, the commands that need plain weights refuse.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "support/program.h"
#include "support/tiny_gguf.h"

typedef struct files {
    char *in, *out;
} files;

static files make_files(void)
{
    const tiny_gguf_opts opts = {.arch = "qwen3", .type = GGML_TYPE_Q8_0, .tied = true, .seed = 3};
    return (files){tiny_gguf_temp(&opts), tiny_temp_path()};
}

static void remove_files(files *f)
{
    unlink(f->in);
    unlink(f->out);
    free(f->in);
    free(f->out);
}

static json_t *run_json(const char *format, const char *path)
{
    int status;
    char args[1024];
    snprintf(args, sizeof args, format, path);
    json_t *json = program_json(&status, "%s", args);
    assert_non_null(json);
    assert_int_equal(status, 0);
    return json;
}

static void pack(const files *f)
{
    int status;
    json_t *json = program_json(&status, "model pack '%s' '%s' --json", f->in, f->out);
    assert_int_equal(status, 0);
    assert_true(program_number(json, "out_bytes") > program_number(json, "in_bytes"));
    assert_non_null(json_object_get(json, "kernels"));
    json_decref(json);
}

/* What a model is, and what it says, does not depend on its file. */
static void test_same(void **state)
{
    static const char *const same[] = {"fingerprint", "target",      "family",
                                       "name",        "type",        "parameters",
                                       "matrices",    "tied_head",   "repacked_matrices",
                                       "hparams",     "vocabulary",  "memory",
                                       "kernels",     "rope_factors"};
    (void)state;
    files f = make_files();
    pack(&f);
    json_t *a = run_json("info '%s' --json", f.in), *b = run_json("info '%s' --json", f.out);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_non_null(json_object_get(a, same[i]));
        assert_true(json_equal(json_object_get(a, same[i]), json_object_get(b, same[i])));
    }
    assert_true(json_is_false(json_object_get(a, "packed_file")));
    assert_true(json_is_true(json_object_get(b, "packed_file")));
    json_decref(a);
    json_decref(b);
    a = run_json("run -m '%s' --raw -p 'abc' -n 20 --temp 0.8 -s 7 -dev none --json", f.in);
    b = run_json("run -m '%s' --raw -p 'abc' -n 20 --temp 0.8 -s 7 -dev none --json", f.out);
    assert_true(json_string_length(json_object_get(a, "text")) > 0);
    assert_true(json_equal(json_object_get(a, "text"), json_object_get(b, "text")));
    json_decref(a);
    json_decref(b);
    remove_files(&f);
}

static void refuse(int expected, const char *format, const char *a, const char *b)
{
    int status;
    char args[1024];
    snprintf(args, sizeof args, format, a, b);
    assert_null(program_json(&status, "%s", args));
    assert_int_equal(status, expected);
}

static void test_refused(void **state)
{
    (void)state;
    files f = make_files();
    char *other = tiny_temp_path();
    pack(&f);
    refuse(1, "model pack '%s' '%s'", f.out, other);
    refuse(1, "model pack '%s' '%s'", f.in, f.in);
    refuse(1, "model pack '%s' '%s'", "/nonexistent", other);
    refuse(2, "model pack '%s' '%s' --kernels fast", f.in, other);
    refuse(1, "model inflate '%s' '%s' --layers 9", f.out, other);
    refuse(1, "quantize '%s' '%s' q4_0", f.out, other);
    refuse(1, "run -m '%s' --kernels ggml -p '%s' -n 2 -dev none", f.out, "abc");
    unlink(other);
    free(other);
    remove_files(&f);
}

int main(void)
{
    tiny_quiet();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
