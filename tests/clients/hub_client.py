# SPDX-License-Identifier: Apache-2.0
"""PyPI's huggingface-hub beside foretoken: both fetch from one hub, and each reads the other's cache.

    hub_client.py FORETOKEN
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.hub import Hub, gguf  # noqa: E402

foretoken = sys.argv[1]
files = {"README.md": b"# a model", "M-Q4_0.gguf": gguf(100000), "sub/M-Q8_0.gguf": gguf(200000),
         "S-00001-of-00002.gguf": gguf(3000), "S-00002-of-00002.gguf": gguf(4000)}
home = tempfile.TemporaryDirectory(prefix="ft-hub-")
with Hub() as hub, home:
    repo = hub.add("org/repo", files, token="hf_secret")
    os.environ |= {"HF_HUB_CACHE": home.name, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret",
                   "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    os.environ.pop("HF_HUB_OFFLINE", None)
    from huggingface_hub import hf_hub_download, scan_cache_dir  # reads the environment at import

    def said(*args, **env):
        done = subprocess.run([foretoken, *args, "--json"], stdout=subprocess.PIPE, timeout=120,
                              env=os.environ | env, check=True)
        return json.loads(done.stdout)

    def bodies():
        return len(hub.bodies())

    # What foretoken fetches, huggingface-hub finds: with the hub, and without it.
    path = said("pull", "hf:org/repo:Q4_0")["path"]
    fetched = bodies()
    assert hf_hub_download("org/repo", "M-Q4_0.gguf") == path
    assert hf_hub_download("org/repo", "M-Q4_0.gguf", local_files_only=True) == path
    assert bodies() == fetched

    # What huggingface-hub fetches, foretoken finds; and its check of the bytes passes.
    path = hf_hub_download("org/repo", "sub/M-Q8_0.gguf")
    fetched = bodies()
    assert Path(path).read_bytes() == files["sub/M-Q8_0.gguf"]
    assert fetched > 1
    got = said("pull", "hf:org/repo:Q8_0")
    assert got["path"] == path and not got["fetched"]
    assert bodies() == fetched

    # Both list the same files.
    said("pull", "hf:org/repo:S")
    listed = {model["name"]: model["bytes"] for model in said("models", HF_HUB_OFFLINE="1")["models"]}
    assert listed == {"hf:org/repo:M-Q4_0.gguf": len(files["M-Q4_0.gguf"]),
                      "hf:org/repo:sub/M-Q8_0.gguf": len(files["sub/M-Q8_0.gguf"]),
                      "hf:org/repo:S-00001-of-00002.gguf":
                          len(files["S-00001-of-00002.gguf"]) + len(files["S-00002-of-00002.gguf"])}
    scanned = scan_cache_dir()
    assert not scanned.warnings, scanned.warnings
    (scanned_repo,) = scanned.repos
    (revision,) = scanned_repo.revisions
    assert revision.commit_hash == repo.commit and revision.refs == {"main"}
    assert {str(f.file_path.relative_to(revision.snapshot_path)) for f in revision.files} == \
        set(files) - {"README.md"}
    assert sum(listed.values()) == scanned.size_on_disk
