# SPDX-License-Identifier: Apache-2.0
"""Clients that break the protocol while four people chat: each loses its own session at most.

    foreign   a resume with a right id and a wrong secret is NOT_FOUND, and its owner does not notice
    replay    another client's Open, byte for byte, is a session of its own; a second Open on a stream ends it
    stolen    a resume with id and secret takes the session over: its edge leaves it to the thief for good
    drafts    10^5 (short: 600) drafts that break a rule each end their own stream, with the right status

The stranger comes from 127.0.0.2. It knows ids and secrets because a relay reads them on the way.
"""
import random
import threading

import chat
import h2
import relay as r
import world as w

PEOPLE = 4
TOKENS = 64
STRANGER = "127.0.0.2"
DRAFTS_SHORT, DRAFTS_LONG = 600, 100000
IN_FLIGHT = 32           # hostile streams at a time
VOCABULARY = 1 << 17     # above that of every model of the tests
PROMPT = [1, 2, 3]
TOO_MANY = 65            # nodes: one more than the server takes
WRONG = {h2.INVALID_ARGUMENT, h2.OUT_OF_RANGE, h2.FAILED_PRECONDITION}


# --- what a relay reads ---

class Owned:
    """The sessions that pass a relay: ids, secrets, lengths; and who asked for them again."""

    def __init__(self):
        self.sessions = {}  # stream -> (id, secret)
        self.opens = []     # bodies of Open
        self.resumed = []   # ids that were asked for again
        self.act = None     # act(session, secret, length, round) at a verdict; True: it is done

    def watch(self, moment, seen):
        if moment == r.AFTER:
            return True
        if seen.kind == "open":
            self.opens.append(h2.field(1, seen.body))
            if seen.is_resume:
                self.resumed.append(h2.fields(seen.get(8)).get(1, [b""])[0])
        if seen.kind == "opened":
            self.sessions[seen.key] = seen.get(1), seen.get(2)
        if seen.kind == "verdict" and self.act and seen.key in self.sessions and not seen.get(8):
            if not seen.has_more and self.act(*self.sessions[seen.key], seen.get(4), seen.get(1)):
                self.act = None
        return True


class Scene:
    def __init__(self, world):
        self.world = world
        self.owned = Owned()
        self.server = chat.full_server(world)
        self.relay = r.Relay(self.server.grpc, self.owned.watch)
        self.edge = w.Edge(world, [self.relay.port], "--draft", "tree:12:4")
        self.asked = chat.asks(PEOPLE, world.seed, TOKENS)

    def chat(self):
        return chat.crowd([self.edge.http], self.asked)

    def stranger(self):
        return h2.Connection(self.server.grpc, STRANGER)

    def end(self):
        self.world.check(self.edge.stop() == 0, "the edge did not end in order")
        self.world.alive(self.server, "after all")
        self.world.check(self.server.stop() == 0, "the server did not end in order")
        self.relay.stop()


def answered(stream):
    return bool(stream.messages)


# --- other people's sessions ---

def foreign(scene):
    world, statuses = scene.world, []

    def guess(session, secret, length, _):
        connection, wrong = scene.stranger(), bytes([secret[0] ^ 1]) + secret[1:]
        number = connection.call(h2.SESSION, h2.open_message(resume=(session, wrong, length)))
        statuses.append(connection.wait(number, answered).status)
        connection.close()
        return len(statuses) == 8

    before = scene.edge.metric("reconnects_total")
    scene.owned.act = guess
    texts = world.same(scene.chat(), "foreign")
    world.check(statuses and set(statuses) == {h2.NOT_FOUND}, f"foreign: statuses {statuses}")
    world.check(scene.edge.metric("reconnects_total") == before, "foreign: an owner lost its stream")
    world.say("foreign", texts=texts, tries=len(statuses))


def replay(scene):
    world, connection = scene.world, scene.stranger()
    opened = []
    people = chat.Crowd([scene.edge.http], scene.asked)
    for body in scene.owned.opens[:PEOPLE]:
        number = connection.call(h2.SESSION, body)
        stream = connection.wait(number, answered)
        if world.check(answered(stream), f"replay: an Open of its own was refused: {stream.headers}"):
            opened.append(h2.fields(h2.fields(stream.messages[0])[1][0])[1][0])
        connection.send(number, body)
        stream = connection.wait(number, lambda s: s.ended)
        world.check(stream.status == h2.INVALID_ARGUMENT, f"replay: a second Open: {stream.headers}")
    texts = world.same(people.wait(), "replay")
    connection.close()
    ids = {session for session, _ in scene.owned.sessions.values()}
    world.check(opened and not ids & set(opened), "replay: another's session was given away")
    world.say("replay", texts=texts, opened=len(opened))


class Thief:
    """Takes one session over and holds it."""

    def __init__(self, scene):
        self.scene, self.connection = scene, None
        self.taken = threading.Event()  # all below is set; the relay's thread leaves it alone

    def take(self, session, secret, length, round_):
        connection = self.scene.stranger()
        number = connection.call(h2.SESSION, h2.open_message(resume=(session, secret, length)))
        if not answered(connection.wait(number, answered)):
            connection.close()
            return False  # the server was further on: another one
        self.connection, self.number, self.session = connection, number, session
        self.length, self.round = length, round_
        self.resumes_before = self.scene.owned.resumed.count(session)
        self.taken.set()
        return True

    def hold_while(self, people):
        """Answers pings until everybody is done."""
        while any(t.is_alive() for t in people.threads):
            if self.taken.wait(0.1):
                self.connection.pump(0.1)

    def ask(self):
        """A run of one token; whether the session still answers."""
        stream = self.connection.streams[self.number]
        n = len(stream.messages)
        self.round += 1
        self.connection.send(self.number, h2.draft_message(self.round, self.length, run=1))
        self.connection.wait(self.number, lambda s: len(s.messages) > n)
        self.length += 1
        return len(stream.messages) > n


def stolen(scene):
    world = scene.world
    thief = Thief(scene)
    scene.owned.act = thief.take
    people = chat.Crowd([scene.edge.http], scene.asked)
    thief.hold_while(people)
    answers = people.wait()
    scene.owned.act = None
    if not world.check(thief.taken.is_set(), "stolen: no session could be taken"):
        return
    world.check(thief.ask() and thief.ask(), "stolen: the thief does not hold what it took: "
                f"{thief.connection.streams[thief.number].headers} at {thief.length}")
    again = scene.owned.resumed.count(thief.session) - thief.resumes_before
    world.check(again == 0, f"stolen: its edge took it back {again} times")
    kept = [a for a in answers if a.whole]
    world.check(len(answers) - len(kept) <= 1, f"stolen: {len(answers) - len(kept)} texts lost")
    world.say("stolen", others=world.same(kept, "stolen"),
              displaced=next((a.error for a in answers if not a.whole), "opened anew"))
    thief.connection.close()


# --- drafts ---

def forward(rng):
    """A node whose parent comes after it."""
    tokens, width = [rng.randrange(3, 9000) for _ in range(3)], 17
    bits = tokens[0] << 1 | tokens[1] << 1 + width + 1  # nodes 0 and 1: children of the text's end
    at = 2 * (width + 1)
    bits |= 1 << at | 3 << at + 1 | tokens[2] << at + 3  # node 2: its parent is node 2
    return h2.field(3, 3) + h2.field(4, width) + h2.field(5, bits.to_bytes(7, "little"))


def chain(rng, n):
    return h2.pack_tree([rng.randrange(3, 9000) for _ in range(n)], list(range(n)))


BROKEN = {  # what breaks: Draft's bytes, for a text of len(PROMPT) tokens
    "cyclic": lambda g: h2.draft_message(1, 3, forward(g)),
    "siblings": lambda g: h2.draft_message(1, 3, h2.pack_tree([5, 5], [0, 0])),
    "oversize": lambda g: h2.draft_message(1, 3, chain(g, g.randrange(TOO_MANY, 250))),
    "nodes": lambda g: h2.draft_message(1, 3, h2.field(3, g.randrange(257, 1 << 32)) + h2.field(4, 16)),
    "short": lambda g: h2.draft_message(1, 3, h2.field(3, 40) + h2.field(4, 16) + h2.field(5, b"abc")),
    "bits": lambda g: h2.draft_message(1, 3, h2.field(3, 1) + h2.field(4, 40) + h2.field(5, b"abcdef")),
    "round": lambda g: h2.draft_message(g.randrange(2, 1 << 32), 3, chain(g, 2)),
    "length": lambda g: h2.draft_message(1, g.randrange(4, 1 << 31), chain(g, 2)),
    "tokens": lambda g: h2.draft_message(1, 3, h2.pack_tree([VOCABULARY + g.randrange(1 << 20)], [0])),
    "run": lambda g: h2.draft_message(1, 3, run=g.randrange(1025, 1 << 32)),
    "both": lambda g: h2.draft_message(1, 3, chain(g, 2), run=3),
    "noise": lambda g: b"\x12\x7f" + g.randbytes(g.randrange(0, 126)),
}


class Hostile(threading.Thread):
    """Sends n hostile drafts, each on a session of its own; statuses[kind][code] counts the ends."""

    def __init__(self, scene, n):
        super().__init__(daemon=True)
        self.scene, self.n = scene, n
        self.rng = random.Random(f"{scene.world.seed} drafts")
        self.statuses = {kind: {} for kind in BROKEN}
        self.ended = 0

    def run(self):
        connection = self.scene.stranger()
        kinds, flying, sent = list(BROKEN), {}, 0
        hello = h2.open_message(PROMPT, max_tokens=4)
        while self.ended < self.n and not connection.closed:
            while sent < self.n and len(flying) < IN_FLIGHT:
                kind = kinds[sent % len(kinds)]
                number = connection.call(h2.SESSION, hello)
                connection.send(number, BROKEN[kind](self.rng))
                flying[number] = kind
                sent += 1
            connection.pump(1)
            for number in [n for n in flying if connection.streams[n].ended]:
                counts = self.statuses[flying.pop(number)]
                status = connection.streams.pop(number).status
                connection.parts.held.pop(number, None)
                counts[status] = counts.get(status, 0) + 1
                self.ended += 1
        connection.close()


def drafts(scene):
    world = scene.world
    hostile = Hostile(scene, DRAFTS_LONG if world.long else DRAFTS_SHORT)
    with w.Memory(scene.server) as memory:
        hostile.start()
        n, texts = 0, "0"
        while n == 0 or hostile.is_alive():
            texts, n = world.same(scene.chat(), "drafts"), n + PEOPLE
        hostile.join()
    world.check(hostile.ended == hostile.n, f"drafts: {hostile.ended} of {hostile.n} ended")
    for kind, counts in hostile.statuses.items():
        judged = {code for code in counts if code != h2.RESOURCE_EXHAUSTED}
        world.check(judged and judged <= WRONG, f"drafts: {kind} ended with {counts}")
    world.check(memory.growth < world.memory_mb, f"drafts: memory grew by {memory.growth:.0f} MB")
    world.say("drafts", hostile=hostile.ended, texts=texts, people=n, memory=f"{memory.growth:+.1f} MB")


def run(world):
    scene = Scene(world)
    world.learn(scene.chat())
    foreign(scene)
    replay(scene)
    stolen(scene)
    drafts(scene)
    scene.end()
