# SPDX-License-Identifier: Apache-2.0
"""tools/vllm: the noise against tests/spec/draws.txt (numpy), the rounds and the service with an
engine that is not vLLM (grpcio, grpcio-tools). With vLLM itself: tests/tools/vllm_check.py. What
cannot run here says so and is skipped.

usage: tests/tools/test_vllm.py --write    makes draws.txt"""
import asyncio
import random
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DRAWS = ROOT / "tests" / "spec" / "draws.txt"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "vllm"))
NO_NUMPY = NO_GRPC = None
try:
    import numpy as np

    from foretoken_vllm import noise
except ImportError as error:
    NO_NUMPY = f"tests/tools/test_vllm.py: noise SKIPPED: {error} (tools/vllm/requirements.txt)"
    print(NO_NUMPY, file=sys.stderr)
try:
    import grpc

    from foretoken_vllm import opening, rounds, service
    from foretoken_vllm.protos import health_pb, health_rpc, pb, rpc
except ImportError as error:
    NO_GRPC = f"tests/tools/test_vllm.py: service SKIPPED: {error} (tools/vllm/requirements.txt)"
    print(NO_GRPC, file=sys.stderr)

END = 2
N_VOCAB = 1000


def logits_of(n_vocab, salt):
    """logit_of of tests/spec/test_draws.c, for all tokens."""
    tokens = np.arange(n_vocab, dtype=np.uint32)
    h = tokens * np.uint32(2654435761) + np.uint32(salt * 2246822519 & 0xFFFFFFFF)
    h ^= h >> np.uint32(15)
    h *= np.uint32(2246822519)
    h ^= h >> np.uint32(13)
    logits = ((h >> np.uint32(8)).astype(np.int32) - (1 << 23)).astype(np.float32)
    logits *= np.float32(2.0 ** -20)
    if salt % 5 == 0:
        for rest, value in ((3, np.inf), (5, np.nan), (7, -np.inf)):
            logits[tokens % 97 == rest] = value
    return logits


def noise_line(seed, position, token):
    bits = noise.gumbel(seed, position, [token]).view(np.uint32)[0]
    return f"noise {seed} {position} {token} {bits:08x}"


def draw_line(n_vocab, salt, sampling, position):
    token = noise.draw(logits_of(n_vocab, salt), sampling, position)
    floats = [float(np.float32(x)).hex() for x in (sampling.temperature, sampling.top_p,
                                                    sampling.min_p)]
    return (f"draw {n_vocab} {salt} {floats[0]} {sampling.top_k} {floats[1]} {floats[2]} "
            f"{sampling.seed} {position} {token}")


def lines():
    """What draws.txt must say."""
    rng = random.Random(11)
    yield "# SPDX-License-Identifier: Apache-2.0"
    yield "# noise SEED POSITION TOKEN: the noise's bits. Made by tests/tools/test_vllm.py --write."
    for _ in range(150):
        yield noise_line(rng.getrandbits(64), rng.getrandbits(32), rng.randrange(200000))
    yield ("# draw VOCABULARY SALT TEMPERATURE TOP_K TOP_P MIN_P SEED POSITION: the token. "
           "tests/spec/test_draws.c says what the logits are.")
    for i in range(150):
        sampling = noise.Sampling(
            temperature=rng.choice([0.0, 0.02, 0.1, 0.3, 0.8, 1.0, 1.7]),
            top_k=rng.choice([0, 0, 1, 5, 40, 1000]), top_p=rng.choice([1.0, 1.0, 0.0, 0.3, 0.95]),
            min_p=rng.choice([0.0, 0.0, 0.05, 1.0]), seed=rng.getrandbits(64))
        sampling = noise.Sampling(*(float(np.float32(v)) if isinstance(v, float) else v
                                    for v in vars(sampling).values()))
        yield draw_line(rng.choice([1, 63, 265, 5000]), i, sampling, rng.randrange(100000))


@unittest.skipIf(NO_NUMPY, NO_NUMPY or "")
class Noise(unittest.TestCase):
    def test_draws_are_as_written(self):
        self.assertEqual(DRAWS.read_text().splitlines(), list(lines()))

    def test_draws_have_the_distribution(self):
        logits = np.log(np.array([0.5, 0.25, 0.15, 0.1], np.float32))
        sampling, n = noise.Sampling(temperature=1.0, seed=5), 4000
        counts = np.bincount([noise.draw(logits, sampling, i) for i in range(n)], minlength=4)
        expected = np.exp(logits) * n
        self.assertLess(float(((counts - expected) ** 2 / expected).sum()), 16.3)  # p 0.001

    def test_no_finite_logit(self):
        logits = np.full(10, np.nan, np.float32)
        self.assertEqual(noise.draw(logits, noise.Sampling(temperature=1.0), 3), 0)


def draft(number, text_len, **fields):
    return pb.Draft(round=number, text_len=text_len, **fields)


@unittest.skipIf(NO_GRPC, NO_GRPC or "")
class RoundsOfOneText(unittest.TestCase):
    def made(self, r, tokens, finish=0):
        out = []
        for i, token in enumerate(tokens):
            last = finish if i + 1 == len(tokens) else 0
            out += [m.verdict for m in r.on_made(rounds.Made(token, us=10, finish=last))]
        return out

    def refused(self, r, d, code):
        with self.assertRaises(rounds.Refusal) as caught:
            r.on_draft(d)
        self.assertEqual(caught.exception.code, code)

    def test_run_and_next_run(self):
        r = rounds.Rounds(length=5)
        self.assertEqual(r.on_draft(draft(1, 5, run=3)), [])
        self.assertEqual(r.on_draft(draft(2, 8, run=2)), [])
        verdicts = self.made(r, [11, 12, 13, 14])
        self.assertEqual([(v.round, v.length, v.more) for v in verdicts],
                         [(1, 6, True), (1, 7, True), (1, 8, False), (2, 9, True)])
        self.assertTrue(all(v.hints.no_trees for v in verdicts))
        (last,) = self.made(r, [END], finish=pb.FINISH_STOP)
        self.assertEqual((last.finish, last.more, last.length), (pb.FINISH_STOP, False, 10))
        self.refused(r, draft(3, 10), grpc.StatusCode.FAILED_PRECONDITION)

    def test_what_is_ready_comes_at_once(self):
        r = rounds.Rounds(length=1)
        r.on_draft(draft(1, 1))
        self.made(r, range(400))
        sizes = [len(m.verdict.next) for m in r.on_draft(draft(2, 2, run=300))]
        self.assertEqual(sizes, [256, 44])
        (tree,) = r.on_draft(draft(3, 302, nodes=2, token_bits=3, tree=b"x"))
        self.assertEqual((list(tree.verdict.path), len(tree.verdict.next)), ([], 1))

    def test_text_ends_in_run(self):
        r = rounds.Rounds(length=1)
        r.on_draft(draft(1, 1, run=9))
        r.on_draft(draft(2, 10, run=9))
        verdicts = self.made(r, [5, END], finish=pb.FINISH_LENGTH)
        self.assertEqual([(v.round, v.more) for v in verdicts], [(1, True), (1, False)])
        self.assertIs(r.state, rounds.State.OVER)

    def test_refusals(self):
        bad, other = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
        r = rounds.Rounds(length=4)
        for d, code in ((draft(2, 4), bad), (draft(1, 5), other), (draft(1, 4, run=1025), bad),
                        (draft(1, 4, run=1, nodes=1), bad), (draft(1, 4, under=[0]), bad),
                        (draft(1, 4, evidence=b"x"), bad)):
            self.refused(r, d, code)
        r.on_draft(draft(1, 4, run=2))
        self.refused(r, draft(2, 6, nodes=1), bad)
        self.refused(r, draft(2, 5, run=1), other)
        r.on_draft(draft(2, 6, run=1))
        self.refused(r, draft(2, 6, run=1), bad)

    def test_any_drafts(self):
        """Whatever comes, a refusal or verdicts that add up."""
        rng = random.Random(3)
        taken = 0
        for _ in range(3000):
            r, length = rounds.Rounds(length=3), 3
            for _ in range(rng.randrange(1, 12)):
                if rng.random() < 0.5:
                    out = r.on_made(rounds.Made(7, us=1, finish=int(rng.random() < 0.05)))
                else:
                    d = draft(r.round + rng.choice([0, 1, 1, 1, 2]),
                              length + rng.choice([0, 0, r.left, 1]),
                              run=rng.choice([0, 1, 4, 2000]), nodes=int(rng.random() < 0.1))
                    try:
                        out = r.on_draft(d)
                    except rounds.Refusal:
                        continue
                    taken += 1
                for message in out:
                    length += len(message.verdict.next)
                    self.assertEqual(message.verdict.length, length)
                self.assertEqual(r.length, length)
        self.assertGreater(taken, 2000)


class OtherEngine:
    """Makes the tokens 100, 101, ... behind the prompt, then END; `open` counts its texts."""

    def __init__(self, length=40):
        self.length, self.open = length, 0

    def works(self):
        return True

    async def generate(self, ask):
        self.open += 1
        try:
            for position in range(len(ask.prompt), len(ask.prompt) + ask.most):
                await asyncio.sleep(0)
                over = position + 1 == self.length
                full = position + 1 == len(ask.prompt) + ask.most
                yield rounds.Made(END if over else 100 + position, us=5,
                                  finish=pb.FINISH_STOP if over else
                                  pb.FINISH_LENGTH if full else pb.FINISH_NONE)
                if over:
                    return
        finally:
            self.open -= 1


@unittest.skipIf(NO_GRPC, NO_GRPC or "")
class Service(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # it reports how busy the machine is
        self.engine = OtherEngine()
        self.target = opening.Target(name="other", kernels="none", version="1", fingerprint=77,
                                     vocabulary=88, n_vocab=N_VOCAB, ends=frozenset([END]),
                                     max_context=64)
        verifier = service.Verifier(self.target, self.engine, token="secret", sessions_most=2)
        self.server, port = service.start(verifier, "127.0.0.1:0")
        await self.server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self.verifier = rpc.VerifierStub(self.channel)
        self.metadata = (("authorization", "Bearer secret"),)

    async def asyncTearDown(self):
        await self.channel.close()
        await self.server.stop(0)

    async def begin(self, **fields):
        call = self.verifier.Session(metadata=self.metadata)
        asked = {"protocol": 1, "prompt": [5, 6, 7], **fields}
        await call.write(pb.ClientMessage(open=pb.Open(**asked)))
        return call

    async def text(self, call, length, run):
        tokens, number, finish = [], 0, 0
        while not finish:
            number += 1
            await call.write(pb.ClientMessage(draft=draft(number, length, run=run)))
            more = True
            while more and not finish:
                verdict = (await call.read()).verdict
                tokens += verdict.next
                length, more, finish = verdict.length, verdict.more, verdict.finish
        return tokens, finish

    async def status(self, call):
        while await call.read() is not grpc.aio.EOF:
            pass
        return await call.code()

    async def test_text(self):
        for run in (0, 7):
            call = await self.begin()
            opened = (await call.read()).opened
            self.assertEqual((opened.length, opened.target, opened.hints.no_trees), (3, 77, True))
            tokens, finish = await self.text(call, 3, run)
            self.assertEqual((tokens, finish), ([*range(103, 139), END], pb.FINISH_STOP))
            await call.write(pb.ClientMessage(close=pb.Close()))
            self.assertEqual(await self.status(call), grpc.StatusCode.OK)
        self.assertEqual(self.engine.open, 0)

    async def test_max_tokens(self):
        call = await self.begin(max_tokens=4)
        await call.read()
        self.assertEqual(await self.text(call, 3, 100), ([103, 104, 105, 106], pb.FINISH_LENGTH))

    async def test_half_close_and_cancel_end_the_request(self):
        for end in ("half", "cancel"):
            call = await self.begin()
            await call.read()
            await call.write(pb.ClientMessage(draft=draft(1, 3)))
            await call.read()
            if end == "half":
                await call.done_writing()
                self.assertEqual(await self.status(call), grpc.StatusCode.OK)
            else:
                call.cancel()
            while self.engine.open:
                await asyncio.sleep(0.01)

    async def test_refused_opens(self):
        codes = grpc.StatusCode
        for fields, code in (({"protocol": 2}, codes.FAILED_PRECONDITION),
                             ({"prompt": []}, codes.INVALID_ARGUMENT),
                             ({"prompt": [N_VOCAB]}, codes.INVALID_ARGUMENT),
                             ({"prompt": [1] * 64}, codes.OUT_OF_RANGE),
                             ({"model": "x"}, codes.NOT_FOUND),
                             ({"resume": pb.Resume()}, codes.NOT_FOUND),
                             ({"vocab_fingerprint": 1}, codes.FAILED_PRECONDITION),
                             ({"target": 1}, codes.FAILED_PRECONDITION),
                             ({"rule": pb.RULE_RATIO}, codes.FAILED_PRECONDITION),
                             ({"constraint": pb.Constraint(kind=1)}, codes.FAILED_PRECONDITION),
                             ({"slo_tokens_per_s": 5}, codes.INVALID_ARGUMENT),
                             ({"top_logprobs": 21}, codes.INVALID_ARGUMENT),
                             ({"sampling": pb.Sampling(temperature=0.001)}, codes.INVALID_ARGUMENT),
                             ({"sampling": pb.Sampling(top_p=2)}, codes.INVALID_ARGUMENT),
                             ({"sampling": pb.Sampling(penalties=pb.Penalties())},
                              codes.FAILED_PRECONDITION)):
            with self.subTest(fields=fields):
                call = await self.begin(**fields)
                self.assertEqual(await self.code_of_refusal(call), code)

    async def code_of_refusal(self, call):
        with self.assertRaises(grpc.aio.AioRpcError) as caught:
            await self.status(call)
        return caught.exception.code()

    async def test_sessions_and_token(self):
        first, second = await self.begin(), await self.begin()
        for call in (first, second):
            await call.read()
        third = await self.begin()
        self.assertEqual(await self.code_of_refusal(third), grpc.StatusCode.RESOURCE_EXHAUSTED)
        trailer = [tuple(t) for t in await third.trailing_metadata()]
        self.assertIn(("retry-after-ms", "1000"), trailer)
        self.metadata = ()
        self.assertEqual(await self.code_of_refusal(await self.begin()),
                         grpc.StatusCode.UNAUTHENTICATED)

    async def test_info_and_health(self):
        info = await self.verifier.Info(pb.InfoRequest(), metadata=self.metadata)
        self.assertEqual((info.protocol, info.vocab_fingerprint, info.target), (1, 88, 77))
        health = health_rpc.HealthStub(self.channel)
        answer = await health.Check(health_pb.HealthCheckRequest(service="foretoken.v1.Verifier"))
        self.assertEqual(answer.status, health_pb.HealthCheckResponse.SERVING)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        DRAWS.write_text("\n".join(lines()) + "\n")
    else:
        unittest.main()
