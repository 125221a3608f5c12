# SPDX-License-Identifier: Apache-2.0
"""Each allocation in one request fails, one after the other (short: 40 of them, drawn by the seed): there is
an error or the right text, no crash, another's session lives on, and serving goes on.

failing_malloc.c counts the allocations of our own code, of jansson and of protobuf-c. gRPC and ggml end the
process when an allocation of theirs fails; nothing of ours can change that, so theirs do not fail here.
"""
import mmap
import os
import random
import struct
import threading
import time

import chat
import h2
import world as w

TOKENS = 8
SHORT = 40
ALL = 1 << 40      # more than there are: none fails, all are counted
ANSWER_S = 60
OTHERS_TOKENS = 1500
WARM = 2           # requests before the count: what is allocated once is there


class Countdown:
    """The memory that failing_malloc.c maps."""

    def __init__(self, world, name):
        self.path = world.path(f"malloc-{name}")
        with open(self.path, "wb") as file:
            file.write(bytes(16))
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 16)
        self.environment = {"LD_PRELOAD": os.path.join(world.build, "tests", "libchaos_malloc.so"),
                            "CHAOS_MALLOC": self.path}

    def set(self, n):
        self.map[:8] = struct.pack("q", n)

    @property
    def left(self):
        return struct.unpack("q", self.map[:8])[0]

    @property
    def failed(self):
        return struct.unpack("q", self.map[8:])[0]


class Other:
    """Somebody else's session, which is asked for a token now and then. A thread answers pings. `lock`
    guards all fields."""

    def __init__(self, server):
        self.server, self.connection = server, None
        self.lock = threading.Lock()
        threading.Thread(target=self._answer_pings, daemon=True).start()

    def _answer_pings(self):
        while True:
            time.sleep(0.2)
            with self.lock:
                if self.connection:
                    self.connection.pump()

    def lives(self):
        """Whether it still answers. One that does not is opened anew."""
        with self.lock:
            return self._ask()

    def _ask(self):
        if self.connection is None:
            self.connection = h2.Connection(self.server.grpc)
            self.length, self.round = 3, 0
            self.number = self.connection.call(
                h2.SESSION, h2.open_message([1, 2, 3], max_tokens=OTHERS_TOKENS))
        self.round += 1
        stream = self.connection.streams[self.number]
        self.connection.send(self.number, h2.draft_message(self.round, self.length, run=1))
        self.connection.wait(self.number, lambda s: len(s.messages) > self.round, ANSWER_S)
        self.length += 1
        if len(stream.messages) <= self.round:
            self.connection.close()
            self.connection = None
        return self.connection is not None


def each(world, name, countdown, request, program, other):
    """request() again and again, another allocation failing each time."""
    for _ in range(WARM):
        world.same([request()], f"{name}, in peace")
    countdown.set(ALL)
    request()
    n = ALL - countdown.left
    countdown.set(0)
    rng = random.Random(f"{world.seed} {name}")
    numbers = range(1, n + 1) if world.long else sorted(rng.sample(range(1, n + 1), min(n, SHORT)))
    errors = whole = 0
    for i in numbers:
        countdown.set(i)
        answer = request()
        countdown.set(0)
        errors, whole = errors + (not answer.whole), whole + answer.whole
        if not world.alive(program, f"{name}: allocation {i} of {n} failed"):
            return
        world.check(answer.took_s < ANSWER_S, f"{name}: allocation {i} of {n} failed: no answer")
        if answer.whole:
            world.same([answer], f"{name}: allocation {i} of {n} failed")
        world.check(other.lives(), f"{name}: allocation {i} of {n} failed: another's session ended")
    world.say(name, allocations=n, failed=countdown.failed, errors=errors, whole=whole,
              then=world.same([request()], f"{name}: afterwards"))


def request_to(port, ask):
    return lambda: chat.chat(port, ask, timeout_s=ANSWER_S)


def run(world):
    if world.sanitized:
        world.skip("the sanitizer's allocator is its own")
        return
    [ask] = chat.asks(1, world.seed, TOKENS)
    of_server, of_edge = Countdown(world, "server"), Countdown(world, "edge")
    server = w.Server(world, env=of_server.environment)
    edge = w.Edge(world, [server.grpc], "--draft", "tree:12:4", env=of_edge.environment)
    world.learn(chat.crowd([server.http], [ask]))
    other = Other(server)
    world.check(other.lives(), "another's session does not answer")
    each(world, "the server's API", of_server, request_to(server.http, ask), server, other)
    each(world, "the server's wire", of_server, request_to(edge.http, ask), server, other)
    each(world, "the edge", of_edge, request_to(edge.http, ask), edge, other)
    world.check(edge.stop() == 0 and server.stop() == 0, "not ended in order")
