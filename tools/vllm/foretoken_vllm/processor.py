# SPDX-License-Identifier: Apache-2.0
"""foretoken's keyed noise as a logits processor of vLLM's V1 model runner.

A request with a seed and a temperature above 0 is drawn as foretoken's rule `exact` draws: with the
request's own temperature, top_k, top_p and min_p, and with noise from seed, position and token. All
logits but the drawn token's become minus infinity, so whatever vLLM samples with afterwards, it
gets this token. Other requests are left alone.

    vllm serve MODEL --logits-processors foretoken_vllm.processor:KeyedNoise

State: vLLM's thread that runs the model owns it. `drawn` maps a row of the batch to its request."""
from dataclasses import dataclass

import torch
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from foretoken_vllm import noise


@dataclass(frozen=True)
class Drawn:
    """A request. output: vLLM's own list, which grows; only its length is read here."""
    sampling: noise.Sampling
    n_prompt: int
    output: list


def applies(params):
    return params.seed is not None and params.temperature > 0


class KeyedNoise(LogitsProcessor):
    def __init__(self, vllm_config, device, is_pin_memory):
        self.drawn = {}

    @classmethod
    def validate_params(cls, params: SamplingParams):
        """vLLM applies penalties behind this processor, where they would do nothing."""
        if applies(params) and (params.presence_penalty or params.frequency_penalty
                                or params.repetition_penalty != 1):
            raise ValueError("keyed noise has no penalties: leave them out, or the seed")

    def is_argmax_invariant(self):
        return False

    def update_state(self, batch_update):
        process_dict_updates(self.drawn, batch_update, self.begin)

    @staticmethod
    def begin(params, prompt, output):
        """What is kept of a request that enters the batch; None: it is left alone."""
        if not applies(params):
            return None
        sampling = noise.Sampling(temperature=params.temperature, top_k=max(params.top_k, 0),
                                  top_p=params.top_p, min_p=params.min_p,
                                  seed=params.seed % 2 ** 64)
        return Drawn(sampling, len(prompt or ()), output)

    def apply(self, logits):
        for row, request in self.drawn.items():
            position = request.n_prompt + len(request.output)
            values = logits[row].float().cpu().numpy()
            token = noise.draw(values, request.sampling, position)
            kept = logits[row, token].clone()
            logits[row] = -torch.inf
            logits[row, token] = kept
        return logits
