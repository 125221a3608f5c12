# SPDX-License-Identifier: Apache-2.0
"""What holds behind each proxy. Each part takes the world, the kind of proxy and its program."""
import os
import random
import signal
import subprocess
import threading
import time

import chat
import fleet as f
import proxies
import world as w

CHATS, TURNS, TURN_TOKENS = 8, 4, 24
FIRST = ("I keep notes about {0}. They say that {0} were there first, that {0} came in spring and {0} left in "
         "autumn, that nobody counted {0} but me, and that all of it was written down by hand. What is a good "
         "first sentence for an essay about {0}, and what should come after it?")
THINGS = ("harbours", "violins", "glaciers", "foxes", "looms", "lanterns", "orchards", "comets")
POINTS = 5.0  # of the hit rate, that two servers may be below one
PEOPLE, TOKENS = 8, 48
KILLS = {False: 2, True: 20}
SILENT_S = {"envoy": 17, "nginx": 62, "haproxy": 52}  # above 15 s, 60 s and the usual 50 s
SILENT_PROMPT = "The keeper wrote in the book that the night was calm and the lamp was lit. " * 60


# --- configurations ---

def check(world, kind, program):
    """The program's own check takes each file, and the check can fail."""
    for form in ("foretoken", "passthrough"):
        path = proxies.write(world, kind, form, [(7411, 8411)] * 2, proxies.free_ports(3))
        done = subprocess.run(kind.check(program, path), capture_output=True, text=True)
        world.check(done.returncode == 0, f"{kind.name} refuses {form}: {done.stderr[-400:]}")
        with open(path, "a") as file:
            file.write("\nno-such-word: {\n")
        done = subprocess.run(kind.check(program, path), capture_output=True, text=True)
        world.check(done.returncode != 0, f"{kind.name} takes anything")
    world.say(f"{kind.name}, its own check", files=2)


# --- affinity ---

def talk(port, i):
    """A chat of several turns; the texts."""
    messages, said = [], []
    for turn in range(TURNS):
        words = FIRST.format(THINGS[i]) if turn == 0 else f"Go on, part {turn}, and say more about {THINGS[i]}."
        messages.append({"role": "user", "content": words})
        text, error = f.ask(port, messages, TURN_TOKENS)
        if error:
            return error
        messages.append({"role": "assistant", "content": text})
        said.append(text)
    return said


def chats(world, servers, edge, when):
    """All chats at once: (texts, hit rate in percent)."""
    before = [[s.metric(f"prefix_{n}_tokens_total") for n in ("hit", "lookup")] for s in servers]
    texts = f.together(lambda i: talk(edge.http, i), CHATS)
    for text in texts:
        world.check(isinstance(text, list), f"{when}: a chat ended: {text}")
    hit, lookup = (sum(s.metric(f"prefix_{n}_tokens_total") - b[k] for s, b in zip(servers, before))
                   for k, n in enumerate(("hit", "lookup")))
    return texts, 100 * hit / lookup


def hits(world, kind, program):
    """A chat comes back to the server that has its KV."""
    if "alone" not in world.texts:
        server = w.Server(world, "--ctx-size", f.CONTEXT)
        edge = w.Edge(world, [server.grpc])
        world.texts["alone"] = chats(world, [server], edge, "one server")
        edge.stop(), server.stop()
    texts, alone = world.texts["alone"]
    rates = {}
    for robin in (False, True):
        fleet = f.Fleet(world, kind, program, robin=robin)
        edge = fleet.add_edge()
        said, rates[robin] = chats(world, fleet.servers, edge, kind.name)
        world.check(said == texts, f"{kind.name}: texts differ from those of one server")
        used = [int(s.metric("sessions_opened_total")) for s in fleet.servers]
        world.check(min(used) > 0, f"{kind.name}: a server got no chat: {used}")
        fleet.end()
    world.say(f"{kind.name}, prefix hits", one_server=f"{alone:.1f} %", by_prefix=f"{rates[False]:.1f} %",
              round_robin=f"{rates[True]:.1f} %")
    world.check(rates[False] >= alone - POINTS, f"{kind.name}: {rates[False]:.1f} % hits, one server has {alone:.1f} %")
    world.check(rates[True] < rates[False], f"{kind.name}: a round robin does as well")


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


def roll(world, kind, program):
    """SIGTERM to each server in turn, under load; each is started again and gets work before the next one goes."""
    fleet = f.Fleet(world, kind, program)
    edge = fleet.add_edge()
    load = Load(fleet, edge, PEOPLE)
    for i in range(2):
        w.wait_for("both servers to have work", lambda: all(s.metric("sessions_opened_total") > 4
                                                            for s in fleet.servers))
        code = fleet.servers[i].stop(120)
        world.check(code == 0, f"{kind.name}: a server ended with {code}")
        fleet.servers[i] = fleet.start(i)
    w.wait_for("the last server to have work", lambda: fleet.servers[1].metric("sessions_opened_total") > 4)
    asked = load.end()
    world.check(not load.errors, f"{kind.name}: {len(load.errors)} of {asked} requests failed: {load.errors[:2]}")
    world.say(f"{kind.name}, rolling restart", requests=asked, failed=len(load.errors))
    fleet.end()


# --- silence ---

def silence(world, kind, program):
    """A server says nothing for longer than a proxy waits by default, as while it reads a long prompt."""
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

def passed(world, kind, program):
    """The servers have the certificates; a text survives its server here, too."""
    rng = random.Random(f"{world.seed} passed {kind.name}")
    fleet = f.Fleet(world, kind, program, form="passthrough")
    edge = fleet.add_edge()
    asked = chat.asks(PEOPLE, world.seed, TOKENS)
    world.learn(chat.crowd([edge.http], asked))
    told = kill_once(world, fleet, edge, asked, rng)
    text, error = f.ask(fleet.proxy.http, [{"role": "user", "content": "Hello."}], 8, fleet.certificate.cert)
    world.check(text and not error, f"{kind.name}: the API over TLS: {error}")
    world.say(f"{kind.name}, TLS passed through", texts=told)
    fleet.end()


ALL = {"check": check, "hits": hits, "kill": kill, "roll": roll, "silence": silence, "passed": passed}
SHORT = {"silence": ("envoy",), "passed": ("envoy",)}  # without --long: these proxies alone
