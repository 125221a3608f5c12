#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Server and edge answer from a root file system in which foretoken is installed.

usage: check_root.py ROOT TARGET.gguf      (as root: it uses chroot)

The edge drafts with the installed draft model. The chat page is asked for, then a question, by HTTP.
"""
import http.client
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 300  # loading and one short answer take seconds; an emulated processor takes longer
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
DRAFT = "/usr/share/foretoken/smollm2-draft-17m-q8_0.gguf"


def start(root, name, *words):
    """Runs foretoken inside; returns (process, port)."""
    file = root / "tmp" / f"{name}.port"
    log = open(root / "tmp" / f"{name}.log", "w+b")
    process = subprocess.Popen(["chroot", str(root), "foretoken", *words, "--port", "0", "--port-file",
                                f"/tmp/{name}.port"], stdout=log, stderr=log, env={"PATH": PATH})
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and file.read_text().endswith("\n"):
            return process, int(file.read_text())
        time.sleep(0.05)
    process.kill()
    log.seek(0)
    sys.exit(f"check_root: {name} does not listen:\n{log.read().decode()}")


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    response = connection.getresponse()
    text = response.read().decode()
    if response.status != 200:
        sys.exit(f"check_root: {method} {path}: {response.status}: {text}")
    return text


def chat(port):
    question = {"messages": [{"role": "user", "content": "Give me five tips for sleeping well."}],
                "max_tokens": 24, "temperature": 0}
    answer = json.loads(ask(port, "POST", "/v1/chat/completions", json.dumps(question)))
    drafted = answer["usage"]["foretoken"]["accepted"]
    if drafted == 0:
        sys.exit(f"check_root: no drafted token was accepted: {answer}")
    return answer["choices"][0]["message"]["content"]


def main():
    root = Path(sys.argv[1])
    (root / "tmp").mkdir(exist_ok=True)
    shutil.copy(sys.argv[2], root / "tmp/target.gguf")
    server, port = start(root, "server", "serve", "-m", "/tmp/target.gguf")
    # Chains of 4, also where the target is so small that drafts do not pay.
    edge, api = start(root, "edge", "edge", "--server", f"127.0.0.1:{port}", "-md", DRAFT, "--draft", "4")
    if "<title>" not in ask(api, "GET", "/"):
        sys.exit("check_root: GET / has no page")
    print(f"answered: {chat(api)!r}")
    for process in edge, server:
        process.terminate()
        if process.wait() != 0:
            sys.exit(f"check_root: exit status {process.returncode}")
    for file in root.glob("tmp/*"):
        file.unlink()


if __name__ == "__main__":
    main()
