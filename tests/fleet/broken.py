# SPDX-License-Identifier: Apache-2.0
"""A bad proxy: a relay that does between an edge and a server what a proxy should not do.

    half     the connection ends within a message, each way
    reset    one stream is reset on both sides (RST_STREAM), with the codes that proxies use
    late     the edge's side of a connection ends, the server's side stays open
    twice    an Open is sent again on another stream, before and while the text is told
    other    the server comes back with another model

Texts are those of a quiet run, but for `other`, where they are refused. No session is left at the server.
"""
import re

import chat
import h2
import relay as r
import world as w

PEOPLE, TOKENS = 4, 48
INTERNAL, REFUSED, CANCEL = 2, 7, 8  # of HTTP/2
PIECE = 3  # the verdict of each text at which something happens


class Acts:
    """act(seen) once for each stream, at its PIECE-th message of that kind; what it returns is for the relay."""

    def __init__(self, way, kind, act, most=PEOPLE):
        self.way, self.kind, self.act, self.most = way, kind, act, most
        self.count, self.done, self.opens = {}, 0, {}

    def watch(self, moment, seen):
        if seen.kind == "open" and moment == r.BEFORE:
            self.opens[seen.key] = h2.field(1, seen.body)
        if moment != r.BEFORE or (seen.way, seen.kind) != (self.way, self.kind) or self.done == self.most:
            return None
        self.count[seen.key] = self.count.get(seen.key, 0) + 1
        if self.count[seen.key] != PIECE:
            return None
        self.done += 1
        return self.act(seen)


class Scene:
    """A server, an edge, and between them a relay of each case."""

    def __init__(self, world):
        self.world = world
        self.server = w.Server(world)
        self.asked = chat.asks(PEOPLE, world.seed, TOKENS)

    def tell(self, name, acts, lazy=False):
        """All texts past this proxy: as in peace, and no session lives on."""
        relay = r.Relay(self.server.grpc, acts and acts.watch, lazy=lazy)
        edge = w.Edge(self.world, [relay.port], "--draft", "tree:12:4")
        if acts:
            acts.relay, acts.edge = relay, edge
        answers = chat.crowd([edge.http], self.asked)
        if not acts:
            self.world.learn(answers)
        else:
            texts = self.world.same(answers, name)
            self.world.check(acts.done > 0, f"{name}: it never came to it")
            self.world.say(name, texts=texts, times=acts.done, reconnects=int(edge.metric("reconnects_total")))
        left = self.server.metric("sessions")
        try:
            w.wait_for("the sessions to end", lambda: self.server.metric("sessions") == 0, 20)
        except RuntimeError:
            self.world.check(False, f"{name}: {left:.0f} sessions live on")
        self.world.check(edge.stop() == 0, f"{name}: the edge did not end in order")
        relay.stop()
        self.world.alive(self.server, name)

    def said(self, pattern):
        return len(re.findall(pattern, self.server.said()))


def half(scene):
    for way, kind in ((r.DOWN, "verdict"), (r.UP, "draft")):
        scene.tell(f"half of a {kind}", Acts(way, kind, lambda seen: r.HALF))


def reset(scene):
    for code in (INTERNAL, REFUSED, CANCEL):
        acts = Acts(r.DOWN, "verdict", None)

        def act(seen, acts=acts, code=code):
            acts.relay.later(0, lambda: acts.relay.reset(seen.key, code))
        acts.act = act
        scene.tell(f"reset, code {code}", acts)


def late(scene):
    """The resume comes on a new stream before the server knows that the old one has ended."""
    before = scene.said(r"resumed length=\d+ takeover=1")
    acts = Acts(r.DOWN, "verdict", lambda seen: acts.relay.later(0, acts.relay._cut), most=1)
    scene.tell("late", acts, lazy=True)
    scene.world.check(scene.said(r"resumed length=\d+ takeover=1") > before, "late: no stream was taken over")


def twice(scene):
    """The second session of a text ends the first one; its edge opens the text anew, which ends the second."""
    world = scene.world
    strangers = []

    def again(seen):
        connection = h2.Connection(scene.server.grpc)
        connection.call(h2.SESSION, acts.opens[seen.key])
        strangers.append(connection)

    before = scene.said('reason="serve: this text was opened again"')
    acts = Acts(r.DOWN, "verdict", again)
    scene.tell("twice", acts)
    ended = scene.said('reason="serve: this text was opened again"') - before
    world.check(ended >= 2 * len(strangers), f"twice: {ended} sessions ended for {len(strangers)} Opens")
    # Both at once, and nobody behind the first one.
    body = next(iter(acts.opens.values()))
    connection = h2.Connection(scene.server.grpc)
    first, second = connection.call(h2.SESSION, body), connection.call(h2.SESSION, body)
    connection.wait(second, lambda s: s.messages)
    stream = connection.wait(first, lambda s: s.ended)
    world.check(stream.status == h2.UNAVAILABLE, f"twice: the first stream: {stream.headers}")
    world.check(scene.server.metric("sessions") == 1, f"twice: {scene.server.metric('sessions'):.0f} sessions")
    for stranger in [*strangers, connection]:
        stranger.close()


def other(scene):
    """No text is told half by one model and half by another: it is refused, and the logs say so."""
    world, old = scene.world, scene.server
    killed = []

    def act(_):
        killed.append(old.process.kill())

    acts = Acts(r.DOWN, "verdict", act, most=1)
    relay = r.Relay(old.grpc, acts.watch)
    edge = w.Edge(world, [relay.port], "--draft", "tree:12:4")
    people = chat.Crowd([edge.http], scene.asked)
    w.wait_for("the server to be killed", lambda: killed)
    old.process.wait()
    scene.server = w.Server(world, model=world.draft, port=old.grpc, http=old.http, metrics=old.metrics_port)
    answers = people.wait()
    refused = [a for a in answers if not a.whole]
    world.same([a for a in answers if a.whole], "other")
    world.check(refused and all("is not served here" in a.error for a in refused),
                f"other: {[a.error for a in refused]}")
    lines = scene.said("open refused status=")
    world.check(lines >= len(refused), f"other: {lines} lines of the log for {len(refused)} texts")
    world.say("other", refused=len(refused), lines=lines)
    edge.stop()
    relay.stop()


def broken(world):
    scene = Scene(world)
    scene.tell("peace", None)
    for case in (half, reset, late, twice, other):
        case(scene)
    scene.server.stop()
