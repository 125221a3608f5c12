#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A foretoken edge on a vLLM server, end to end: tools/vllm with vLLM itself.

usage: tests/tools/vllm_check.py FORETOKEN TARGET.gguf DRAFT.gguf FOLDER

Run by a python that has tools/vllm/requirements.txt. Converts the target into FOLDER once, starts
the service and two edges, one with the draft model and one with the vocabulary alone, and compares
texts. Exits 1 if a text of vLLM depends on anything but prompt, sampling and seed. How often
foretoken's own engine says the same is measured and printed, and decides nothing."""
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools" / "vllm"
sys.path.insert(0, str(PACKAGE))
import grpc  # noqa: E402

from foretoken_vllm.protos import pb, rpc  # noqa: E402

PROMPTS = ("Name three fruits.", "Why is the sky blue?", "Write a short poem about the sea.")
SAMPLINGS = ({"temperature": 0}, {"temperature": 0.7, "top_p": 0.95, "seed": 7},
             {"temperature": 1.0, "top_k": 20, "min_p": 0.01, "seed": -5})
TOKENS = 32
WAIT_S = 900


def wait_for(what, done, process):
    end = time.monotonic() + WAIT_S
    while not done():
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"vllm_check: {what} did not start")
        time.sleep(0.2)


@contextlib.contextmanager
def running(command, log, env=None):
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def service(foretoken, model, vocabulary, folder):
    """vLLM behind foretoken's protocol; yields its address."""
    log = folder / "service.log"
    env = dict(os.environ, PYTHONPATH=str(PACKAGE), VLLM_CPU_KVCACHE_SPACE="1")
    command = [sys.executable, "-m", "foretoken_vllm.service", "--model", str(model), "--dtype",
               "float32", "--max-model-len", "1024", "--vocabulary", vocabulary, "--foretoken",
               foretoken, "--listen", "127.0.0.1:0", "--enforce-eager"]
    with running(command, log, env) as process:
        wait_for("the service", lambda: "on port " in log.read_text(), process)
        line = next(x for x in log.read_text().splitlines() if "on port " in x)
        yield "127.0.0.1:" + line.rsplit(" ", 1)[1]


@contextlib.contextmanager
def server(foretoken, target, folder):
    """foretoken's own server on the same weights; yields its address."""
    port = folder / "serve.port"
    command = [foretoken, "serve", "-m", target, "-c", "1024", "--port", "0", "--port-file",
               str(port)]
    with running(command, folder / "serve.log") as process:
        wait_for("foretoken serve", lambda: port.exists() and port.read_text().strip(), process)
        yield "127.0.0.1:" + port.read_text().strip()


@contextlib.contextmanager
def edge(foretoken, address, model, folder, name):
    """Yields the address of its API."""
    port = folder / f"{name}.port"
    command = [foretoken, "edge", "--server", address, *model, "--port", "0", "--port-file",
               str(port), "--no-memory"]
    with running(command, folder / f"{name}.log") as process:
        wait_for(f"edge {name}", lambda: port.exists() and port.read_text().strip(), process)
        yield "http://127.0.0.1:" + port.read_text().strip()


def ask(api, prompt, sampling):
    body = {"model": "any", "messages": [{"role": "user", "content": prompt}],
            "max_tokens": TOKENS, **sampling}
    models = json.load(urllib.request.urlopen(f"{api}/v1/models"))
    body["model"] = models["data"][0]["id"]
    request = urllib.request.Request(f"{api}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=WAIT_S))["choices"][0]["message"][
        "content"]


def texts(api, at_once=1):
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda one: ask(api, *one),
                             [(p, s) for p in PROMPTS for s in SAMPLINGS]))


def tokens_of(verifier, prompt, most, seed):
    """What the service says behind a prompt, in runs of 5 tokens."""
    opening = pb.Open(protocol=1, prompt=prompt, max_tokens=most,
                      sampling=pb.Sampling(temperature=0.8, top_p=0.95, seed=seed))
    out, tokens, number, finish = queue.Queue(), [], 0, 0
    stream = verifier.Session(iter(out.get, None))
    out.put(pb.ClientMessage(open=opening))
    next(stream)
    while not finish:
        number, more = number + 1, True
        out.put(pb.ClientMessage(draft=pb.Draft(round=number, run=5,
                                                text_len=len(prompt) + len(tokens))))
        while more and not finish:
            verdict = next(stream).verdict
            tokens += verdict.next
            more, finish = verdict.more, verdict.finish
    out.put(pb.ClientMessage(close=pb.Close()))
    out.put(None)
    return tokens


def opened_anew(address, n=6):
    """Of n texts, how many go on with the same tokens when they are opened anew in the middle."""
    verifier = rpc.VerifierStub(grpc.insecure_channel(address))
    good = 0
    for seed in range(n):
        prompt = [1, *range(300 + 40 * seed, 320 + 40 * seed)]
        whole = tokens_of(verifier, prompt, TOKENS, seed)
        cut = len(whole) // 2
        if cut:
            rest = tokens_of(verifier, prompt + whole[:cut], TOKENS - cut, seed)
            good += rest == whole[cut:]
    return good


def same(one, other):
    return sum(a == b for a, b in zip(one, other))


def common(one, other):
    """How many characters two texts begin with alike."""
    n = 0
    while n < min(len(one), len(other)) and one[n] == other[n]:
        n += 1
    return n


def main(foretoken, target, draft, folder):
    model = Path(folder) / Path(target).stem
    if not (model / "config.json").exists():
        subprocess.run([sys.executable, "-m", "foretoken_vllm.convert", target, str(model)],
                       check=True, env=dict(os.environ, PYTHONPATH=str(PACKAGE)))
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(service(foretoken, model, draft, here))
            drafting = stack.enter_context(edge(foretoken, address, ["-md", draft], here, "with"))
            plain = stack.enter_context(edge(foretoken, address, ["-m", target], here, "without"))
            first, again, without = texts(drafting), texts(drafting), texts(plain)
            crowd = texts(drafting, at_once=8)
            anew = opened_anew(address)
        with server(foretoken, target, here) as address, \
                edge(foretoken, address, ["-m", target], here, "own") as api:
            own = texts(api)
    n = len(first)
    for what, other in (("again", again), ("without a draft model", without),
                        ("8 texts at once", crowd), ("foretoken's own engine", own)):
        print(f"{what}: {same(first, other)} of {n} texts are the same")
    print(f"opened anew in the middle: {anew} of 6 texts go on the same")
    alike = sum(common(a, b) for a, b in zip(first, own)) / sum(map(len, first))
    print(f"foretoken's own engine: {100 * alike:.0f} % of the characters come before a difference")
    print(f"one of them: {first[1]!r}")
    return 0 if same(first, again) == same(first, without) == n and len(set(first)) > 4 else 1


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
