# SPDX-License-Identifier: Apache-2.0
"""Coding agents, unchanged, against our HTTP room: Codex (Responses), opencode (chat completions), Claude Code
(Messages). Each is asked to read a file; the stand-in for a model (stand_in.c) lets it call its own tool for that, and
answers with what the tool said. So prompts of agents, their tools, streams and results pass through the real room.

    python3 coding_agents.py STAND_IN AGENT=PROGRAM...      AGENT: codex, opencode or claude

Exit status 0: all held; 1: one did not.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SECRET = "hello-from-the-note"
ASK = "Read note.txt"


def codex(home, url):
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        'model = "stand-in"\nmodel_provider = "ours"\n[model_providers.ours]\nname = "ours"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\n')
    return ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", ASK], {}


def opencode(home, url):
    models = {"stand-in": {"name": "stand-in"}}
    ours = {"npm": "@ai-sdk/openai-compatible", "name": "ours", "options": {"baseURL": f"{url}/v1", "apiKey": "any"}, "models": models}
    (home / "work/opencode.json").write_text(json.dumps(
        {"model": "ours/stand-in", "small_model": "ours/stand-in", "autoupdate": False, "share": "disabled",
         "provider": {"ours": ours}}))
    return ["run", "--model", "ours/stand-in", ASK], {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


def claude(home, url):
    return ["-p", "--allowedTools", "Read", "--model", "stand-in", ASK], {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any", "ANTHROPIC_SMALL_FAST_MODEL": "stand-in",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


# The tool that each has for reading a file, and its arguments.
AGENTS = {"codex": (codex, "exec_command", lambda file: {"cmd": f"cat {file}"}),
          "opencode": (opencode, "read", lambda file: {"filePath": file}),
          "claude": (claude, "Read", lambda file: {"file_path": file})}


def wait_for(file, process):
    until = time.monotonic() + 30
    while not file.exists() or not file.read_text().endswith("\n"):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the stand-in did not start")
        time.sleep(0.05)
    return int(file.read_text())


def check(stand_in, name, program):
    set_up, tool, arguments = AGENTS[name]
    with tempfile.TemporaryDirectory(dir=os.environ.get("FT_AGENTS_DIR", "/var/tmp"), ignore_cleanup_errors=True) as folder:
        home = pathlib.Path(folder)
        note = home / "work/note.txt"
        note.parent.mkdir()
        note.write_text(SECRET + "\n")
        subprocess.run(["git", "init", "-q"], cwd=note.parent, check=False)
        with (home / "log").open("w") as log:
            server = subprocess.Popen([stand_in, tool, json.dumps(arguments(str(note))), str(home / "port")], stderr=log)
        try:
            words, env = set_up(home, f"http://127.0.0.1:{wait_for(home / 'port', server)}")
            ran = subprocess.run([program, *words], cwd=note.parent, env={**os.environ, "HOME": folder, "PWD": str(note.parent), **env}, check=False,
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=180)
        finally:
            server.terminate()
            server.wait()
        if ran.returncode != 0 or "The tool says:" not in ran.stdout or SECRET not in ran.stdout:
            print(f"coding_agents.py: failed: {name}: status {ran.returncode}\n{ran.stdout[-2000:]}\n{ran.stderr[-2000:]}\n"
                  f"{(home / 'log').read_text()[-2000:]}", file=sys.stderr)
            return False
    print(f"{name}: called its tool and used the result: passed")
    return True


def main(stand_in, *agents):
    return 0 if all([check(stand_in, *agent.split("=", 1)) for agent in agents]) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
