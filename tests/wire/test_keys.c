// SPDX-License-Identifier: Apache-2.0
// Files of keys: what is taken, what is refused, that nobody else can read the file, that no
// message shows a secret, and that a token finds its own key alone, and that a ring's keys are
// replaced as a whole.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/keyring.h"

#define SECRET "Secret-Secret-16"
#define ENTRY  "\"token\": \"" SECRET "\", \"name\": \"a\""

static const char two[] = "{\"keys\": [{" ENTRY ", \"slo_tokens_per_s\": 4.5, \"sessions\": 16},"
                          "{\"token\": \"Other-Secret-of-b\", \"name\": \"team-2\"}]}";

static void test_taken(void **state)
{
    ft_keys *keys = NULL;
    ft_error err = {0};
    (void)state;
    assert_int_equal(ft_keys_read(two, strlen(two), &err, &keys), FT_OK);
    assert_int_equal(keys->n, 2);
    assert_string_equal(keys->entry[0].key.name, "a");
    assert_true(keys->entry[0].key.slo_tokens_per_s == 4.5f);
    assert_int_equal(keys->entry[0].key.sessions, 16);
    assert_string_equal(keys->entry[1].key.name, "team-2");
    assert_true(keys->entry[1].key.slo_tokens_per_s == FT_KEY_ANY_SPEED);
    assert_int_equal(keys->entry[1].key.sessions, 0);
    assert_ptr_equal(ft_keys_find(keys, SECRET), &keys->entry[0].key);
    assert_ptr_equal(ft_keys_find(keys, "Other-Secret-of-b"), &keys->entry[1].key);
    assert_null(ft_keys_find(keys, "Other-Secret-of-"));
    assert_null(ft_keys_find(keys, SECRET "7"));
    assert_null(ft_keys_find(keys, ""));
    assert_null(ft_keys_find(keys, NULL));
    free(keys);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line"},
        {"[]", "keys"},
        {"{}", "entries"},
        {"{\"keys\": []}", "1 to 512"},
        {"{\"keys\": [{" ENTRY "}], \"more\": 1}", "nothing else"},
        {"{\"keys\": [1]}", "entry 1"},
        {"{\"keys\": [{" ENTRY ", \"session\": 2}]}", "alone"},
        {"{\"keys\": [{\"name\": \"a\"}]}", "'token'"},
        {"{\"keys\": [{\"name\": \"a\", \"token\": \"fifteen-letters\"}]}", "'token'"},
        {"{\"keys\": [{\"name\": \"a\", \"token\": \"a space within it\"}]}", "'token'"},
        {"{\"keys\": [{\"name\": \"a\", \"token\": \"\\u00e4-16-letters-and-more\"}]}", "'token'"},
        {"{\"keys\": [{\"token\": \"" SECRET "\"}]}", "'name'"},
        {"{\"keys\": [{\"name\": \"\", \"token\": \"" SECRET "\"}]}", "'name'"},
        {"{\"keys\": [{\"name\": \"Team\", \"token\": \"" SECRET "\"}]}", "'name'"},
        {"{\"keys\": [{\"name\": \"123456789012345678901234567890123\", \"token\": \"" SECRET
         "\"}]}",
         "'name'"},
        {"{\"keys\": [{" ENTRY ", \"slo_tokens_per_s\": -1}]}", "'slo_tokens_per_s'"},
        {"{\"keys\": [{" ENTRY ", \"slo_tokens_per_s\": 2e6}]}", "'slo_tokens_per_s'"},
        {"{\"keys\": [{" ENTRY ", \"slo_tokens_per_s\": \"4\"}]}", "'slo_tokens_per_s'"},
        {"{\"keys\": [{" ENTRY ", \"sessions\": 0}]}", "'sessions'"},
        {"{\"keys\": [{" ENTRY ", \"sessions\": 65537}]}", "'sessions'"},
        {"{\"keys\": [{" ENTRY ", \"sessions\": 1.5}]}", "'sessions'"},
        {"{\"keys\": [{" ENTRY "}, {" ENTRY "}]}", "this name"},
        {"{\"keys\": [{" ENTRY "}, {\"name\": \"b\", \"token\": \"" SECRET "\"}]}", "this token"},
        /* where the JSON parser would show what it read last */
        {"{\"keys\": [{\"name\": \"a\", \"token\" \"" SECRET "\"}]}", "line 1"},
        {"{\"keys\": [{\"name\": \"a\", \"token\": " SECRET "}]}", "line 1"},
        {"{\"keys\": [{\"name\": \"a\", \"" SECRET "\": 1, \"" SECRET "\": 1}]}", "line 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_keys *keys = NULL;
        ft_error err = {0};
        if (ft_keys_read(cases[i].text, strlen(cases[i].text), &err, &keys) != FT_INVALID)
            fail_msg("taken: %s", cases[i].text);
        assert_null(keys);
        if (!strstr(err.message, cases[i].says) || strstr(err.message, "Secret"))
            fail_msg("%s: %s", cases[i].text, err.message);
    }
}

/* What was found stays what it was when others hold. */
static void test_ring(void **state)
{
    static const char later[] =
        "{\"keys\": [{\"token\": \"Secret-Secret-17\", \"name\": \"a\", \"sessions\": 3}]}";
    ft_keyring *ring = NULL;
    ft_keys *keys = NULL;
    ft_key a = {0}, b = {0}, other, *list;
    ft_error err = {0};
    size_t n;
    (void)state;
    assert_int_equal(ft_keys_read(two, strlen(two), &err, &keys), FT_OK);
    assert_int_equal(ft_keyring_create(keys, &err, &ring), FT_OK);
    assert_true(ft_keyring_find(ring, SECRET, &a));
    assert_true(ft_keyring_named(ring, "team-2", &b));
    assert_false(ft_keyring_find(ring, NULL, &other));
    assert_false(ft_keyring_find(ring, "team-2", &other));
    assert_false(ft_keyring_named(ring, SECRET, &other));
    assert_int_equal(ft_keys_read(later, strlen(later), &err, &keys), FT_OK);
    ft_keyring_replace(ring, keys);
    assert_string_equal(a.name, "a");
    assert_int_equal(a.sessions, 16);
    assert_string_equal(b.name, "team-2");
    assert_false(ft_keyring_find(ring, SECRET, &other));
    assert_false(ft_keyring_named(ring, "team-2", &other));
    assert_true(ft_keyring_find(ring, "Secret-Secret-17", &other));
    assert_int_equal(other.sessions, 3);
    assert_int_equal(ft_keyring_list(ring, &list, &n), FT_OK);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].name, "a");
    free(list);
    ft_keyring_destroy(ring);
    ft_keyring_destroy(NULL);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void test_file(void **state)
{
    char path[] = "/tmp/ft-keys-XXXXXX";
    ft_keys *keys = NULL;
    ft_error err = {0};
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    write_file(path, two, 0600);
    assert_int_equal(ft_keys_load(path, &err, &keys), FT_OK);
    assert_int_equal(keys->n, 2);
    free(keys);
    static const mode_t open_to_others[] = {0640, 0604, 0620, 0601};
    for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0]; i++) {
        assert_int_equal(chmod(path, open_to_others[i]), 0);
        assert_int_equal(ft_keys_load(path, &err, &keys), FT_FORBIDDEN);
        assert_null(keys);
        assert_non_null(strstr(err.message, "chmod 600"));
    }
    write_file(path, "{\"keys\": [{\"name\": \"a\", \"token\" \"" SECRET "\"}]}", 0600);
    assert_int_equal(ft_keys_load(path, &err, &keys), FT_INVALID);
    assert_non_null(strstr(err.message, path));
    assert_null(strstr(err.message, "Secret"));
    unlink(path);
    assert_int_equal(ft_keys_load(path, &err, &keys), FT_IO);
    assert_non_null(strstr(err.message, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
