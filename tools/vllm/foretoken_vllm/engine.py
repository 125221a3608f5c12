# SPDX-License-Identifier: Apache-2.0
"""vLLM's asynchronous engine, as service.py wants one."""
import hashlib
import itertools
import json
import subprocess
import time
from pathlib import Path

import grpc
import torch
import vllm
from vllm import SamplingParams, TokensPrompt
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from foretoken_vllm.opening import Target
from foretoken_vllm.processor import KeyedNoise
from foretoken_vllm.protos import pb
from foretoken_vllm.rounds import Made, Refusal

NOISE = "foretoken keyed noise 1"
SAMPLE_BYTES = 64 * 1024


def fingerprint(folder, words):
    """A number for the model's files and for what computes with them. Of a file of weights it
    covers name, size, and samples from its beginning, middle and end."""
    hashed = hashlib.blake2b("\n".join(words).encode(), digest_size=8)
    for path in sorted(p for p in Path(folder).iterdir()
                       if p.name == "config.json" or p.suffix == ".safetensors"):
        size = path.stat().st_size
        hashed.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            for at in (0, size // 2, max(size - SAMPLE_BYTES, 0)):
                file.seek(at)
                hashed.update(file.read(SAMPLE_BYTES))
    return int.from_bytes(hashed.digest(), "little")


def read_vocabulary(program, path):
    """What `foretoken info` says about a GGUF file's vocabulary."""
    told = subprocess.run([program, "info", path, "--json"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    vocabulary = json.loads(told)["vocabulary"]
    if "error" in vocabulary:
        raise SystemExit(f"{path}: {vocabulary['error']}")
    if "ends" not in vocabulary:
        raise SystemExit(f"{program} is too old: its `info` does not tell which tokens end a text")
    return vocabulary


def describe(args, config):
    """The Target. A device's name in `kernels` says that its last bits may depend on the batch."""
    vocabulary = read_vocabulary(args.foretoken, args.vocabulary)
    n_vocab = config.model_config.get_vocab_size()
    if vocabulary["size"] != n_vocab:
        raise SystemExit(f"{args.vocabulary} has {vocabulary['size']} tokens, the model {n_vocab}: "
                         "pass a file with the model's vocabulary")
    dtype = str(config.model_config.dtype).removeprefix("torch.")
    device = config.device_config.device_type
    words = [NOISE, vllm.__version__, torch.__version__, dtype, device,
             torch.backends.cpu.get_cpu_capability(),
             str(config.parallel_config.tensor_parallel_size)]
    return Target(name=Path(config.model_config.model).name[:127],
                  kernels=f"device {device} vllm {vllm.__version__} {dtype}",
                  version=f"vllm-{vllm.__version__}",
                  fingerprint=fingerprint(config.model_config.model, words),
                  vocabulary=int(vocabulary["fingerprint"], 16), n_vocab=n_vocab,
                  ends=frozenset(vocabulary["ends"]),
                  max_context=config.model_config.max_model_len)


def params_of(ask):
    s = ask.sampling
    return SamplingParams(temperature=s.temperature, top_k=s.top_k, top_p=s.top_p or 1.0,
                          min_p=s.min_p, seed=s.seed, max_tokens=ask.most, ignore_eos=True,
                          stop_token_ids=sorted(ask.ends), detokenize=False,
                          logprobs=None if ask.top_logprobs < 0 else ask.top_logprobs,
                          output_kind=RequestOutputKind.DELTA)


def logprob_of(token, told, most):
    """vLLM's entry of one token; its dictionary has the token itself and the likeliest ones."""
    ranked = sorted((one.rank, t, one.logprob) for t, one in told.items() if one.rank <= most)
    return pb.TokenLogprob(logprob=max(told[token].logprob, -9999),
                           top=[pb.TopLogprob(token=t, logprob=max(value, -9999))
                                for _, t, value in ranked])


class Engine:
    """One thread's, as the event loop is."""

    def __init__(self, args):
        engine_args = AsyncEngineArgs.from_cli_args(args)
        engine_args.logits_processors = [KeyedNoise]
        engine_args.skip_tokenizer_init = True
        self.vllm = AsyncLLM.from_engine_args(engine_args)
        self.target = describe(args, self.vllm.vllm_config)
        self.numbers = itertools.count()

    def works(self):
        return not self.vllm.errored

    def close(self):
        self.vllm.shutdown()

    async def generate(self, ask):
        """Yields a Made for each token until the text ends."""
        stream = self.vllm.generate(TokensPrompt(prompt_token_ids=ask.prompt), params_of(ask),
                                    f"session-{next(self.numbers)}")
        before, first = time.monotonic(), True
        try:
            async for out in stream:
                one, now = out.outputs[0], time.monotonic()
                read = len(ask.prompt) - (out.num_cached_tokens or 0) if first else 0
                for made in self.split(ask, one, int((now - before) * 1e6), read):
                    yield made
                before, first = now, False
        except EngineDeadError:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "vLLM's engine has died") from None
        except (EngineGenerateError, ValueError) as error:
            raise Refusal(grpc.StatusCode.INTERNAL, f"vLLM: {type(error).__name__}") from error
        finally:
            await stream.aclose()

    @staticmethod
    def split(ask, one, us, read):
        """The tokens that came together, each with its share of the time."""
        tokens = list(one.token_ids)
        for i, token in enumerate(tokens):
            told = one.logprobs[i] if one.logprobs else None
            finish = pb.FINISH_NONE
            if i + 1 == len(tokens) and one.finish_reason:
                finish = pb.FINISH_STOP if token in ask.ends else pb.FINISH_LENGTH
            yield Made(token=token, us=us // len(tokens), finish=finish,
                       read_tok=read if i == 0 else 0,
                       logprob=told and logprob_of(token, told, ask.top_logprobs))
        if one.finish_reason not in (None, "stop", "length"):
            raise Refusal(grpc.StatusCode.INTERNAL, f"vLLM ended the text: {one.finish_reason}")
