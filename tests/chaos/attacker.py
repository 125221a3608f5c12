#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One client that attacks, as a process of its own: attacker.py KIND --grpc PORT --http PORT ...

It prints "ready" when the attack is on and goes on until its standard input ends. What the server refuses
or ends is opened again once a second: an attacker does not give up. At the end it prints one JSON object
with what it had.
"""
import argparse
import itertools
import json
import resource
import select
import socket
import sys
import threading
import time

import h2

CALLS_PER_CONNECTION = 300  # so that a server's limit a connection is not what is tried
TOP_UP_S = 1.0
ANSWER_S = 180              # four loops beside eight people may take so long on a busy machine
SETTLE_S = 2.0              # until "ready": all that the server lets in is in by then

CALLS = {  # kind: (method, first message, how many)
    "silent": (h2.SESSION, None, 1100),
    "idle": (h2.SESSION, h2.open_message(prompt=[1, 2, 3], max_tokens=1000), 1100),
    "watch": (h2.WATCH, b"", 300),
    "health": (h2.CHECK, None, 300),
}
CONNECTIONS = 2000
BODY_BYTES = 8 << 20
SCHEMA_BYTES = 64 << 10     # the most that a server takes
SCHEMA_LEVELS = 30          # with 60 brackets in brackets, of 64
ARGUMENTS_BYTES = (10 << 20, BODY_BYTES - 1000, 100 << 10)  # the last ones reach the template
LOOPS = 1000                # of 10^8 steps: for ever
REGEXES = ("(a|b)*a(a|b){18}", "((a{1,40}){1,40}){1,40}", "(x+x+)+y", "(.*,){30}=", "(a?){3000}a{3000}",
           "([a-z]{0,200} ){0,200}", "(a|aa|aaa|aaaa)*b", "(.|..|...)*#(.*.*)*")


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def chat_body(**fields):
    return compact({"messages": [{"role": "user", "content": "x"}], "max_tokens": 16, **fields}).encode()


def nested_any_of(i):
    """64 KiB of anyOf in anyOf, another one for each i."""
    schema, room = {"const": i}, SCHEMA_BYTES // SCHEMA_LEVELS - 12
    for level in range(SCHEMA_LEVELS):
        other = ({"type": "string", "maxLength": i % 100 + level}, {"type": "array", "items": {"type": "integer"}},
                 {"enum": [f"{i}.{level}", None]}, {"type": "number"})[(i + level) % 4]
        schema = {"anyOf": [other] * (room // (len(compact(other)) + 1)) + [schema]}
    return chat_body(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}})


def regex(i):
    return chat_body(regex=REGEXES[i % len(REGEXES)] + str(i))


def loop(i):
    """Clients send no templates, but what the server's own one does with their variables (attack.py)."""
    return chat_body(chat_template_kwargs={"loops": LOOPS + i})


def arguments(i):
    """A call in the history: one value or very many."""
    n = ARGUMENTS_BYTES[i % len(ARGUMENTS_BYTES)]
    text = '{"a": "' + "b" * n + '"}' if i % 2 else '{"a": [' + "0," * (n // 2) + "0]}"
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": text}}
    return chat_body(messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                               {"role": "tool", "tool_call_id": "call00001", "content": "y"}])


BODIES = {  # kind: (path, its body number i)
    "values": ("/v1/chat/completions",
               lambda i: b'{"messages":[' + b"{}," * (BODY_BYTES // 3 - 10) + b"{}]}"),
    "brackets": ("/v1/completions", lambda i: b'{"prompt":"' + b"<" * (BODY_BYTES - 100) + b'"}'),
    "letters": ("/v1/completions", lambda i: b'{"prompt":"' + b"abcdefgh" * (1 << 17) + b'"}'),
    "schemas": ("/v1/chat/completions", nested_any_of),
    "regexes": ("/v1/chat/completions", regex),
    "loops": ("/v1/chat/completions", loop),
    "arguments": ("/v1/chat/completions", arguments),
}
KINDS = [*CALLS, "connections", *BODIES]


def stopped(seconds):
    """Waits so long for the end of standard input."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


class Calls:
    """So many calls of one method, which do nothing; over as many connections as they need."""

    def __init__(self, args, method, body, n):
        self.args, self.method, self.body, self.n = args, method, body, n
        self.connections = []
        self.opened = self.refused = 0

    def open_calls(self):
        return sum(not s.ended for c in self.connections for s in c.streams.values())

    def top_up(self):
        for c in [c for c in self.connections if c.closed]:
            self.connections.remove(c)
            c.close()
        for c in self.connections:
            ended = [number for number, s in c.streams.items() if s.ended]
            self.refused += len(ended)
            for number in ended:
                del c.streams[number]
        missing = self.n - self.open_calls()
        while missing > 0:
            c = next((c for c in self.connections if len(c.streams) < CALLS_PER_CONNECTION), None)
            if c is None:
                try:
                    c = h2.Connection(self.args.grpc, self.args.source, 2)
                except OSError:
                    self.refused += missing
                    return
                self.connections.append(c)
            for _ in range(min(missing, CALLS_PER_CONNECTION - len(c.streams))):
                c.call(self.method, self.body)
                self.opened, missing = self.opened + 1, missing - 1

    def turn(self):
        """Reads for a while what the server says: pings want answers."""
        ready, _, _ = select.select([c for c in self.connections if not c.closed] + [sys.stdin],
                                    [], [], 0.2)
        for c in ready:
            if c is not sys.stdin:
                c.pump()

    def facts(self):
        return {"open": self.open_calls(), "opened": self.opened, "refused": self.refused}


class Connections:
    """So many connections that say nothing, to each port."""

    def __init__(self, args):
        self.ports = (args.grpc, args.http, args.metrics)
        self.source = args.source
        self.sockets = {port: [] for port in self.ports}
        self.opened = self.refused = 0

    def top_up(self):
        for port, sockets in self.sockets.items():
            for s in sockets[:]:
                if self.ended(s):
                    s.close()
                    sockets.remove(s)
                    self.refused += 1
            while len(sockets) < CONNECTIONS:
                try:
                    s = socket.create_connection(("127.0.0.1", port), 1, (self.source, 0))
                except OSError:
                    break
                s.setblocking(False)
                sockets.append(s)
                self.opened += 1

    @staticmethod
    def ended(s):
        try:
            return s.recv(1 << 12) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def turn(self):
        time.sleep(0.1)

    def facts(self):
        return {"open": [len(self.sockets[port]) for port in self.ports], "opened": self.opened,
                "refused": self.refused}


class Bodies:
    """Four threads that send one body after the other."""

    THREADS = 4

    def __init__(self, args, path, body):
        self.port, self.source = args.http, args.source
        self.path, self.body = path, body
        self.numbers = itertools.count()
        self.sent = 0
        self.statuses = {}
        self.lock = threading.Lock()
        for _ in range(self.THREADS):
            threading.Thread(target=self._send_on, daemon=True).start()

    def _send_on(self):
        while True:
            status = self._send_one()
            with self.lock:
                self.sent += 1
                self.statuses[status] = self.statuses.get(status, 0) + 1
            if status == "none":
                time.sleep(0.1)

    def _request(self):
        body = self.body(next(self.numbers))
        return (f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body

    def _send_one(self):
        """The status that the server gave, also if it closed before it had read all."""
        answer, request = b"", self._request()
        try:
            with socket.create_connection(("127.0.0.1", self.port), ANSWER_S, (self.source, 0)) as s:
                try:
                    s.sendall(request)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                answer = s.recv(1 << 12)
        except OSError:
            pass
        return answer[9:12].decode() or "none"

    def top_up(self):
        pass

    def turn(self):
        time.sleep(0.1)

    def facts(self):
        return {"sent": self.sent, "statuses": self.statuses}


def make(args):
    if args.kind in CALLS:
        return Calls(args, *CALLS[args.kind])
    if args.kind in BODIES:
        return Bodies(args, *BODIES[args.kind])
    return Connections(args)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    for port in "grpc", "http", "metrics":
        parser.add_argument(f"--{port}", type=int, required=True)
    parser.add_argument("--source", default="127.0.0.2", help="address to come from")
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = make(args)
    began, topped, said = time.monotonic(), 0.0, False
    while not stopped(0):
        now = time.monotonic()
        if now - topped >= TOP_UP_S:
            attack.top_up()
            topped = time.monotonic()
        attack.turn()
        if not said and now - began > SETTLE_S:
            print("ready", flush=True)
            said = True
    print(json.dumps(attack.facts()), flush=True)


if __name__ == "__main__":
    main()
