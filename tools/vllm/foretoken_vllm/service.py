# SPDX-License-Identifier: Apache-2.0
"""foretoken.v1.Verifier for a vLLM engine: a foretoken edge gets its texts from vLLM.

A session is one request of vLLM. It begins with the first draft, and ends with the stream: a stream
that is lost is opened anew by the edge. All state belongs to the event loop's thread.

    PYTHONPATH=tools/vllm python -m foretoken_vllm.service --model DIR --vocabulary FILE.gguf ..."""
import argparse
import asyncio
import contextlib
import hmac
import os
import secrets

import grpc

from foretoken_vllm.opening import check_open
from foretoken_vllm.protos import health_pb, health_rpc, pb, rpc
from foretoken_vllm.rounds import Made, Refusal, Rounds, invalid

FIRST_MESSAGE_S = 5
DRAIN_S = 5


async def abort(context, refusal):
    trailer = (("retry-after-ms", str(refusal.retry_ms)),) if refusal.retry_ms else ()
    await context.abort(refusal.code, refusal.message, trailer)


class Verifier(rpc.VerifierServicer):
    """engine.generate(ask) yields Made until the text ends; closing it ends vLLM's request.
    engine.works() is false when no text will be made any more."""

    def __init__(self, target, engine, token=None, sessions_most=64):
        self.target, self.engine, self.sessions_most = target, engine, sessions_most
        self.bearer = f"Bearer {token}".encode() if token else None
        self.sessions = 0

    async def admit(self, context):
        if self.bearer is None:
            return
        got = dict(context.invocation_metadata()).get("authorization", "")
        if not hmac.compare_digest(got.encode(), self.bearer):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is needed: "
                                "pass it with --token")

    async def Info(self, request, context):
        await self.admit(context)
        t = self.target
        return pb.InfoReply(protocol=1, version=t.version, model=t.name, limits=t.limits(),
                            vocab_fingerprint=t.vocabulary, sessions=self.sessions,
                            kernels=t.kernels, target=t.fingerprint)

    async def Offer(self, requests, context):
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "this server offers no file")
        yield  # makes this method a stream

    async def Session(self, requests, context):
        await self.admit(context)
        if self.sessions >= self.sessions_most:
            await abort(context, Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED,
                                         "all sessions are in use", retry_ms=1000))
        self.sessions += 1
        try:
            async with contextlib.aclosing(self.serve(requests.__aiter__())) as messages:
                async for message in messages:
                    yield message
        except Refusal as refusal:
            await abort(context, refusal)
        finally:
            self.sessions -= 1

    async def serve(self, requests):
        try:
            first = await asyncio.wait_for(anext(requests), FIRST_MESSAGE_S)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "no Open came in time") from None
        if first.WhichOneof("kind") != "open":
            raise invalid("the first message must be Open")
        ask = check_open(self.target, first.open)
        opened = pb.Opened(session=secrets.token_bytes(16), secret=secrets.token_bytes(16),
                           limits=self.target.limits(), length=len(ask.prompt),
                           model=self.target.name, target=self.target.fingerprint,
                           hints=pb.Hints(no_trees=True))
        yield pb.ServerMessage(opened=opened)
        async with contextlib.aclosing(self.rounds(requests, ask)) as messages:
            async for message in messages:
                yield message

    async def rounds(self, requests, ask):
        """Verdicts until the client is done. What comes from the client and what the engine makes
        goes through one queue."""
        rounds, events = Rounds(length=len(ask.prompt)), asyncio.Queue()
        tasks = [asyncio.create_task(pump(requests, events))]
        try:
            while (event := await events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, Made):
                    due = rounds.on_made(event)
                else:
                    kind = event.WhichOneof("kind")
                    if kind in ("close", "cancel"):
                        return
                    if kind != "draft":
                        raise invalid("a stream has one Open, then drafts")
                    due = rounds.on_draft(event.draft)
                    if len(tasks) == 1:
                        made = self.engine.generate(ask)
                        tasks.append(asyncio.create_task(pump(made, events, ends=False)))
                for message in due:
                    yield message
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def pump(source, events, ends=True):
    """Moves what a stream yields into the queue; then None if the session ends with it."""
    try:
        async for event in source:
            events.put_nowait(event)
        if ends:
            events.put_nowait(None)
    except Exception as error:  # noqa: BLE001: whoever reads the queue raises it
        events.put_nowait(error)
    finally:
        if hasattr(source, "aclose"):
            await source.aclose()


class Health(health_rpc.HealthServicer):
    SERVICES = ("", "foretoken.v1.Verifier")

    def __init__(self, engine):
        self.engine = engine

    def answer(self, request):
        kind = health_pb.HealthCheckResponse
        if request.service not in self.SERVICES:
            return kind(status=kind.SERVICE_UNKNOWN)
        return kind(status=kind.SERVING if self.engine.works() else kind.NOT_SERVING)

    async def Check(self, request, context):
        if request.service not in self.SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return self.answer(request)

    async def Watch(self, request, context):
        told = None
        while True:  # until the call or the server ends
            if (now := self.answer(request)) != told:
                yield now
            told = now
            await asyncio.sleep(1)


def start(verifier, listen):
    """A server that is to be started, and its port."""
    server = grpc.aio.server()
    rpc.add_VerifierServicer_to_server(verifier, server)
    health_rpc.add_HealthServicer_to_server(Health(verifier.engine), server)
    return server, server.add_insecure_port(listen)


async def run(args):
    from foretoken_vllm.engine import Engine
    engine = Engine(args)
    try:
        verifier = Verifier(engine.target, engine, args.token, args.sessions)
        server, port = start(verifier, args.listen)
        await server.start()
        print(f"serving {engine.target.name} on port {port}", flush=True)
        stop = asyncio.Event()
        for number in (2, 15):  # SIGINT, SIGTERM
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await stop.wait()
        await server.stop(DRAIN_S)
    finally:
        engine.close()


def main():
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"  # V2 takes another kind of logits processor
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    parser = FlexibleArgumentParser(
        description="Serves a model of vLLM to foretoken edges. vLLM's own flags are understood.")
    own = parser.add_argument_group("foretoken")
    own.add_argument("--vocabulary", required=True, metavar="FILE",
                     help="a GGUF file with the model's vocabulary, such as the edges' draft model")
    own.add_argument("--foretoken", default="foretoken", metavar="PROGRAM",
                     help="reads the vocabulary (foretoken)")
    own.add_argument("--listen", default="127.0.0.1:7411", metavar="HOST:PORT",
                     help="where edges connect, without encryption (127.0.0.1:7411)")
    own.add_argument("--token", metavar="SECRET", help="bearer token that edges must present")
    own.add_argument("--sessions", type=int, default=64, metavar="N",
                     help="texts at the same time at most (64)")
    AsyncEngineArgs.add_cli_args(parser)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
