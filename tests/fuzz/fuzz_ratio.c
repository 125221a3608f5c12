// SPDX-License-Identifier: Apache-2.0
// The evidence of a chain under rule `ratio`. What passes the check is walked: the walk ends with a
// token of the vocabulary, or says what it refuses.
#include <stdint.h>
#include <stdlib.h>

#include "spec/rule.h"

enum { VOCAB = 300, NODES = 3 };

static void require(int condition)
{
    if (!condition)
        abort();
}

static const float *row_of(void *ctx, int32_t node)
{
    return ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static ft_rule_work *work;
    static float logits[VOCAB];
    static ft_rule_terms terms;
    const ft_sampling s = {.temperature = 1, .top_p = 1, .seed = n};
    ft_tree tree;
    ft_verified v = {0};
    ft_error err = {0};
    if (!work) {
        require(ft_rule_work_create(ft_rules_all, VOCAB, NULL, &work) == FT_OK);
        terms = ft_rule_ratio.terms(&ft_rule_ratio, VOCAB, &s);
        for (int i = 0; i < VOCAB; i++)
            logits[i] = (float)(i * 37 % 100) / 10;
    }
    ft_tree_clear(&tree);
    for (int i = 0; i < NODES; i++)
        ft_tree_add(&tree, i - 1, 20 * i, 0);
    const ft_drafted draft = {
        .tree = &tree, .evidence = data, .n_evidence = (uint32_t)n, .sampling = &s, .position = 5};
    if (ft_rule_check(&ft_rule_ratio, &terms, &draft, &err) != FT_OK) {
        require(err.message[0] != 0);
        return 0;
    }
    require(ft_rule_ratio.walk(&ft_rule_ratio, work, &draft, (ft_rows){row_of, logits}, &v));
    require(v.n_path <= NODES);
    require(v.refused || (v.next >= 0 && v.next < VOCAB));
    return 0;
}
