#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every query of the Grafana board, and every rule, returns data from a real Prometheus.

usage: check_board.py BINARY TARGET.gguf DRAFT.gguf

Starts a server, an edge and Debian's prometheus with deploy/prometheus/prometheus.yml, in which only
addresses and intervals change. Asks the edge for texts with a promised speed until each query has data.
"""
import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120       # a few seconds where nothing else runs
SCRAPE_S = 1
RATE_INTERVAL = "10s"  # what Grafana puts for $__rate_interval: four scrapes and more


def wait_for(what, get):
    """The first true value of get(); ends the check if there is none within the limit."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if value := get():
            return value
        time.sleep(0.05)
    sys.exit(f"check_board: {what}: not within {LIMIT_S} s")


def start(folder, processes, words, *port_flags):
    """Starts a program; returns the ports that it writes into files, in the order of the flags."""
    files = [folder / f"{len(processes)}{flag}" for flag in port_flags]
    flags = [word for pair in zip(port_flags, map(str, files)) for word in pair]
    log = open(folder / f"{len(processes)}.log", "wb")
    process = subprocess.Popen([*words, *flags], stdout=log, stderr=log)
    processes.append(process)

    def ports():
        if process.poll() is not None:
            sys.exit(f"check_board: {words[1]} ended:\n{Path(log.name).read_text()}")
        texts = [f.read_text() if f.exists() else "" for f in files]
        return all(t.endswith("\n") for t in texts) and [int(t) for t in texts]
    return wait_for(words[1], ports) if files else []


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def configure(folder, metrics, api):
    text = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
    for old, new in (("127.0.0.1:9411", f"127.0.0.1:{metrics}"), ("127.0.0.1:8411", f"127.0.0.1:{api}"),
                     ("_interval: 15s", f"_interval: {SCRAPE_S}s")):
        if old not in text:
            sys.exit(f"check_board: prometheus.yml lacks '{old}'")
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(ROOT / "deploy/prometheus/foretoken.rules.yml", folder)


def ask(port):
    body = json.dumps({"messages": [{"role": "user", "content": "Name three fruits."}], "max_tokens": 16,
                       "slo_tokens_per_s": 2})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        sys.exit(f"check_board: the edge answers {response.status}: {response.read().decode()}")
    response.read()


def get(port, path, **query):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return None  # it listens, but still reads its storage
        sys.exit(f"check_board: {query}: {error.read().decode()}")
    except urllib.error.URLError:
        return None  # it does not listen yet


def has_data(port, expression):
    data = get(port, "query", query=expression)
    return data and any(sample["value"][1] != "NaN" for sample in data["result"])


def queries():
    """{expression: where it is from} of the board's panels and of the recording rules."""
    board = json.loads((ROOT / "deploy/grafana/foretoken.json").read_text())
    found = {}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            found[target["expr"].replace("$__rate_interval", RATE_INTERVAL)] = panel["title"]
    rules = (ROOT / "deploy/prometheus/foretoken.rules.yml").read_text()
    found.update((name, "rule") for name in re.findall(r"- record: (\S+)", rules))
    return found


def check_rules(port):
    groups = wait_for("rules", lambda: (get(port, "rules") or {}).get("groups"))
    wrong = [rule for group in groups for rule in group["rules"] if rule["health"] == "err"]
    if wrong:
        sys.exit(f"check_board: rules fail: {wrong}")


def check(folder, processes, binary, target, draft):
    server, metrics = start(folder, processes, [binary, "serve", "-m", target, "--port", "0", "--metrics", "0"],
                            "--port-file", "--metrics-port-file")
    (api,) = start(folder, processes, [binary, "edge", "--server", f"127.0.0.1:{server}", "-md", draft, "--draft", "4",
                                       "--port", "0"], "--port-file")
    port = free_port()
    configure(folder, metrics, api)
    start(folder, processes, ["prometheus", f"--config.file={folder}/prometheus.yml",
                              f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"])
    missing = queries()
    n = len(missing)
    end = time.monotonic() + LIMIT_S
    while missing and time.monotonic() < end:
        ask(api)
        missing = {e: where for e, where in missing.items() if not has_data(port, e)}
    if missing:
        sys.exit("check_board: no data from:\n" + "\n".join(f"{w}: {e}" for e, w in missing.items()))
    check_rules(port)
    print(f"board and rules: {n} queries, each with data")


def main():
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(Path(folder), processes, *sys.argv[1:4])
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
