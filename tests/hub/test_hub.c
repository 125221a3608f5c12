// SPDX-License-Identifier: Apache-2.0
// The hub's cache on disk (hub/cache), SHA-256 (hub/sha256), what a GET refuses before it connects
// (hub/get), and names that need no hub (hub/hub, hub/list). tests/hub/pull_check.py has the rest:
// the program and a hub on loopback.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/num.h"
#include "hub/cache.h"
#include "hub/get.h"
#include "hub/hub.h"
#include "hub/sha256.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define HASH   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

typedef struct world {
    char root[64];
    ft_hub_opts opts;
} world;

static int make_world(void **state)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    snprintf(w->root, sizeof w->root, "/tmp/ft-hub-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    w->opts.env = (ft_hub_env){.hf_hub_cache = w->root, .ollama_models = w->root};
    *state = w;
    return 0;
}

static int remove_world(void **state)
{
    char command[96];
    snprintf(command, sizeof command, "rm -r '%s'", ((world *)*state)->root);
    assert_int_equal(system(command), 0);
    free(*state);
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* A repository with these files, each linked to the same blob. The caller frees its folder. */
static char *make_repo(const world *w, const char *repo, const char *const *paths, size_t n)
{
    char path[256];
    char *folder = ft_cache_folder(w->root, repo);
    assert_non_null(folder);
    snprintf(path, sizeof path, "%s/blobs", folder);
    assert_int_equal(ft_cache_make_folder(path, NULL), FT_OK);
    snprintf(path, sizeof path, "%s/blobs/" HASH, folder);
    write_file(path, "abc");
    for (size_t i = 0; i < n; i++) {
        const ft_hub_file file = {.path = (char *)(uintptr_t)paths[i], .bytes = 3, .sha256 = HASH};
        assert_int_equal(ft_cache_link(folder, COMMIT, &file, NULL), FT_OK);
        assert_int_equal(ft_cache_link(folder, COMMIT, &file, NULL), FT_OK); /* it may be there */
    }
    assert_int_equal(ft_cache_set_main(folder, COMMIT, NULL), FT_OK);
    return folder;
}

static void test_read(void **state)
{
    static const char *const paths[] = {"b.gguf", "x/y/a.gguf", "README.md"};
    char path[256];
    ft_hub_files files;
    char *folder = make_repo(*state, "org/repo", paths, 3);
    snprintf(path, sizeof path, "%s/snapshots/" COMMIT "/broken.gguf", folder);
    assert_int_equal(symlink("nowhere", path), 0);
    snprintf(path, sizeof path, "%s/snapshots/" COMMIT "/empty.gguf", folder);
    write_file(path, "");
    assert_int_equal(ft_cache_read(folder, NULL, &files), FT_OK);
    assert_string_equal(files.commit, COMMIT);
    assert_int_equal(files.n, 2);
    assert_string_equal(files.file[0].path, "b.gguf");
    assert_string_equal(files.file[1].path, "x/y/a.gguf");
    assert_int_equal(files.file[1].bytes, 3);
    ft_hub_files_deinit(&files);
    snprintf(path, sizeof path, "%s/refs/main", folder);
    write_file(path, "../../etc");
    assert_int_equal(ft_cache_read(folder, NULL, &files), FT_CORRUPT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ft_cache_read(folder, NULL, &files), FT_NOT_FOUND);
    free(folder);
}

static void test_lock(void **state)
{
    const world *w = *state;
    char path[256];
    int fd, again;
    snprintf(path, sizeof path, "%s/.locks/models--org--repo/" HASH ".lock", w->root);
    assert_int_equal(ft_cache_lock(path, HASH, NULL, &fd), FT_OK);
    const int other = open(path, O_RDWR);
    assert_true(other >= 0);
    assert_int_not_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(unlink(path), 0); /* as the hub's own programs do */
    assert_int_equal(ft_cache_lock(path, HASH, NULL, &again), FT_OK);
    close(fd);
    close(other);
    close(again);
    snprintf(path, sizeof path, "%s/.locks/models--org--repo/" HASH ".lock/x", w->root);
    ft_error err = {0};
    assert_int_equal(ft_cache_lock(path, HASH, &err, &fd), FT_IO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(err.message, "cannot lock"));
}

static void test_find(void **state)
{
    world *w = *state;
    static const char *const paths[] = {"a-Q4_0.gguf", "b-Q8_0.gguf"};
    ft_error err = {0};
    char *folder = make_repo(w, "org/repo", paths, 2), *path;
    w->opts.env.hf_hub_offline = "1";
    assert_int_equal(ft_hub_find(&w->opts, "hf:org/repo:q8_0", &err, &path), FT_OK);
    assert_non_null(strstr(path, "/snapshots/" COMMIT "/b-Q8_0.gguf"));
    assert_int_equal(access(path, R_OK), 0);
    free(path);
    assert_int_equal(ft_hub_find(&w->opts, "hf:org/repo", &err, &path), FT_INVALID);
    assert_non_null(strstr(err.message, "hf:org/repo: it has 2 models"));
    assert_null(path);
    assert_int_equal(ft_hub_find(&w->opts, "hf:org/repo:F16", &err, &path), FT_PRECONDITION);
    assert_non_null(strstr(err.message, "HF_HUB_OFFLINE"));
    assert_int_equal(ft_hub_find(&w->opts, "ollama:x", &err, &path), FT_NOT_FOUND);
    assert_non_null(strstr(err.message, "library/x/latest"));
    free(folder);
    w->opts.env = (ft_hub_env){0}; /* a path needs nothing */
    assert_int_equal(ft_hub_find(&w->opts, "some.gguf", &err, &path), FT_OK);
    assert_string_equal(path, "some.gguf");
    free(path);
    assert_int_equal(ft_hub_find(&w->opts, "hf:org/repo", &err, &path), FT_INVALID);
}

static void test_list(void **state)
{
    const world *w = *state;
    static const char *const paths[] = {"S-00001-of-00002.gguf", "S-00002-of-00002.gguf", "a.gguf"};
    char path[256];
    ft_hub_list list;
    free(make_repo(w, "org/repo", paths, 3));
    snprintf(path, sizeof path, "%s/models--a--b--c", w->root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/manifests/my host/x/y/z", w->root);
    assert_int_equal(ft_cache_make_folder(path, NULL), FT_OK);
    assert_int_equal(ft_hub_list_read(&w->opts.env, NULL, &list), FT_OK);
    assert_int_equal(list.n, 2);
    assert_string_equal(list.entry[0].name, "hf:org/repo:S-00001-of-00002.gguf");
    assert_int_equal(list.entry[0].n_files, 2);
    assert_int_equal(list.entry[0].bytes, 6);
    assert_string_equal(list.entry[1].name, "hf:org/repo:a.gguf");
    ft_hub_list_deinit(&list);
}

static void test_sha256(void **state)
{
    const world *w = *state;
    /* FIPS 180-2, B.1 */
    static const char want[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    char got[FT_SHA256_HEX_SIZE], path[96];
    ft_sha256 *hash;
    assert_int_equal(ft_sha256_create(NULL, &hash), FT_OK);
    ft_sha256_add(hash, "ab", 2);
    ft_sha256_add(hash, "c", 1);
    ft_sha256_end(hash, got);
    assert_string_equal(got, want);
    snprintf(path, sizeof path, "%s/file", w->root);
    write_file(path, "abcd");
    const int fd = open(path, O_RDONLY);
    assert_int_equal(ft_sha256_add_file(hash, fd, 3, NULL, NULL), FT_OK);
    ft_sha256_end(hash, got);
    assert_string_equal(got, want);
    assert_int_equal(ft_sha256_add_file(hash, fd, 5, NULL, NULL), FT_IO);
    close(fd);
    ft_sha256_destroy(hash);
    ft_sha256_destroy(NULL);
}

static ft_status never_begin(void *ctx, const char *content_range, ft_error *err)
{
    fail();
    return FT_OK;
}

static ft_status never_data(void *ctx, const void *data, size_t n, ft_error *err)
{
    fail();
    return FT_OK;
}

static void test_urls(void **state)
{
    static const char *const urls[] = {"",
                                       "huggingface.co/x",
                                       "file:///etc/passwd",
                                       "https://user:password@example/x",
                                       "http://example/x",
                                       "http://10.0.0.1/x",
                                       "http://127.0.0.1.example/x",
                                       "http://127.0.0.1@10.0.0.1/x",
                                       "http://localhost.example/x",
                                       "http://[fe80::1]/x",
                                       "https://exa\nmple/x"};
    for (size_t i = 0; i < FT_COUNT(urls); i++) {
        const ft_get get = {
            .url = urls[i], .endpoint = "https://h", .begin = never_begin, .data = never_data};
        ft_error err = {0};
        assert_int_equal(ft_get_run(&get, &err), FT_INVALID);
        assert_true(err.message[0]);
    }
    char *encoded = ft_get_encode("a/b c+%?#\xc3\xbc-._~.gguf");
    assert_string_equal(encoded, "a/b%20c%2B%25%3F%23%C3%BC-._~.gguf");
    free(encoded);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_world, remove_world)
    const struct CMUnitTest tests[] = {TEST(test_read), TEST(test_lock),   TEST(test_find),
                                       TEST(test_list), TEST(test_sha256), TEST(test_urls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
