// SPDX-License-Identifier: Apache-2.0
// A generation from call to return: checks the request and does rounds until the text ends. A round
// drafts a tree or asks for a run, exchanges it, and applies its verdicts. Passes values between
// the generation's parts. Owned by the calling thread.
//
// The first Open is sent before the draft model reads the prompt, so both machines read at the same
// time. Draft 1 waits at the server if the server is still reading. With both models in one
// process, the target reads first and writes a token, and then the draft model reads.
#include "edge/rounds.h"

#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "edge/exchange.h"
#include "learn/waste.h"

/* Tokens that the next round may bring, at least one: only the server decides that the text has
 * ended. */
static uint32_t tokens_left(const ft_gen *gen)
{
    const uint32_t context = gen->stream.limits.max_context;
    uint32_t n = gen->reads_later ? 1 : FT_WIRE_RUN_MAX;
    if (gen->request->max_tokens)
        n = ft_min_u32(n, gen->request->max_tokens - gen->output.generated);
    if (context)
        n = ft_min_u32(n, context > gen->text.n ? context - (uint32_t)gen->text.n : 1);
    return n;
}

/* ---- what comes next ---- */

/* Drafts cost no time: looks first at what can be drafted. */
static ft_control_choice choose_offered(ft_gen *gen, const ft_steer_ask *ask, uint32_t ahead,
                                        ft_draft_params *params)
{
    ft_tree tree;
    ft_steer_want(&gen->steer, ask, ahead, params);
    (void)ft_drafting_look(&gen->drafting, params, &tree);
    return ft_steer_take(&gen->steer, ask, ahead, &tree);
}

/* What comes after `ahead` tokens that are still to come in the present run. */
static ft_control_choice choose(ft_gen *gen, uint32_t most, uint32_t ahead, ft_draft_params *params)
{
    ft_steer_ask ask = {.most = most, .round = gen->stream.round, .terms = &gen->rule.terms};
    ft_gen_match(gen);
    if (ft_drafting_ready(&gen->drafting))
        ask.max_tree = ft_text_rule_nodes(&gen->rule, &gen->stream.limits);
    if (gen->confidences.work) { /* a policy may choose */
        const ft_uplink_rate rate = ft_edge_rate(gen->edge);
        ask.past = &gen->confidences.past;
        ask.uplink_bits_per_s = rate.known ? rate.bits_per_s : 0;
    }
    if (gen->steer.how.asked_tokens_per_s > 0)
        ask.lacks_tok = (double)gen->steer.how.asked_tokens_per_s *
                            (double)(ft_gen_now_us(gen) - gen->start_us) / 1e6 -
                        gen->output.generated;
    if (gen->timing.mark.known)
        ask.spent = ft_known(ft_gen_now_us(gen) - gen->timing.mark.us);
    if (gen->stats->rounds > 0)
        ask.early_us = ft_early_saved_us(&gen->early.policy, gen->timing.rtt_us.value, 0) *
                       (double)gen->stats->early_sent / (double)gen->stats->rounds;
    if (gen->steer.how.at_once && gen->steer.how.automatic)
        return choose_offered(gen, &ask, ahead, params);
    return ft_steer_choose(&gen->steer, &ask, params);
}

/* A run may have a shadow. It is drafted during the run or, if that would slow down the target,
 * before it. */
static void want_shadow(ft_gen *gen, const ft_control_choice *choice, const ft_draft_params *params)
{
    if (!choice->shadow || gen->drafting.shadow.state == FT_SHADOW_OUT)
        return;
    ft_drafting_want_shadow(&gen->drafting, params);
    if (ft_gen_drafts_ahead(gen))
        return;
    ft_drafting_draft_shadow(&gen->drafting);
    if (gen->drafting.shadow.state == FT_SHADOW_OUT)
        ft_gen_measure_shadow(gen);
}

/* A tree was drafted at this cost. */
static void measure_tree(ft_gen *gen, ft_draft_cost cost)
{
    const bool cold = gen->stats->rounds == 0;
    ft_steer_drafted(&gen->steer, &gen->drafting.tree, cost.forwards, cost.us, cold);
    gen->stats->depth_sum += gen->steer.tree.levels;
    ft_record_draft(&gen->record, &gen->drafting.tree, gen->drafting.drafter);
}

/* The chosen tree was drafted. If that failed, as drafting is not possible any more, chooses
 * again. */
static void drafted(ft_gen *gen, ft_draft_cost cost, ft_control_choice *choice,
                    ft_draft_params *params)
{
    const ft_tree *tree = &gen->drafting.tree;
    if (choice->speculate) {
        if (tree->n > 0)
            measure_tree(gen, cost);
        gen->steer.chosen = false;
        if (tree->n == 0)
            *choice = choose(gen, tokens_left(gen), 0, params);
    }
    gen->steer.chosen = false;
    if (tree->n == 0)
        want_shadow(gen, choice, params);
}

/* READY: makes the next round: the tree if one was drafted, otherwise a run. began_us: when its
 * drafting began. */
static void make_round(ft_gen *gen, const ft_control_choice *choice, int64_t began_us)
{
    const ft_tree *tree = &gen->drafting.tree;
    ft_msg_draft *draft = &gen->out.msg.draft;
    draft->n = tree->n;
    if (ft_text_rule_evidence(&gen->rule, gen->drafting.drafter, draft) != FT_OK) {
        ft_drafting_stop(&gen->drafting); /* no memory for a draft: ask for a run */
        draft->n = draft->n_evidence = 0;
    }
    const int64_t took_us = ft_gen_now_us(gen) - began_us;
    gen->stats->draft_us += (uint64_t)took_us;
    gen->out.msg.kind = FT_CLIENT_DRAFT;
    draft->base = (uint32_t)gen->text.n;
    memcpy(draft->token, tree->token, tree->n * sizeof *draft->token);
    memcpy(draft->parent, tree->parent, tree->n * sizeof *draft->parent);
    draft->run = gen->out.run_left = tree->n > 0 ? 0 : choice->run;
    draft->together = 0;
    draft->draft_us = (uint32_t)took_us;
    if (tree->n > 0)
        ft_gen_timeline_drafted(&gen->timeline, began_us, began_us + took_us,
                                &(ft_gen_timeline_draft){.round = gen->stream.round,
                                                         .nodes = tree->n,
                                                         .levels = gen->steer.tree.levels,
                                                         .forwards = gen->steer.tree.forwards});
    ft_gen_happened(gen, tree->n > 0 ? FT_GEN_ASK_TREE : FT_GEN_ASK_RUN);
}

void ft_gens_prepare(ft_gen *const *gens, size_t n)
{
    ft_control_choice choice[FT_DRAFT_BATCH];
    ft_joint_draft joint[FT_DRAFT_BATCH];
    const int64_t began_us = n > 0 ? ft_gen_now_us(gens[0]) : 0;
    for (size_t i = 0; i < n; i++) {
        joint[i] = (ft_joint_draft){.drafting = &gens[i]->drafting};
        choice[i] = choose(gens[i], tokens_left(gens[i]), 0, &joint[i].params);
        if (!choice[i].speculate)
            joint[i].params.budget = 0;
    }
    ft_drafting_draft(joint, n);
    for (size_t i = 0; i < n; i++) {
        drafted(gens[i], joint[i].cost, &choice[i], &joint[i].params);
        make_round(gens[i], &choice[i], began_us);
    }
}

/* RUN: when half of the run has come and another run is chosen, asks for the next run now, so that
 * the server does not wait for the network. */
static void ask_next(ft_gen *gen)
{
    const uint32_t left = tokens_left(gen), run_left = gen->out.run_left;
    ft_draft_params params;
    if (gen->state != FT_GEN_RUN || run_left > gen->out.msg.draft.run / 2 || left <= run_left)
        return;
    const ft_control_choice choice = choose(gen, left - run_left, run_left, &params);
    if (choice.speculate || (choice.shadow && !ft_gen_drafts_ahead(gen)))
        return; /* prepare() acts on it */
    gen->steer.chosen = false;
    const ft_client_msg msg = {.kind = FT_CLIENT_DRAFT,
                               .draft = {.round = gen->stream.round + 1,
                                         .base = (uint32_t)gen->text.n + run_left,
                                         .run = choice.run,
                                         .rtt_us = ft_timing_rtt_us(&gen->timing)}};
    ft_stream_ask_behind(&gen->stream, &msg, "the next run");
    gen->out.next_run = choice.run;
    ft_gen_happened(gen, FT_GEN_ASK_NEXT);
    want_shadow(gen, &choice, &params);
}

/* ---- what came ---- */

static void first_token(ft_gen *gen)
{
    ft_gen_stats *s = gen->stats;
    if (s->ttft.n > 0)
        return;
    s->ttft = (ft_summary){.sum_us = (uint64_t)(ft_gen_now_us(gen) - gen->start_us), .n = 1};
    ft_progress_report(&gen->request->progress, gen->request->n_prompt, gen->request->n_prompt);
}

/* Of a run: why it is one. */
static ft_undrafted why_undrafted(const ft_gen *gen)
{
    static const ft_undrafted why[FT_DRAFTING_N_STATES] = {
        [FT_DRAFTING_OFF] = FT_UNDRAFTED_OVER,
        [FT_DRAFTING_READING] = FT_UNDRAFTED_READING,
        [FT_DRAFTING_LATER] = FT_UNDRAFTED_NO_ROOM};
    if (gen->request->no_speculation || gen->edge->how.draft.budget == 0)
        return FT_UNDRAFTED_ASKED;
    const ft_drafting_opts *how = &gen->drafting.how;
    if (!ft_drafting_can(how))
        return FT_UNDRAFTED_NO_MODEL;
    if (gen->reads_later)
        return FT_UNDRAFTED_READING;
    if (gen->drafting.state != FT_DRAFTING_ON)
        return why[gen->drafting.state];
    if (gen->steer.hint_no_trees)
        return FT_UNDRAFTED_NO_TREES;
    if (gen->steer.how.automatic && ft_control_token_us(&gen->steer.control) <= 0)
        return FT_UNDRAFTED_MEASURING;
    return how->model ? FT_UNDRAFTED_NOT_WORTH : FT_UNDRAFTED_NOT_FOUND;
}

static int64_t known_or_less(ft_known_us t)
{
    return t.known ? t.us : -1;
}

/* What a sink is told of a verdict, but for its text. Called before anything learns from it. */
static void tell(ft_gen *gen, const ft_msg_verdict *v)
{
    const ft_msg_draft *draft = &gen->out.msg.draft;
    const ft_gen_stats *s = gen->stats;
    const bool run = ft_gen_in_run(gen);
    if (!gen->output.how.sink->on_told)
        return;
    ft_told told = {.round = (uint32_t)(s->rounds + s->runs) + (run && v->more),
                    .undrafted = run ? why_undrafted(gen) : FT_UNDRAFTED_NOT,
                    .early = gen->state == FT_GEN_TREE_EARLY,
                    .fallback = ft_servers_is_fallback(&gen->edge->servers, gen->stream.at),
                    .drafted = draft->n,
                    .accepted = v->n_path,
                    .at_us = ft_gen_now_us(gen) - gen->start_us,
                    .draft_us = draft->draft_us,
                    .wait_us = known_or_less(gen->timing.round),
                    .rtt_us = known_or_less(gen->timing.rtt_sample),
                    .queue_us = v->queue_us,
                    .verify_us = v->verify_us};
    gen->stream.link->vt->bytes(gen->stream.link, &told.sent_bytes, &told.received_bytes);
    told.sent_bytes += s->bytes_sent;
    told.received_bytes += s->bytes_received;
    gen->output.teller.told = told;
}

static void count(ft_gen *gen, const ft_msg_verdict *v)
{
    ft_gen_stats *s = gen->stats;
    const ft_msg_draft *draft = &gen->out.msg.draft;
    if (ft_gen_in_run(gen)) {
        s->runs += !v->more;
        s->run_tokens += v->n_next;
        return;
    }
    const ft_waste waste = ft_waste_of(draft->n, v->n_path, draft->draft_us);
    s->rounds++;
    s->drafted += draft->n;
    s->accepted += v->n_path;
    s->useful_draft_us += waste.useful_us;
    s->wasted_draft_us += waste.wasted_us;
    s->policy_rounds += gen->steer.by_policy;
    s->predictor_rounds += gen->steer.by_predictor;
    if (draft->n_evidence > 0)
        s->l_sum += (uint64_t)gen->drafting.params.resolution * draft->n;
    s->point_bytes += draft->n_evidence;
}

/* What became of the draft, for the choice of rules. At temperature 0 all rules are one. Called
 * before the drafter goes on. */
static void count_for_rule(ft_gen *gen, const ft_msg_verdict *v)
{
    const uint64_t sent = gen->state == FT_GEN_TREE ? gen->timing.line.draft_bytes : 0;
    const uint64_t empty = gen->edge->empty_bytes;
    if (!gen->edge->how.rule_auto || !ft_gen_in_tree(gen) || gen->drafting.tree.n == 0 ||
        gen->request->sampling.temperature == 0)
        return;
    ft_rule_saw(&gen->seen, &gen->drafting.tree, gen->out.msg.draft.n, v->path, v->n_path,
                sent > empty ? sent - empty : 0);
}

static void record(ft_gen *gen, const ft_msg_verdict *v)
{
    const ft_msg_draft *draft = &gen->out.msg.draft;
    const ft_known_us rtt = gen->timing.rtt_sample;
    ft_trace_round round = {.number = gen->stats->rounds,
                            .length = draft->base,
                            .depth = gen->steer.tree.levels,
                            .accepted = v->n_path,
                            .next = v->n_next > 0 ? v->next[0] : -1,
                            .draft_us = draft->draft_us,
                            .rtt_us = rtt.known ? rtt.us : -1,
                            .queue_us = v->queue_us,
                            .verify_us = v->verify_us,
                            .n = draft->n};
    ft_record_verdict(&gen->record, &round, v->path, v->n_next == 0);
}

/* What an ordinary draft takes and brings. Called before the round's fields change. */
static void measure_draft(ft_gen *gen)
{
    if (gen->state == FT_GEN_TREE && gen->edge->how.early)
        ft_early_saw_draft(&gen->early.policy, (double)gen->steer.tree.drafted_us,
                           gen->steer.tree.expected - 1);
}

/* The controller learns from the verdict on a tree. */
static void measure_verdict(ft_gen *gen, const ft_msg_verdict *v, const ft_steer_times *times)
{
    const ft_measured *predictor = &gen->steer.predictor;
    const bool paid = ft_measured_pays(predictor);
    ft_steer_saw_tree(&gen->steer, v, gen->out.msg.draft.n, times);
    if (ft_measured_pays(predictor) != paid)
        FT_LOGI("edge", "predictor=%s tokens_per_s_with=%.1f tokens_per_s_without=%.1f",
                paid ? "off" : "on", ft_measured_tokens_per_s(predictor, true),
                ft_measured_tokens_per_s(predictor, false));
}

/* The controller learns from the verdict. */
static void measure(ft_gen *gen, const ft_msg_verdict *v)
{
    const ft_steer_times times = {.round = gen->timing.round, .rtt = gen->timing.rtt_sample};
    ft_shadow shadow;
    ft_steer_heard(&gen->steer, &v->hints);
    if (ft_gen_in_tree(gen)) {
        measure_verdict(gen, v, &times);
        return;
    }
    for (uint32_t i = 0; i < v->n_next; i++)
        if (ft_drafting_walk_shadow(&gen->drafting, v->next[i], &shadow))
            ft_steer_saw_shadow(&gen->steer, &shadow.tree, shadow.path, shadow.cost.us);
    ft_steer_saw_run(&gen->steer, v, &times);
}

/* TREE, TREE_EARLY: the early draft's part that fits the verdict becomes the outstanding draft. */
static void take_early(ft_gen *gen, const ft_msg_verdict *v)
{
    ft_msg_draft *draft = &gen->out.msg.draft;
    ft_early_cut(&gen->early, v, draft);
    draft->base = (uint32_t)gen->text.n;
    draft->run = draft->draft_us = 0;
    gen->stats->early_taken++;
    ft_stream_answered(&gen->stream, true);
    ft_timing_sent_early(&gen->timing);
    ft_drafting_take_early(&gen->drafting, draft->n);
    ft_gen_happened(gen, FT_GEN_EARLY_TAKEN);
    if (gen->drafting.tree.n > 0)
        measure_tree(gen, (ft_draft_cost){0});
    else /* another drafter made the tree: this round does not measure the present one */
        gen->timing.sent = ft_unknown();
}

/* The round's last verdict was applied: the next run, if asked for, is outstanding now. */
static void round_over(ft_gen *gen)
{
    ft_msg_draft *draft = &gen->out.msg.draft;
    const bool next = gen->state == FT_GEN_RUN_NEXT;
    gen->early.state = FT_EARLY_POSSIBLE;
    ft_stream_answered(&gen->stream, next);
    gen->out.run_left = next ? gen->out.next_run : 0;
    gen->out.next_run = 0;
    if (next) {
        draft->base = (uint32_t)gen->text.n;
        draft->run = gen->out.run_left;
        gen->timing.sent = ft_unknown(); /* it was sent long ago */
    }
    ft_gen_happened(gen, FT_GEN_OVER);
}

static ft_status take_over(ft_gen *gen, const ft_msg_verdict *v, ft_error *err)
{
    ft_finish *finish = &gen->stats->finish;
    gen->out.together = v->together;
    gen->out.verify_us = v->verify_us;
    gen->out.read_tok = v->read_tok;
    gen->out.read_us = v->read_us;
    count(gen, v);
    record(gen, v);
    first_token(gen);
    tell(gen, v);
    ft_status status = ft_output_add(&gen->output, &gen->out.msg.draft, v, err, finish);
    if (ft_servers_is_fallback(&gen->edge->servers, gen->stream.at))
        gen->stats->fallback_tokens += gen->output.generated - gen->stats->tokens;
    gen->stats->tokens = gen->output.generated;
    if (status != FT_OK || *finish != FT_FINISH_NONE)
        return status;
    measure_draft(gen);
    ft_confidences_saw(&gen->confidences, &gen->out.msg.draft, v);
    count_for_rule(gen, v);
    if (ft_gen_in_tree(gen))
        ft_steer_saw_path(&gen->steer, &gen->drafting.tree, v);
    ft_drafting_advance(&gen->drafting, v);
    measure(gen, v);
    if (v->more) {
        gen->out.run_left -= v->n_next;
        ft_gen_happened(gen, FT_GEN_MORE);
        ask_next(gen);
    } else if (v->early_taken) {
        take_early(gen, v);
    } else {
        round_over(gen);
    }
    return FT_OK;
}

static ft_status check(const ft_gen *gen, const ft_msg_verdict *v, ft_error *err)
{
    const ft_awaited awaited = {.draft = &gen->out.msg.draft,
                                .run_left = gen->out.run_left,
                                .length = (uint32_t)gen->text.n,
                                .n_vocab = ft_vocab_size(gen->edge->how.vocab),
                                .early = v->early_taken && ft_early_fits(&gen->early, v),
                                .logprobs = gen->request->logprobs};
    return ft_output_check(&awaited, v, err);
}

ft_status ft_gen_answer(ft_gen *gen, ft_error *err)
{
    ft_server_msg *msg = NULL;
    ft_status status = ft_gen_exchange(gen, err, &msg);
    if (status == FT_OK)
        status = check(gen, &msg->verdict, err);
    if (status == FT_OK)
        status = take_over(gen, &msg->verdict, err);
    ft_server_msg_free(msg);
    return status;
}

ft_status ft_gen_step(ft_gen *gen, ft_error *err)
{
    ft_status status = ft_gen_go_back(gen, err);
    if (status != FT_OK)
        return status;
    if (gen->state == FT_GEN_READY) {
        status = ft_gen_look(gen, err);
        if (status != FT_OK)
            return status;
        ft_gens_prepare(&gen, 1);
    }
    return ft_gen_answer(gen, err);
}

/* ---- a generation ---- */

static ft_status check_request(const ft_edge *edge, const ft_gen_request *r, ft_error *err)
{
    const int32_t n_vocab = ft_vocab_size(edge->how.vocab);
    const uint32_t max_context = edge->info.limits.max_context;
    if (r->n_prompt == 0)
        return ft_error_set(err, FT_INVALID, "edge: the prompt is empty");
    if (max_context && r->n_prompt >= max_context)
        return ft_error_set(err, FT_INVALID, "edge: the prompt has %u tokens, the context holds %u",
                            r->n_prompt, max_context);
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= n_vocab)
            return ft_error_set(err, FT_INVALID, "edge: prompt token %u is %d, outside [0, %d)", i,
                                r->prompt[i], n_vocab);
    for (size_t i = 0; i < r->n_stops; i++)
        if (!r->stops[i] || !r->stops[i][0])
            return ft_error_set(err, FT_INVALID, "edge: stop string %zu is empty", i);
    return ft_sampling_check(&r->sampling, err);
}

/* Whether the draft model reads the prompt behind the first token. Both models are in this process
 * and share its cores: two passes at a time would take longer than one behind the other. An edge
 * that drafts ahead makes two at a time anyway. */
static bool reads_later(const ft_gen *gen)
{
    return gen->drafting.how.model && gen->edge->servers.source[gen->stream.at].in_process &&
           !ft_gen_drafts_ahead(gen);
}

/* The draft model reads the prompt. */
static void start_drafting(ft_gen *gen)
{
    const int64_t from_us = ft_gen_now_us(gen);
    gen->reads_later = false;
    ft_drafting_start(&gen->drafting);
    ft_gen_timeline_read(&gen->timeline, from_us, ft_gen_now_us(gen));
}

static ft_status run(ft_gen *gen, ft_error *err)
{
    ft_status status = ft_gen_open(gen, err);
    const bool drafts = !gen->request->no_speculation;
    gen->reads_later = drafts && reads_later(gen);
    if (status == FT_OK && drafts && !gen->reads_later)
        start_drafting(gen);
    while (status == FT_OK && gen->stats->finish == FT_FINISH_NONE) {
        if (gen->reads_later && gen->output.generated > 0)
            start_drafting(gen);
        status = gen->cancelled ? ft_error_set(err, FT_CANCELLED, "edge: cancelled")
                                : ft_gen_step(gen, err);
    }
    return status;
}

ft_status ft_edge_generate(ft_edge *edge, const ft_gen_request *request, const ft_gen_sink *sink,
                           ft_error *err, ft_gen_stats *stats)
{
    ft_error failure = {0}; /* also holds errors that were recovered from */
    ft_gen *gen = NULL;
    *stats = (ft_gen_stats){.prompt_tokens = request->n_prompt};
    ft_status status = check_request(edge, request, &failure);
    if (status == FT_OK)
        status = ft_gen_create(edge, request, sink, stats, &failure, &gen);
    if (status == FT_OK) {
        status = run(gen, &failure);
        ft_gen_end(gen, status);
    }
    ft_gen_destroy(gen);
    stats->uplink_bits_per_s = (uint64_t)ft_edge_uplink(edge).bits_per_s;
    if (status != FT_OK && err)
        *err = failure;
    return status;
}
