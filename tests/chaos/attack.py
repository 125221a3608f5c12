# SPDX-License-Identifier: Apache-2.0
"""One client attacks, eight chat: theirs all finish with the texts of the quiet run, the server's memory
grows by less than 100 MB, and Health answers. The attacker comes from 127.0.0.2: it floods with calls, connections
and bodies, and with work: schemas, regexes, loops in the server's template, arguments of calls in a history.

While the attack is on, an edge starts and four people chat through it; four chat with the server's own
API. So streams, connections, Info and HTTP must all find room. The long form also compares the 99th
percentile of the time between two pieces of text: five turns of quiet and attack over one edge, about
20,000 pieces of text of each kind, with the attacker on another processor than the server. It also says
how much of a processor the server used, quiet and under attack.
"""
import json
import os
import subprocess
import sys
import time

import chat
import world as w
from attacker import BODIES, KINDS

PEOPLE = 8
TOKENS = 64
TURNS = 5
LONG_TOKENS = 256  # in the long form: most pieces come when all prompts have been read
CROWDS = 3         # one after the other in a turn: a second that is slow by chance must not decide
P99_MOST = 1.1
# The server's own template: chatml, calls, and a loop that a request can ask for: each turn is 10^8 steps.
TEMPLATE = """{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}
{%- for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}
{%- for i in range(loops | default(0)) %}{% for j in range(10000) %}{% for k in range(10000) %}{% endfor %}{% endfor %}{% endfor %}
{{- '<|im_start|>assistant\n' }}
"""
IDLE_S = 5  # --idle-s of the server: longer than a person here is ever silent
EXPECTED = {"200", "400", "413", "429", "503"}  # what an attacker's requests may get
ATTACKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacker.py")


class Attacker(w.Program):
    def __init__(self, world, kind, server):
        """Returns when the attack is on."""
        command = [sys.executable, "-B", ATTACKER, kind, "--grpc", str(server.grpc),
                   "--http", str(server.http), "--metrics", str(server.metrics_port)]
        super().__init__(world, f"attacker-{kind}", command, core=world.attacker_core,
                         stdin=subprocess.PIPE)
        w.wait_for(f"the attack {kind}", lambda: "ready" in self.said() or not self.alive)

    def end(self):
        """What it had."""
        self.process.stdin.close()
        self.process.wait(60)
        lines = [line for line in self.said().splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {"ended": self.said()[-300:]}


class Pool:
    """What several crowds got, and what the server computed meanwhile."""

    def __init__(self):
        self.gaps = []
        self.seconds = self.cpu_s = 0.0

    def crowd(self, server, ports, asked):
        began, cpu = time.monotonic(), server.cpu_s()
        answers = chat.crowd(ports, asked)
        self.seconds += time.monotonic() - began
        self.cpu_s += server.cpu_s() - cpu
        self.gaps += gaps(answers)
        return answers

    @property
    def p99(self):
        return chat.percentile(self.gaps, 0.99)

    @property
    def cpu(self):
        """Processors that the server used."""
        return self.cpu_s / self.seconds if self.seconds else float("nan")


def people(world, server, asked, pool=None, edge=None):
    """Everybody's answers, over an edge that starts now. With a pool: over `edge`, into the pool."""
    new = w.Edge(world, [server.grpc])
    if pool is None:
        answers = chat.crowd([new.http, server.http], asked)
        new.stop()
        return answers
    new.stop()
    return [a for _ in range(CROWDS) for a in pool.crowd(server, [edge.http, server.http], asked)]


def gaps(answers):
    return [gap for a in answers for gap in a.gaps]


def ms(seconds):
    return f"{seconds * 1e3:.1f} ms"


def under(world, kind, server, asked, pool=None, edge=None):
    """One attack, and people meanwhile."""
    with w.Memory(server) as memory:
        attacker = Attacker(world, kind, server)
        with w.Health(server.grpc) as health:
            try:
                answers = people(world, server, asked, pool, edge)
            except RuntimeError as e:  # no edge could start
                world.check(False, f"{kind}: {e}")
                answers = []
        facts = attacker.end()
    if kind in BODIES:
        got = set(facts.get("statuses", ())) - {"none"}  # none in time
        world.check(got <= EXPECTED, f"{kind}: the attacker had {facts}")
    same = world.same(answers, kind) if answers else "0"
    world.check(memory.growth < world.memory_mb,
                f"{kind}: memory grew by {memory.growth:.0f} MB, {world.memory_mb} are allowed")
    world.check(health.serving == health.asked,
                f"{kind}: Health answered {health.serving} of {health.asked} times")
    world.alive(server, kind)
    world.say(kind, texts=same, p99=ms(chat.percentile(gaps(answers), 0.99)),
              memory=f"{memory.growth:+.1f} MB", health=f"{health.serving}/{health.asked}",
              attacker=json.dumps(facts))


def serve(world):
    flags = []
    if world.knows("serve", "--idle-s"):
        flags += ["--idle-s", str(IDLE_S)]
    if world.knows("serve", "--chat-template"):
        template = world.path("template.jinja")
        with open(template, "w") as file:
            file.write(TEMPLATE)
        flags += ["--chat-template", template]
    return chat.full_server(world, *flags, core=world.server_core)


def compare(world, kind, server, asked):
    """Quiet and attack in turns."""
    quiet, loud = Pool(), Pool()
    edge = w.Edge(world, [server.grpc])
    for _ in range(TURNS):
        world.same(people(world, server, asked, quiet, edge), f"quiet beside {kind}")
        under(world, kind, server, asked, loud, edge)
        if not server.alive:
            return  # that has been said
    edge.stop()
    ratio = loud.p99 / quiet.p99
    world.say(kind, quiet_p99=ms(quiet.p99), attack_p99=ms(loud.p99), ratio=f"{ratio:.3f}",
              pieces=f"{len(quiet.gaps)} and {len(loud.gaps)}",
              processors_of_the_server=f"{quiet.cpu:.3f} and {loud.cpu:.3f}")
    world.check(ratio <= P99_MOST, f"{kind}: p99 is {ratio:.2f} times the quiet one, "
                                   f"{P99_MOST} is allowed")


def run(world):
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, world.people_cores)  # edges inherit it
    try:
        each_kind(world)
    finally:
        os.sched_setaffinity(0, cores)


def each_kind(world):
    asked = chat.asks(PEOPLE, world.seed, LONG_TOKENS if world.long else TOKENS)
    server = serve(world)
    answers = people(world, server, asked)
    world.learn(answers)
    world.say("quiet", p99=ms(chat.percentile(gaps(answers), 0.99)), memory=f"{server.rss_mb():.0f} MB")
    for kind in world.wanted(KINDS):
        if not server.alive:
            server = serve(world)
        if world.long:
            compare(world, kind, server, asked)
        else:
            under(world, kind, server, asked)
    world.check(server.stop() == 0, "the server did not end in order after the attacks")
