// SPDX-License-Identifier: Apache-2.0
// Layers on devices (device, remote, backends, route_mixed, route_portable, store): RPC servers on
// loopback stand for GPUs, or the first of two devices is test_device(). All layers, some, and
// layers on two devices must give the CPU's logits over random texts, trees, commits, truncations
// and forks, and the same greedy tokens; memory is where it is said to be; a graph serves as long
// as shapes stay; and two engines compute on one device at the same time.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/engine.h"
#include "model/device.h"
#include "support/device.h"
#include "support/oracle.h"
#include "support/rpc_server.h"
#include "support/tiny_gguf.h"

/* ggml's flash attention on a server's CPU sums F16 values in F16: libllama's own differs from its
 * plain attention by as much (test_logits prints it). */
#define ROUNDING 4e-6

enum { SIDES = 5, SEQS = 12, MAX_NODES = 24, N_LAYER = 4 };

static const char *endpoints; /* NULL: no RPC here */

/* How a model is spread. */
static struct spread {
    const char *devices;
    int n_gpu_layers;
} spreads[SIDES] = {
    {"none", 0},       /* the CPU: what the others are compared with */
    {"RPC0", -1},      /* everything on one device */
    {"RPC0", 2},       /* half of the layers */
    {"RPC1", N_LAYER}, /* all layers, but not embedding and head */
    {"RPC0,RPC1", -1}, /* two devices */
};

/* Puts test_device() in the place of RPC0, and of RPC1 where that is alone. */
static void use_device(const char *name)
{
    static char both[64];
    snprintf(both, sizeof both, "%s,RPC1", name);
    for (int i = 1; i < 4; i++)
        spreads[i].devices = name;
    spreads[4].devices = both;
}

typedef struct side {
    ft_model *model;
    ft_engine *engine;
    ft_seq *seq[SEQS];
} side;

static void must(ft_status status, const ft_error *err)
{
    if (status != FT_OK)
        fail_msg("%s", err->message);
}

static void open_side(side *s, const char *path, const struct spread *spread)
{
    ft_error err = {0};
    ft_devices devices;
    must(ft_devices_find(spread->devices, &err, &devices), &err);
    ft_model_opts model = {.path = path, .devices = &devices, .n_gpu_layers = spread->n_gpu_layers};
    must(ft_model_load(&model, &err, &s->model), &err);
    ft_engine_opts opts = {
        .model = s->model, .kv_tok = 4096, .max_batch_tok = SEQS * MAX_NODES, .n_threads = 1};
    must(ft_engine_create(&opts, &err, &s->engine), &err);
    for (int i = 0; i < SEQS; i++)
        must(ft_seq_create(s->engine, &err, &s->seq[i]), &err);
}

static void close_side(side *s)
{
    for (int i = 0; i < SEQS; i++)
        ft_seq_destroy(s->seq[i]);
    ft_engine_destroy(s->engine);
    ft_model_destroy(s->model);
}

static void open_all(side *sides, const char *path)
{
    for (int i = 0; i < SIDES; i++)
        open_side(&sides[i], path, &spreads[i]);
}

/* ---- random work, the same on all sides ---- */

/* New nodes of a sequence, behind those that are pending. */
typedef struct work {
    uint32_t n; /* 0: the sequence sits out */
    int32_t tokens[MAX_NODES], parent[MAX_NODES];
    uint64_t want;
} work;

/* The pending nodes of a sequence, as the engine has them. */
typedef struct pending {
    uint32_t n;
    int32_t parent[2 * MAX_NODES];
} pending;

static void make_work(ft_rng *rng, const pending *p, work *w)
{
    static const uint32_t sizes[] = {0, 1, 1, 3, 4, 8, MAX_NODES};
    w->n = sizes[ft_rng_below(rng, sizeof sizes / sizeof *sizes)];
    w->want = ft_rng_u32(rng);
    for (uint32_t i = 0; i < w->n; i++) {
        w->tokens[i] = (int32_t)ft_rng_below(rng, 300);
        w->parent[i] = (int32_t)ft_rng_below(rng, p->n + i + 1) - 1;
    }
}

/* Which of the rows are wrong tells what was: one of them, a sequence's or all. */
static void explain(const float *got, const float *want, uint32_t n_rows, uint32_t n_vocab)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        size_t at = (size_t)r * n_vocab;
        double nmse = oracle_nmse(got + at, want + at, n_vocab);
        if (nmse > ROUNDING)
            print_message("row %u of %u: nmse %g\n", r, n_rows, nmse);
    }
}

static void compare(side *sides, uint32_t n_rows, double limit)
{
    uint32_t n_vocab = ft_model_hparams(sides[0].model)->n_vocab;
    const float *want = n_rows ? ft_engine_logits(sides[0].engine, 0) : NULL;
    for (int i = 1; i < SIDES && n_rows; i++) {
        const float *got = ft_engine_logits(sides[i].engine, 0);
        double nmse = oracle_nmse(got, want, (size_t)n_rows * n_vocab);
        if (nmse < limit)
            continue;
        explain(got, want, n_rows, n_vocab);
        fail_msg("%s -ngl %d: nmse %g", spreads[i].devices, spreads[i].n_gpu_layers, nmse);
    }
}

static void forward_all(side *sides, const work *w, double limit)
{
    uint32_t n_rows = 0;
    for (int i = 0; i < SIDES; i++) {
        ft_error err = {0};
        ft_segment s[SEQS];
        size_t n = 0;
        for (int j = 0; j < SEQS; j++)
            if (w[j].n)
                s[n++] = (ft_segment){.seq = sides[i].seq[j],
                                      .n = w[j].n,
                                      .tokens = w[j].tokens,
                                      .parent = w[j].parent,
                                      .want = &w[j].want};
        if (n == 0)
            return;
        must(ft_engine_forward(sides[i].engine, s, n, &err), &err);
        n_rows = 0;
        for (int j = 0; j < SEQS; j++)
            for (uint32_t r = 0; r < w[j].n; r++)
                n_rows += w[j].want >> r & 1;
    }
    compare(sides, n_rows, limit);
}

/* Commits a random path and keeps some of what hangs on its end. */
static void commit_all(side *sides, ft_rng *rng, int j, pending *p)
{
    uint32_t path[2 * MAX_NODES], keep[2 * MAX_NODES], n_path = 0, n_keep = 0;
    int32_t number[2 * MAX_NODES], at = -1; /* of kept nodes, else -2 */
    pending next = {0};
    for (uint32_t i = 0; i < p->n; i++)
        if (p->parent[i] == at && ft_rng_below(rng, 3)) {
            path[n_path++] = i;
            at = (int32_t)i;
        }
    for (uint32_t i = 0; i < p->n; i++) {
        int32_t up = p->parent[i] == at ? -1 : p->parent[i] < 0 ? -2 : number[p->parent[i]];
        number[i] = -2;
        if ((int32_t)i <= at || up == -2 || ft_rng_below(rng, 2) || next.n == MAX_NODES)
            continue;
        number[i] = (int32_t)next.n;
        next.parent[next.n++] = up;
        keep[n_keep++] = i;
    }
    for (int i = 0; i < SIDES; i++) {
        ft_error err = {0};
        must(ft_seq_commit(sides[i].seq[j], path, n_path, keep, n_keep, &err), &err);
    }
    *p = next;
}

/* Truncates a sequence, or puts a fork of it in its neighbour's place, or neither. */
static void change_all(side *sides, ft_rng *rng, int j, pending *p)
{
    uint32_t cut = ft_rng_below(rng, ft_seq_n_past(sides[0].seq[j]) + 1);
    uint32_t what = ft_rng_below(rng, 8);
    int other = (j + 1) % SEQS;
    for (int i = 0; i < SIDES; i++) {
        ft_error err = {0};
        if (what == 0) {
            ft_seq_truncate(sides[i].seq[j], cut);
        } else if (what == 1) {
            ft_seq_destroy(sides[i].seq[other]);
            must(ft_seq_fork(sides[i].seq[j], &err, &sides[i].seq[other]), &err);
        }
    }
    if (what < 2)
        p[what == 0 ? j : other].n = 0;
}

static void run_random(const tiny_gguf_opts *opts, uint32_t rounds, double limit)
{
    side sides[SIDES] = {0};
    pending p[SEQS] = {0};
    work w[SEQS];
    char *path = tiny_gguf_temp(opts);
    ft_rng rng;
    ft_rng_init(&rng, 99 + opts->seed);
    open_all(sides, path);
    for (uint32_t round = 0; round < rounds; round++) {
        for (int j = 0; j < SEQS; j++) {
            make_work(&rng, &p[j], &w[j]);
            for (uint32_t i = 0; i < w[j].n; i++)
                p[j].parent[p[j].n++] = w[j].parent[i];
        }
        forward_all(sides, w, limit);
        for (int j = 0; j < SEQS; j++) {
            commit_all(sides, &rng, j, &p[j]);
            if (p[j].n && ft_rng_below(&rng, 3) == 0)
                commit_all(sides, &rng, j, &p[j]); /* rows move twice before they are read */
            change_all(sides, &rng, j, p);
        }
    }
    for (int i = 0; i < SIDES; i++)
        close_side(&sides[i]);
    unlink(path);
    free(path);
}

static void test_random_f32(void **state)
{
    tiny_gguf_opts opts = {.arch = "qwen3", .n_layer = N_LAYER, .seed = 21};
    if (!endpoints)
        skip();
    run_random(&opts, 40, ROUNDING);
}

/* Biases, RoPE factors, a tied head; 4-bit weights, which the CPU's layers pack and devices do
 * not. */
static void test_random_kinds(void **state)
{
    tiny_gguf_opts biases = {.arch = "qwen2", .n_layer = N_LAYER, .tied = true, .seed = 22};
    tiny_gguf_opts factors = {.n_layer = N_LAYER, .rope_freqs = true, .seed = 23};
    tiny_gguf_opts q4_0 = {.n_layer = N_LAYER, .type = GGML_TYPE_Q4_0, .seed = 24};
    if (!endpoints)
        skip();
    run_random(&biases, 6, ROUNDING);
    run_random(&factors, 6, ROUNDING);
    run_random(&q4_0, 6, 1e-3);
}

/* ---- decoding ---- */

static int32_t best(const float *logits, uint32_t n)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < n; i++)
        at = logits[i] > logits[at] ? i : at;
    return (int32_t)at;
}

enum { STREAMS = 3, STEPS = 300 };

/* What the CPU chose at each step and stream. */
typedef struct choices {
    int32_t token[STEPS][STREAMS];
    float *logits; /* [STEPS, STREAMS, n_vocab] */
} choices;

/* Decodes some streams side by side, the CPU's tokens on every side. What the others choose must be
 * what the CPU chose or as good: as close to it as rounding is. Returns how many graphs that
 * took. */
static uint64_t decode(side *s, bool is_cpu, choices *c)
{
    uint32_t n_vocab = ft_model_hparams(s->model)->n_vocab;
    const uint32_t first = 0;
    const uint64_t want = 1;
    ft_segment seg[STREAMS];
    int32_t token[STREAMS];
    ft_engine_stats before, after;
    for (uint32_t j = 0; j < STREAMS; j++) {
        token[j] = (int32_t)(7 + j);
        seg[j] = (ft_segment){.seq = s->seq[j], .n = 1, .tokens = &token[j], .want = &want};
    }
    ft_engine_get_stats(s->engine, &before);
    for (uint32_t i = 0; i < STEPS; i++) {
        ft_error err = {0};
        must(ft_engine_forward(s->engine, seg, STREAMS, &err), &err);
        for (uint32_t j = 0; j < STREAMS; j++) {
            const float *logits = ft_engine_logits(s->engine, seg[j].first_row);
            float *cpu = c->logits + (size_t)(i * STREAMS + j) * n_vocab;
            int32_t mine = best(logits, n_vocab);
            if (is_cpu) {
                memcpy(cpu, logits, n_vocab * sizeof *cpu);
                c->token[i][j] = mine;
            }
            token[j] = c->token[i][j];
            assert_true(cpu[token[j]] - cpu[mine] < 0.02f * fabsf(cpu[token[j]]));
            must(ft_seq_commit(s->seq[j], &first, 1, NULL, 0, &err), &err);
        }
    }
    ft_engine_get_stats(s->engine, &after);
    return after.graphs - before.graphs;
}

static void test_greedy(void **state)
{
    side sides[SIDES] = {0};
    tiny_gguf_opts opts = {.n_layer = N_LAYER, .seed = 31};
    choices c;
    if (!endpoints)
        skip();
    char *path = tiny_gguf_temp(&opts);
    open_all(sides, path);
    c.logits = malloc(sizeof(float) * STEPS * STREAMS * ft_model_hparams(sides[0].model)->n_vocab);
    (void)decode(&sides[0], true, &c);
    /* Contexts grow past one step of their padding: a graph before it and one after. */
    for (int i = 1; i < SIDES; i++)
        assert_int_equal(decode(&sides[i], false, &c), 2);
    for (int i = 0; i < SIDES; i++)
        close_side(&sides[i]);
    free(c.logits);
    unlink(path);
    free(path);
}

/* ---- two engines on one device ---- */

enum { LOOKS = 300 };

/* One thread's engine, and what came of it. */
typedef struct reader {
    side s;
    float *logits;    /* [LOOKS, n_vocab] as the device computes them alone */
    bool alone;       /* writes them */
    uint32_t salt;    /* readers read different texts */
    uint32_t n_wrong; /* steps whose logits were others */
    ft_status status;
} reader;

/* One graph serves several tokens. Then one has a sibling before it, so rows move when it is
 * committed: a graph of its own. */
static void *read_text(void *arg)
{
    reader *r = arg;
    const uint32_t n_vocab = ft_model_hparams(r->s.model)->n_vocab;
    const int32_t parent[] = {-1, -1};
    for (uint32_t i = 0; i < LOOKS && r->status == FT_OK; i++) {
        ft_error err = {0};
        const uint32_t last = i % 8 == 7;
        const uint64_t want = 1u << last;
        const int32_t token = (int32_t)(7 + (i * 31 + r->salt) % 250);
        const int32_t tokens[] = {last ? 5 : token, token};
        float *alone = r->logits + (size_t)i * n_vocab;
        ft_segment seg = {
            .seq = r->s.seq[0], .n = 1 + last, .tokens = tokens, .parent = parent, .want = &want};
        r->status = ft_engine_forward(r->s.engine, &seg, 1, &err);
        if (r->status != FT_OK)
            break;
        const float *logits = ft_engine_logits(r->s.engine, seg.first_row);
        if (r->alone)
            memcpy(alone, logits, n_vocab * sizeof *alone);
        r->n_wrong += !(oracle_nmse(logits, alone, n_vocab) < ROUNDING);
        r->status = ft_seq_commit(r->s.seq[0], &last, 1, NULL, 0, &err);
    }
    return NULL;
}

static void read_alone(reader *r, const char *path)
{
    open_side(&r->s, path, &spreads[1]);
    r->logits = malloc(sizeof(float) * LOOKS * ft_model_hparams(r->s.model)->n_vocab);
    r->alone = true;
    (void)read_text(r);
    r->alone = false;
    close_side(&r->s);
}

static void test_two_engines(void **state)
{
    tiny_gguf_opts opts = {.arch = "qwen3", .n_layer = 12, .seed = 61};
    reader r[2] = {{.salt = 0}, {.salt = 100}};
    pthread_t thread;
    if (!endpoints)
        skip();
    char *path = tiny_gguf_temp(&opts);
    for (int i = 0; i < 2; i++)
        read_alone(&r[i], path);
    for (int i = 0; i < 2; i++)
        open_side(&r[i].s, path, &spreads[1]);
    assert_int_equal(pthread_create(&thread, NULL, read_text, &r[1]), 0);
    (void)read_text(&r[0]);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        print_message("%u of %d steps wrong\n", r[i].n_wrong, LOOKS);
        assert_int_equal(r[i].status, FT_OK);
        assert_int_equal(r[i].n_wrong, 0);
        free(r[i].logits);
        close_side(&r[i].s);
    }
    unlink(path);
    free(path);
}

/* ---- where things are ---- */

static void test_memory(void **state)
{
    static const size_t places[SIDES] = {1, 2, 2, 2, 3};
    side sides[SIDES] = {0};
    tiny_gguf_opts opts = {.n_layer = N_LAYER, .seed = 41};
    ft_place_memory at[4];
    if (!endpoints)
        skip();
    char *path = tiny_gguf_temp(&opts);
    open_all(sides, path);
    for (int i = 0; i < SIDES; i++) {
        ft_engine_stats stats;
        const ft_model *model = sides[i].model;
        size_t weights = 0, kv = 0, n = ft_engine_get_memory(sides[i].engine, at, 4);
        size_t all = ft_model_bytes_on(model, 0);
        assert_int_equal(n, places[i]);
        for (size_t j = 0; j < ft_model_devices(model)->n; j++)
            all += ft_model_bytes_on(model, (uint32_t)j + 1);
        for (size_t j = 0; j < n; j++) {
            weights += at[j].weight_bytes;
            kv += at[j].kv_bytes;
        }
        ft_engine_get_stats(sides[i].engine, &stats);
        assert_int_equal(weights, all);
        assert_int_equal(kv, stats.kv_bytes);
        assert_int_equal(at[0].kv_bytes * N_LAYER, stats.kv_bytes * (i == 0   ? N_LAYER
                                                                     : i == 2 ? N_LAYER - 2
                                                                              : 0));
        if (i == 1 || i == 4)
            assert_int_equal(at[0].weight_bytes, 0);
        if (i == 4)
            assert_string_equal(at[2].name, "RPC1");
    }
    for (int i = 0; i < SIDES; i++)
        close_side(&sides[i]);
    unlink(path);
    free(path);
}

static void test_split(void **state)
{
    ft_devices devices;
    ft_error err = {0};
    uint8_t place[9];
    if (!endpoints)
        skip();
    must(ft_devices_find("RPC0,RPC1", &err, &devices), &err);
    ft_devices_split(&devices, 8, -1, place);
    assert_int_equal(place[0], 1);
    assert_int_equal(place[7], 2);
    assert_int_equal(place[8], 2);
    for (int i = 0; i < 8; i++)
        assert_true(place[i] <= place[i + 1]);
    ft_devices_split(&devices, 8, 3, place);
    assert_int_equal(place[4], 0);
    assert_int_equal(place[5], 1);
    assert_int_equal(place[7], 2);
    assert_int_equal(place[8], 0);
    ft_devices_split(&devices, 8, 0, place);
    for (int i = 0; i < 9; i++)
        assert_int_equal(place[i], 0);
    devices.n = 0;
    ft_devices_split(&devices, 8, 99, place);
    assert_int_equal(place[8], 0);
}

static void test_names(void **state)
{
    ft_devices devices;
    ft_device_info info[32];
    ft_error err = {0};
    bool cpu = false;
    size_t n = ft_devices_list(info, 32);
    for (size_t i = 0; i < n && i < 32; i++)
        cpu = cpu || strcmp(info[i].name, "CPU") == 0;
    assert_true(cpu);
    must(ft_devices_find("none", &err, &devices), &err);
    assert_int_equal(devices.n, 0);
    must(ft_devices_find("cpu", &err, &devices), &err);
    assert_int_equal(devices.n, 0);
    assert_int_equal(ft_devices_find("Abacus7", &err, &devices), FT_INVALID);
    assert_non_null(strstr(err.message, "Abacus7"));
    assert_int_equal(ft_devices_find("", &err, &devices), FT_INVALID);
    if (!endpoints)
        return;
    must(ft_devices_find("rpc1", &err, &devices), &err);
    assert_int_equal(devices.n, 1);
    assert_int_equal(ft_devices_find("RPC0,RPC0", &err, &devices), FT_INVALID);
    must(ft_devices_find(NULL, &err, &devices), &err);
    assert_true(devices.n >= RPC_SERVERS);
    must(ft_devices_add_rpc(endpoints, &err), &err); /* again: nothing new */
    assert_int_equal(ft_devices_list(NULL, 0), n);
}

static void test_refusals(void **state)
{
    static const char *const bad[] = {"", "host", "host:", ":1", "host:0", "host:x", "h:70000"};
    ft_error err = {0};
    if (!endpoints) {
        assert_int_equal(ft_devices_add_rpc("127.0.0.1:1", &err), FT_UNSUPPORTED);
        assert_int_equal(ft_devices_lend("127.0.0.1:1", NULL, 1, &err), FT_UNSUPPORTED);
        return;
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ft_devices_add_rpc(bad[i], &err), FT_INVALID);
    assert_int_equal(ft_devices_add_rpc("127.0.0.1:1", &err), FT_UNAVAILABLE);
    assert_int_equal(ft_devices_lend("127.0.0.1", NULL, 1, &err), FT_INVALID);
    assert_int_equal(ft_devices_lend("127.0.0.1:1", "Abacus7", 1, &err), FT_INVALID);
}

/* Our kernel where layers are on a device is a contradiction. */
static void test_no_cpu_kernel(void **state)
{
    ft_error err = {0};
    ft_devices devices;
    ft_model *model = NULL;
    ft_engine *engine = NULL;
    tiny_gguf_opts tiny = {.seed = 51};
    if (!endpoints)
        skip();
    char *path = tiny_gguf_temp(&tiny);
    must(ft_devices_find("RPC0", &err, &devices), &err);
    ft_model_opts opts = {.path = path, .devices = &devices, .n_gpu_layers = 1};
    must(ft_model_load(&opts, &err, &model), &err);
    ft_engine_opts engine_opts = {.model = model, .kv_tok = 64, .route = FT_ATTN_CPU};
    assert_int_equal(ft_engine_create(&engine_opts, &err, &engine), FT_INVALID);
    assert_null(engine);
    ft_model_destroy(model);
    unlink(path);
    free(path);
}

int main(void)
{
    ft_error err = {0};
    tiny_quiet();
    endpoints = rpc_servers_start();
    if (endpoints && ft_devices_add_rpc(endpoints, &err) != FT_OK) {
        print_error("%s\n", err.message);
        return 1;
    }
    if (endpoints && test_device())
        use_device(test_device());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_split),         cmocka_unit_test(test_random_f32),
        cmocka_unit_test(test_random_kinds),  cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_two_engines),   cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_cpu_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
