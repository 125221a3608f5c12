// SPDX-License-Identifier: Apache-2.0
// Rule `ratio` (Leviathan et al., Fast Inference from Transformers via Speculative Decoding;
// Quantize-Sample-and-Verify III-A). The edge quantizes its distribution to a lattice point q,
// draws the token from q, and sends both. The server accepts the token with probability
// min(1, p / q), eq. (1). If it does not, it draws from the positive part of p - q, eq. (2). Behind
// a whole chain it draws from p. p is the target's distribution after the text's own sampling. So
// the text has the target's law, if nothing that decides how many tokens are sent has seen them
// (terms.adaptive).
//
// Invariants. Probabilities are integers over integer sums (ft_sampler_weights, lattice counts),
// and comparisons and sums of them are exact, so every machine gets the same tokens. Each draw is
// keyed by seed and position, in a domain of its own for each kind; the draft's also by its round,
// because a position is drafted again when the text before it turned out differently. The server
// decides each position once. None of them is the noise of rule `exact`. At temperature 0 the rule
// is `exact`. No state; the workspace's owner calls.
//
// Evidence of a node: a varint of 4 l + the code's id, then the point in that code. So a draft says
// by itself how to read it: the two numbers take two bytes for l up to 4,095, and a server needs to
// know nothing of the edge's choice. The edge takes the shorter code, so a node never has more than
// the index code's bytes.
#include <assert.h>
#include <math.h>

#include "base/num.h"
#include "base/rng.h"
#include "spec/lattice.h"
#include "spec/rule.h"

#define HEAD_MAX 3 /* bytes of the varint */

static_assert(4u * FT_RATIO_L_MAX + 3 < 1u << 21, "a head has three bytes at most");
static const ft_lattice_code *const codes[] = {&ft_lattice_index, &ft_lattice_adaptive};

/* ---- draws ---- */

/* The third word of the counter. It keeps these draws apart from each other, from ft_gumbel's and
 * from ft_rng's, which have other words there. */
typedef enum kind {
    KIND_DRAFT = 0x74667264,
    KIND_ACCEPT = 0x74706363,
    KIND_TARGET = 0x74677274
} kind;

#define UNIT_BITS 48

/* Uniform below 2^UNIT_BITS. */
static uint64_t unit(uint64_t seed, kind what, uint32_t position, uint32_t round)
{
    const uint32_t counter[4] = {position, round, (uint32_t)what, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    ft_philox4x32(counter, key, out);
    return ((uint64_t)out[0] << 32 | out[1]) >> (64 - UNIT_BITS);
}

/* ---- evidence ---- */

static uint32_t put_varint(uint32_t value, uint8_t *out)
{
    uint32_t n = 0;
    for (; value > 0x7f; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

uint32_t ft_ratio_sent_bytes(uint32_t l, uint32_t index_bits, uint32_t adaptive_bits)
{
    const ft_lattice_code *code =
        adaptive_bits <= index_bits ? &ft_lattice_adaptive : &ft_lattice_index;
    uint8_t bytes[HEAD_MAX];
    const uint32_t n =
        put_varint(4 * l + code->id, bytes) + (ft_min_u32(index_bits, adaptive_bits) + 7) / 8;
    return put_varint(n, bytes) + n; /* its length is a varint, too */
}

typedef struct head {
    uint32_t l, bytes;
    const ft_lattice_code *code;
} head;

/* NULL, or what is wrong. */
static const char *read_head(const uint8_t *evidence, uint32_t n, head *out)
{
    uint32_t value = 0;
    bool ended = false;
    for (out->bytes = 0; !ended && out->bytes < HEAD_MAX && out->bytes < n; out->bytes++) {
        value |= (uint32_t)(evidence[out->bytes] & 0x7f) << (7 * out->bytes);
        ended = !(evidence[out->bytes] & 0x80);
    }
    if (!ended)
        return "it ends before l and code do";
    if (value % 4 >= FT_COUNT(codes))
        return "it names a code that there is not";
    out->code = codes[value % 4];
    out->l = value / 4;
    return out->l == 0 || out->l > FT_RATIO_L_MAX ? "its l is 0 or too large" : NULL;
}

static const char *check(const ft_rule *rule, const ft_drafted *draft, const uint8_t *evidence,
                         uint32_t n)
{
    head h;
    return read_head(evidence, n, &h);
}

/* NULL: the point is in work->point. Else what is wrong. */
static const char *read_point(ft_lattice_work *work, const uint8_t *evidence, uint32_t n)
{
    head h;
    const char *wrong = read_head(evidence, n, &h);
    return wrong ? wrong : h.code->decode(work, h.l, evidence + h.bytes, n - h.bytes, &work->point);
}

/* The same, and the point has a count of `token`. */
static const char *read_point_of(ft_lattice_work *work, const uint8_t *evidence, uint32_t n,
                                 int32_t token)
{
    const char *wrong = read_point(work, evidence, n);
    if (!wrong && ft_lattice_count(&work->point, token) == 0)
        wrong = "it gives the node's token no weight";
    return wrong;
}

/* The shorter code: the adaptive one, unless it needs more than the index code. */
static uint32_t put_point(ft_lattice_work *work, uint8_t *evidence)
{
    const ft_lattice_point *point = &work->point;
    const size_t most = ft_lattice_index.most_bytes(work->n_vocab, point->l);
    const ft_lattice_code *code = &ft_lattice_adaptive;
    uint32_t n = put_varint(4 * point->l + code->id, evidence);
    uint64_t bits = code->encode(work, point, evidence + n, most);
    if (bits == FT_LATTICE_TOO_LONG) {
        code = &ft_lattice_index;
        n = put_varint(4 * point->l + code->id, evidence);
        bits = code->encode(work, point, evidence + n, most);
    }
    return n + (uint32_t)((bits + 7) / 8);
}

/* ---- the rule ---- */

static ft_rule_terms terms(const ft_rule *rule, uint32_t n_vocab, const ft_sampling *s)
{
    if (s && s->temperature == 0)
        return ft_rule_exact.terms(&ft_rule_exact, n_vocab, s);
    return (ft_rule_terms){.by_round = true,
                           .resolution = FT_RATIO_L_DEFAULT,
                           .evidence_bytes = HEAD_MAX + (uint32_t)ft_lattice_index.most_bytes(
                                                            n_vocab, FT_RATIO_L_MAX)};
}

static size_t scratch_bytes(const ft_rule *rule, uint32_t n_vocab)
{
    return ft_lattice_work_bytes(n_vocab, FT_RATIO_L_MAX);
}

/* The chance must not depend on the token: whoever decides how much to send may see it. The
 * controller measures how many tokens are really accepted; this is only where it begins. */
static const float chance = 0.7f;

static void draw(const ft_rule *rule, ft_rule_work *work, const ft_draw *d, ft_draft_children *out,
                 uint8_t *evidence)
{
    if (d->sampling->temperature == 0) {
        ft_rule_exact.draw(&ft_rule_exact, work, d, out, evidence);
        return;
    }
    const uint32_t l = d->resolution ? d->resolution : FT_RATIO_L_DEFAULT;
    ft_lattice_work lattice = ft_lattice_work_in(work->scratch, work->n_vocab, FT_RATIO_L_MAX);
    const ft_lattice_point *point = &lattice.point;
    const int32_t *tokens;
    const uint64_t *weights;
    const size_t n = ft_sampler_weights(work->sampler, d->sampling, ft_rule_draw_logits(work, d),
                                        &tokens, &weights);
    assert(l <= FT_RATIO_L_MAX);
    ft_lattice_quantize(&lattice, l, tokens, weights, n, &lattice.point);
    const uint64_t u = unit(d->sampling->seed, KIND_DRAFT, d->position, d->round);
    uint64_t left = u * l >> UNIT_BITS; /* l < 2^16: no overflow */
    uint32_t drawn = 0;
    while (left >= point->count[drawn])
        left -= point->count[drawn++];
    *out = (ft_draft_children){.n = 1, .n_evidence = put_point(&lattice, evidence)};
    out->at[0] = (ft_draft_child){.token = point->token[drawn], .logp = logf(chance)};
}

/* The target's distribution: weights in ascending order of token, and their sum, below 2^62. */
typedef struct target {
    const int32_t *tokens;
    const uint64_t *weights;
    size_t n;
    uint64_t sum;
} target;

static target target_of(ft_rule_work *work, const ft_sampling *s, const float *logits)
{
    target p = {.sum = 0};
    p.n = ft_sampler_weights(work->sampler, s, logits, &p.tokens, &p.weights);
    for (size_t i = 0; i < p.n; i++)
        p.sum += p.weights[i];
    return p;
}

static uint64_t weight_of(const target *p, int32_t token)
{
    size_t lo = 0, hi = p->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (p->tokens[mid] < token)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->n && p->tokens[lo] == token ? p->weights[lo] : 0;
}

/* With probability min(1, p / q): p is weight / sum, q is count / l. Both sides times sum l. */
static bool accepts(const target *p, const ft_lattice_point *q, int32_t token, uint64_t u)
{
    const ft_u128 ours = (ft_u128)weight_of(p, token) * q->l;
    const ft_u128 theirs = (ft_u128)p->sum * ft_lattice_count(q, token);
    return u * theirs < ours << UNIT_BITS;
}

/* The positive part of p - q for token i of p, times sum l; *at: how many of q's tokens are below
 * it. */
static uint64_t positive_part(const target *p, const ft_lattice_point *q, size_t i, uint32_t *at)
{
    const uint64_t ours = p->weights[i] * q->l; /* below 2^56 */
    while (*at < q->n && q->token[*at] < p->tokens[i])
        (*at)++;
    if (*at == q->n || q->token[*at] != p->tokens[i])
        return ours;
    const ft_u128 theirs = (ft_u128)p->sum * q->count[*at];
    return ours > theirs ? ours - (uint64_t)theirs : 0;
}

/* A token by the positive part of p - q; q without tokens: by p. */
static int32_t draw_target(const target *p, const ft_lattice_point *q, uint64_t u)
{
    ft_u128 sum = 0;
    uint32_t at = 0;
    for (size_t i = 0; i < p->n; i++)
        sum += positive_part(p, q, i, &at);
    ft_u128 left = u * sum >> UNIT_BITS;
    at = 0;
    for (size_t i = 0; i < p->n; i++) {
        const uint64_t part = positive_part(p, q, i, &at);
        if (left < part)
            return p->tokens[i];
        left -= part;
    }
    assert(false); /* a token was refused, so some other one has more in p than in q */
    return p->tokens[0];
}

static bool walk(const ft_rule *rule, ft_rule_work *work, const ft_drafted *draft, ft_rows rows,
                 ft_verified *found)
{
    const ft_sampling *s = draft->sampling;
    if (s->temperature == 0)
        return ft_rule_exact.walk(&ft_rule_exact, work, draft, rows, found);
    ft_lattice_work lattice = ft_lattice_work_in(work->scratch, work->n_vocab, FT_RATIO_L_MAX);
    for (;; found->n_path++) {
        const uint32_t node = found->n_path, position = draft->position + node;
        const float *logits = rows.of(rows.ctx, (int32_t)node - 1);
        const uint64_t u_target = unit(s->seed, KIND_TARGET, position, 0);
        if (!logits)
            return false;
        const target p = target_of(work, s, ft_rule_walk_logits(work, draft, found, logits));
        if (node == draft->tree->n) {
            const ft_lattice_point none = {.l = 1};
            found->next = draw_target(&p, &none, u_target);
            return true;
        }
        uint32_t n;
        const uint8_t *evidence = ft_evidence_of(draft, node, &n);
        const int32_t token = draft->tree->token[node];
        found->refused = read_point_of(&lattice, evidence, n, token);
        if (found->refused)
            return true;
        if (!accepts(&p, &lattice.point, token, unit(s->seed, KIND_ACCEPT, position, 0))) {
            found->next = draw_target(&p, &lattice.point, u_target);
            return true;
        }
        found->path[node] = node;
    }
}

static float said(const ft_rule *rule, ft_rule_work *work, const uint8_t *evidence, uint32_t n,
                  int32_t token)
{
    ft_lattice_work lattice = ft_lattice_work_in(work->scratch, work->n_vocab, FT_RATIO_L_MAX);
    if (read_point(&lattice, evidence, n))
        return -1;
    return (float)ft_lattice_count(&lattice.point, token) / (float)lattice.point.l;
}

const ft_rule ft_rule_ratio = {.id = 1,
                               .name = "ratio",
                               .terms = terms,
                               .scratch_bytes = scratch_bytes,
                               .draw = draw,
                               .check = check,
                               .walk = walk,
                               .said = said};
