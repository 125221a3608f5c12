// SPDX-License-Identifier: Apache-2.0
// The tokens of a rendered conversation. Special tokens count only if they are wholly in the
// template's text; nobody looks for them in people's. The text between them is tokenized piece by
// piece. If people spelled none, the tokens are those that libllama makes of the whole rendering.
// Stateless; any thread.
#include <ctype.h>

#include "model/vocab_impl.h"

typedef struct rendering {
    const ft_vocab *v;
    const ft_rendered *r;
    const ft_tokenize_limits *limits;
    ft_error *err;
} rendering;

static ft_status no_memory(const rendering *c)
{
    return ft_error_set(c->err, FT_NOMEM, "out of memory for the tokens of %zu bytes", c->r->n);
}

/* Returns the next special token in the template's own text at or after *at, and sets *at to its
 * place; NULL: none. *i: the first foreign part that does not end before *at; starts with 0. */
static const ft_special *find_special(const rendering *c, size_t *at, size_t *i)
{
    const ft_rendered *r = c->r;
    bool open;
    while (*at < r->n) {
        while (*i < r->n_foreign && r->foreign[*i].end <= *at)
            (*i)++;
        const ft_stretch *s = *i < r->n_foreign ? &r->foreign[*i] : NULL;
        if (s && s->begin <= *at) {
            *at = s->end;
            continue;
        }
        const size_t limit = s ? s->begin : r->n;
        const ft_special *found = ft_vocab_special_at(c->v, r->text + *at, limit - *at, &open);
        if (found)
            return found;
        (*at)++;
    }
    return NULL;
}

/* The text between two special tokens, either of which may be NULL. */
static ft_status tokenize_between(const rendering *c, const ft_special *left, size_t from,
                                  const ft_special *right, size_t to, ft_tokens *out)
{
    const char *text = c->r->text;
    while (left && left->strips_right && from < to && isspace((unsigned char)text[from]))
        from++;
    while (right && right->strips_left && to > from && isspace((unsigned char)text[to - 1]))
        to--;
    return ft_vocab_tokenize_text(c->v, text + from, to - from, c->limits, c->err, out);
}

static ft_status tokenize_all(const rendering *c, ft_tokens *out)
{
    const ft_special *left = NULL, *right;
    size_t from = 0, at = 0, foreign = 0;
    ft_status st;
    do {
        right = find_special(c, &at, &foreign);
        st = tokenize_between(c, left, from, right, right ? at : c->r->n, out);
        if (st == FT_OK && right && ft_tokens_append(out, &right->token, 1) != FT_OK)
            st = no_memory(c);
        left = right;
        from = at += right ? right->n : 0;
    } while (st == FT_OK && right);
    return st;
}

ft_status ft_vocab_tokenize_rendered(const ft_vocab *v, const ft_rendered *rendered,
                                     const ft_tokenize_limits *limits, ft_error *err,
                                     ft_tokens *out)
{
    const rendering c = {v, rendered, limits, err};
    ft_tokens body = {0};
    ft_status st = tokenize_all(&c, &body);
    const bool bos = v->add_bos && (body.n == 0 || body.id[0] != v->bos);
    if (st == FT_OK && bos && ft_tokens_append(out, &v->bos, 1) != FT_OK)
        st = no_memory(&c);
    if (st == FT_OK && ft_tokens_append(out, body.id, body.n) != FT_OK)
        st = no_memory(&c);
    ft_tokens_deinit(&body);
    return st;
}
