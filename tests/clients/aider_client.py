# SPDX-License-Identifier: Apache-2.0
"""aider, unchanged, against a server of ours: one question without a terminal.

    python3 aider_client.py AIDER BASE_URL      AIDER is the program; BASE_URL ends in /v1

What it needs is in docs/CLIENTS.md. Exit status 0: all held; 1: something did not. aider's own is 0 after errors, too.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

QUESTION = "Name three colours, please."
LIMITS = {"max_tokens": 64, "stop": ["\n", "."]}  # at a stop: aider advises at length where tokens run out
QUIET = ["--no-git", "--yes-always", "--no-pretty", "--no-detect-urls", "--no-check-update", "--no-show-release-notes",
         "--no-show-model-warnings", "--analytics-disable", "--map-tokens", "0"]


def check(condition, what):
    if not condition:
        print(f"aider_client.py: failed: {what}", file=sys.stderr)
        sys.exit(1)


def ask(aider, folder, url, name, *words):
    """What aider's history has behind the question, and all that it printed."""
    history = folder / f"history{len(list(folder.iterdir()))}.md"
    ran = subprocess.run([aider, "--model", f"openai/{name}", "--openai-api-base", url, "--openai-api-key", "any", *QUIET,
                          "--model-settings-file", str(folder / "settings.yml"), "--chat-mode", "ask",
                          "--chat-history-file", str(history), "--message", QUESTION, *words],
                         env={**os.environ, "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
                         cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)
    said = ran.stdout + ran.stderr
    check(ran.returncode == 0, f"aider ends well: {said}")
    behind = history.read_text(encoding="utf-8").partition(f"#### {QUESTION}")[2]
    return behind, said


def answer_of(behind):
    """Lines of the answer; what aider says by itself begins with '>'."""
    return "\n".join(line for line in behind.splitlines() if line.strip() and not line.startswith(">"))


def main(aider, url):
    with urllib.request.urlopen(f"{url}/models", timeout=60) as answer:
        name = json.load(answer)["data"][0]["id"]
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        settings = [{"name": f"openai/{model}", "extra_params": LIMITS} for model in (name, "none-such")]
        (folder / "settings.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        (folder / "double.py").write_text("def double(n):\n    return 2 * n\n", encoding="utf-8")
        texts = []
        for stream in ("--stream", "--no-stream"):
            behind, said = ask(aider, folder, url, name, stream, "--read", "double.py")
            texts.append(answer_of(behind))
            check(texts[-1], f"aider has an answer with {stream}: {said}")
            check(re.search(r"Tokens: \d+ sent, [1-9]\d* received", behind), f"aider has usage with {stream}: {behind}")
        check(texts[0] == texts[1], f"aider's stream says the same: {texts}")
        behind, said = ask(aider, folder, url, "none-such", "--no-stream")
        check(not answer_of(behind) and "does not exist" in behind, f"aider says what is refused: {behind}")
    print("aider: passed")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
