#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo behind ./demo: server and edges as processes on loopback, asked over HTTP.

Two edges share one server: one drafts, one does not (plain remote decoding). The same prompt goes to
both, interleaved; figures are medians. Nothing here knows how foretoken works: it reads the answer and
the `usage` that any client of the API gets.
"""
import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

START_S = 120  # loading both models takes about a second; a busy machine may need longer


def fail(message):
    sys.exit(f"demo: {message}")


class Process:
    """A foretoken command that writes the port it listens on into a file."""

    def __init__(self, folder, name, arguments):
        self.name = name
        self.log_path = os.path.join(folder, name + ".log")
        self.port_path = os.path.join(folder, name + ".port")
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            arguments + ["--port", "0", "--port-file", self.port_path],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def port(self):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if os.path.exists(self.port_path):
                text = open(self.port_path).read()
                if text.endswith("\n"):
                    return int(text)
            if self.process.poll() is not None:
                fail(f"the {self.name} ended: {self.last_words()}")
            time.sleep(0.02)
        fail(f"the {self.name} did not listen within {START_S} s: {self.last_words()}")

    def last_words(self):
        lines = open(self.log_path, errors="replace").read().strip().splitlines()
        return lines[-1] if lines else "(no output)"

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()


def ask(port, prompt, n_tokens, on_text):
    """Streams one chat completion; returns (text, usage, ttft_s, total_s)."""
    body = json.dumps({
        "messages": [{"role": "user", "content": prompt}], "max_tokens": n_tokens,
        "temperature": 0, "seed": 1, "stream": True, "stream_options": {"include_usage": True}})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    start = time.monotonic()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        fail(f"HTTP {response.status}: {response.read().decode(errors='replace')}")
    text, usage, first, last = "", None, None, start
    for line in response:
        if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
            continue
        event = json.loads(line[6:])
        if "error" in event:
            fail(f"the answer broke off: {event['error']['message']}")
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            piece = choice["delta"].get("content") or ""
            if piece:
                last = time.monotonic()
                first = first or last
                text += piece
                on_text(piece)
    connection.close()
    if not usage:
        fail("the answer had no usage")
    return text, usage, (first or last) - start, last - start


def per_second(usage, ttft_s, total_s):
    """Decode speed: tokens after the first, over the time after the first."""
    return (usage["completion_tokens"] - 1) / max(total_s - ttft_s, 1e-9)


def measure(edge_port, plain_port, args):
    def show(piece):
        if not args.json:
            print(piece, end="", flush=True)

    runs, plain_runs, texts = [], [], set()
    for number in range(args.rounds):
        result = ask(edge_port, args.prompt, args.n, show if number == 0 else lambda piece: None)
        runs.append(result)
        plain = ask(plain_port, args.prompt, args.n, lambda piece: None)
        plain_runs.append(plain)
        texts |= {result[0], plain[0]}
    text, usage, _, _ = runs[0]
    extra = usage["foretoken"]
    tokens = usage["completion_tokens"]
    drafted_for = tokens - extra["run_tokens"]  # the rest the server made by itself
    return {
        "text": text,
        "tokens": tokens,
        "rounds": extra["rounds"],
        "tokens_per_round": round(drafted_for / max(extra["rounds"], 1), 3),
        "run_tokens": extra["run_tokens"],
        "acceptance": round(extra["accepted"] / max(extra["drafted"], 1), 3),
        "ttft_ms": round(1000 * statistics.median(r[2] for r in runs), 2),
        "tokens_per_s": round(statistics.median(per_second(*r[1:]) for r in runs), 1),
        "plain_tokens_per_s": round(statistics.median(per_second(*r[1:]) for r in plain_runs), 1),
        "uplink_bytes_per_token": round(extra["bytes_sent"] / max(tokens, 1), 1),
        "identical": len(texts) == 1,
    }


def print_table(result):
    rows = [
        ("tokens", f"{result['tokens']}"),
        ("rounds with a draft", f"{result['rounds']}"),
        ("tokens per such round", f"{result['tokens_per_round']:.2f}"),
        ("tokens without a draft", f"{result['run_tokens']}"),
        ("draft acceptance", f"{result['acceptance']:.2f}"),
        ("time to first token", f"{result['ttft_ms']:.0f} ms"),
        ("tokens/s", f"{result['tokens_per_s']:.0f}"),
        ("tokens/s without speculation", f"{result['plain_tokens_per_s']:.0f}"),
        ("bytes sent per token", f"{result['uplink_bytes_per_token']:.1f}"),
        ("same text without speculation", "yes" if result["identical"] else "NO"),
    ]
    print("\n")
    for name, value in rows:
        print(f"  {name:<30} {value:>8}")


def next_steps(edge, server, kept):
    """What to do after the demo, with the addresses of what still runs."""
    app = (f"Point any OpenAI client at http://127.0.0.1:{edge}/v1 (the server is on {server})."
           if kept else "./demo --keep leaves it running: then any OpenAI client can use it.")
    return (f"Next:  {app}\n"
            "       Your own model: build/foretoken serve -m YOUR.gguf, and build/foretoken edge\n"
            "       next to your apps. README.md has both commands in full, docs/ is the manual.")


def main():
    parser = argparse.ArgumentParser(prog="./demo")
    parser.add_argument("--binary", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--target", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--draft", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--prompt", default="Give me five tips for sleeping well.",
                        help="what to ask")
    parser.add_argument("-n", type=int, default=128, help="tokens at most (128)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each edge is asked; figures are medians (3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--keep", action="store_true", help="leave it running and print the URL")
    args = parser.parse_args()
    if args.n < 2 or args.rounds < 1:
        fail("-n must be at least 2 and --rounds at least 1")

    folder = tempfile.mkdtemp(prefix="foretoken-demo-")
    processes = []
    kept = False

    def start(name, arguments):
        processes.append(Process(folder, name, [args.binary] + arguments))
        return processes[-1].port()

    # SIGTERM too must stop the children.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        server = start("server", ["serve", "-m", args.target])
        address = f"127.0.0.1:{server}"
        # Draft and target share these cores. So one token is drafted at a time (a pass of the
        # target takes 1.2 times as long for two tokens as for one, 1.5 times for three), none
        # while a verdict is awaited, and by one thread: two would wait for each other whenever
        # other programs have a core.
        edge = start("edge", ["edge", "--server", address, "-md", args.draft, "--draft", "1",
                              "--no-proactive", "-t", "1"])
        plain = start("edge-plain",
                      ["edge", "--server", address, "-md", args.draft, "--no-speculation"])
        if not args.json:
            print(f"> {args.prompt}\n")
        result = measure(edge, plain, args)
        if args.json:
            print(json.dumps(result))
        else:
            print_table(result)
        if not result["identical"]:
            fail("the texts with and without speculation differ")
        if args.keep:
            processes[2].stop()
            kept = True
        print("\n" + next_steps(edge, address, kept), file=sys.stderr if args.json else sys.stdout)
        if kept:
            print(f"Stop:  kill {processes[1].process.pid} {processes[0].process.pid}    "
                  f"Logs: {folder}", file=sys.stderr)
    finally:
        if not kept:
            for process in reversed(processes):
                process.stop()


if __name__ == "__main__":
    main()
