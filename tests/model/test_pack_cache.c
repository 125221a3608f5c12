// SPDX-License-Identifier: Apache-2.0
// Packed weights that are kept (model_kept, content, model_mapped, pack_cache, file_map): the first
// load makes a file, later ones use it and give the same weights, also for a file that was renamed
// or copied; a damaged one is made anew; what
// cannot be kept costs a line of the log; the folder is bounded; processes that start at once do
// not disturb each other.
#include "model/pack_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/content.h"
#include "model/file_map.h"
#include "model/model.h"
#include "model/vocab.h"
#include "support/caught_log.h"
#include "support/change_byte.h"
#include "support/packed_seal.h"
#include "support/tiny_gguf.h"

#define LARGE ((size_t)2 << 20)

static const tiny_gguf_opts tiny = {.type = GGML_TYPE_Q4_0, .tied = true, .seed = 3};

/* A folder, a model's file beside it, and the cache in the folder. */
typedef struct place {
    char folder[64];
    char *model;
    ft_pack_cache cache;
} place;

static void make_place(place *p, const tiny_gguf_opts *opts)
{
    snprintf(p->folder, sizeof p->folder, "/tmp/pack-cache-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    p->model = tiny_gguf_temp(opts);
    p->cache = (ft_pack_cache){p->folder, 1 << 30};
}

/* Calls `each` for each file of the folder whose name has `end`; returns how many there are. */
static size_t for_all(const char *folder, const char *end, void (*each)(const char *path))
{
    char path[400];
    size_t n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.' || !strstr(e->d_name, end))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (each)
            each(path);
        n++;
    }
    closedir(dir);
    return n;
}

/* The packed ones. */
static size_t for_files(const char *folder, void (*each)(const char *path))
{
    return for_all(folder, ".gguf", each);
}

static void delete_file(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void remove_place(place *p)
{
    for_all(p->folder, "", delete_file);
    assert_int_equal(rmdir(p->folder), 0);
    unlink(p->model);
    free(p->model);
}

static char only[400];
static void note(const char *path)
{
    snprintf(only, sizeof only, "%s", path);
}

/* The only file in the folder. */
static const char *only_file(const place *p)
{
    assert_int_equal(for_files(p->folder, note), 1);
    return only;
}

static ft_model *load(const char *path, const ft_pack_cache *cache)
{
    ft_error err = {0};
    ft_model *model = NULL;
    const ft_model_opts opts = {.path = path, .cache = cache};
    if (ft_model_load(&opts, &err, &model) != FT_OK)
        fail_msg("%s", err.message);
    return model;
}

/* ---- weights ---- */

static void same_tensor(const struct ggml_tensor *a, const struct ggml_tensor *b)
{
    assert_int_equal(a != NULL, b != NULL);
    if (!a)
        return;
    assert_int_equal(ggml_nbytes(a), ggml_nbytes(b));
    assert_int_equal(ft_is_packed(a), ft_is_packed(b));
    assert_memory_equal(a->data, b->data, ggml_nbytes(a));
}

static bool same_bytes(const struct ggml_tensor *a, const struct ggml_tensor *b)
{
    return memcmp(a->data, b->data, ggml_nbytes(a)) == 0;
}

static void same_model(const ft_model *a, const ft_model *b)
{
    const ft_weights *v = ft_model_weights(a), *w = ft_model_weights(b);
    const ft_fingerprints f = ft_model_fingerprints(a), g = ft_model_fingerprints(b);
    assert_true(f.model == g.model && f.weights == g.weights);
    assert_string_equal(ft_model_path(a), ft_model_path(b));
    assert_string_equal(ft_model_name(a), ft_model_name(b));
    same_tensor(v->tok_embd, w->tok_embd);
    same_tensor(v->output, w->output);
    same_tensor(v->output_norm, w->output_norm);
    for (uint32_t i = 0; i < ft_model_hparams(a)->n_layer; i++) {
        same_tensor(v->layers[i].attn_norm, w->layers[i].attn_norm);
        same_tensor(v->layers[i].wqkv, w->layers[i].wqkv);
        same_tensor(v->layers[i].bq, w->layers[i].bq);
        same_tensor(v->layers[i].wo, w->layers[i].wo);
        same_tensor(v->layers[i].wgate_up, w->layers[i].wgate_up);
        same_tensor(v->layers[i].wdown, w->layers[i].wdown);
        same_tensor(v->layers[i].rope_freqs, w->layers[i].rope_freqs);
    }
}

/* Loads with the cache and compares with a load without one. */
static void load_the_same(const place *p)
{
    ft_model *plain = load(p->model, NULL), *kept = load(p->model, &p->cache);
    same_model(plain, kept);
    ft_model_destroy(plain);
    ft_model_destroy(kept);
}

/* Of every family and kind of weights; with the vocabulary. */
static void test_same(void **state)
{
    static const tiny_gguf_opts cases[] = {
        {.type = GGML_TYPE_Q8_0, .arch = "qwen2", .tied = true},
        {.type = GGML_TYPE_Q4_K, .finer = GGML_TYPE_Q6_K},
        {.type = GGML_TYPE_IQ3_S, .rope_freqs = true, .mixed_qkv = true},
        {.tied = true, .rope_freqs = true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        place p;
        make_place(&p, &cases[i]);
        load_the_same(&p);
        struct stat made, found;
        assert_int_equal(stat(only_file(&p), &made), 0);
        load_the_same(&p);
        assert_int_equal(stat(only_file(&p), &found), 0);
        assert_int_equal(made.st_ino, found.st_ino);
        remove_place(&p);
    }
}

static void test_vocab(void **state)
{
    place p;
    ft_vocab *first = NULL;
    ft_error err = {0};
    (void)state;
    make_place(&p, &tiny);
    assert_int_equal(ft_vocab_load(p.model, &err, &first), FT_OK);
    for (int i = 0; i < 2; i++) {
        ft_model *model = NULL;
        ft_vocab *vocab = NULL;
        const ft_model_opts opts = {.path = p.model, .cache = &p.cache, .vocab = &vocab};
        assert_int_equal(ft_model_load(&opts, &err, &model), FT_OK);
        assert_true(ft_vocab_fingerprint(vocab) == ft_vocab_fingerprint(first));
        ft_model_destroy(model);
        ft_vocab_destroy(vocab);
    }
    ft_vocab_destroy(first);
    remove_place(&p);
}

static bool has_vocab(const char *path, const ft_pack_cache *cache, const ft_vocab *vocab)
{
    ft_model *model = NULL;
    ft_error err = {0};
    const ft_model_opts opts = {.path = path, .cache = cache};
    assert_int_equal(ft_model_load(&opts, &err, &model), FT_OK);
    const bool has = ft_vocab_is_of(vocab, model);
    ft_model_destroy(model);
    return has;
}

/* A model knows the vocabulary of its file, though it was loaded without one. */
static void test_vocab_is_of(void **state)
{
    place p, other;
    ft_vocab *first = NULL;
    ft_error err = {0};
    (void)state;
    make_place(&p, &tiny);
    make_place(&other, &(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .last_token = "<another>"});
    assert_int_equal(ft_vocab_load(p.model, &err, &first), FT_OK);
    for (int i = 0; i < 3; i++) { /* without a cache, as it is made, and from it */
        assert_true(has_vocab(p.model, i ? &p.cache : NULL, first));
        assert_false(has_vocab(other.model, i ? &other.cache : NULL, first));
    }
    ft_vocab_destroy(first);
    remove_place(&p);
    remove_place(&other);
}

/* Changes a byte in the middle of the last weight. */
static void change(const char *path)
{
    change_byte(path, 8192);
}

/* What is kept is what is used: a weight that was changed there, with a right hash, arrives. */
static void test_used(void **state)
{
    place p;
    (void)state;
    make_place(&p, &tiny);
    load_the_same(&p);
    change(only_file(&p));
    assert_true(packed_seal(only));
    ft_model *plain = load(p.model, NULL), *kept = load(p.model, &p.cache);
    assert_false(same_bytes(ft_model_weights(plain)->output, ft_model_weights(kept)->output));
    ft_model_destroy(plain);
    ft_model_destroy(kept);
    remove_place(&p);
}

/* ---- what goes wrong ---- */

/* Loads the same; returns how often the log has `words`. */
static unsigned lines_of(const place *p, const char *words)
{
    caught_log log;
    caught_log_begin(&log);
    load_the_same(p);
    caught_log_end(&log);
    return caught_log_count(&log, words);
}

static void cut(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size / 2), 0);
}

static void empty(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

/* One line, and a whole file again. */
static void test_damaged(void **state)
{
    static void (*const damage[])(const char *path) = {change, cut, empty};
    place p;
    (void)state;
    make_place(&p, &tiny);
    load_the_same(&p);
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        damage[i](only_file(&p));
        assert_int_equal(lines_of(&p, "made anew why="), 1);
        only_file(&p);
        assert_int_equal(lines_of(&p, "why="), 0);
    }
    remove_place(&p);
}

/* Another model's packed file under the name of this one's. */
static void test_other_model(void **state)
{
    place p, other;
    char name[400];
    (void)state;
    make_place(&p, &tiny);
    make_place(&other, &(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .tied = true, .seed = 4});
    load_the_same(&p);
    load_the_same(&other);
    snprintf(name, sizeof name, "%s", only_file(&p));
    assert_int_equal(rename(only_file(&other), name), 0);
    assert_int_equal(lines_of(&p, "made anew why="), 1);
    assert_int_equal(lines_of(&p, "why="), 0);
    remove_place(&p);
    remove_place(&other);
}

/* The weights load all the same. */
static void test_not_kept(void **state)
{
    place p;
    (void)state;
    make_place(&p, &tiny);
    p.cache.max_bytes = 1000;
    assert_int_equal(lines_of(&p, "packed weights are not kept"), 1);
    assert_int_equal(for_files(p.folder, NULL), 0);
    p.cache = (ft_pack_cache){"/proc/self/fdinfo", 1 << 30}; /* no file can be made there */
    assert_int_equal(lines_of(&p, "packed weights are not kept"), 1);
    p.cache.folder = "/nowhere/at/all";
    assert_int_equal(lines_of(&p, "packed weights are not kept"), 1);
    remove_place(&p);
}

/* As on a full disk: a file may not grow. */
static void test_full_disk(void **state)
{
    struct rlimit before, small;
    place p;
    (void)state;
    make_place(&p, &tiny);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){4096, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ft_model *kept = load(p.model, &p.cache);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    ft_model *plain = load(p.model, NULL);
    same_model(plain, kept);
    ft_model_destroy(plain);
    ft_model_destroy(kept);
    assert_int_equal(for_files(p.folder, NULL), 0);
    remove_place(&p);
}

/* ---- which loads use it ---- */

static ft_status stream_none(void *ctx, const ft_model *model, ft_error *err, ft_stream_choice *out)
{
    (void)ctx;
    (void)model;
    (void)err;
    (void)out;
    return FT_OK;
}

/* A memory budget, and weights that stay plain, keep nothing. */
static void test_others(void **state)
{
    place p;
    ft_error err = {0};
    (void)state;
    make_place(&p, &tiny);
    const ft_model_opts cases[] = {{.path = p.model, .cache = &p.cache, .stream = stream_none},
                                   {.path = p.model, .cache = &p.cache, .no_pack = true},
                                   {.path = p.model, .cache = &p.cache, .no_repack = true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_model *model = NULL;
        assert_int_equal(ft_model_load(&cases[i], &err, &model), FT_OK);
        ft_model_destroy(model);
        assert_int_equal(for_files(p.folder, NULL), 0);
    }
    remove_place(&p);
}

/* ---- which file it belongs to ---- */

/* The bytes of one file in another one. */
static void copy(const char *from, const char *to)
{
    char piece[4096];
    size_t n;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    while ((n = fread(piece, 1, sizeof piece, in)) > 0)
        assert_int_equal(fwrite(piece, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* A file of the same content finds what is kept, also if it is touched, renamed or copied. */
static void test_same_content(void **state)
{
    const struct timespec times[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct stat made, found;
    place p;
    (void)state;
    make_place(&p, &tiny);
    load_the_same(&p);
    assert_int_equal(stat(only_file(&p), &made), 0);
    char *first = p.model, *renamed = tiny_temp_path(), *copied = tiny_temp_path();
    for (int i = 0; i < 3; i++) {
        if (i == 0)
            assert_int_equal(utimensat(AT_FDCWD, first, times, 0), 0);
        else if (i == 1)
            assert_int_equal(rename(first, p.model = renamed), 0);
        else
            copy(renamed, p.model = copied);
        for (int k = 0; k < 2; k++)
            assert_int_equal(lines_of(&p, "why="), 0);
        assert_int_equal(stat(only_file(&p), &found), 0);
        assert_int_equal(made.st_ino, found.st_ino);
    }
    unlink(renamed);
    free(renamed);
    free(first);
    remove_place(&p);
}

/* One that was changed does not, even if its fingerprint is the same: that covers a part of the
 * values alone. */
static void test_changed_model(void **state)
{
    place p;
    (void)state;
    make_place(&p, &tiny);
    ft_model *before = load(p.model, NULL);
    const uint64_t fingerprint = ft_model_fingerprint(before);
    load_the_same(&p);
    change(p.model);
    ft_model *after = load(p.model, NULL);
    assert_true(ft_model_fingerprint(after) == fingerprint);
    load_the_same(&p);
    assert_int_equal(for_files(p.folder, NULL), 2);
    ft_model_destroy(before);
    ft_model_destroy(after);
    remove_place(&p);
}

static char record[400];
static void note_record(const char *path)
{
    snprintf(record, sizeof record, "%s", path);
}

/* What is remembered of a file is used: it is not read again. What is wrong is no harm. */
static void test_remembered(void **state)
{
    place p, other;
    (void)state;
    make_place(&p, &tiny);
    make_place(&other, &(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .tied = true, .seed = 4});
    load_the_same(&p);
    const uint64_t of = ft_content_state(p.model), others = ft_content_state(other.model);
    load_the_same(&other);
    snprintf(record, sizeof record, "%s%s", p.folder, strrchr(only_file(&other), '/'));
    copy(only, record);
    ft_content_remember(p.folder, of, ft_content_recall(other.folder, others));
    ft_model *model = load(p.model, &p.cache), *wrong = load(other.model, NULL);
    assert_true(same_bytes(ft_model_weights(model)->output, ft_model_weights(wrong)->output));
    ft_model_destroy(model);
    ft_model_destroy(wrong);
    assert_int_equal(for_all(p.folder, "content", note_record), 1);
    cut(record);
    assert_int_equal(ft_content_recall(p.folder, of), 0);
    load_the_same(&p);
    assert_int_not_equal(ft_content_recall(p.folder, of), 0);
    assert_int_equal(for_files(p.folder, NULL), 2); /* its own one was there */
    remove_place(&p);
    remove_place(&other);
}

/* The hash is of all bytes, and the state of the file is another one after a change. */
static void test_content(void **state)
{
    ft_error err = {0};
    ft_gguf gguf;
    uint64_t content[3];
    (void)state;
    char *path = tiny_gguf_temp(&tiny);
    const uint64_t before = ft_content_state(path);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ft_gguf_open(path, &err, &gguf), FT_OK);
        assert_true(ft_content_state_of(&gguf) == ft_content_state(path));
        assert_int_equal(ft_content_hash(&gguf, NULL, &err, &content[i]), FT_OK);
        ft_gguf_close(&gguf);
        if (i < 2)
            change(path); /* and back */
    }
    assert_true(content[0] != content[1] && content[0] == content[2]);
    assert_true(ft_content_state(path) != before);
    unlink(path);
    assert_int_equal(ft_content_state(path), 0);
    free(path);
}

/* ---- the folder ---- */

static void put_file(const place *p, uint64_t key, size_t bytes, time_t used)
{
    char *path = ft_pack_cache_path(&p->cache, key);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)bytes), 0);
    fclose(file);
    const struct timespec times[] = {{.tv_sec = used}, {.tv_sec = used}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    free(path);
}

static bool has_file(const place *p, uint64_t key)
{
    char *path = ft_pack_cache_path(&p->cache, key);
    const bool has = access(path, F_OK) == 0;
    free(path);
    return has;
}

static void test_room(void **state)
{
    place p;
    ft_error err = {0};
    char strange[100];
    (void)state;
    make_place(&p, &tiny);
    p.cache.max_bytes = 10000;
    snprintf(strange, sizeof strange, "%s/notes.txt", p.folder);
    FILE *file = fopen(strange, "w");
    assert_non_null(file);
    fclose(file);
    put_file(&p, 1, 4000, 300);
    put_file(&p, 2, 4000, 100);
    put_file(&p, 3, 2000, 200);
    assert_int_equal(ft_pack_cache_make_room(&p.cache, 10001, &err), FT_EXHAUSTED);
    assert_true(has_file(&p, 1) && has_file(&p, 2) && has_file(&p, 3));
    assert_int_equal(ft_pack_cache_make_room(&p.cache, 3000, &err), FT_OK);
    assert_true(has_file(&p, 1) && !has_file(&p, 2) && has_file(&p, 3));
    char *path = ft_pack_cache_path(&p.cache, 3);
    ft_pack_cache_touch(path);
    free(path);
    assert_int_equal(ft_pack_cache_make_room(&p.cache, 5000, &err), FT_OK);
    assert_true(!has_file(&p, 1) && has_file(&p, 3));
    assert_int_equal(access(strange, F_OK), 0);
    remove_place(&p);
}

/* A load is a use; the model that is loaded next takes the place of the one that was not used. */
static void test_least_used(void **state)
{
    const struct timespec old[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    place p;
    struct stat info;
    (void)state;
    make_place(&p, &tiny);
    load_the_same(&p);
    assert_int_equal(utimensat(AT_FDCWD, only_file(&p), old, 0), 0);
    load_the_same(&p);
    assert_int_equal(stat(only_file(&p), &info), 0);
    assert_true(info.st_mtim.tv_sec > 1000);
    put_file(&p, 7, 1000, 500);
    p.cache.max_bytes = (uint64_t)info.st_size * 2;
    char *kept = strdup(p.model);
    free(p.model);
    p.model = tiny_gguf_temp(&(tiny_gguf_opts){.type = GGML_TYPE_Q4_0, .tied = true, .seed = 9});
    load_the_same(&p);
    assert_false(has_file(&p, 7));
    put_file(&p, 8, 1000, 500);
    load_the_same(&p); /* nothing is made, and the bound is kept all the same */
    assert_true(has_file(&p, 8));
    p.cache.max_bytes = (uint64_t)info.st_size;
    load_the_same(&p);
    assert_false(has_file(&p, 8));
    p.cache.max_bytes = 1; /* the file in use stays all the same */
    load_the_same(&p);
    assert_int_equal(for_files(p.folder, NULL), 1);
    unlink(kept);
    free(kept);
    remove_place(&p);
}

/* Processes that find nothing and begin together: each gets the model, and one file is left. */
static void test_at_once(void **state)
{
    enum { PROCESSES = 4 };
    pid_t pid[PROCESSES];
    int gate[2];
    char byte;
    place p;
    (void)state;
    make_place(&p, &tiny);
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            close(gate[1]);
            if (read(gate[0], &byte, 1) != 0) /* until all are there */
                _exit(1);
            for (int k = 0; k < 3; k++)
                load_the_same(&p);
            _exit(0);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int how;
        assert_int_equal(waitpid(pid[i], &how, 0), pid[i]);
        assert_int_equal(how, 0);
    }
    only_file(&p);
    assert_int_equal(lines_of(&p, "why="), 0);
    remove_place(&p);
}

/* ---- maps ---- */

static FILE *file_of(size_t bytes)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    for (size_t i = 0; i < bytes / 8; i++)
        assert_int_equal(fwrite(&i, 8, 1, file), 1);
    assert_int_equal(fflush(file), 0);
    return file;
}

static void test_map(void **state)
{
    const size_t bytes = LARGE + 4096;
    ft_file_map map;
    (void)state;
    FILE *file = file_of(bytes);
    assert_true(ft_file_map_open(fileno(file), bytes, &map));
    assert_int_equal((uintptr_t)map.base % LARGE, 0);
    for (size_t i = 0; i < bytes / 8; i++)
        assert_int_equal(((const uint64_t *)(const void *)map.base)[i], i);
    assert_true(ft_file_map_is_fast(&map)); /* few addresses */
    ft_file_map_close(&map);
    assert_null(map.base);
    assert_false(ft_file_map_is_fast(&map));
    assert_false(ft_file_map_open(fileno(file), 0, &map));
    assert_false(ft_file_map_open(-1, bytes, &map));
    ft_file_map_close(&map);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),         cmocka_unit_test(test_vocab),
        cmocka_unit_test(test_vocab_is_of),  cmocka_unit_test(test_used),
        cmocka_unit_test(test_damaged),      cmocka_unit_test(test_other_model),
        cmocka_unit_test(test_not_kept),     cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_others),       cmocka_unit_test(test_changed_model),
        cmocka_unit_test(test_same_content), cmocka_unit_test(test_remembered),
        cmocka_unit_test(test_content),      cmocka_unit_test(test_room),
        cmocka_unit_test(test_least_used),   cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_map),
    };
    tiny_quiet();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
