// SPDX-License-Identifier: Apache-2.0
// Bookkeeping of the KV pool: random operations on several sequences against a model that keeps each
// token's content; after every step the pool's invariants hold and every token is where it should be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/kv.h"

#define N_BLOCKS 40
#define N_SEQS   5
#define MAX_TOK  400

typedef struct shadow {
    ft_kv_seq seq;
    uint32_t n; /* committed and pending */
    uint32_t content[MAX_TOK];
} shadow;

typedef struct fixture {
    ft_kv kv;
    uint32_t slots[N_BLOCKS * FT_KV_BLOCK_TOK];
    uint32_t next;
    ft_rng rng;
    shadow s[N_SEQS];
} fixture;

static void move(void *ctx, const ft_kv_move *moves, uint32_t n)
{
    uint32_t *slots = ctx;
    for (uint32_t i = 0; i < n; i++)
        slots[moves[i].dst] = slots[moves[i].src];
}

static void check_all(fixture *f)
{
    assert_true(ft_kv_check(&f->kv));
    for (int i = 0; i < N_SEQS; i++) {
        shadow *s = &f->s[i];
        assert_int_equal(s->n, s->seq.n_past + s->seq.n_pending);
        for (uint32_t j = 0; j < s->n; j++)
            assert_int_equal(f->slots[ft_kv_seq_slot(&s->seq, j)], s->content[j]);
    }
}

static void extend(fixture *f, shadow *s)
{
    int32_t parent[64];
    uint32_t n = 1 + ft_rng_below(&f->rng, 40), n_old = s->seq.n_pending;
    bool chain = ft_rng_below(&f->rng, 2);
    for (uint32_t i = 0; i < n; i++)
        parent[i] = (int32_t)ft_rng_below(&f->rng, n_old + i + 1) - 1;
    const int32_t *p = chain ? NULL : parent;
    uint32_t free_before = f->kv.n_free, need = ft_kv_seq_need(&s->seq, n);
    if (s->n + n > MAX_TOK || need > f->kv.n_free)
        return;
    assert_int_equal(ft_kv_seq_validate(&s->seq, p, n, NULL), FT_OK);
    assert_int_equal(ft_kv_seq_reserve(&s->seq, n), FT_OK);
    ft_kv_seq_extend(&s->seq, p, n);
    assert_int_equal(free_before - f->kv.n_free, need);
    for (uint32_t i = 0; i < n; i++, s->n++) {
        s->content[s->n] = f->slots[ft_kv_seq_slot(&s->seq, s->n)] = ++f->next;
        int32_t up = chain ? (int32_t)(n_old + i) - 1 : parent[i];
        assert_int_equal(ft_kv_seq_parent(&s->seq, n_old + i), up);
        uint32_t depth = up < 0 ? 0 : ft_kv_seq_depth(&s->seq, (uint32_t)up) + 1;
        assert_int_equal(ft_kv_seq_depth(&s->seq, n_old + i), depth);
    }
    if (ft_rng_below(&f->rng, 6) == 0) {
        uint32_t back = ft_rng_below(&f->rng, n + 1);
        ft_kv_seq_retract(&s->seq, back);
        s->n -= back;
    }
}

static void commit(fixture *f, shadow *s)
{
    uint32_t path[MAX_TOK], keep[MAX_TOK], n_path = 0, n_keep = 0, content[MAX_TOK];
    int32_t node = (int32_t)ft_rng_below(&f->rng, s->seq.n_pending + 1) - 1;
    bool kept[MAX_TOK] = {false};
    for (int32_t i = node; i >= 0; i = ft_kv_seq_parent(&s->seq, (uint32_t)i))
        n_path++;
    uint32_t at = n_path;
    for (int32_t i = node; i >= 0; i = ft_kv_seq_parent(&s->seq, (uint32_t)i))
        path[--at] = (uint32_t)i;
    for (uint32_t i = (uint32_t)(node + 1); i < s->seq.n_pending; i++) {
        int32_t up = ft_kv_seq_parent(&s->seq, i);
        kept[i] = (up == node || (up >= 0 && kept[up])) && ft_rng_below(&f->rng, 4);
        if (kept[i])
            keep[n_keep++] = i;
    }
    for (uint32_t i = 0; i < n_path; i++)
        content[i] = s->content[s->seq.n_past + path[i]];
    for (uint32_t i = 0; i < n_keep; i++)
        content[n_path + i] = s->content[s->seq.n_past + keep[i]];
    uint32_t n_past = s->seq.n_past;
    assert_int_equal(ft_kv_seq_commit(&s->seq, path, n_path, keep, n_keep, NULL), FT_OK);
    memcpy(s->content + n_past, content, (n_path + n_keep) * sizeof *content);
    s->n = n_past + n_path + n_keep;
    assert_int_equal(s->seq.n_past, n_past + n_path);
}

static void fork_over(fixture *f, shadow *from, shadow *to)
{
    ft_kv_seq_deinit(&to->seq);
    to->n = 0;
    bool share = ft_rng_below(&f->rng, 2);
    uint32_t before = f->kv.n_free, whole = (from->seq.n_past + 15) / FT_KV_BLOCK_TOK;
    if ((share ? ft_kv_seq_fork : ft_kv_seq_dup)(&from->seq, &to->seq) != FT_OK) {
        assert_int_equal(f->kv.n_free, before);
        ft_kv_seq_init(&to->seq, &f->kv);
        return;
    }
    if (!share)
        assert_int_equal(f->kv.n_free, before - whole);
    to->n = from->seq.n_past;
    memcpy(to->content, from->content, to->n * sizeof *to->content);
}

static void test_random(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(ft_kv_init(&f->kv, N_BLOCKS, move, f->slots), FT_OK);
    ft_rng_init(&f->rng, 1);
    for (int i = 0; i < N_SEQS; i++)
        ft_kv_seq_init(&f->s[i].seq, &f->kv);
    for (int step = 0; step < 20000; step++) {
        shadow *s = &f->s[ft_rng_below(&f->rng, N_SEQS)];
        uint32_t what = ft_rng_below(&f->rng, 10);
        if (what < 5) {
            extend(f, s);
        } else if (what < 8) {
            commit(f, s);
        } else if (what == 8) {
            ft_kv_seq_truncate(&s->seq, ft_rng_below(&f->rng, s->seq.n_past + 1));
            s->n = s->seq.n_past;
        } else {
            shadow *to = &f->s[ft_rng_below(&f->rng, N_SEQS)];
            if (to != s)
                fork_over(f, s, to);
        }
        check_all(f);
    }
    for (int i = 0; i < N_SEQS; i++)
        ft_kv_seq_deinit(&f->s[i].seq);
    assert_int_equal(f->kv.n_free, N_BLOCKS);
    ft_kv_deinit(&f->kv);
    free(f);
}

static void test_refusals(void **state)
{
    ft_kv kv;
    ft_kv_seq seq;
    const int32_t forward[] = {1, -1}, below[] = {-2}, tree[] = {-1, -1, 0};
    assert_int_equal(ft_kv_init(&kv, 100, NULL, NULL), FT_OK);
    ft_kv_seq_init(&seq, &kv);
    assert_int_equal(ft_kv_seq_validate(&seq, forward, 2, NULL), FT_INVALID);
    assert_int_equal(ft_kv_seq_validate(&seq, below, 1, NULL), FT_INVALID);
    assert_int_equal(ft_kv_seq_reserve(&seq, 3), FT_OK);
    ft_kv_seq_extend(&seq, tree, 3);
    /* A tree has an upper size, a plain chain none. */
    assert_int_equal(ft_kv_seq_validate(&seq, NULL, FT_PENDING_MAX - 2, NULL), FT_INVALID);
    const uint32_t not_child[] = {0, 1}, out[] = {3}, root0[] = {0}, two[] = {2}, one[] = {1};
    assert_int_equal(ft_kv_seq_commit(&seq, not_child, 2, NULL, 0, NULL), FT_INVALID);
    assert_int_equal(ft_kv_seq_commit(&seq, out, 1, NULL, 0, NULL), FT_INVALID);
    assert_int_equal(ft_kv_seq_commit(&seq, root0, 1, one, 1, NULL), FT_INVALID);
    assert_int_equal(seq.n_pending, 3);
    assert_int_equal(ft_kv_seq_commit(&seq, root0, 1, two, 1, NULL), FT_OK);
    assert_int_equal(seq.n_pending, 1);
    assert_int_equal(seq.n_past, 1);
    ft_kv_seq_truncate(&seq, 0);
    assert_int_equal(ft_kv_seq_validate(&seq, NULL, 1000, NULL), FT_OK);
    assert_int_equal(ft_kv_seq_need(&seq, 1000), 63);
    ft_kv_seq_deinit(&seq);
    ft_kv_deinit(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
