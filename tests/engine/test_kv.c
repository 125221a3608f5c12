// SPDX-License-Identifier: Apache-2.0
// Bookkeeping of the KV pool: random operations on several sequences of several scopes, in a pool
// that is far too small, against a naive model. After every step the pool's invariants hold, every
// token's KV is that of its own text, and what is cached, shared, copied and evicted is what the
// model says.
//
// The model keeps a list of full blocks by content and each sequence's table of them; everything
// else it finds by looking through all of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/kv.h"
#include "support/sanitized.h"

#define BLOCK    FT_KV_BLOCK_TOK
#define N_BLOCKS 40
#define N_SEQS   6
#define MAX_TOK  400
#define N_STEPS  FT_TIMES(300000, 30000)

/* A full block, as the model sees it. A block without a scope is in the list only while it is
 * held. */
typedef struct cached {
    bool alive;
    uint64_t scope;
    int parent; /* index of another, -1: none */
    int32_t token[BLOCK];
    uint32_t block; /* where it must be */
    uint64_t since; /* when the last sequence let go; 0: held */
    uint64_t idled; /* how many blocks with a scope became idle before it */
} cached;

typedef struct shadow {
    ft_kv_seq seq;
    uint64_t scope;
    uint32_t n; /* committed and pending */
    int32_t token[MAX_TOK];
    uint32_t kv[MAX_TOK];       /* what its slot holds: a hash of scope and text up to there */
    int entry[MAX_TOK / BLOCK]; /* of its blocks: a cached one, -1: its own */
    uint32_t n_entry;
} shadow;

typedef struct fixture {
    ft_kv kv;
    uint32_t slots[N_BLOCKS * BLOCK];
    ft_rng rng;
    uint64_t now, idled, evicted, copied, forgotten, merged;
    cached cached[N_BLOCKS];
    shadow s[N_SEQS];
} fixture;

static void move(void *ctx, const ft_kv_move *moves, uint32_t n)
{
    uint32_t *slots = ctx;
    for (uint32_t i = 0; i < n; i++)
        slots[moves[i].dst] = slots[moves[i].src];
}

/* ---- the model ---- */

static uint32_t holders(const fixture *f, int entry)
{
    uint32_t n = 0;
    for (int i = 0; i < N_SEQS; i++)
        for (uint32_t j = 0; j < f->s[i].n_entry; j++)
            n += f->s[i].entry[j] == entry;
    return n;
}

static uint32_t children(const fixture *f, int entry)
{
    uint32_t n = 0;
    for (int i = 0; i < N_BLOCKS; i++)
        n += f->cached[i].alive && f->cached[i].parent == entry;
    return n;
}

static uint32_t model_free(const fixture *f)
{
    uint32_t n = N_BLOCKS - holders(f, -1);
    for (int i = 0; i < N_BLOCKS; i++)
        n -= f->cached[i].alive;
    return n;
}

static uint32_t model_idle(const fixture *f)
{
    uint32_t n = 0;
    for (int i = 0; i < N_BLOCKS; i++)
        n += f->cached[i].alive && f->cached[i].since > 0;
    return n;
}

static uint32_t model_has(const fixture *f, uint64_t scope)
{
    uint32_t n = 0;
    for (int i = 0; i < N_BLOCKS; i++)
        n += f->cached[i].alive && f->cached[i].scope == scope;
    return n;
}

/* The oldest idle block: of the scope with most blocks if `fair`, else of all. */
static int model_oldest(const fixture *f, bool fair)
{
    int oldest = -1;
    for (int i = 0; i < N_BLOCKS; i++) {
        const cached *c = &f->cached[i], *o = oldest < 0 ? c : &f->cached[oldest];
        if (!c->alive || c->since == 0)
            continue;
        uint32_t n = fair ? model_has(f, c->scope) : 0, most = fair ? model_has(f, o->scope) : 0;
        if (oldest < 0 || n > most || (n == most && c->since < o->since))
            oldest = i;
    }
    assert_true(oldest >= 0);
    return oldest;
}

/* A block is about to be taken. */
static void model_take(fixture *f)
{
    if (model_free(f) > 0)
        return;
    int oldest = model_oldest(f, false);
    if (f->idled - f->cached[oldest].idled <= FT_PREFIX_STALE_FACTOR * N_BLOCKS)
        oldest = model_oldest(f, true);
    assert_int_equal(children(f, oldest), 0);
    f->cached[oldest].alive = false;
    f->evicted++;
}

static void model_drop(fixture *f, shadow *s, uint32_t n_entry)
{
    while (s->n_entry > n_entry) {
        int entry = s->entry[--s->n_entry];
        if (entry < 0 || holders(f, entry) > 0)
            continue;
        f->cached[entry].since = ++f->now;
        f->cached[entry].alive = f->cached[entry].scope != 0;
        f->cached[entry].idled = f->idled;
        f->idled += f->cached[entry].alive;
    }
}

static void model_hold(fixture *f, shadow *s, int entry)
{
    s->entry[s->n_entry++] = entry;
    if (entry >= 0)
        f->cached[entry].since = 0;
}

static int model_find(const fixture *f, uint64_t scope, int parent, const int32_t *token)
{
    for (int i = 0; i < N_BLOCKS; i++)
        if (f->cached[i].alive && f->cached[i].scope == scope && f->cached[i].parent == parent &&
            memcmp(f->cached[i].token, token, sizeof f->cached[i].token) == 0)
            return i;
    return -1;
}

/* Blocks for n more tokens: the last one's copy, then new ones. */
static void model_extend(fixture *f, shadow *s, uint32_t n)
{
    uint32_t last = s->n_entry - 1;
    int entry = s->n % BLOCK ? s->entry[last] : -1;
    if (entry >= 0 && holders(f, entry) == 1 && children(f, entry) == 0) {
        f->cached[entry].alive = false;
        s->entry[last] = -1;
        f->forgotten++;
    } else if (entry >= 0) {
        model_take(f);
        model_drop(f, s, last);
        model_hold(f, s, -1);
        f->copied++;
    }
    while (s->n_entry * BLOCK < s->n + n) {
        model_take(f);
        model_hold(f, s, -1);
    }
}

/* Block i of a sequence, full and its own until now, gets an entry. */
static int model_add(fixture *f, shadow *s, uint32_t i, int parent)
{
    int entry = 0;
    while (f->cached[entry].alive)
        entry++;
    f->cached[entry] =
        (cached){.alive = true, .scope = s->scope, .parent = parent, .block = s->seq.block[i]};
    memcpy(f->cached[entry].token, s->token + i * BLOCK, sizeof f->cached[entry].token);
    return entry;
}

static void model_settle(fixture *f, shadow *s, uint32_t i)
{
    int parent = s->scope && i > 0 ? s->entry[i - 1] : -1, entry = -1;
    if (s->scope)
        entry = model_find(f, s->scope, parent, s->token + i * BLOCK);
    f->merged += entry >= 0;
    s->entry[i] = entry >= 0 ? entry : model_add(f, s, i, parent);
    f->cached[s->entry[i]].since = 0;
}

static void check_all(fixture *f)
{
    assert_true(ft_kv_check(&f->kv));
    assert_int_equal(f->kv.n_free, model_free(f));
    assert_int_equal(f->kv.prefix.n_idle, model_idle(f));
    assert_int_equal(f->kv.prefix.evicted, f->evicted);
    for (int i = 0; i < N_SEQS; i++) {
        shadow *s = &f->s[i];
        assert_int_equal(s->n, s->seq.n_past + s->seq.n_pending);
        for (uint32_t j = 0; j < s->n; j++)
            assert_int_equal(f->slots[ft_kv_seq_slot(&s->seq, j)], s->kv[j]);
        assert_int_equal(s->n_entry, s->seq.n_block);
        for (uint32_t j = 0; j < s->n_entry; j++) {
            bool cached_there = s->entry[j] >= 0 && s->scope;
            assert_int_equal(cached_there, ft_prefix_has(&f->kv.prefix, s->seq.block[j]));
            if (s->entry[j] >= 0)
                assert_int_equal(f->cached[s->entry[j]].block, s->seq.block[j]);
        }
    }
}

/* ---- operations ---- */

static uint32_t mix(uint32_t before, uint32_t x)
{
    uint32_t h = (before ^ x) * 0x9e3779b1u;
    return (h ^ h >> 15) * 0x85ebca77u;
}

/* Mostly the same everywhere, so that texts meet again. */
static int32_t some_token(fixture *f, uint32_t pos)
{
    if (pos % 24 == 0)
        return (int32_t)ft_rng_below(&f->rng, 2);
    return ft_rng_below(&f->rng, 60) ? (int32_t)(pos % 24) : 99;
}

static void extend(fixture *f, shadow *s)
{
    int32_t parent[64];
    uint32_t n = 1 + ft_rng_below(&f->rng, 40), n_old = s->seq.n_pending, n_past = s->seq.n_past;
    bool chain = ft_rng_below(&f->rng, 2);
    for (uint32_t i = 0; i < n; i++)
        parent[i] = (int32_t)ft_rng_below(&f->rng, n_old + i + 1) - 1;
    const int32_t *p = chain ? NULL : parent;
    uint32_t available = ft_kv_available(&f->kv), need = ft_kv_seq_need(&s->seq, n);
    if (s->n + n > MAX_TOK || need > available)
        return;
    assert_int_equal(ft_kv_seq_validate(&s->seq, p, n, NULL), FT_OK);
    assert_int_equal(ft_kv_seq_reserve(&s->seq, n), FT_OK);
    model_extend(f, s, n);
    ft_kv_seq_extend(&s->seq, p, n);
    assert_true(available - ft_kv_available(&f->kv) <= need);
    for (uint32_t i = 0; i < n; i++, s->n++) {
        int32_t up = chain ? (int32_t)(n_old + i) - 1 : parent[i];
        assert_int_equal(ft_kv_seq_parent(&s->seq, n_old + i), up);
        uint32_t depth = up < 0 ? 0 : ft_kv_seq_depth(&s->seq, (uint32_t)up) + 1;
        assert_int_equal(ft_kv_seq_depth(&s->seq, n_old + i), depth);
        uint32_t before = up >= 0      ? s->kv[n_past + (uint32_t)up]
                          : n_past > 0 ? s->kv[n_past - 1]
                                       : (uint32_t)s->scope;
        s->token[s->n] = some_token(f, n_past + depth);
        s->kv[s->n] = mix(before, (uint32_t)s->token[s->n]);
        f->slots[ft_kv_seq_slot(&s->seq, s->n)] = s->kv[s->n];
    }
    ft_kv_seq_set_tokens(&s->seq, s->token + s->n - n, n);
    if (ft_rng_below(&f->rng, 6) == 0) {
        uint32_t back = ft_rng_below(&f->rng, n + 1);
        ft_kv_seq_retract(&s->seq, back);
        s->n -= back;
        model_drop(f, s, (s->n + BLOCK - 1) / BLOCK);
    }
}

/* New order of a sequence's pending nodes: those of path, then of keep. */
static void reorder(shadow *s, const uint32_t *path, uint32_t n_path, const uint32_t *keep,
                    uint32_t n_keep)
{
    uint32_t n_past = s->seq.n_past, kv[MAX_TOK];
    int32_t token[MAX_TOK];
    for (uint32_t i = 0; i < n_path + n_keep; i++) {
        uint32_t from = n_past + (i < n_path ? path[i] : keep[i - n_path]);
        kv[i] = s->kv[from];
        token[i] = s->token[from];
    }
    memcpy(s->kv + n_past, kv, (n_path + n_keep) * sizeof *kv);
    memcpy(s->token + n_past, token, (n_path + n_keep) * sizeof *token);
    s->n = n_past + n_path + n_keep;
}

static void commit(fixture *f, shadow *s)
{
    uint32_t path[MAX_TOK], keep[MAX_TOK], n_path = 0, n_keep = 0, n_past = s->seq.n_past;
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
    reorder(s, path, n_path, keep, n_keep);
    for (uint32_t i = n_past / BLOCK; i < (n_past + n_path) / BLOCK; i++)
        model_settle(f, s, i);
    model_drop(f, s, (s->n + BLOCK - 1) / BLOCK);
    assert_int_equal(ft_kv_seq_commit(&s->seq, path, n_path, keep, n_keep, NULL), FT_OK);
    assert_int_equal(s->seq.n_past, n_past + n_path);
}

static void truncate_to(fixture *f, shadow *s, uint32_t n)
{
    ft_kv_seq_truncate(&s->seq, n);
    s->n = n;
    model_drop(f, s, (n + BLOCK - 1) / BLOCK);
}

static void replace(fixture *f, const shadow *from, shadow *to)
{
    bool dup = ft_rng_below(&f->rng, 4) == 0;
    uint32_t n_past = from->seq.n_past, n_full = dup ? 0 : n_past / BLOCK;
    ft_kv_seq_deinit(&to->seq);
    to->n = 0;
    model_drop(f, to, 0);
    ft_status status =
        dup ? ft_kv_seq_dup(&from->seq, &to->seq) : ft_kv_seq_fork(&from->seq, &to->seq);
    if (status != FT_OK) {
        assert_true(model_free(f) + model_idle(f) < (n_past + BLOCK - 1) / BLOCK - n_full);
        ft_kv_seq_init(&to->seq, &f->kv);
        to->scope = 0;
        return;
    }
    to->scope = dup ? 0 : from->scope;
    to->n = n_past;
    memcpy(to->token, from->token, n_past * sizeof *to->token);
    memcpy(to->kv, from->kv, n_past * sizeof *to->kv);
    for (uint32_t i = 0; i * BLOCK < n_past; i++) {
        int entry = i < n_full ? from->entry[i] : -1;
        if (entry < 0)
            model_take(f);
        model_hold(f, to, entry);
    }
    for (uint32_t i = n_full; i < n_past / BLOCK; i++)
        to->entry[i] = model_add(f, to, i, -1);
}

/* A new text, for the same or another scope. */
static void attach(fixture *f, shadow *s)
{
    uint32_t n = ft_rng_below(&f->rng, MAX_TOK / 2);
    truncate_to(f, s, 0);
    if (ft_rng_below(&f->rng, 3) == 0) {
        s->scope = 1 + ft_rng_below(&f->rng, 2);
        ft_kv_seq_set_scope(&s->seq, s->scope);
    }
    for (uint32_t i = 0; i < n; i++) {
        s->token[i] = some_token(f, i);
        s->kv[i] = mix(i > 0 ? s->kv[i - 1] : (uint32_t)s->scope, (uint32_t)s->token[i]);
    }
    for (int parent = -1; s->scope && (s->n_entry + 1) * BLOCK < n;) {
        parent = model_find(f, s->scope, parent, s->token + s->n_entry * BLOCK);
        if (parent < 0)
            break;
        model_hold(f, s, parent);
    }
    s->n = s->n_entry * BLOCK;
    assert_int_equal(ft_kv_seq_attach(&s->seq, s->token, n), s->n);
}

static void step(fixture *f)
{
    shadow *s = &f->s[ft_rng_below(&f->rng, N_SEQS)], *to = &f->s[ft_rng_below(&f->rng, N_SEQS)];
    uint32_t what = ft_rng_below(&f->rng, 16);
    if (what < 8)
        extend(f, s);
    else if (what < 12)
        commit(f, s);
    else if (what == 12)
        truncate_to(f, s, s->seq.n_past - ft_rng_below(&f->rng, s->seq.n_past / 2 + 1));
    else if (what < 15)
        attach(f, s);
    else if (to != s)
        replace(f, s, to);
}

static void run_random(uint64_t seed, uint32_t n_steps)
{
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(ft_kv_init(&f->kv, N_BLOCKS, move, f->slots), FT_OK);
    ft_rng_init(&f->rng, seed);
    for (int i = 0; i < N_SEQS; i++)
        ft_kv_seq_init(&f->s[i].seq, &f->kv);
    for (uint32_t i = 0; i < n_steps; i++) {
        step(f);
        check_all(f);
    }
    print_message(
        "%llu tokens found, %llu blocks evicted, %llu copied, %llu forgotten, %llu merged\n",
        (unsigned long long)f->kv.hit_tok, (unsigned long long)f->evicted,
        (unsigned long long)f->copied, (unsigned long long)f->forgotten,
        (unsigned long long)f->merged);
    assert_true(f->kv.hit_tok > n_steps / 10 && f->evicted > n_steps / 100);
    assert_true(f->copied > n_steps / 1000 && f->forgotten > n_steps / 1000 &&
                f->merged > n_steps / 1000);
    for (int i = 0; i < N_SEQS; i++)
        ft_kv_seq_deinit(&f->s[i].seq);
    assert_int_equal(ft_kv_available(&f->kv), N_BLOCKS);
    ft_kv_deinit(&f->kv);
    free(f);
}

static void test_random(void **state)
{
    run_random(1, N_STEPS / 2);
    run_random(2, N_STEPS / 2);
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

/* A text of one block, let go of at once. */
static void add_text(ft_kv *kv, uint64_t scope, int32_t first)
{
    ft_kv_seq seq;
    int32_t token[BLOCK] = {first};
    uint32_t path[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++)
        path[i] = i;
    ft_kv_seq_init(&seq, kv);
    ft_kv_seq_set_scope(&seq, scope);
    assert_int_equal(ft_kv_seq_reserve(&seq, BLOCK), FT_OK);
    ft_kv_seq_extend(&seq, NULL, BLOCK);
    ft_kv_seq_set_tokens(&seq, token, BLOCK);
    assert_int_equal(ft_kv_seq_commit(&seq, path, BLOCK, NULL, 0, NULL), FT_OK);
    ft_kv_seq_deinit(&seq);
}

static bool has_text(const ft_kv *kv, uint64_t scope, int32_t first)
{
    const int32_t token[BLOCK] = {first};
    return ft_prefix_find(&kv->prefix, scope, FT_PREFIX_NONE, token) != FT_PREFIX_NONE;
}

/* Who brings ever new texts forgets its own: others' stay, until nobody has asked for them for
 * long. */
static void test_fair(void **state)
{
    enum { POOL = 8 };
    ft_kv kv;
    assert_int_equal(ft_kv_init(&kv, POOL, NULL, NULL), FT_OK);
    add_text(&kv, 1, 1);
    add_text(&kv, 1, 2);
    add_text(&kv, 2, 3);
    for (int32_t i = 0; i < FT_PREFIX_STALE_FACTOR * POOL - 4; i++) {
        add_text(&kv, 3, 100 + i);
        assert_true(has_text(&kv, 1, 1) && has_text(&kv, 1, 2) && has_text(&kv, 2, 3));
        assert_true(has_text(&kv, 3, 100 + i));
        assert_true(i < POOL || !has_text(&kv, 3, 100 + i - POOL));
    }
    for (int32_t i = 0; i < 8; i++)
        add_text(&kv, 3, 1000 + i);
    assert_false(has_text(&kv, 1, 1) || has_text(&kv, 1, 2) || has_text(&kv, 2, 3));
    for (int32_t i = 0; i < POOL; i++) /* of equals, the oldest of all goes */
        add_text(&kv, 10 + (uint64_t)i, 7);
    for (int32_t i = 0; i < POOL; i++)
        assert_true(has_text(&kv, 10 + (uint64_t)i, 7));
    add_text(&kv, 20, 7);
    assert_false(has_text(&kv, 10, 7));
    assert_true(has_text(&kv, 11, 7) && has_text(&kv, 20, 7));
    ft_kv_deinit(&kv);
}

/* An equal hash is not enough to find a block: what it stands for is compared. */
static void test_collision(void **state)
{
    ft_prefix prefix;
    const int32_t tokens[BLOCK] = {1, 2, 3};
    const uint32_t none = FT_PREFIX_NONE;
    assert_int_equal(ft_prefix_init(&prefix, 4), FT_OK);
    memcpy(prefix.token + 2 * BLOCK, tokens, sizeof tokens);
    assert_int_equal(ft_prefix_settle(&prefix, 2, 5, none), 2);
    assert_int_equal(ft_prefix_find(&prefix, 5, none, tokens), 2);
    assert_int_equal(ft_prefix_find(&prefix, 6, none, tokens), none);
    assert_int_equal(ft_prefix_find(&prefix, 5, 2, tokens), none);
    /* Another text that happens to have this block's hash: by its tokens, parent, scope. */
    prefix.token[2 * BLOCK + 15] = 9;
    assert_int_equal(ft_prefix_find(&prefix, 5, none, tokens), none);
    prefix.token[2 * BLOCK + 15] = 0;
    prefix.entry[2].parent = 1;
    assert_int_equal(ft_prefix_find(&prefix, 5, none, tokens), none);
    prefix.entry[2].parent = none;
    prefix.entry[2].scope = 6;
    assert_int_equal(ft_prefix_find(&prefix, 5, none, tokens), none);
    prefix.entry[2].scope = 5;
    assert_int_equal(ft_prefix_find(&prefix, 5, none, tokens), 2);
    ft_prefix_remove(&prefix, 2);
    assert_int_equal(ft_prefix_find(&prefix, 5, none, tokens), none);
    ft_prefix_deinit(&prefix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_collision),
        cmocka_unit_test(test_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
