# SPDX-License-Identifier: Apache-2.0
"""How a text is opened: what a server has, what an edge asks for, and whether the one can be had
from the other. Pure functions."""
from dataclasses import dataclass

import grpc

from foretoken_vllm.protos import pb
from foretoken_vllm.rounds import Refusal, invalid, precondition

TOP_LOGPROBS_MOST = 20
TEMPERATURE_LEAST = 0.01  # vLLM raises lower ones to it


@dataclass(frozen=True)
class Target:
    """What is served."""
    name: str
    kernels: str
    version: str
    fingerprint: int
    vocabulary: int  # its fingerprint
    n_vocab: int
    ends: frozenset  # tokens that end a text
    max_context: int

    def limits(self):
        """A tree is never verified, so any size of one will do."""
        return pb.Limits(max_tree=64, max_context=self.max_context, rules=[pb.RULE_EXACT],
                         max_top_logprobs=TOP_LOGPROBS_MOST)


@dataclass(frozen=True)
class Ask:
    """What an engine is asked for. `prompt`: tokens; `most`: generated tokens at most."""
    prompt: list
    most: int
    sampling: object  # pb.Sampling
    top_logprobs: int  # -1: no log-probabilities
    ends: frozenset


def check_sampling(sampling):
    t = sampling.temperature
    if t != 0 and not TEMPERATURE_LEAST * 0.999 <= t <= 100:
        raise invalid(f"Sampling.temperature: {t:g}, vLLM takes 0 or {TEMPERATURE_LEAST:g} to 100")
    for name in ("top_p", "min_p"):
        if not 0 <= getattr(sampling, name) <= 1:
            raise invalid(f"Sampling.{name}: {getattr(sampling, name):g}, must be within [0, 1]")
    if sampling.top_k >= 2 ** 31:
        raise invalid(f"Sampling.top_k: {sampling.top_k} is too large")
    if sampling.HasField("penalties"):
        raise precondition("Sampling.penalties: this server has none")


def check_open(target, o):
    """The Ask of an Open; raises Refusal."""
    if o.protocol != 1:
        raise precondition(f"Open.protocol: {o.protocol}, this server speaks 1")
    if o.model and o.model != target.name:
        raise Refusal(grpc.StatusCode.NOT_FOUND, f'this server has the model "{target.name}"')
    if o.vocab_fingerprint not in (0, target.vocabulary):
        raise precondition(f"Open.vocab_fingerprint: {o.vocab_fingerprint:016x}, the server's is "
                           f"{target.vocabulary:016x}: use a draft model of the same family")
    if o.HasField("resume"):
        raise Refusal(grpc.StatusCode.NOT_FOUND, "sessions end with their stream: open anew")
    if o.target not in (0, target.fingerprint):
        raise precondition("Open.target: this server has another target")
    if o.rule != pb.RULE_EXACT:
        raise precondition("Open.rule: this server offers exact")
    if o.HasField("constraint"):
        raise precondition("Open.constraint: this server takes none")
    if o.slo_tokens_per_s != 0:
        raise invalid("Open.slo_tokens_per_s: this server promises no speed")
    if not o.prompt:
        raise invalid("Open.prompt: empty, needs at least one token")
    if len(o.prompt) >= target.max_context:
        raise Refusal(grpc.StatusCode.OUT_OF_RANGE, f"Open.prompt: {len(o.prompt)} tokens, a text "
                      f"has at most {target.max_context}: shorten it")
    if max(o.prompt) >= target.n_vocab:
        raise invalid(f"Open.prompt: token {max(o.prompt)} is not in the vocabulary")
    if o.top_logprobs > TOP_LOGPROBS_MOST:
        raise invalid(f"Open.top_logprobs: {o.top_logprobs}, at most {TOP_LOGPROBS_MOST}")
    check_sampling(o.sampling)
    room = target.max_context - len(o.prompt)
    return Ask(prompt=list(o.prompt), most=min(o.max_tokens or room, room), sampling=o.sampling,
               top_logprobs=o.top_logprobs if o.logprobs else -1, ends=target.ends)
