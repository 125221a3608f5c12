# SPDX-License-Identifier: Apache-2.0
"""Bad networks: loss, partitions, reordered packets. The texts are those of a quiet line, and each round
has one effect: the server's tokens are those of the texts, once.

netlab (docs/NETLAB.md) runs the server in one namespace, and in another one an edge with its people, whose
command is this file: it asks, waits for the answers, reads the server's statistics over the link and prints
one JSON object. Where netlab may not make namespaces the part is skipped.
"""
import json
import os
import shlex
import subprocess
import sys
import time
import urllib.request

import chat

PORT, METRICS = 7411, 9411
PEOPLE = 4
TOKENS = 48
SKIP = 77
LIMIT_S = 400
RTT = ["--rtt-ms", "20"]
AT_S = 3.0  # a partition comes when people chat; they begin when the edge has met its server

SHORT = {
    "loss of 5 %": ["--loss", "0.05"],
    "partition of 1 s": ["--partition", f"{AT_S}:1"],
    "reordering of 10 %": ["--reorder", "0.1"],
}
LONG = {
    **SHORT,
    "loss of 1 %": ["--loss", "0.01"],
    "loss of 20 %": ["--loss", "0.2"],
    "partition of 10 s": ["--partition", f"{AT_S}:10"],
    "partition of 60 s": ["--partition", f"{AT_S}:60"],
    "reordering of 50 %": ["--reorder", "0.5"],
    "all at once": ["--loss", "0.02", "--reorder", "0.1", "--jitter-ms", "10", "--partition",
                    f"{AT_S}:2", "--partition", f"{AT_S + 5}:2"],
}


# --- in the edge's namespace ---

def page(url):
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        return dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines()
                    if not line.startswith("#"))


def people(port_file, seed, until_s):
    """Asks again and again until the lab is until_s old; what came, and the statistics."""
    while not (os.path.exists(port_file) and open(port_file).read().endswith("\n")):
        time.sleep(0.02)
    port = int(open(port_file).read())
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=LIMIT_S).close()
            break
        except OSError:
            time.sleep(0.1)
    answers, began = [], time.monotonic()
    while True:
        answers += chat.crowd([port], chat.asks(PEOPLE, seed, TOKENS))
        if time.monotonic() - began > until_s:
            break
    server = page(f"http://{os.environ['NETLAB_SERVER']}:{METRICS}/metrics")
    print(json.dumps({
        "answers": [[a.ask.key, a.text, a.finish, a.error, a.usage, a.silence_s] for a in answers],
        "opened": int(server["foretoken_sessions_opened_total"]),
        "tokens": int(server["foretoken_tokens_total"]),
        "reconnects": int(page(f"http://127.0.0.1:{port}/metrics")
                          ["foretoken_edge_reconnects_total"])}), flush=True)


# --- outside ---

def lab(world, flags, until_s):
    """(exit status, what people printed)"""
    world.count += 1
    port_file = world.path(f"lab-{world.count}")
    binary, draft = shlex.quote(world.binary), shlex.quote(world.draft)
    server = (f"exec {binary} serve -m {shlex.quote(world.target)} -t 1 --host $NETLAB_SERVER "
              f"--port {PORT} --metrics $NETLAB_SERVER:{METRICS} --insecure --ctx-size 2048")
    edge = (f"{binary} edge --server $NETLAB_SERVER:{PORT} -md {draft} -t 1 --draft tree:12:4 "
            f"--port 0 --port-file {port_file} & exec {sys.executable} -B {os.path.abspath(__file__)} "
            f"{port_file} {world.seed} {until_s}")
    with open(world.path(f"lab-{world.count}.log"), "w") as log:
        result = subprocess.run(
            [world.netlab, "--quiet", "--seed", str(world.seed), "--wait-port", str(PORT), *RTT, *flags,
             "--server", server, "--edge", edge], stdout=subprocess.PIPE, stderr=log,
            env=world.environment, text=True, timeout=LIMIT_S)
    lines = [line for line in result.stdout.splitlines() if line.startswith('{"answers"')]
    return result.returncode, json.loads(lines[-1]) if lines else None


def whole_answers(said):
    for key, text, finish, error, usage, _ in said["answers"]:
        answer = chat.Answer(chat.Ask(*key))
        answer.text, answer.finish, answer.error, answer.usage = text, finish, error, usage
        yield answer


def one_effect(world, name, said, answers):
    """The server counts a token when a verdict makes it. If no text was opened anew, none was made
    twice: those of the texts, and an end-of-text token for each that ended by one."""
    tokens = sum(a.usage.get("completion_tokens", 0) + (a.finish == "stop") for a in answers)
    anew = said["opened"] - len(answers)
    if anew == 0:
        world.check(said["tokens"] == tokens,
                    f"{name}: the server made {said['tokens']} tokens, the texts have {tokens}")
    return anew


def run(world):
    code, quiet = lab(world, [], 0)
    if code == SKIP:
        return world.skip("netlab may not make namespaces here, or there is no TUN driver")
    if not world.check(code == 0 and quiet, f"the quiet line: netlab's exit status is {code}"):
        return None
    answers = list(whole_answers(quiet))
    world.learn(answers)
    one_effect(world, "quiet", quiet, answers)
    for name, flags in (LONG if world.long else SHORT).items():
        until_s = AT_S + 1 if "--partition" in flags else 0
        code, said = lab(world, flags, until_s)
        if not world.check(code == 0 and said, f"{name}: netlab's exit status is {code}"):
            continue
        answers = list(whole_answers(said))
        world.say(name, texts=world.same(answers, name), opened_anew=one_effect(world, name, said, answers),
                  reconnects=said["reconnects"],
                  silent=f"{max(entry[-1] for entry in said['answers']):.2f} s")
    return None


if __name__ == "__main__":
    people(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
