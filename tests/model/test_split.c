// SPDX-License-Identifier: Apache-2.0
// Split models (model/gguf_file): the parts together are the model that was split. Each way in
// which parts may not fit is refused.
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf.h"
#include "model/gguf_file.h"
#include "model/model.h"
#include "model/pack_file.h"
#include "model/quantize.h"
#include "model/vocab.h"
#include "support/change_byte.h"
#include "support/tiny_gguf.h"

enum { PARTS = 3 };

typedef struct world {
    char folder[64];
    char *whole;           /* the model as one file */
    char part[PARTS][128]; /* its parts */
} world;

/* Writes part k: of the whole, the tensors whose number leaves the remainder k, and tensor `twice`
 * (-1: none). no: its split.no. */
static void write_part(const world *w, uint32_t k, uint32_t no, int64_t twice)
{
    struct ggml_context *tensors = NULL;
    const struct gguf_init_params params = {.ctx = &tensors};
    struct gguf_context *in = gguf_init_from_file(w->whole, params), *out = gguf_init_empty();
    assert_non_null(in);
    if (k == 0)
        gguf_set_kv(out, in);
    gguf_set_val_u16(out, "split.no", (uint16_t)no);
    gguf_set_val_u16(out, "split.count", PARTS);
    gguf_set_val_i32(out, "split.tensors.count", (int32_t)gguf_get_n_tensors(in));
    for (int64_t i = 0; i < gguf_get_n_tensors(in); i++)
        if (i % PARTS == k || i == twice)
            gguf_add_tensor(out, ggml_get_tensor(tensors, gguf_get_tensor_name(in, i)));
    assert_true(gguf_write_to_file(out, w->part[k], false));
    gguf_free(out);
    gguf_free(in);
    ggml_free(tensors);
}

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    snprintf(w->folder, sizeof w->folder, "/tmp/ft-split-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    w->whole = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q8_0, .seed = 5});
    for (uint32_t k = 0; k < PARTS; k++) {
        snprintf(w->part[k], sizeof w->part[k], "%s/m-%05u-of-%05u.gguf", w->folder, k + 1, PARTS);
        write_part(w, k, k, -1);
    }
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    char command[96];
    snprintf(command, sizeof command, "rm -r '%s'", w->folder);
    assert_int_equal(system(command), 0);
    unlink(w->whole);
    free(w->whole);
    free(w);
    return 0;
}

static ft_model_info inspect(const char *path)
{
    ft_model_info info;
    ft_error err = {0};
    if (ft_model_inspect(&(ft_model_opts){.path = path}, &err, &info) != FT_OK)
        fail_msg("%s", err.message);
    return info;
}

static void assert_same(const char *path, const char *other)
{
    const ft_model_info a = inspect(path), b = inspect(other);
    assert_true(a.fingerprint.model == b.fingerprint.model);
    assert_true(a.fingerprint.weights == b.fingerprint.weights);
    assert_true(a.n_params == b.n_params);
    assert_string_equal(a.type_name, b.type_name);
}

/* Bytes of every tensor, by name. */
static void test_bytes(void **state)
{
    const world *w = *state;
    ft_gguf whole, split;
    assert_int_equal(ft_gguf_open(w->whole, NULL, &whole), FT_OK);
    assert_int_equal(ft_gguf_open(w->part[0], NULL, &split), FT_OK);
    const int64_t n = gguf_get_n_tensors(whole.ctx);
    assert_int_equal(gguf_get_n_tensors(split.ctx), n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = gguf_find_tensor(split.ctx, gguf_get_tensor_name(whole.ctx, i));
        const size_t bytes = gguf_get_tensor_size(whole.ctx, i);
        assert_true(k >= 0 && gguf_get_tensor_size(split.ctx, k) == bytes);
        char *a = malloc(bytes), *b = malloc(bytes);
        assert_int_equal(ft_gguf_read(&whole, ft_gguf_tensor_file_offset(&whole, i), a, bytes),
                         FT_OK);
        assert_int_equal(ft_gguf_read(&split, ft_gguf_tensor_file_offset(&split, k), b, bytes),
                         FT_OK);
        assert_memory_equal(a, b, bytes);
        free(a);
        free(b);
    }
    ft_gguf_close(&whole);
    ft_gguf_close(&split);
}

static void test_same_model(void **state)
{
    const world *w = *state;
    ft_model *model;
    ft_vocab *vocab, *other;
    assert_same(w->part[0], w->whole);
    const ft_model_opts opts = {.path = w->part[0], .vocab = &vocab};
    assert_int_equal(ft_model_load(&opts, NULL, &model), FT_OK);
    assert_int_equal(ft_vocab_load(w->whole, NULL, &other), FT_OK);
    assert_true(ft_vocab_fingerprint(vocab) == ft_vocab_fingerprint(other));
    ft_vocab_destroy(vocab);
    ft_vocab_destroy(other);
    ft_model_destroy(model);
}

static size_t load_kept(const world *w, const ft_pack_cache *cache)
{
    ft_model *kept, *plain;
    glob_t files;
    char pattern[100];
    const ft_model_opts opts = {.path = w->part[0], .cache = cache}, none = {.path = w->part[0]};
    assert_int_equal(ft_model_load(&opts, NULL, &kept), FT_OK);
    assert_int_equal(ft_model_load(&none, NULL, &plain), FT_OK);
    const struct ggml_tensor *a = ft_model_weights(kept)->layers[1].wdown,
                             *b = ft_model_weights(plain)->layers[1].wdown;
    assert_memory_equal(a->data, b->data, ggml_nbytes(a));
    ft_model_destroy(kept);
    ft_model_destroy(plain);
    snprintf(pattern, sizeof pattern, "%s/*.gguf", cache->folder);
    const size_t n = glob(pattern, 0, NULL, &files) == 0 ? files.gl_pathc : 0;
    globfree(&files);
    return n;
}

/* Packed weights are kept of all parts: when the last one has changed, they are packed again. */
static void test_kept(void **state)
{
    const world *w = *state;
    char folder[100];
    snprintf(folder, sizeof folder, "%s/kept", w->folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    const ft_pack_cache cache = {folder, 1 << 30};
    assert_int_equal(load_kept(w, &cache), 1);
    assert_int_equal(load_kept(w, &cache), 1);
    change_byte(w->part[PARTS - 1], 1);
    assert_int_equal(load_kept(w, &cache), 2);
    change_byte(w->part[PARTS - 1], 1); /* as it was */
    assert_int_equal(load_kept(w, &cache), 2);
}

/* A file that is made from the parts is whole. */
static void test_made_from_it(void **state)
{
    const world *w = *state;
    char *a = tiny_temp_path(), *b = tiny_temp_path();
    assert_int_equal(ft_model_quantize(w->whole, a, "q4_0", 1, NULL), FT_OK);
    assert_int_equal(ft_model_quantize(w->part[0], b, "q4_0", 1, NULL), FT_OK);
    assert_same(a, b);
    assert_int_equal(ft_model_pack(&(ft_pack_file_opts){.in = w->part[0], .out = b}, NULL), FT_OK);
    assert_same(b, w->whole);
    assert_true(inspect(b).packed_file);
    unlink(a);
    unlink(b);
    free(a);
    free(b);
}

static ft_status choose(void *ctx, const ft_model *model, ft_error *err, ft_stream_choice *out)
{
    return FT_OK;
}

static void refused(const ft_model_opts *opts, ft_status status, const char *word)
{
    ft_error err = {0};
    ft_model *model;
    assert_int_equal(ft_model_load(opts, &err, &model), status);
    if (!strstr(err.message, word))
        fail_msg("'%s' lacks '%s'", err.message, word);
}

static void test_refused(void **state)
{
    const world *w = *state;
    char other[128];
    const ft_model_opts first = {.path = w->part[0]};
    refused(&(ft_model_opts){.path = w->part[1]}, FT_UNSUPPORTED, "pass the first one");
    refused(&(ft_model_opts){.path = w->part[0], .stream = choose}, FT_UNSUPPORTED, "model pack");
    snprintf(other, sizeof other, "%s/other.gguf", w->folder);
    assert_int_equal(link(w->part[0], other), 0);
    refused(&(ft_model_opts){.path = other}, FT_UNSUPPORTED, "-00001-of-00003.gguf");
    write_part(w, 2, 1, -1);
    refused(&first, FT_CORRUPT, "part 2 of 3");
    write_part(w, 2, 2, 0);
    refused(&first, FT_CORRUPT, "is in another part, too");
    assert_int_equal(truncate(w->part[2], 200), 0);
    refused(&first, FT_CORRUPT, "00003-of-00003.gguf");
    assert_int_equal(unlink(w->part[2]), 0);
    refused(&first, FT_NOT_FOUND, "00003-of-00003.gguf");
    write_part(w, 2, 2, -1);
    assert_same(w->part[0], w->whole);
}

int main(void)
{
    tiny_quiet();
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_bytes), TEST(test_same_model),
                                       TEST(test_made_from_it), TEST(test_kept),
                                       TEST(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
