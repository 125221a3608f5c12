# SPDX-License-Identifier: Apache-2.0
"""The server dies by SIGKILL in each state of a round and comes back within 3 s: every text is the one of
a quiet run. A relay between edge and server sees the messages, so each kill hits the state that it names.

    prefill   a prompt was sent, no verdict yet       run      a run, between two of its verdicts
    waiting   a draft, while others' drafts wait      early    an early draft was just sent
    pass      a draft, a part of a pass's time ago    resume   a stream broke, its resume was just sent
    verdict   a verdict, on its way; lost or not      drain    SIGTERM came, texts are being finished

The long form makes 50 kills, and asserts that no text is silent for longer than the server was gone, plus
the time to read the texts again, plus 2 s. Then the same with two servers, the first gone for good.

    fallback  at any moment; the edge has a fallback target, which goes on with the texts

Every second time the server comes back while the texts run, else when they have ended. The long form makes
50 kills here, too, and asserts that no text is silent for longer than --fallback-ms and 2 s.
"""
import os
import random
import signal
import threading
import time

import chat
import h2
import relay as r
import world as w

PEOPLE = 4
TOKENS = 48
LONG_PROMPT = "The quick brown fox jumps over the lazy dog, and then it sleeps in the sun. " * 16
AWAY_SHORT_S, AWAY_LONG_S = 1.0, 2.5  # at most, until the new process is started
SILENT_MOST_S = 2.0
KILLS = 50
FALLBACK_MS = 500
FALLBACK_KILLS = 4  # of the short form
TRIES = 3  # more, for a state that no kill has hit


class Setting:
    """An edge, the delay of its line each way, its people, and what begins their prompts."""

    def __init__(self, *edge, drafts=True, delay_s=0.0, people=PEOPLE, prompt=""):
        self.edge, self.drafts, self.delay_s = edge, drafts, delay_s
        self.people, self.prompt = people, prompt


class State:
    """When a kill fits: matches(moment, seen, board), one of the first nth times. It comes after_s(board)
    later. prepare(board): first, at one of the first verdicts."""

    def __init__(self, setting, matches, nth=12, after_s=lambda board: 0.0, prepare=None):
        self.setting, self.matches, self.nth = setting, matches, nth
        self.after_s, self.prepare = after_s, prepare


def draft_sent(moment, seen):
    return moment == r.AFTER and seen.kind == "draft" and not seen.is_early


def verdict_came(moment, seen):
    return moment == r.BEFORE and seen.kind == "verdict"


SETTINGS = {
    "trees": Setting("--draft", "tree:12:4"),
    "runs": Setting(drafts=False),
    # early drafts pay on long lines, while the server has time
    "far": Setting("--draft", "tree:12:4", delay_s=0.05, people=2),
    "prompts": Setting("--draft", "tree:12:4", prompt=LONG_PROMPT),
}

STATES = {
    "prefill": State("prompts", lambda m, s, b: m == r.AFTER and s.kind == "open", nth=1,
                     after_s=lambda b: b.rng.uniform(0, 0.5) * b.scene.first_s),
    "waiting": State("trees", lambda m, s, b: draft_sent(m, s) and len(b.outstanding) > 1),
    "pass": State("trees", lambda m, s, b: draft_sent(m, s),
                  after_s=lambda b: b.rng.uniform(0, 0.9) * b.scene.gap_s),
    "verdict": State("trees", lambda m, s, b: verdict_came(m, s)),
    "run": State("runs", lambda m, s, b: m == r.AFTER and s.has_more),
    "early": State("far", lambda m, s, b: m == r.AFTER and s.is_early, nth=1),
    "resume": State("trees", lambda m, s, b: m == r.AFTER and s.is_resume, nth=1,
                    after_s=lambda b: b.rng.uniform(0, 0.003),
                    prepare=lambda b: b.scene.relay.cut()),
    "drain": State("trees", lambda m, s, b: m == r.AFTER and s.kind == "verdict", nth=3,
                   after_s=lambda b: b.rng.uniform(0, 0.3),
                   prepare=lambda b: b.scene.server.process.terminate()),
}


class Board:
    """What the relay has seen of one round of kills, and the kill itself. The relay's thread writes; the
    owner reads `killed`, and the rest once it is set."""

    def __init__(self, scene, state, rng):
        self.scene, self.state, self.rng = scene, state, rng
        self.pid = scene.server.pid
        self.outstanding = set()
        self.fits = self.verdicts = 0
        self.nth = rng.randint(1, state.nth)
        self.prepare_at = rng.randint(2, 10)
        self.prepared = state.prepare is None
        self.killed = threading.Event()
        self.killed_at = None
        self.loses = rng.random() < 0.5  # a verdict in hand is lost with the server

    def watch(self, moment, seen):
        if self.killed_at is not None:
            return True
        self._note(moment, seen)
        if not self.prepared or not self.state.matches(moment, seen, self):
            return True
        self.fits += 1
        if self.fits != self.nth:
            return True
        after_s = self.state.after_s(self)
        if after_s > 0:
            self.scene.relay.later(after_s, self.kill)
            return True
        self.kill()
        return moment == r.AFTER or not self.loses

    def _note(self, moment, seen):
        if draft_sent(moment, seen):
            self.outstanding.add(seen.key)
        if verdict_came(moment, seen):
            self.outstanding.discard(seen.key)
            self.verdicts += 1
            if not self.prepared and self.verdicts >= self.prepare_at:
                self.prepared = True
                self.scene.relay.later(0, lambda: self.state.prepare(self))

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)  # it is reaped by the owner, so the number is still its own
        self.killed_at = time.monotonic()
        self.killed.set()


class Scene:
    """A server, a relay, an edge of one setting; asks and how long they take in peace."""

    def __init__(self, world, setting, more_servers=(), more_flags=()):
        self.world, self.board = world, None
        self.server = w.Server(world, "--no-prefix-cache")
        self.relay = r.Relay(self.server.grpc, self.watch, setting.delay_s)
        self.edge = w.Edge(world, [self.relay.port, *more_servers], *setting.edge,
                           *more_flags, drafts=setting.drafts)
        self.asks = chat.asks(setting.people, world.seed, TOKENS, setting.prompt)
        quiet = chat.crowd([self.edge.http], self.asks)
        if self.asks[0].key in world.texts:
            world.same(quiet, "in peace")
        else:
            world.learn(quiet)
        self.first_s = min(a.first_s for a in quiet)
        self.took_s = max(a.took_s for a in quiet)
        self.gap_s = chat.percentile([g for a in quiet for g in a.gaps], 0.5)
        self.reading_s = self.read_again(quiet) if world.long else None

    def read_again(self, answers):
        """How long a server that has just started takes to read all texts to their ends."""
        again = [chat.Ask(a.ask.key[0] + a.text, a.ask.key[1], 1) for a in answers]
        self.server.kill()
        self.restart(0)
        chat.crowd([self.edge.http], chat.asks(1, 0, 1))  # the edge has found it
        return max(a.took_s for a in chat.crowd([self.edge.http], again))

    def watch(self, moment, seen):
        board = self.board
        return board.watch(moment, seen) if board else True

    def begin(self, state, rng):
        """People ask, and the kill waits for its moment. (people, board)"""
        self.board = board = Board(self, state, rng)
        people = chat.Crowd([self.edge.http], self.asks)
        while any(t.is_alive() for t in people.threads) and not board.killed.wait(0.02):
            pass
        self.board = None
        return people, board

    def restart(self, after_s):
        """The server again, on its ports."""
        old = self.server
        old.process.wait()
        time.sleep(after_s)
        self.server = w.Server(self.world, "--no-prefix-cache", port=old.grpc, http=old.http,
                               metrics=old.metrics_port)
        w.wait_for("Health to say SERVING", lambda: h2.health(self.server.grpc))

    def end(self):
        self.edge.stop()
        if self.server.alive:
            self.server.stop()
        self.relay.stop()


def kill_once(scene, name, rng):
    """One kill; whether it came in its state. A text that ended first is a miss."""
    world = scene.world
    people, board = scene.begin(STATES[name], rng)
    hit = board.killed.is_set()
    if not hit:
        world.same(people.wait(), f"{name}, missed")
        board.kill()  # a drain that was over may have ended it: its number is still its own
    scene.restart(rng.uniform(0, AWAY_LONG_S if world.long else AWAY_SHORT_S))
    gone_s = time.monotonic() - board.killed_at
    if not hit:
        return False
    answers = people.wait()
    same = world.same(answers, name)
    silent_s = max(a.silent_since(board.killed_at) for a in answers)
    world.say(name, texts=same, gone=f"{gone_s:.2f} s", silent=f"{silent_s:.2f} s")
    if world.long:
        most_s = gone_s + scene.reading_s + SILENT_MOST_S
        world.check(silent_s <= most_s, f"{name}: silent for {silent_s:.2f} s, {most_s:.2f} s allowed")
    return True


def each_state(world, kills):
    for setting_name, setting in SETTINGS.items():
        names = [n for n in world.wanted(STATES) if STATES[n].setting == setting_name]
        scene = Scene(world, setting) if names else None
        for name in names:
            rng = random.Random(f"{world.seed} {name}")
            hits = sum(kill_once(scene, name, rng) for _ in range(kills))
            for _ in range(TRIES):
                hits = hits or kill_once(scene, name, rng)
            if not hits and name == "early":
                world.skip("early: this machine's edge sent no early draft")
            else:
                world.check(hits, f"{name}: no kill came in this state")
        if scene:
            scene.end()


def gone_for_good(world):
    """Two servers of one target; the first is killed and stays away."""
    for name in world.wanted(STATES if world.long else ("pass", "run")):
        rng = random.Random(f"{world.seed} two {name}")
        second = w.Server(world, "--no-prefix-cache")
        scene = Scene(world, SETTINGS[STATES[name].setting], [second.grpc],
                      ["--require-same-target"])
        people, board = scene.begin(STATES[name], rng)
        if not board.killed.is_set():
            board.kill()
        answers = people.wait()
        world.say(f"{name}, first of two gone for good", texts=world.same(answers, f"{name}, two"),
                  silent=f"{max(a.silent_since(board.killed_at) for a in answers):.2f} s")
        scene.end()
        second.stop()


def counted(answers, name):
    """The sum of a count of usage.foretoken."""
    return sum(a.usage.get("foretoken", {}).get(name, 0) for a in answers)


def fall_back_once(scene, rng, stays):
    """One kill at a random moment; whether a text went on at the fallback target."""
    world = scene.world
    people = chat.Crowd([scene.edge.http], scene.asks)
    time.sleep(rng.uniform(0, 0.8) * scene.took_s)
    killed_at = time.monotonic()
    scene.server.kill()
    if not stays:
        scene.restart(rng.uniform(0, 3 * FALLBACK_MS / 1000))
    answers = people.wait()
    silent_s = max(a.silent_since(killed_at) for a in answers)
    world.say("fallback", texts=world.same(answers, "fallback"), silent=f"{silent_s:.2f} s",
              tokens=counted(answers, "fallback_tokens"), switches=counted(answers, "switches"))
    world.check(counted(answers, "target_changed") == 0, "fallback: the target changed")
    if world.long:
        most_s = FALLBACK_MS / 1000 + SILENT_MOST_S
        world.check(silent_s <= most_s, f"fallback: silent for {silent_s:.2f} s, {most_s:.2f} s allowed")
    if stays:
        scene.restart(0)
    return counted(answers, "fallback_tokens") > 0


def fall_back(world):
    """Kills at random moments under an edge with a fallback target."""
    rng = random.Random(f"{world.seed} fallback")
    scene = Scene(world, SETTINGS["trees"], more_flags=[
        "--fallback", world.target, "--fallback-ms", str(FALLBACK_MS), "-c", "2048",
        "--require-same-target"])
    kills = KILLS if world.long else FALLBACK_KILLS
    used = sum(fall_back_once(scene, rng, stays=i % 2 == 0) for i in range(kills))
    world.check(used, "fallback: no text went there")
    scene.end()


def run(world):
    if world.wanted(["fallback"]):
        fall_back(world)
    if world.case == "fallback":
        return
    each_state(world, -(-KILLS // len(STATES)) if world.long else 1)
    if w.Edge.takes_several(world):
        gone_for_good(world)
    else:
        world.check(False, "two servers: edge --server takes one only")
