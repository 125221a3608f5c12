// SPDX-License-Identifier: Apache-2.0
// The loop of llama.cpp's examples/speculative-simple for one sequence: draft, one batch of the
// target, the sampler keeps what it would have drawn itself. It departs from the example in this:
// both contexts share one pool of threads that live on (the example makes threads in each pass), a
// draft is left out where the type makes none, and a speculator is made anew for each answer. One
// thread owns all state.
#include "theirs/speculation.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>

#include "common.h"
#include "ggml-cpu.h"
#include "log.h"
#include "sampling.h"
#include "speculative.h"

namespace
{

struct pool_free {
    void operator()(ggml_threadpool *pool) const { ggml_threadpool_free(pool); }
};

// Members are destroyed from the last to the first: contexts before the pool that they use.
struct side {
    common_params params;
    std::unique_ptr<ggml_threadpool, pool_free> pool;
    common_init_result_ptr target;
    common_speculative_init_result_ptr draft;
    bool speculates = false;

    llama_context *ctx() { return target->context(); }
    llama_context *draft_ctx() { return draft ? draft->context() : nullptr; }
};

struct failure {
    const char *why;
};

int64_t now_us()
{
    using namespace std::chrono;
    return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

void set_params(common_params &p, const ft_theirs_opts &o)
{
    p.model.path = o.model;
    p.n_ctx = p.n_batch = o.n_ctx;
    p.n_gpu_layers = 0;
    p.fit_params = false;
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = o.n_threads;
    p.sampling.temp = o.temperature;
    p.sampling.seed = o.seed;
    p.speculative.types = {common_speculative_type_from_name(o.type)};
    if (o.draft) {
        p.speculative.draft.mparams.path = o.draft;
        p.speculative.draft.n_max = o.n_draft;
        p.speculative.draft.n_gpu_layers = 0;
    }
    const int32_t n_draft = common_speculative_n_max(&p.speculative);
    const auto limits = common_speculative_get_output_limits(p.n_batch, p.n_parallel, n_draft);
    p.n_outputs_max = limits.total;
    p.n_outputs_max_per_seq = limits.per_seq;
}

void open_side(side &s, const ft_theirs_opts &o)
{
    common_log_set_verbosity_thold(LOG_LEVEL_ERROR);
    set_params(s.params, o);
    s.speculates = s.params.speculative.types[0] != COMMON_SPECULATIVE_TYPE_NONE;
    auto threads = ggml_threadpool_params_default(o.n_threads);
    s.pool.reset(ggml_threadpool_new(&threads));
    s.target = common_init_from_params(s.params);
    if (!s.pool || !s.target->context())
        throw failure{"llama.cpp cannot load the target"};
    llama_attach_threadpool(s.ctx(), s.pool.get(), s.pool.get());
    if (common_context_can_seq_rm(s.ctx()) != COMMON_CONTEXT_SEQ_RM_TYPE_PART)
        throw failure{"llama.cpp cannot drop a part of a text with this model"};
    if (o.draft) {
        common_params params = common_base_params_to_speculative(s.params);
        s.draft = common_speculative_init_from_params(params, s.target->model(), s.ctx());
        if (!s.draft_ctx())
            throw failure{"llama.cpp cannot load the draft model"};
        llama_attach_threadpool(s.draft_ctx(), s.pool.get(), s.pool.get());
    }
    s.params.speculative.draft.ctx_tgt = s.ctx();
    s.params.speculative.draft.ctx_dft = s.draft_ctx();
}

void drop_from(side &s, llama_pos at)
{
    llama_memory_seq_rm(llama_get_memory(s.ctx()), 0, at, -1);
    if (s.draft_ctx())
        llama_memory_seq_rm(llama_get_memory(s.draft_ctx()), 0, at, -1);
}

// One pass of the target, which the speculator sees, too.
void pass(side &s, common_speculative *spec, common_batch &batch)
{
    if (llama_process(s.ctx(), LLAMA_PROCESS_TYPE_DECODE, batch.get()) != 0)
        throw failure{"a pass of llama.cpp failed"};
    if (spec && !common_speculative_process(spec, batch))
        throw failure{"llama.cpp's speculator failed"};
}

llama_tokens draft(common_speculative *spec, const llama_tokens &text, llama_token last,
                   int32_t n_max)
{
    llama_tokens result;
    if (!spec || n_max <= 0)
        return result;
    auto &p = common_speculative_get_draft_params(spec, 0);
    p.drafting = true;
    p.n_max = n_max;
    p.pos0 = (llama_pos)text.size();
    p.id_last = last;
    p.prompt = &text;
    p.result = &result;
    common_speculative_draft(spec);
    return result;
}

// Adds tokens to the answer; true: it is at its end.
bool take(const llama_vocab *vocab, const llama_tokens &ids, ft_theirs_answer &out)
{
    for (const llama_token id : ids) {
        if (llama_vocab_is_eog(vocab, id) || out.n == out.n_max)
            return true;
        out.tokens[out.n++] = id;
    }
    return out.n == out.n_max;
}

// One round behind `text`, which lacks `last`; true: the answer is at its end.
bool one_round(side &s, common_speculative *spec, common_sampler *sampler, llama_tokens &text,
               llama_token &last, ft_theirs_answer &out)
{
    const int32_t at = (int32_t)text.size();
    const int32_t room = std::min((int32_t)llama_n_ctx(s.ctx()) - at - 2, out.n_max - out.n - 1);
    const llama_tokens drafted = draft(spec, text, last, room);
    if (s.draft_ctx())
        llama_memory_seq_rm(llama_get_memory(s.draft_ctx()), 0, at, -1);
    common_batch batch(s.ctx());
    batch.add(last, at, 0, true);
    for (size_t i = 0; i < drafted.size(); i++)
        batch.add(drafted[i], at + 1 + (llama_pos)i, 0, true);
    pass(s, spec, batch);
    const llama_tokens ids = common_sampler_sample_and_accept_n(sampler, s.ctx(), drafted);
    if (spec)
        common_speculative_accept(spec, 0, (uint16_t)(ids.size() - 1));
    text.push_back(last);
    text.insert(text.end(), ids.begin(), ids.end() - 1);
    last = ids.back();
    drop_from(s, (llama_pos)text.size());
    out.passes++;
    if (!drafted.empty()) {
        out.rounds++;
        out.drafted += (int64_t)drafted.size();
        out.accepted += (int64_t)ids.size() - 1;
        out.round_tokens += (int64_t)ids.size();
    }
    return take(llama_model_get_vocab(s.target->model()), ids, out);
}

void answer_one(side &s, const int32_t *prompt, int32_t n, ft_theirs_answer &out)
{
    if (n < 2 || n + out.n_max + 2 > (int32_t)llama_n_ctx(s.ctx()))
        throw failure{"the context is too small for prompt and answer"};
    drop_from(s, 0);
    out.begin_us = now_us();
    common_sampler_ptr sampler(common_sampler_init(s.target->model(), s.params.sampling));
    common_speculative_ptr spec;
    if (s.speculates)
        spec.reset(common_speculative_init(s.params.speculative, 1));
    if (!sampler || (s.speculates && !spec))
        throw failure{"llama.cpp cannot speculate in this way"};
    llama_tokens text(prompt, prompt + n - 1);
    llama_token last = prompt[n - 1];
    common_batch batch(s.ctx());
    for (int32_t i = 0; i + 1 < n; i++)
        batch.add(prompt[i], i, 0, false);
    pass(s, spec.get(), batch);
    if (spec)
        common_speculative_begin(spec.get(), 0, text);
    for (bool ended = false; !ended;) {
        ended = one_round(s, spec.get(), sampler.get(), text, last, out);
        out.last_us = now_us();
        if (out.first_us == 0) {
            out.first_us = out.last_us;
            out.first_n = out.n;
        }
    }
}

template <typename Call> int guarded(char *why, Call call) noexcept
{
    try {
        call();
        return 0;
    } catch (const failure &f) {
        std::snprintf(why, FT_THEIRS_WHY, "%s", f.why);
    } catch (const std::exception &e) {
        std::snprintf(why, FT_THEIRS_WHY, "llama.cpp: %s", e.what());
    } catch (...) {
        std::snprintf(why, FT_THEIRS_WHY, "llama.cpp: an exception of an unknown type");
    }
    return -1;
}

int open_any(const ft_theirs_opts *opts, char *why, void **out)
{
    *out = nullptr;
    return guarded(why, [&] {
        auto s = std::make_unique<side>();
        open_side(*s, *opts);
        *out = s.release();
    });
}

int answer_any(void *any, const int32_t *prompt, int32_t n, ft_theirs_answer *out, char *why)
{
    return guarded(why, [&] { answer_one(*(side *)any, prompt, n, *out); });
}

void close_any(void *any)
{
    char why[FT_THEIRS_WHY];
    (void)guarded(why, [&] { delete (side *)any; });
}

} // namespace

const ft_theirs_calls ft_theirs = {open_any, answer_any, close_any};
