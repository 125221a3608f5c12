/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiny draft models, their engines and texts, for tests of drafters. A failure ends the test. */
#ifndef FT_TEST_DRAFTS_H
#define FT_TEST_DRAFTS_H

#include "engine/engine.h"
#include "spec/drafter.h"
#include "spec/tree.h"
#include "support/tiny_gguf.h"

/* Of weights whose kernels are batch-invariant where `type` is Q4_0 or IQ4_NL. */
ft_model *test_draft_model(enum ggml_type type, uint64_t seed, uint32_t n_ctx);
/* One thread. */
ft_engine *test_draft_engine(const ft_model *model, uint32_t kv_tok, uint32_t max_batch_tok);
/* A drafter over a sequence of the engine. Errors are handed on. */
ft_status test_drafter_create(ft_engine *engine, const ft_sampling *s, ft_error *err,
                              ft_drafter **out);
/* A text, and two drafters over one engine that draft behind it: one that goes from verdict to
 * verdict, and one that is told every text anew, without any past. */
enum { TEST_DRAFTING_TEXT = 600, TEST_DRAFTING_PROMPT = 20 };
typedef struct test_drafting {
    ft_model *model;
    ft_engine *engine;
    ft_drafter *drafter, *fresh;
    ft_sampling sampling;
    uint32_t n;
    int32_t text[TEST_DRAFTING_TEXT];
} test_drafting;
/* The first drafter has the prompt to read. */
void test_drafting_init(test_drafting *d, const ft_sampling *sampling, uint32_t n_ctx,
                        uint32_t kv_tok);
void test_drafting_deinit(test_drafting *d);
/* text[n]; `which` tells one text from another. Returns n. */
uint32_t test_draft_prompt(int32_t *text, uint32_t n, uint32_t which);
/* Tokens, parents and chances, to the bit. */
void test_trees_equal(const ft_tree *a, const ft_tree *b);
/* The same nodes with the same chances, in whatever order. */
void test_trees_same(const ft_tree *a, const ft_tree *b);
/* The path to a node, from its root down; returns its length. */
uint32_t test_tree_path(const ft_tree *tree, uint32_t node, uint32_t *path);

#endif
