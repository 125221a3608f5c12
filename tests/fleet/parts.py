# SPDX-License-Identifier: Apache-2.0
"""What holds behind each proxy. Each part takes the world, the kind of proxy and its program."""
import os
import random
import re
import signal
import subprocess
import threading
import time
import urllib.request

import chat
import fleet as f
import proxies
import world as w

CHATS, TURNS, TURN_TOKENS = 8, 4, 24
FIRST = ("I keep notes about {0}. They say that {0} were there first, that {0} came in spring and {0} left in "
         "autumn, that nobody counted {0} but me, and that all of it was written down by hand. What is a good "
         "first sentence for an essay about {0}, and what should come after it?")
THINGS = ("harbours", "violins", "glaciers", "foxes", "looms", "lanterns", "orchards", "comets")
DRAWS = 5  # of ports: one fleet in a hundred has a server that owns all chats
POINTS = 5.0  # of the hit rate, that two servers may be below one
PEOPLE, TOKENS = 8, 48
KILLS = {False: 2, True: 20}
LONG_S, PROBE_TOKENS = 12, 128  # the seconds of a text that is told alone
LONG_PROMPT_TOKENS = 64  # its prompt with the chat template has fewer
SILENT_S = {"envoy": 17, "nginx": 62, "haproxy": 52}  # above 15 s, 60 s and the usual 50 s
READ_PROMPT = "The keeper of the light reads the book of the storm again and again, and writes. " * 180
READ_MARGIN = 1.3  # more prompts than it takes
READ_TIMEOUT_S = 900  # of a client: far above what the prompts before its own take
SILENT_PROMPT = "The keeper wrote in the book that the night was calm and the lamp was lit. " * 60


# --- configurations ---

def check(world, kind, program):
    """The program's own check takes each file, and the check can fail."""
    for form in ("foretoken", "passthrough"):
        path = proxies.write(world, kind, form, [(7411, 8411)] * 2, w.free_ports(3))
        done = subprocess.run(kind.check(program, path), capture_output=True, text=True)
        world.check(done.returncode == 0, f"{kind.name} refuses {form}: {done.stderr[-400:]}")
        with open(path, "a") as file:
            file.write("\nno-such-word: {\n")
        done = subprocess.run(kind.check(program, path), capture_output=True, text=True)
        world.check(done.returncode != 0, f"{kind.name} takes anything")
    world.say(f"{kind.name}, its own check", files=2)


# --- affinity ---

def talk(port, i, ca):
    """A chat of several turns; the texts. ca: of the API behind a proxy."""
    messages, said = [], []
    for turn in range(TURNS):
        words = FIRST.format(THINGS[i]) if turn == 0 else f"Go on, part {turn}, and say more about {THINGS[i]}."
        messages.append({"role": "user", "content": words})
        text, error = f.ask(port, messages, TURN_TOKENS, ca)
        if error:
            return error
        messages.append({"role": "assistant", "content": text})
        said.append(text)
    return said


def chats(world, servers, port, when, ca=None):
    """All chats at once, at this port: (texts, hit rate in percent)."""
    before = [[s.metric(f"prefix_{n}_tokens_total") for n in ("hit", "lookup")] for s in servers]
    texts = f.together(lambda i: talk(port, i, ca), CHATS)
    for text in texts:
        world.check(isinstance(text, list), f"{when}: a chat ended: {text}")
    hit, lookup = (sum(s.metric(f"prefix_{n}_tokens_total") - b[k] for s, b in zip(servers, before))
                   for k, n in enumerate(("hit", "lookup")))
    return texts, 100 * hit / lookup


def both_used(world, kind, program, robin=False, api=False):
    """Chats of an edge, or of the API, behind a fleet of which both servers get some: which server owns a chat
    follows from the ports, so new ones are drawn until both own one. (texts, hit rate)"""
    for _ in range(DRAWS):
        fleet = f.Fleet(world, kind, program, robin=robin)
        port, ca = (fleet.proxy.http, fleet.certificate.cert) if api else (fleet.add_edge().http, None)
        told = chats(world, fleet.servers, port, kind.name, ca)
        used = [int(s.metric("sessions_opened_total")) for s in fleet.servers]
        fleet.end()
        if min(used) > 0:
            return told
    world.check(False, f"{kind.name}: one server got no chat in {DRAWS} fleets: {used}")
    return told


def hits(world, kind, program):
    """A chat comes back to the server that has its KV."""
    if "alone" not in world.texts:
        server = w.Server(world, "--ctx-size", f.CONTEXT)
        edge = w.Edge(world, [server.grpc])
        world.texts["alone"] = chats(world, [server], edge.http, "one server")
        edge.stop(), server.stop()
    texts, alone = world.texts["alone"]
    rates, ways = {}, {"edge": {}, "api": {"api": True}, "round_robin": {"robin": True}}
    if not world.long and kind.name not in SHORT["api"]:
        del ways["api"]
    for name, how in ways.items():
        said, rates[name] = both_used(world, kind, program, **how)
        world.check(said == texts, f"{kind.name}, {name}: texts differ from those of one server")
    world.say(f"{kind.name}, prefix hits", one_server=f"{alone:.1f} %",
              **{name: f"{rate:.1f} %" for name, rate in rates.items()})
    for name in ways.keys() - {"round_robin"}:
        world.check(rates[name] >= alone - POINTS,
                    f"{kind.name}, {name}: {rates[name]:.1f} % hits, one server has {alone:.1f} %")
        world.check(rates["round_robin"] < rates[name], f"{kind.name}, {name}: a round robin does as well")


# --- servers that die ---

def kill_once(world, fleet, edge, asked, rng):
    """SIGKILL at some server with texts, after so many pieces of all texts; it is started again behind it."""
    lock, count, at = threading.Lock(), [0], rng.randrange(10, PEOPLE * TOKENS // 3)
    victim = []

    def piece(answer):
        with lock:
            count[0] += 1
            if count[0] < at or victim:
                return
            victim.append(max(range(2), key=lambda i: fleet.servers[i].metric("sessions")))
            fleet.servers[victim[0]].kill()

    answers = chat.Crowd([edge.http], asked, piece).wait()
    same = world.same(answers, "kill")
    if not world.check(victim, f"kill: the texts ended after {count[0]} pieces, before piece {at}"):
        return same
    fleet.servers[victim[0]] = fleet.start(victim[0])
    return same


def kill(world, kind, program):
    """A server is killed in mid-text: its texts go on at the other one."""
    rng = random.Random(f"{world.seed} {kind.name}")
    fleet = f.Fleet(world, kind, program)
    edge = fleet.add_edge()
    asked = chat.asks(PEOPLE, world.seed, TOKENS)
    world.learn(chat.crowd([edge.http], asked))
    told = [kill_once(world, fleet, edge, asked, rng) for _ in range(KILLS[world.long])]
    world.say(f"{kind.name}, killed {len(told)} times", texts=told[-1], reconnects=int(edge.metric("reconnects_total")))
    world.check(edge.metric("reconnects_total") > 0, f"{kind.name}: no text lost its server")
    fleet.end()


# --- servers that are replaced ---

class Load:
    """People who ask again and again, half of them an edge, half of them the API behind the proxy."""

    def __init__(self, fleet, edge, n):
        self.fleet, self.edge = fleet, edge
        self.stop, self.asked, self.errors = threading.Event(), [0] * n, []
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(n)]
        for thread in self.threads:
            thread.start()

    def _run(self, i):
        while not self.stop.is_set():
            messages = [{"role": "user", "content": f"Say something about the number {100 * i + self.asked[i]}."}]
            if i % 2:
                _, error = f.ask(self.fleet.proxy.http, messages, 8, ca=self.fleet.certificate.cert)
            else:
                _, error = f.ask(self.edge.http, messages, 24)
            self.asked[i] += 1
            if error:
                self.errors.append(f"{'API' if i % 2 else 'edge'}: {error}")

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return sum(self.asked)


class Long:
    """An API text that takes longer than the delay of a shutdown, and less than the delay and serve's --drain-s together.
    Under load it takes longer than alone. But a server that is told to end soon has no other text. So the constructor, before
    there is load, measures how many tokens take LONG_S. A fast machine fills the context sooner: the text ends there."""

    def __init__(self, fleet):
        self.fleet = fleet
        began = time.monotonic()
        text, error = self._ask(PROBE_TOKENS)
        if error or not text:
            raise RuntimeError(f"the first text: {error or 'empty'}")
        tokens = int(LONG_S * PROBE_TOKENS / (time.monotonic() - began))
        self.tokens = min(tokens, int(f.CONTEXT) - LONG_PROMPT_TOKENS)

    def begin(self):
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.server = w.wait_for("the long text to begin", self._server)

    def _ask(self, tokens):
        messages = [{"role": "user", "content": "Tell the whole story of the lighthouse."}]
        return f.ask(self.fleet.proxy.http, messages, tokens, ca=self.fleet.certificate.cert, endless=True)

    def _run(self):
        self.text, self.error = self._ask(self.tokens)
        self.ended = time.monotonic()

    def _server(self):
        """Which server tells it, as the logs say: empty before it begins."""
        if not self.thread.is_alive():
            raise RuntimeError(f"the long text of {self.tokens} tokens ended at once: {self.error}")
        opened = re.compile(rf"opened prompt_tok=\d+ max_tok={self.tokens} ")
        at = [i for i, server in enumerate(self.fleet.servers) if opened.search(server.said())]
        return tuple(at)

    def outlives(self, world, name, told):
        """It is whole, though its server was told to end long before."""
        self.thread.join()
        lived_s = self.ended - told
        world.check(self.text and not self.error, f"{name}: the long text: {self.error}")
        world.check(lived_s > f.DELAY_S, f"{name}: the long text of {self.tokens} tokens ended after {lived_s:.1f} s")
        return f"{lived_s:.0f} s after SIGTERM"


def roll(world, kind, program):
    """SIGTERM to each server in turn, under load; each is started again and gets work before the next one goes.
    The first one that goes has a long text of the API."""
    fleet = f.Fleet(world, kind, program)
    edge = fleet.add_edge()
    long = Long(fleet)
    load = Load(fleet, edge, PEOPLE)
    w.wait_for("both servers to have work", lambda: all(s.metric("sessions_opened_total") > 4 for s in fleet.servers))
    long.begin()
    first = long.server[0]
    told, lived = time.monotonic(), None
    for i in (first, 1 - first):
        w.wait_for("both servers to have work", lambda: all(s.metric("sessions_opened_total") > 4
                                                            for s in fleet.servers))
        code = fleet.servers[i].stop(120)
        lived = lived or long.outlives(world, kind.name, told)
        world.check(code == 0, f"{kind.name}: a server ended with {code}")
        fleet.servers[i] = fleet.start(i)
    w.wait_for("the last server to have work", lambda: fleet.servers[1 - first].metric("sessions_opened_total") > 4)
    asked = load.end()
    world.check(not load.errors, f"{kind.name}: {len(load.errors)} of {asked} requests failed: {load.errors[:2]}")
    world.say(f"{kind.name}, rolling restart", requests=asked, failed=len(load.errors), long_text=lived)
    fleet.end()


# --- silence ---

def read(world, kind, program):
    """So many long prompts at once that the last one is silent for longer than the proxy waits by default. Half of
    them come from the edge, half over the API."""
    fleet = f.Fleet(world, kind, program, model=f.dear_target())
    edge = fleet.add_edge(drafts=False)

    def one(i):
        began = time.monotonic()
        port, ca = ((edge.http, None), (fleet.proxy.http, fleet.certificate.cert))[i % 2]
        text, error = f.ask(port, [{"role": "user", "content": f"{i}. {READ_PROMPT}"}], 2, ca,
                            timeout_s=READ_TIMEOUT_S)
        world.check(text and not error, f"{kind.name}, prompt {i}: {error or 'no text'}")
        return time.monotonic() - began
    alone_s = one(0)
    n = len(fleet.servers) * (int(READ_MARGIN * SILENT_S[kind.name] / alone_s) + 1)
    sent = edge.metric("reconnects_total")
    most_s = max(f.together(lambda i: one(i + 1), n))
    world.check(most_s > SILENT_S[kind.name], f"{kind.name}: {n} prompts were read in {most_s:.0f} s")
    lost = int(edge.metric("reconnects_total") - sent)
    world.check(lost == 0, f"{kind.name}, {n} long prompts: the stream was cut {lost} times")
    world.say(f"{kind.name}, long prompts", prompts=n, silent_for=f"{most_s:.0f} s", streams_cut=lost)
    fleet.end()


def silence(world, kind, program):
    """A server says nothing for longer than a proxy waits by default: it is stopped, or (--long) reads prompts."""
    if world.long:
        read(world, kind, program)
    fleet = f.Fleet(world, kind, program)
    edge = fleet.add_edge(drafts=False)
    results = {}

    def one(name, port, ca):
        messages = [{"role": "user", "content": f"{name}. {SILENT_PROMPT}"}]
        results[name] = f.ask(port, messages, 8, ca)
    people = [threading.Thread(target=one, args=args, daemon=True) for args in (
        ("edge", edge.http, None), ("API", fleet.proxy.http, fleet.certificate.cert))]
    opened = fleet.metric("sessions_opened_total")
    for thread in people:
        thread.start()
    w.wait_for("both texts", lambda: fleet.metric("sessions_opened_total") >= opened + 2)
    sent = edge.metric("reconnects_total")
    for server in fleet.servers:
        os.kill(server.pid, signal.SIGSTOP)
    time.sleep(SILENT_S[kind.name])  # what is tried is this time, not what happens in it
    for server in fleet.servers:
        os.kill(server.pid, signal.SIGCONT)
    for thread in people:
        thread.join()
    for name, (text, error) in results.items():
        world.check(text and not error, f"{kind.name}, {name}: {error or 'no text'}")
    lost = int(edge.metric("reconnects_total") - sent)
    world.check(lost == 0, f"{kind.name}: the stream was cut {lost} times")
    world.say(f"{kind.name}, silent for {SILENT_S[kind.name]} s", streams_cut=lost)
    fleet.end()


# --- TLS that is passed through ---

def connections_max(admin):
    """What Envoy lets each cluster have: {cluster: connections}."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/clusters", timeout=30) as page:
        found = re.findall(r"^(\w+)::default_priority::max_connections::(\d+)$", page.read().decode(), re.M)
    return {name: int(most) for name, most in found}


def passed(world, kind, program):
    """The servers have the certificates; a text survives its server here, too."""
    rng = random.Random(f"{world.seed} passed {kind.name}")
    fleet = f.Fleet(world, kind, program, form="passthrough")
    edge = fleet.add_edge()
    if kind.name == "envoy":
        most = connections_max(fleet.proxy.admin)
        world.check(most == {"grpc": 16384, "api": 16384}, f"envoy: connections at most: {most}")
    asked = chat.asks(PEOPLE, world.seed, TOKENS)
    world.learn(chat.crowd([edge.http], asked))
    told = kill_once(world, fleet, edge, asked, rng)
    text, error = f.ask(fleet.proxy.http, [{"role": "user", "content": "Hello."}], 8, fleet.certificate.cert)
    world.check(text and not error, f"{kind.name}: the API over TLS: {error}")
    world.say(f"{kind.name}, TLS passed through", texts=told)
    fleet.end()


ALL = {"check": check, "hits": hits, "kill": kill, "roll": roll, "silence": silence, "passed": passed}
SHORT = {"silence": ("envoy",), "passed": ("envoy",), "api": ("envoy",)}  # without --long: these proxies alone
