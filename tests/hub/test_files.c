// SPDX-License-Identifier: Apache-2.0
// Names of models (hub/name), choosing among files (hub/files), what the hub and Ollama say
// (hub/answer), and what the environment says (hub/places).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "hub/answer.h"
#include "hub/name.h"
#include "hub/places.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEX40 "0123456789abcdef0123456789abcdef01234567"

static void test_names(void **state)
{
    static const struct {
        const char *text;
        ft_hub_kind kind;
        const char *repo, *pick;
    } good[] = {
        {"m.gguf", FT_HUB_PATH, "", ""},
        {"./hf:org/repo", FT_HUB_PATH, "", ""},
        {"hf:org/repo", FT_HUB_HF, "org/repo", ""},
        {"hf:a_b/R-1.5B.x:Q4_K_M", FT_HUB_HF, "a_b/R-1.5B.x", "Q4_K_M"},
        {"hf:org/repo:a/b.gguf", FT_HUB_HF, "org/repo", "a/b.gguf"},
        {"ollama:llama3.2", FT_HUB_OLLAMA, "registry.ollama.ai/library/llama3.2", "latest"},
        {"ollama:me/x:7b-q4", FT_HUB_OLLAMA, "registry.ollama.ai/me/x", "7b-q4"},
        {"ollama:localhost:5000/me/x", FT_HUB_OLLAMA, "localhost:5000/me/x", "latest"},
    };
    for (size_t i = 0; i < FT_COUNT(good); i++) {
        ft_hub_name name;
        assert_int_equal(ft_hub_name_parse(good[i].text, NULL, &name), FT_OK);
        assert_int_equal(name.kind, good[i].kind);
        assert_string_equal(name.repo, good[i].repo);
        assert_string_equal(name.pick, good[i].pick);
    }
}

static void test_long_names(void **state)
{
    ft_hub_name name;
    ft_error err = {0};
    char text[1200] = "hf:org/repo:";
    memset(text + strlen(text), 'x', 600);
    assert_int_equal(ft_hub_name_parse(text, &err, &name), FT_INVALID);
    assert_non_null(strstr(err.message, "too long"));
    snprintf(text, sizeof text, "hf:org/%097d", 1);
    assert_int_equal(ft_hub_name_parse(text, &err, &name), FT_INVALID);
    snprintf(text, sizeof text, "ollama:a/b/%097d", 1);
    assert_int_equal(ft_hub_name_parse(text, &err, &name), FT_INVALID);
    snprintf(text, sizeof text, "ollama:%096d/%096d/%096d:%096d", 1, 2, 3, 4);
    assert_int_equal(ft_hub_name_parse(text, &err, &name), FT_OK);
    assert_int_equal(strlen(name.repo), 3 * 96 + 2);
}

static void test_paths(void **state)
{
    static const char *const below[] = {"a", "a/b.gguf", "...", "a..b/c", "\xc3\xbc.gguf"};
    static const char *const not [] = {"",     ".",    "..",       "/a",    "a/",   "a//b",
                                       "a/..", "../a", "a/../b",   "a/./b", "a\\b", "a\nb",
                                       "\x7f", "\xff", "a/\xc3/b", "./a"};
    for (size_t i = 0; i < FT_COUNT(below); i++)
        assert_true(ft_hub_path_is_below(below[i]));
    for (size_t i = 0; i < FT_COUNT(not ); i++)
        assert_false(ft_hub_path_is_below(not [i]));
    assert_true(ft_hub_path_is_gguf("a.gguf"));
    assert_false(ft_hub_path_is_gguf(".gguf"));
    assert_false(ft_hub_path_is_gguf("a.GGUF"));
}

static ft_hub_files list_of(const char *const *paths, size_t n)
{
    ft_hub_files files = {0};
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ft_hub_files_add(&files, paths[i], i + 1, ""), FT_OK);
    ft_hub_files_sort(&files);
    return files;
}

/* first: NULL: none; "": several. */
static void check_choice(const ft_hub_files *files, const char *pick, const char *first, size_t n)
{
    ft_hub_set set;
    ft_error err = {0};
    const ft_status status = ft_hub_files_choose(files, pick, &err, &set);
    if (!first || !first[0]) {
        assert_int_equal(status, first ? FT_INVALID : FT_NOT_FOUND);
        assert_true(err.message[0]);
        return;
    }
    assert_int_equal(status, FT_OK);
    assert_string_equal(files->file[set.first].path, first);
    assert_int_equal(set.n, n);
}

static void test_choice(void **state)
{
    static const char *const paths[] = {"S-Q8_0-00002-of-00002.gguf",
                                        "S-Q8_0-00001-of-00002.gguf",
                                        "M.Q4_K_M.gguf",
                                        "M.Q4_K_S.gguf",
                                        "BF16/M-00001-of-00001.gguf",
                                        "L-F16-00001-of-00003.gguf",
                                        "L-F16-00002-of-00003.gguf",
                                        "mmproj-F32.gguf",
                                        "Z-00000-of-00000.gguf"};
    ft_hub_files files = list_of(paths, FT_COUNT(paths));
    check_choice(&files, "q8_0", "S-Q8_0-00001-of-00002.gguf", 2);
    check_choice(&files, "S-Q8_0-00002-of-00002.gguf", "S-Q8_0-00001-of-00002.gguf", 2);
    check_choice(&files, "Q4_K_M", "M.Q4_K_M.gguf", 1);
    check_choice(&files, "bf16", "BF16/M-00001-of-00001.gguf", 1);
    check_choice(&files, "mmproj-F32.gguf", "mmproj-F32.gguf", 1);
    check_choice(&files, "F32", NULL, 0);
    check_choice(&files, "F16", NULL, 0); /* a part is missing */
    check_choice(&files, "Q4_K", NULL, 0);
    check_choice(&files, "Z", NULL, 0);
    check_choice(&files, "M", "", 0);
    check_choice(&files, "", "", 0);
    ft_hub_files_deinit(&files);
    check_choice(&files, "", NULL, 0);
    files = list_of(paths + 2, 1);
    check_choice(&files, "", "M.Q4_K_M.gguf", 1);
    ft_hub_files_deinit(&files);
}

/* A message has room for some names. */
static void test_many_names(void **state)
{
    char path[64], names[100];
    ft_hub_files files = {0};
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof path, "model-number-%02d.gguf", i);
        assert_int_equal(ft_hub_files_add(&files, path, 1, ""), FT_OK);
    }
    ft_hub_files_names(&files, NULL, names, sizeof names);
    assert_string_equal(names, "model-number-00.gguf, model-number-01.gguf, model-number-02.gguf "
                               "and 47 more");
    ft_hub_files_deinit(&files);
}

static ft_status read_answer(const char *text, ft_hub_files *out)
{
    return ft_hub_answer_read(text, strlen(text), NULL, out);
}

static void test_answer(void **state)
{
    ft_hub_files files;
    assert_int_equal(
        read_answer("{\"sha\":\"" HEX40 "\",\"siblings\":[{\"rfilename\":\"README.md\"},"
                    "{\"rfilename\":\"b.gguf\",\"size\":7},{\"rfilename\":\"a.gguf\",\"size\":5,"
                    "\"lfs\":{\"sha256\":\"" HEX64 "\",\"size\":5}}]}",
                    &files),
        FT_OK);
    assert_string_equal(files.commit, HEX40);
    assert_int_equal(files.n, 2);
    assert_string_equal(files.file[0].path, "a.gguf");
    assert_string_equal(files.file[0].sha256, HEX64);
    assert_int_equal(files.file[0].bytes, 5);
    assert_string_equal(files.file[1].sha256, "");
    ft_hub_files_deinit(&files);
}

static void test_wrong_answers(void **state)
{
    static const char *const entries[] = {
        "{}",
        "7",
        "{\"rfilename\":\"../a.gguf\",\"size\":1}",
        "{\"rfilename\":\"a.gguf\"}",
        "{\"rfilename\":\"a.gguf\",\"size\":0}",
        "{\"rfilename\":\"a.gguf\",\"size\":-1}",
        "{\"rfilename\":\"a.gguf\",\"size\":9223372036854775807}",
        "{\"rfilename\":\"a.gguf\",\"size\":1.5}",
        "{\"rfilename\":\"a.gguf\",\"size\":1,\"lfs\":{\"sha256\":\"x\",\"size\":1}}",
        "{\"rfilename\":\"a.gguf\",\"size\":1,\"lfs\":{\"sha256\":\"" HEX64 "\",\"size\":2}}",
        "{\"rfilename\":\"a.gguf\",\"size\":1},{\"rfilename\":\"a.gguf\",\"size\":1}",
    };
    char text[1024];
    ft_hub_files files;
    for (size_t i = 0; i < FT_COUNT(entries); i++) {
        snprintf(text, sizeof text, "{\"sha\":\"" HEX40 "\",\"siblings\":[%s]}", entries[i]);
        assert_int_equal(read_answer(text, &files), FT_CORRUPT);
        assert_null(files.file);
    }
    assert_int_equal(read_answer("{\"sha\":\"" HEX40 "\"}", &files), FT_CORRUPT);
    assert_int_equal(read_answer("{\"sha\":\"..\",\"siblings\":[]}", &files), FT_CORRUPT);
    assert_int_equal(read_answer("{\"sha\":", &files), FT_CORRUPT);
}

static ft_status read_manifest(const char *layers, ft_ollama_layer *out)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"schemaVersion\":2,\"layers\":%s}", layers);
    return ft_ollama_manifest_read(text, strlen(text), NULL, out);
}

#define LAYER(kind, digest, size)                                                   \
    "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"" digest \
    "\",\"size\":" size "}"

static void test_manifest(void **state)
{
    ft_ollama_layer layer;
    assert_int_equal(read_manifest("[" LAYER("license", "sha256:1", "1") "," //
                                   LAYER("model", "sha256:" HEX64, "12") "]",
                                   &layer),
                     FT_OK);
    assert_string_equal(layer.sha256, HEX64);
    assert_int_equal(layer.bytes, 12);
    static const char *const wrong[] = {"7",
                                        "[7]",
                                        "[" LAYER("model", "sha256:../../x", "1") "]",
                                        "[" LAYER("model", HEX64, "1") "]",
                                        "[" LAYER("model", "sha256:" HEX64, "0") "]",
                                        "[" LAYER("model", "sha256:" HEX64, "\"1\"") "]"};
    for (size_t i = 0; i < FT_COUNT(wrong); i++)
        assert_int_equal(read_manifest(wrong[i], &layer), FT_CORRUPT);
    assert_int_equal(read_manifest("[]", &layer), FT_UNSUPPORTED);
    assert_int_equal(read_manifest("[" LAYER("model", "sha256:" HEX64, "1") "," //
                                   LAYER("model", "sha256:" HEX64, "1") "]",
                                   &layer),
                     FT_UNSUPPORTED);
}

static void test_content_range(void **state)
{
    assert_true(ft_content_range_is("bytes 3-9/10", 3, 10));
    assert_false(ft_content_range_is("bytes 3-9/11", 3, 10));
    assert_false(ft_content_range_is("bytes 4-9/10", 3, 10));
    assert_false(ft_content_range_is("bytes 3-8/10", 3, 10));
    assert_false(ft_content_range_is("bytes 3-9/*", 3, 10));
    assert_false(ft_content_range_is("", 0, 10));
}

static void check_places(const ft_hub_env *env, const char *hf, const char *ollama)
{
    ft_hub_places places;
    assert_int_equal(ft_hub_places_init(env, NULL, &places), FT_OK);
    assert_string_equal(places.hf_root, hf);
    assert_string_equal(places.ollama_root, ollama);
    ft_hub_places_deinit(&places);
}

static void test_places(void **state)
{
    ft_error err = {0};
    ft_hub_places places;
    ft_hub_env env = {.home = "/h", .xdg_cache_home = ""};
    check_places(&env, "/h/.cache/huggingface/hub", "/h/.ollama/models");
    env.xdg_cache_home = "/x";
    check_places(&env, "/x/huggingface/hub", "/h/.ollama/models");
    env.hf_home = "/f";
    check_places(&env, "/f/hub", "/h/.ollama/models");
    env.hf_hub_cache = "/c", env.ollama_models = "/o";
    check_places(&env, "/c", "/o");
    env.home = NULL;
    check_places(&env, "/c", "/o");
    env.hf_hub_cache = NULL;
    assert_int_equal(ft_hub_places_init(&env, &err, &places), FT_INVALID);
    assert_non_null(strstr(err.message, "HOME is not set"));
}

static void test_offers(void **state)
{
    char *folder;
    ft_hub_env env = {.home = "/h", .xdg_cache_home = ""};
    assert_int_equal(ft_hub_offers_folder(&env, NULL, &folder), FT_OK);
    assert_string_equal(folder, "/h/.cache/foretoken/offers");
    free(folder);
    env = (ft_hub_env){.xdg_cache_home = "/x"};
    assert_int_equal(ft_hub_offers_folder(&env, NULL, &folder), FT_OK);
    assert_string_equal(folder, "/x/foretoken/offers");
    free(folder);
    env = (ft_hub_env){0};
    assert_int_equal(ft_hub_offers_folder(&env, NULL, &folder), FT_INVALID);
}

static void test_endpoint_and_offline(void **state)
{
    static const char *const offline[] = {"1", "yes", "TRUE", "On"}, *const online[] = {"", "0",
                                                                                        "no"};
    ft_hub_places places;
    ft_hub_env env = {.home = "/h"};
    assert_int_equal(ft_hub_places_init(&env, NULL, &places), FT_OK);
    assert_string_equal(places.endpoint, "https://huggingface.co");
    assert_null(places.token);
    ft_hub_places_deinit(&places);
    env.hf_endpoint = "https://mirror.example//", env.hf_token = "hf_x";
    for (size_t i = 0; i < FT_COUNT(offline) + FT_COUNT(online); i++) {
        const bool is_offline = i < FT_COUNT(offline);
        env.hf_hub_offline = is_offline ? offline[i] : online[i - FT_COUNT(offline)];
        assert_int_equal(ft_hub_places_init(&env, NULL, &places), FT_OK);
        assert_string_equal(places.endpoint, "https://mirror.example");
        assert_string_equal(places.token, "hf_x");
        assert_int_equal(places.offline, is_offline);
        ft_hub_places_deinit(&places);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_paths),         cmocka_unit_test(test_choice),
        cmocka_unit_test(test_many_names),    cmocka_unit_test(test_answer),
        cmocka_unit_test(test_wrong_answers), cmocka_unit_test(test_manifest),
        cmocka_unit_test(test_content_range), cmocka_unit_test(test_places),
        cmocka_unit_test(test_offers),        cmocka_unit_test(test_endpoint_and_offline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
