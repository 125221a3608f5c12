// SPDX-License-Identifier: Apache-2.0
// The bookkeeping of the paged KV pool. Owned by the engine's thread; holds no tensor.
//
// Invariants (ft_kv_check tests them; builds with FT_DEBUG_CHECKS run it after every change):
//  1. ref[b] is the number of block tables that hold b. A block with ref 0 is either on the free
//     stack or idle in the prefix cache (prefix.c), never both. Other blocks are in neither.
//  2. A sequence holds exactly ceil((n_past + n_pending) / 16) blocks, none of them twice.
//  3. A block that holds a pending token has ref 1 and is not registered. So nothing is ever
//     written into a block that others read or may find. Forks share full blocks only. Truncation
//     can leave a partly filled block that is shared or registered. Before extend writes into such
//     a block, it copies it; or, if no other sequence holds it and no registered block follows it,
//     unregisters it.
//  4. Node i < n_chain is the child of node i - 1 and has depth i. If n_chain < n_pending, parent
//     and depth hold all nodes and n_pending <= FT_PENDING_MAX.
//  5. Every full committed block of a sequence with a cache scope is registered in that scope; its
//     parent is the block before it in the table. Blocks of a sequence without a scope are never
//     registered.
//
// A sequence:
//   [committed] --extend--> [committed | pending] --commit--> [committed | kept pending]
//               truncate, fork: no pending nodes in the result; retract undoes the last extend.
#include "engine/kv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST 32 /* blocks that a table has room for at first; then it doubles */

static void check(const ft_kv *kv)
{
#ifdef FT_DEBUG_CHECKS
    assert(ft_kv_check(kv)); /* a bug of this file otherwise */
#else
    (void)kv;
#endif
}

static uint32_t blocks_of(uint64_t n_tok)
{
    return (uint32_t)((n_tok + FT_KV_BLOCK_TOK - 1) / FT_KV_BLOCK_TOK);
}

ft_status ft_kv_init(ft_kv *kv, uint32_t n_blocks,
                     void (*move)(void *ctx, const ft_kv_move *moves, uint32_t n), void *move_ctx)
{
    memset(kv, 0, sizeof *kv);
    kv->free = malloc(n_blocks * sizeof *kv->free);
    kv->ref = calloc(n_blocks, sizeof *kv->ref);
    ft_status status = kv->free && kv->ref ? ft_prefix_init(&kv->prefix, n_blocks) : FT_NOMEM;
    if (status != FT_OK) {
        ft_kv_deinit(kv);
        return status;
    }
    /* Low numbers are taken first: a lightly used pool touches little memory. */
    for (uint32_t i = 0; i < n_blocks; i++)
        kv->free[i] = n_blocks - 1 - i;
    kv->n_blocks = kv->n_free = n_blocks;
    kv->move = move;
    kv->move_ctx = move_ctx;
    return FT_OK;
}

void ft_kv_deinit(ft_kv *kv)
{
    assert(kv->n_seqs == 0);
    while (kv->shapes) {
        ft_kv_shape *next = kv->shapes->next;
        free(kv->shapes);
        kv->shapes = next;
    }
    free(kv->free);
    free(kv->ref);
    ft_prefix_deinit(&kv->prefix);
    kv->free = NULL;
    kv->ref = NULL;
}

static uint32_t block_take(ft_kv *kv)
{
    uint32_t block = kv->n_free > 0 ? kv->free[--kv->n_free] : ft_prefix_evict(&kv->prefix);
    kv->ref[block] = 1;
    return block;
}

static void block_unref(ft_kv *kv, uint32_t block)
{
    if (--kv->ref[block] > 0)
        return;
    if (ft_prefix_has(&kv->prefix, block))
        ft_prefix_idle(&kv->prefix, block);
    else
        kv->free[kv->n_free++] = block;
}

static void run_moves(ft_kv *kv, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        kv->prefix.token[kv->moves[i].dst] = kv->prefix.token[kv->moves[i].src];
    if (n && kv->move)
        kv->move(kv->move_ctx, kv->moves, n);
}

/* Copies the first n lanes of a block. */
static void block_copy(ft_kv *kv, uint32_t src, uint32_t dst, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        kv->moves[i] = (ft_kv_move){src * FT_KV_BLOCK_TOK + i, dst * FT_KV_BLOCK_TOK + i};
    run_moves(kv, n);
}

ft_status ft_kv_add_shapes(ft_kv *kv, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ft_kv_shape *shape = malloc(sizeof *shape);
        if (!shape)
            return FT_NOMEM;
        shape->next = kv->shapes;
        kv->shapes = shape;
    }
    return FT_OK;
}

static bool borrow_shape(ft_kv_seq *seq)
{
    ft_kv *kv = seq->kv;
    if (seq->shape)
        return true;
    if (!kv->shapes && ft_kv_add_shapes(kv, 1) != FT_OK)
        return false;
    seq->shape = kv->shapes;
    kv->shapes = kv->shapes->next;
    return true;
}

static void return_shape(ft_kv_seq *seq)
{
    if (!seq->shape)
        return;
    seq->shape->next = seq->kv->shapes;
    seq->kv->shapes = seq->shape;
    seq->shape = NULL;
}

/* The last block first: the prefix cache wants children released before their parents. */
static void drop_blocks(ft_kv_seq *seq, uint32_t n_keep)
{
    while (seq->n_block > n_keep)
        block_unref(seq->kv, seq->block[--seq->n_block]);
}

void ft_kv_seq_init(ft_kv_seq *seq, ft_kv *kv)
{
    *seq = (ft_kv_seq){.kv = kv};
    seq->next = kv->seqs;
    if (kv->seqs)
        kv->seqs->prev = seq;
    kv->seqs = seq;
    kv->n_seqs++;
}

void ft_kv_seq_deinit(ft_kv_seq *seq)
{
    ft_kv *kv = seq->kv;
    drop_blocks(seq, 0);
    return_shape(seq);
    if (seq->prev)
        seq->prev->next = seq->next;
    else
        kv->seqs = seq->next;
    if (seq->next)
        seq->next->prev = seq->prev;
    kv->n_seqs--;
    free(seq->block);
    seq->block = NULL;
    check(kv);
}

static ft_status reserve_table(ft_kv_seq *seq, uint32_t n_tok)
{
    uint32_t want = blocks_of(n_tok);
    if (want <= seq->cap_block)
        return FT_OK;
    uint32_t cap = want > TABLE_FIRST / 2 ? 2 * want : TABLE_FIRST;
    uint32_t *block = realloc(seq->block, cap * sizeof *block);
    if (!block)
        return FT_NOMEM;
    seq->block = block;
    seq->cap_block = cap;
    return FT_OK;
}

/* A sequence with src's committed tokens. It shares the first n_shared blocks and has copies of the
 * others. */
static ft_status copy_seq(const ft_kv_seq *src, uint32_t n_shared, ft_kv_seq *out)
{
    ft_kv *kv = src->kv;
    uint32_t n_blocks = blocks_of(src->n_past);
    if (ft_kv_available(kv) < n_blocks - n_shared)
        return FT_EXHAUSTED;
    ft_kv_seq_init(out, kv);
    if (reserve_table(out, src->n_past) != FT_OK) {
        ft_kv_seq_deinit(out);
        return FT_NOMEM;
    }
    for (uint32_t i = 0; i < n_shared; i++) {
        out->block[i] = src->block[i];
        kv->ref[src->block[i]]++;
    }
    for (uint32_t i = n_shared; i < n_blocks; i++) {
        uint32_t rest = src->n_past - i * FT_KV_BLOCK_TOK;
        out->block[i] = block_take(kv);
        block_copy(kv, src->block[i], out->block[i],
                   rest < FT_KV_BLOCK_TOK ? rest : FT_KV_BLOCK_TOK);
    }
    out->n_block = n_blocks;
    out->n_past = src->n_past;
    return FT_OK;
}

ft_status ft_kv_seq_fork(const ft_kv_seq *src, ft_kv_seq *out)
{
    ft_status status = copy_seq(src, src->n_past / FT_KV_BLOCK_TOK, out);
    if (status == FT_OK) {
        out->scope = src->scope;
        check(src->kv);
    }
    return status;
}

ft_status ft_kv_seq_dup(const ft_kv_seq *src, ft_kv_seq *out)
{
    ft_status status = copy_seq(src, 0, out);
    check(src->kv);
    return status;
}

void ft_kv_seq_set_scope(ft_kv_seq *seq, uint64_t scope)
{
    assert(seq->n_past == 0 && seq->n_pending == 0);
    seq->scope = scope;
}

uint32_t ft_kv_seq_attach(ft_kv_seq *seq, const int32_t *tokens, uint32_t n)
{
    ft_kv *kv = seq->kv;
    if (seq->scope == 0 || n == 0 || seq->n_past + seq->n_pending > 0)
        return seq->n_past;
    uint32_t most = (n - 1) / FT_KV_BLOCK_TOK, parent = FT_PREFIX_NONE;
    kv->lookup_tok += n;
    if (ft_kv_seq_reserve(seq, n) != FT_OK)
        return 0; /* no memory: as if nothing was cached */
    while (seq->n_block < most) {
        uint32_t block = ft_prefix_find(&kv->prefix, seq->scope, parent,
                                        tokens + (size_t)seq->n_block * FT_KV_BLOCK_TOK);
        if (block == FT_PREFIX_NONE)
            break;
        if (kv->ref[block]++ == 0)
            ft_prefix_wake(&kv->prefix, block);
        seq->block[seq->n_block++] = parent = block;
    }
    seq->n_past = seq->n_block * FT_KV_BLOCK_TOK;
    kv->hit_tok += seq->n_past;
    check(kv);
    return seq->n_past;
}

/* Registers block i, which has become full. If the scope has a block with the same text already,
 * the table takes that one instead: equal text is kept once. */
static void settle(ft_kv_seq *seq, uint32_t i)
{
    ft_kv *kv = seq->kv;
    uint32_t ours = seq->block[i];
    uint32_t block =
        ft_prefix_settle(&kv->prefix, ours, seq->scope, i > 0 ? seq->block[i - 1] : FT_PREFIX_NONE);
    if (block == ours)
        return;
    if (kv->ref[block]++ == 0)
        ft_prefix_wake(&kv->prefix, block);
    seq->block[i] = block;
    block_unref(kv, ours);
}

/* What must be done with the last block before the next token is written into it. */
typedef enum tail_state { TAIL_OURS, TAIL_FORGET, TAIL_COPY } tail_state;

static tail_state tail_of(const ft_kv_seq *seq)
{
    const ft_kv *kv = seq->kv;
    if ((seq->n_past + seq->n_pending) % FT_KV_BLOCK_TOK == 0)
        return TAIL_OURS;
    uint32_t block = seq->block[seq->n_block - 1];
    if (kv->ref[block] > 1)
        return TAIL_COPY;
    if (!ft_prefix_has(&kv->prefix, block))
        return TAIL_OURS;
    return kv->prefix.entry[block].n_children > 0 ? TAIL_COPY : TAIL_FORGET;
}

uint32_t ft_kv_seq_need(const ft_kv_seq *seq, uint64_t n)
{
    if (n == 0)
        return 0;
    uint64_t total = (uint64_t)seq->n_past + seq->n_pending + n;
    return blocks_of(total) - seq->n_block + (tail_of(seq) == TAIL_COPY);
}

ft_status ft_kv_seq_validate(const ft_kv_seq *seq, const int32_t *parent, uint32_t n, ft_error *err)
{
    uint32_t n_old = seq->n_pending;
    bool chain = seq->n_chain == n_old;
    for (uint32_t i = 0; parent && i < n; i++) {
        int64_t number = (int64_t)n_old + i;
        if (parent[i] < -1 || parent[i] >= number)
            return ft_error_set(err, FT_INVALID,
                                "engine: parent %d of node %lld is neither an earlier node nor -1",
                                parent[i], (long long)number);
        chain = chain && parent[i] == number - 1;
    }
    if (!chain && (uint64_t)n_old + n > FT_PENDING_MAX)
        return ft_error_set(err, FT_INVALID,
                            "engine: a tree of %llu pending nodes; at most %d are allowed",
                            (unsigned long long)n_old + n, FT_PENDING_MAX);
    return FT_OK;
}

ft_status ft_kv_seq_reserve(ft_kv_seq *seq, uint32_t n)
{
    return borrow_shape(seq) ? reserve_table(seq, seq->n_past + seq->n_pending + n) : FT_NOMEM;
}

static void take_blocks(ft_kv_seq *seq, uint32_t n)
{
    ft_kv *kv = seq->kv;
    uint32_t used = seq->n_past + seq->n_pending;
    tail_state tail = tail_of(seq);
    if (tail == TAIL_FORGET)
        ft_prefix_remove(&kv->prefix, seq->block[seq->n_block - 1]);
    if (tail == TAIL_COPY) {
        uint32_t *last = &seq->block[seq->n_block - 1];
        uint32_t fresh = block_take(kv);
        block_copy(kv, *last, fresh, used % FT_KV_BLOCK_TOK);
        block_unref(kv, *last);
        *last = fresh;
    }
    uint32_t want = blocks_of((uint64_t)used + n);
    assert(want <= seq->cap_block);
    while (seq->n_block < want)
        seq->block[seq->n_block++] = block_take(kv);
}

void ft_kv_seq_extend(ft_kv_seq *seq, const int32_t *parent, uint32_t n)
{
    uint32_t n_old = seq->n_pending, n_new = n_old + n;
    take_blocks(seq, n);
    if (!parent && seq->n_chain == n_old) {
        seq->n_chain = seq->n_pending = n_new;
        check(seq->kv);
        return;
    }
    uint32_t chain = seq->n_chain;
    for (uint32_t i = n_old; chain == i && i < n_new && parent[i - n_old] == (int32_t)i - 1; i++)
        chain++;
    if (chain < n_new) {
        for (uint32_t i = seq->n_chain == n_old ? 0 : n_old; i < n_new; i++) {
            int32_t up = (int32_t)i - 1;
            if (i >= n_old && parent)
                up = parent[i - n_old];
            seq->shape->parent[i] = (int16_t)up;
            seq->shape->depth[i] = (uint16_t)(up < 0 ? 0 : seq->shape->depth[up] + 1);
        }
    }
    seq->n_chain = chain;
    seq->n_pending = n_new;
    check(seq->kv);
}

void ft_kv_seq_set_tokens(ft_kv_seq *seq, const int32_t *tokens, uint32_t n)
{
    uint32_t first = seq->n_past + seq->n_pending - n;
    for (uint32_t i = 0; i < n; i++)
        seq->kv->prefix.token[ft_kv_seq_slot(seq, first + i)] = tokens[i];
}

/* Removes the pending nodes from n on and frees the blocks behind them. */
static void set_pending(ft_kv_seq *seq, uint32_t n)
{
    seq->n_pending = n;
    if (seq->n_chain > n)
        seq->n_chain = n;
    if (n == 0)
        return_shape(seq);
    drop_blocks(seq, blocks_of((uint64_t)seq->n_past + n));
}

void ft_kv_seq_retract(ft_kv_seq *seq, uint32_t n)
{
    assert(n <= seq->n_pending);
    set_pending(seq, seq->n_pending - n);
    check(seq->kv);
}

static ft_status check_path(const ft_kv_seq *seq, const uint32_t *path, uint32_t n_path,
                            ft_error *err)
{
    int64_t up = -1;
    for (uint32_t i = 0; i < n_path; i++) {
        if (path[i] >= seq->n_pending || ft_kv_seq_parent(seq, path[i]) != up)
            return ft_error_set(err, FT_INVALID,
                                "engine: commit: node %u is not a child of node %lld", path[i],
                                (long long)up);
        up = path[i];
    }
    return FT_OK;
}

/* New number of `node` among keep[0..n), or -1. */
static int32_t find_kept(const uint32_t *keep, uint32_t n, int64_t node)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (keep[mid] < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && keep[lo] == node ? (int32_t)lo : -1;
}

/* Validates keep; with `parent` also writes the kept nodes' new parents. */
static ft_status check_keep(const ft_kv_seq *seq, int64_t root, const uint32_t *keep,
                            uint32_t n_keep, int16_t *parent, ft_error *err)
{
    for (uint32_t i = 0; i < n_keep; i++) {
        bool known = keep[i] < seq->n_pending && (i == 0 || keep[i] > keep[i - 1]);
        int64_t up = known ? ft_kv_seq_parent(seq, keep[i]) : -2;
        int32_t kept = up == root ? -1 : find_kept(keep, i, up);
        if (!known || (up != root && kept < 0))
            return ft_error_set(
                err, FT_INVALID,
                "engine: commit: the parent of kept node %u is neither the last of the "
                "path nor an earlier kept node",
                keep[i]);
        if (parent)
            parent[i] = (int16_t)kept;
    }
    return FT_OK;
}

/* Destinations never lie behind their sources (path and keep ascend), so moves in this order are
 * safe. A plain chain moves nothing. */
static uint32_t list_moves(ft_kv_seq *seq, const uint32_t *path, uint32_t n_path,
                           const uint32_t *keep, uint32_t n_keep)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_path + n_keep; i++) {
        uint32_t node = i < n_path ? path[i] : keep[i - n_path];
        if (node != i)
            seq->kv->moves[n++] = (ft_kv_move){ft_kv_seq_slot(seq, seq->n_past + node),
                                               ft_kv_seq_slot(seq, seq->n_past + i)};
    }
    return n;
}

ft_status ft_kv_seq_commit(ft_kv_seq *seq, const uint32_t *path, uint32_t n_path,
                           const uint32_t *keep, uint32_t n_keep, ft_error *err)
{
    int16_t parent[FT_PENDING_MAX];
    ft_status status = check_path(seq, path, n_path, err);
    if (status != FT_OK)
        return status;
    int64_t root = n_path ? (int64_t)path[n_path - 1] : -1;
    bool tree = seq->n_chain < seq->n_pending;
    status = check_keep(seq, root, keep, n_keep, tree ? parent : NULL, err);
    if (status != FT_OK)
        return status;
    run_moves(seq->kv, list_moves(seq, path, n_path, keep, n_keep));
    uint32_t n_full = seq->n_past / FT_KV_BLOCK_TOK;
    seq->n_past += n_path;
    for (; seq->scope && n_full < seq->n_past / FT_KV_BLOCK_TOK; n_full++)
        settle(seq, n_full);
    seq->n_chain = n_keep;
    if (tree) {
        uint32_t chain = 0;
        for (uint32_t i = 0; i < n_keep; i++) {
            seq->shape->parent[i] = parent[i];
            seq->shape->depth[i] = (uint16_t)(parent[i] < 0 ? 0 : seq->shape->depth[parent[i]] + 1);
            if (chain == i && parent[i] == (int32_t)i - 1)
                chain++;
        }
        seq->n_chain = chain;
    }
    set_pending(seq, n_keep);
    check(seq->kv);
    return FT_OK;
}

void ft_kv_seq_truncate(ft_kv_seq *seq, uint32_t n_past)
{
    assert(n_past <= seq->n_past);
    seq->n_past = n_past;
    set_pending(seq, 0);
    check(seq->kv);
}

#define HOLDS(condition)  \
    do {                  \
        if (!(condition)) \
            return false; \
    } while (0)

static bool seq_holds(const ft_kv_seq *seq, uint32_t *seen)
{
    const ft_kv *kv = seq->kv;
    HOLDS(seq->n_block == blocks_of((uint64_t)seq->n_past + seq->n_pending));
    HOLDS(seq->n_block <= seq->cap_block && seq->n_chain <= seq->n_pending);
    for (uint32_t i = 0; i < seq->n_block; i++) {
        uint32_t block = seq->block[i];
        HOLDS(block < kv->n_blocks);
        for (uint32_t j = 0; j < i && kv->ref[block] > 1; j++)
            HOLDS(seq->block[j] != block);
        seen[block]++;
        bool full = (i + 1) * FT_KV_BLOCK_TOK <= seq->n_past;
        bool registered = ft_prefix_has(&kv->prefix, block);
        HOLDS(full || seq->n_pending == 0 || (kv->ref[block] == 1 && !registered));
        HOLDS(!full || registered == (seq->scope != 0));
        const ft_prefix_entry *e = &kv->prefix.entry[block];
        HOLDS(!registered || e->scope == seq->scope);
        HOLDS(!registered || e->parent == (i > 0 ? seq->block[i - 1] : FT_PREFIX_NONE));
    }
    HOLDS(seq->n_chain == seq->n_pending || (seq->n_pending <= FT_PENDING_MAX && seq->shape));
    for (uint32_t i = 0; seq->n_chain < seq->n_pending && i < seq->n_pending; i++) {
        int32_t up = seq->shape->parent[i];
        HOLDS(up >= -1 && up < (int32_t)i);
        HOLDS(seq->shape->depth[i] == (up < 0 ? 0 : seq->shape->depth[up] + 1));
        HOLDS(i >= seq->n_chain || up == (int32_t)i - 1);
    }
    return true;
}

static bool pool_holds(const ft_kv *kv, uint32_t *seen)
{
    uint32_t n_seqs = 0, n_held = 0;
    for (const ft_kv_seq *seq = kv->seqs; seq; seq = seq->next, n_seqs++)
        HOLDS(seq_holds(seq, seen));
    HOLDS(n_seqs == kv->n_seqs);
    for (uint32_t i = 0; i < kv->n_free; i++) {
        HOLDS(kv->free[i] < kv->n_blocks && seen[kv->free[i]] == 0);
        seen[kv->free[i]] = UINT32_MAX;
    }
    for (uint32_t b = 0; b < kv->n_blocks; b++) {
        bool is_free = seen[b] == UINT32_MAX, idle = kv->prefix.entry[b].idle;
        HOLDS(kv->ref[b] == (is_free ? 0 : seen[b]));
        HOLDS(idle ? seen[b] == 0 : seen[b] > 0);
        HOLDS(!is_free || !ft_prefix_has(&kv->prefix, b));
        n_held += seen[b] > 0 && !is_free;
    }
    HOLDS(n_held + kv->n_free + kv->prefix.n_idle == kv->n_blocks);
    return ft_prefix_check(&kv->prefix, seen);
}

bool ft_kv_check(const ft_kv *kv)
{
    uint32_t *seen = calloc(kv->n_blocks, sizeof *seen);
    bool ok = !seen || pool_holds(kv, seen);
    free(seen);
    return ok;
}
