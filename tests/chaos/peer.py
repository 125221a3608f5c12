# SPDX-License-Identifier: Apache-2.0
"""One target over three processes by ggml's RPC: one that lends its CPU is killed in mid-text.

The server ends with it, for ggml ends it, and says in one line which one was lost. Both are started again, as
systemd does. The edge's texts wait meanwhile and go on. Without --minutes there are two kills, with it ten.

A peer is a device, which may round a row in another way in another batch (docs/ARCHITECTURE.md, "Same bits"). A text that goes on
has its first part in another batch. So it may leave the text that was told in peace, but only where the two best tokens
are close: texts are told at temperature 0, with the log-probabilities of two tokens.
"""
import itertools
import random
import re
import socket
import threading

import chat
import world as w

PEERS = 2
PEOPLE, TOKENS = 4, 64
KILLS_SHORT, KILLS_LONG = 2, 10
LAYERS = "12"  # on the peers; the CPU here has the rest
CLOSE = 0.5  # nats; in 100 kills the rounding of a lead was 0.45 at most, and none in two of three
LOST = re.compile(r'rpc server lost: this process ends server="([^"]*)" reason="[^\n]*"\n')


class Peer(w.Program):
    """foretoken rpc-server, on a port that it keeps when it is started again."""

    def __init__(self, world, port):
        self.place = f"127.0.0.1:{port}"
        super().__init__(world, "rpc", [world.binary, "rpc-server", "--listen", self.place, "--device", "CPU",
                                        "-t", "1"])
        w.wait_for(f"{self.name} to listen", lambda: self.listens(port))

    def listens(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False


class Machines:
    """The peers, the server that uses them, and an edge."""

    def __init__(self, world):
        self.world = world
        *self.ports, grpc, http, metrics = w.free_ports(PEERS + 3)
        self.server_ports = {"port": grpc, "http": http, "metrics": metrics}
        self.peers = [Peer(world, port) for port in self.ports]
        self.server = self.serve()
        self.edge = w.Edge(world, [grpc])

    def serve(self):
        return w.Server(self.world, "--rpc", ",".join(peer.place for peer in self.peers), "-ngl", LAYERS,
                        **self.server_ports)

    def start_again(self, i):
        """What systemd does with both, the peer first."""
        self.peers[i] = Peer(self.world, self.ports[i])
        self.server = self.serve()

    def end(self):
        self.world.check(self.edge.stop() == 0, "the edge did not end in order")
        self.world.check(self.server.stop() == 0, "the server did not end in order")


def compare(world, peace, answers, when):
    """All whole, and none leaves its text of peace but where two tokens are close; what is to be said of it."""
    parted, rounding = 0, [0.0]
    for a in answers:
        known = peace[a.ask.key]
        if not world.check(a.whole, f"{when}: a text was lost: {a.error}"):
            continue
        pairs = itertools.zip_longest(known.tokens, a.tokens)
        i = next((i for i, (x, y) in enumerate(pairs) if x != y), None)
        rounding += [abs(x - y) for x, y in list(zip(known.leads, a.leads))[:i]]
        if i is None:
            world.check(a.text == known.text, f"{when}: the same tokens are {a.text!r} and {known.text!r}")
            continue
        parted += 1
        lead = (known.leads[i:] or a.leads[i:])[0]  # one of the two may end here
        world.check(lead < CLOSE, f"{when}: {a.text!r} is not {known.text!r}: token {i}, lead {lead}")
    return {"texts": f"{sum(a.whole for a in answers)} of {len(answers)}", "parted": parted,
            "rounding": f"{max(rounding):.3f}"}


def kill_once(world, machines, peace, rng):
    """A peer is killed when the texts have so many pieces together."""
    i, at = rng.randrange(PEERS), rng.randrange(PEOPLE, PEOPLE * TOKENS // 3)
    lock, count = threading.Lock(), [0]
    server, peer = machines.server, machines.peers[i]

    def piece(_):
        with lock:
            count[0] += 1
            if count[0] == at:
                peer.process.kill()

    people = chat.Crowd([machines.edge.http], [a.ask for a in peace.values()], piece)
    w.wait_for("the server to end with its peer", lambda: not server.alive)
    lines = LOST.findall(server.said())
    world.check(lines == [peer.place], f"{peer.place} was killed, the log names {lines}")
    machines.start_again(i)
    return compare(world, peace, people.wait(), f"peer {i}")


def run(world):
    rng = random.Random(f"{world.seed} peer")
    machines = Machines(world)
    asked = chat.asks(PEOPLE, world.seed, TOKENS, before=f"{rng.randrange(2, 1000)}. ", temperature=0, logprobs=2)
    peace = {a.ask.key: a for a in chat.crowd([machines.edge.http], asked)}
    for a in peace.values():
        world.check(a.whole and len(a.tokens) == len(a.leads) > 0, f"a text in peace: {a.error}")
    for _ in range(KILLS_LONG if world.long else KILLS_SHORT):
        world.say("a peer was killed", **kill_once(world, machines, peace, rng))
    world.check(machines.edge.metric("reconnects_total") > 0, "no text lost its server")
    machines.end()
