#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models by name: the program against a hub on loopback, and every way in which that may misbehave.

    pull_check.py FORETOKEN SOURCE_DIR
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.hub import Fault, Hub, gguf, sha256  # noqa: E402

LIMIT_S = 120
TOKEN = "hf_abcdef"
VARIABLES = ("HF_", "OLLAMA_", "XDG_", "http_proxy", "HTTP_PROXY")


class Case(unittest.TestCase):
    def setUp(self):
        self.home = Path(tempfile.mkdtemp(prefix="ft-hub-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.cache = self.home / ".cache/huggingface/hub"
        self.hub = self.enterContext(Hub())
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(VARIABLES)}
        self.env |= {"HOME": str(self.home), "HF_ENDPOINT": self.hub.url}

    def start(self, *args, **env):
        return subprocess.Popen([FORETOKEN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=self.env | env)

    def command(self, *args, **env):
        with self.start(*args, **env) as process:
            out, said = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, said

    def pull(self, name, **env):
        code, out, said = self.command("pull", name, "--json", **env)
        self.assertEqual((code, said), (0, ""))
        return json.loads(out)

    def refused(self, name, *words, **env):
        """It fails, and one line has these words."""
        code, out, said = self.command("pull", name, **env)
        self.assertEqual((code, out, said.count("\n")), (1, "", 1), said)
        for word in words:
            self.assertIn(word, said)
        self.assertNotIn(TOKEN, said)

    def folder(self, repo):
        return self.cache / ("models--" + repo.replace("/", "--"))

    def blobs(self, repo):
        folder = self.folder(repo) / "blobs"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


class Pull(Case):
    def test_into_the_hubs_layout(self):
        data = gguf(300000)
        repo = self.hub.add("org/repo", {"README.md": b"hello", "sub/m-Q4_0.gguf": data})
        got = self.pull("hf:org/repo")
        path = self.folder("org/repo") / "snapshots" / repo.commit / "sub/m-Q4_0.gguf"
        self.assertEqual(got, {"name": "hf:org/repo", "path": str(path), "sha256": sha256(data),
                               "commit": repo.commit, "files": 1, "bytes": len(data),
                               "fetched": True})
        self.assertEqual(path.read_bytes(), data)
        self.assertEqual(os.readlink(path), f"../../../blobs/{sha256(data)}")
        self.assertEqual((self.folder("org/repo") / "refs/main").read_text(), repo.commit)
        self.assertEqual(self.blobs("org/repo"), [sha256(data)])

    def test_again_asks_for_no_bytes(self):
        self.hub.add("org/repo", {"m.gguf": gguf(1000)})
        self.assertTrue(self.pull("hf:org/repo")["fetched"])
        self.assertFalse(self.pull("hf:org/repo")["fetched"])
        self.assertEqual(len(self.hub.bodies()), 1)

    def test_where_the_environment_says(self):
        self.hub.add("org/repo", {"m.gguf": gguf(1000)})
        for variable, below in (("XDG_CACHE_HOME", "huggingface/hub"), ("HF_HOME", "hub"),
                                ("HF_HUB_CACHE", "")):
            root = self.home / variable
            path = self.pull("hf:org/repo", **{variable: str(root)})["path"]
            self.assertTrue(path.startswith(str(root / below / "models--org--repo")), path)

    def test_by_quant_and_by_file(self):
        files = {f"M-{q}.gguf": gguf(1000, q) for q in ("Q4_K_M", "Q4_K_S", "UD-Q4_K_M", "Q8_0")}
        files |= {"mmproj-M-Q8_0.gguf": gguf(500), "odd name+ü.gguf": gguf(700)}
        self.hub.add("org/repo", files)
        for pick, path in (("Q4_K_S", "M-Q4_K_S.gguf"), ("q8_0", "M-Q8_0.gguf"),
                           ("UD-Q4_K_M", "M-UD-Q4_K_M.gguf"), ("M-Q4_K_M.gguf",) * 2,
                           ("mmproj-M-Q8_0.gguf",) * 2, ("odd name+ü.gguf",) * 2):
            got = Path(self.pull("hf:org/repo:" + pick)["path"])
            self.assertEqual((got.name, got.read_bytes()), (path, files[path]))
        self.refused("hf:org/repo:Q4_K_M", "means 2 models", "M-Q4_K_M.gguf", "M-UD-Q4_K_M.gguf")
        self.refused("hf:org/repo", "it has 5 models", "name one of them", "M-Q8_0.gguf")
        self.refused("hf:org/repo:Q4_K", "no GGUF file", "M-Q4_K_S.gguf")
        self.refused("hf:org/repo:none.gguf", "no GGUF file", "M-Q8_0.gguf")

    def test_split_files_are_pulled_whole(self):
        parts = {f"Q4_0/M-Q4_0-0000{i}-of-00003.gguf": gguf(5000 * i, i) for i in (1, 2, 3)}
        self.hub.add("org/repo", parts | {"M-Q8_0-00001-of-00002.gguf": gguf(100)})
        for pick in ("Q4_0", "Q4_0/M-Q4_0-00002-of-00003.gguf"):
            got = self.pull("hf:org/repo:" + pick)
            self.assertEqual((got["files"], got["bytes"]),
                             (3, sum(len(data) for data in parts.values())))
            for path, data in parts.items():
                self.assertEqual((Path(got["path"]).parent / Path(path).name).read_bytes(), data)
        self.refused("hf:org/repo:Q8_0", "no GGUF file", "Q4_0-00001-of-00003.gguf")

    def test_a_newer_commit(self):
        repo = self.hub.add("org/repo", {"m.gguf": gguf(1000)})
        old = self.pull("hf:org/repo")["path"]
        repo.files = {"m.gguf": gguf(1000, "new")}
        code, out, _ = self.command("models", "--json")
        self.assertEqual((code, json.loads(out)["models"][0]["path"]), (0, old))
        new = self.pull("hf:org/repo")["path"]
        self.assertNotEqual(old, new)
        self.assertEqual(Path(new).read_bytes(), repo.files["m.gguf"])

    def test_one_of_two_fetches(self):
        """The second waits for the first, and finds what that has fetched."""
        data, hold = gguf(100000), threading.Event()
        self.hub.add("org/repo", {"m.gguf": data}).fault["m.gguf"] = Fault(hold=hold)
        with self.start("pull", "hf:org/repo") as first:
            while not self.hub.bodies():
                self.assertIsNone(first.poll())
            with self.start("pull", "hf:org/repo") as second:
                self.assertIn("waiting", second.stderr.readline())
                hold.set()
                self.assertEqual([p.communicate(timeout=LIMIT_S)[0] and p.returncode
                                  for p in (first, second)], [0, 0])
        self.assertEqual(len(self.hub.bodies()), 1)


class Resume(Case):
    def setUp(self):
        super().setUp()
        self.data = gguf(200000)
        self.repo = self.hub.add("org/repo", {"m.gguf": self.data})
        self.repo.fault["m.gguf"] = Fault(short=70000)
        self.refused("hf:org/repo", "the transfer ended after 70000 of", "goes on from there")
        self.assertEqual(self.blobs("org/repo"), [sha256(self.data) + ".incomplete"])

    def check(self):
        self.assertEqual(Path(self.pull("hf:org/repo")["path"]).read_bytes(), self.data)
        self.assertEqual(self.blobs("org/repo"), [sha256(self.data)])

    def test_goes_on_by_range(self):
        self.repo.fault.clear()
        self.check()
        self.assertEqual(self.hub.bodies()[-1].range, "bytes=70000-")

    def test_in_three_steps(self):
        self.refused("hf:org/repo", "the transfer ended after 140000 of")
        self.repo.fault.clear()
        self.check()

    def test_a_server_without_ranges(self):
        self.repo.fault["m.gguf"] = Fault(no_range=True)
        self.check()

    def test_other_bytes_than_asked_for(self):
        self.repo.fault["m.gguf"] = Fault(other_range=True)
        self.refused("hf:org/repo", "other bytes than were asked for")

    def test_a_damaged_beginning(self):
        part = self.folder("org/repo") / "blobs" / (sha256(self.data) + ".incomplete")
        part.write_bytes(b"x" * 70000)
        self.repo.fault.clear()
        self.refused("hf:org/repo", "its SHA-256 is", "the file is deleted")
        self.check()

    def test_too_long_a_beginning(self):
        part = self.folder("org/repo") / "blobs" / (sha256(self.data) + ".incomplete")
        part.write_bytes(self.data + b"x")
        self.repo.fault.clear()
        self.check()

    def test_killed_before_the_rename(self):
        part = self.folder("org/repo") / "blobs" / (sha256(self.data) + ".incomplete")
        part.write_bytes(self.data)
        n = len(self.hub.bodies())
        self.check()
        self.assertEqual(len(self.hub.bodies()), n)


class Refused(Case):
    def test_names(self):
        for name in ("hf:org", "hf:/repo", "hf:../repo", "hf:org/..", "hf:a/b/c", "hf:org/re--po",
                     "hf:-a/b", "hf:a/b.", "hf:o g/repo", "hf:"):
            self.refused(name, "hf:ORG/REPO")
        for pick in ("../m.gguf", "/etc/passwd", "a/../../m.gguf", "a//m.gguf", "a\\m.gguf", ""):
            self.refused("hf:org/repo:" + pick, "without '..'")
        for name in ("ollama:", "ollama:../x", "ollama:a/b/c/d", "ollama:a:b/", "ollama:a:..",
                     "ollama:a//b"):
            self.refused(name, "an Ollama model is")
        self.refused("m.gguf", "this is a path")
        self.assertEqual(self.hub.seen, [])

    def test_paths_that_lead_away(self):
        repo = self.hub.add("org/repo", {})
        for path in ("../../../m.gguf", "/m.gguf", "a/./m.gguf", "a\nb.gguf", "..\\m.gguf"):
            repo.answer = {"sha": "0" * 40, "siblings": [
                {"rfilename": path, "size": 9, "lfs": {"sha256": "0" * 64, "size": 9}}]}
            self.refused("hf:org/repo", "leads out of the repository")
        self.assertEqual(self.blobs("org/repo"), [])

    def test_answers_that_are_none(self):
        repo = self.hub.add("org/repo", {})
        for answer, why in ((b"<html>", "line 1"), ([], "no commit"), ({"sha": "../.."}, "commit"),
                            ({"sha": "0" * 40, "siblings": 1}, "no list of files"),
                            (b" " * ((16 << 20) + 1), "more than 16777216 bytes")):
            repo.answer = answer
            self.refused("hf:org/repo", why)

    def test_a_wrong_hash(self):
        repo = self.hub.add("org/repo", {"m.gguf": gguf(1000)})
        repo.fault["m.gguf"] = Fault(wrong=True)
        self.refused("hf:org/repo", "m.gguf", "its SHA-256 is", "the file is deleted")
        self.assertEqual(self.blobs("org/repo"), [])
        self.assertFalse((self.folder("org/repo") / "snapshots").exists())
        repo.fault.clear()
        path = Path(self.pull("hf:org/repo")["path"])
        path.resolve().write_bytes(b"damaged later")
        self.refused("hf:org/repo", "its SHA-256 is", "the file is deleted")
        self.assertEqual(Path(self.pull("hf:org/repo")["path"]).read_bytes(), gguf(1000))

    def test_no_hash(self):
        self.hub.add("org/repo", {"m.gguf": gguf(10)}).fault["m.gguf"] = Fault(no_lfs=True)
        self.refused("hf:org/repo", "does not say its SHA-256")

    def test_no_gguf_file(self):
        repo = self.hub.add("org/repo", {"m.gguf": b"no model at all"})
        self.refused("hf:org/repo", "not a GGUF file")
        self.assertFalse((self.folder("org/repo") / "snapshots").exists())
        repo.files = {"m.gguf": gguf(1000)[:-1]}
        self.refused("hf:org/repo", "m.gguf")
        self.assertFalse((self.folder("org/repo") / "snapshots").exists())

    def test_a_longer_body(self):
        self.hub.add("org/repo", {"m.gguf": gguf(1000)}).fault["m.gguf"] = Fault(longer=5)
        self.refused("hf:org/repo", "more bytes come than the")

    def test_codes(self):
        repo = self.hub.add("org/repo", {"a.gguf": gguf(10), "b.gguf": gguf(20)})
        for fault, words in ((Fault(status=401), ("HTTP 401", "set HF_TOKEN")),
                             (Fault(status=403), ("HTTP 403", "set HF_TOKEN")),
                             (Fault(status=429), ("HTTP 429", "later")),
                             (Fault(status=429, headers=(("Retry-After", "30"),)), ("in 30 s",)),
                             (Fault(status=503), ("HTTP 503",)),
                             (Fault(status=304), ("HTTP 304",))):
            for where in (None, "a.gguf"):
                repo.fault = {where: fault}
                self.refused("hf:org/repo:a.gguf", *words)
        repo.fault = {}
        self.refused("hf:org/none", "has no such repository")
        self.refused("hf:org/repo:c.gguf", "a.gguf, b.gguf")

    def test_a_file_that_vanished(self):
        repo = self.hub.add("org/repo", {"a.gguf": gguf(10), "b.gguf": gguf(20)})
        repo.fault["a.gguf"] = Fault(status=404)
        self.refused("hf:org/repo:a.gguf", "HTTP 404", "b.gguf")

    def test_redirects(self):
        repo = self.hub.add("org/repo", {"m.gguf": gguf(10)})
        for leads_to, why in ((self.hub.url + "/loop", "more than 5 redirects"),
                              ("http://192.0.2.1/m", "http is taken from this machine alone"),
                              ("http://127.0.0.1.example/m", "this machine alone"),
                              ("file:///etc/passwd", "no URL with https"),
                              ("http://u:p@127.0.0.1/m", "no URL with https")):
            for where in (None, "m.gguf"):
                repo.fault = {where: Fault(redirect=leads_to)}
                self.refused("hf:org/repo", why)

    def test_endpoints(self):
        self.refused("hf:org/repo", "this machine alone", HF_ENDPOINT="http://hub.example")
        self.refused("hf:org/repo", "no URL with https", HF_ENDPOINT="ftp://hub.example")
        self.refused("hf:org/repo", "127.0.0.1:1", HF_ENDPOINT="http://127.0.0.1:1/")

    def test_a_full_disk(self):
        repo = self.hub.add("org/repo", {"m.gguf": gguf(100000)})
        repo.fault["m.gguf"] = Fault(size=1 << 50)
        self.refused("hf:org/repo", "the disk is full")
        repo.fault.clear()
        process = subprocess.run(
            [FORETOKEN, "pull", "hf:org/repo"], env=self.env, stderr=subprocess.PIPE, text=True,
            restore_signals=False, timeout=LIMIT_S, check=False,  # SIGXFSZ stays ignored
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000)))
        self.assertEqual(process.returncode, 1)
        self.assertIn("50000 are there", process.stderr)
        self.assertEqual(Path(self.pull("hf:org/repo")["path"]).read_bytes(), gguf(100000))

    def test_a_cache_that_cannot_be_written(self):
        self.hub.add("org/repo", {"m.gguf": gguf(10)})
        (self.home / "file").write_text("")
        self.refused("hf:org/repo", "cannot make the folder", HF_HUB_CACHE=f"{self.home}/file")


class Token(Case):
    def test_opens_and_stays(self):
        self.hub.add("org/repo", {"m.gguf": gguf(1000)}, token=TOKEN)
        self.refused("hf:org/repo", "HTTP 401", "set HF_TOKEN")
        self.refused("hf:org/repo", "HF_TOKEN does not give access", HF_TOKEN="hf_other")
        self.hub.seen.clear()
        self.assertTrue(self.pull("hf:org/repo", HF_TOKEN=TOKEN)["fetched"])
        self.assertEqual({(s.server, s.token) for s in self.hub.seen},
                         {("hub", TOKEN), ("files", "")})

    def test_that_is_none(self):
        for token in ("a b", "a\r\nX-Other: 1", "ä"):
            self.refused("hf:org/repo", "HF_TOKEN is no token", HF_TOKEN=token)
        self.assertEqual(self.hub.seen, [])


class Names(Case):
    """Every flag that takes a model takes a name."""

    def info(self, name, **env):
        code, out, said = self.command("info", name, "--json", **env)
        return json.loads(out) if code == 0 else said

    def test_hub(self):
        self.hub.add("org/draft", {"d-q8_0.gguf": Path(DRAFT).read_bytes()})
        offline = {"HF_HUB_OFFLINE": "1"}
        self.assertIn("HF_HUB_OFFLINE", self.info("hf:org/draft", **offline))
        self.assertEqual(self.hub.seen, [])
        want = self.info(DRAFT)
        self.assertEqual(self.info("hf:org/draft")["fingerprint"], want["fingerprint"])
        n = len(self.hub.seen)
        for name in ("hf:org/draft", "hf:org/draft:Q8_0", "hf:org/draft:d-q8_0.gguf"):
            self.assertEqual(self.info(name, **offline)["fingerprint"], want["fingerprint"])
            self.assertEqual(self.info(name)["fingerprint"], want["fingerprint"])
        self.assertEqual(len(self.hub.seen), n)  # the cache has it: the hub is not asked
        code, out, said = self.command("run", "-m", "hf:org/draft", "-md", "hf:org/draft:q8_0",
                                       "-p", "Hello", "-n", "4", "--temp", "0", "--json")
        self.assertEqual((code, json.loads(out)["tokens"]), (0, 4), said)

    def test_ollama(self):
        data = Path(DRAFT).read_bytes()
        root = self.home / ".ollama/models"
        for below, layers in (
                ("registry.ollama.ai/library/tiny/latest", [("model", data)]),
                ("hf.co/org/Repo-GGUF/Q8_0", [("model", data)]),
                ("registry.ollama.ai/library/none/latest", []),
                ("registry.ollama.ai/library/lost/latest", [("model", b"other")])):
            manifest = root / "manifests" / below
            manifest.parent.mkdir(parents=True)
            manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [
                {"mediaType": "application/vnd.ollama.image." + kind,
                 "digest": "sha256:" + sha256(blob), "size": len(blob)} for kind, blob in layers]}))
        blob = root / "blobs" / ("sha256-" + sha256(data))
        blob.parent.mkdir()
        blob.write_bytes(data)
        want = self.info(DRAFT)["fingerprint"]
        for name in ("tiny", "tiny:latest", "library/tiny", "hf.co/org/Repo-GGUF:Q8_0"):
            self.assertEqual(self.info("ollama:" + name)["fingerprint"], want)
        self.assertEqual(self.pull("ollama:tiny")["path"], str(blob))
        self.refused("ollama:other", "Ollama has no such model")
        self.refused("ollama:none", "0 model files")
        self.refused("ollama:lost", "No such file")
        code, out, said = self.command("models")
        self.assertEqual((code, [line.split()[-1] for line in out.splitlines()], said.count("\n")),
                         (0, ["ollama:hf.co/org/Repo-GGUF:Q8_0", "ollama:tiny:latest"], 2))
        moved = self.home / "moved"
        root.rename(moved)
        self.assertEqual(self.info("ollama:tiny", OLLAMA_MODELS=str(moved))["fingerprint"], want)
        blob = moved / "blobs" / blob.name
        blob.write_bytes(data[:-1] + b"x")
        self.refused("ollama:tiny", "let Ollama pull", OLLAMA_MODELS=str(moved))
        blob.write_bytes(data[:-1])
        self.refused("ollama:tiny", "its manifest says", OLLAMA_MODELS=str(moved))

    def test_models(self):
        code, out, said = self.command("models")
        self.assertEqual((code, out), (0, ""))
        self.assertIn("foretoken pull hf:ORG/REPO:QUANT", said)
        parts = {f"P-0000{i}-of-00002.gguf": gguf(5000, i) for i in (1, 2)}
        self.hub.add("org/repo", parts | {"m.gguf": gguf(100)})
        self.pull("hf:org/repo:m.gguf")
        self.pull("hf:org/repo:P")
        (self.cache / "models--gpt2/refs").mkdir(parents=True)
        (self.cache / "models--org--odd/refs").mkdir(parents=True)
        (self.cache / "models--org--odd/refs/main").write_text("../../..")
        code, out, said = self.command("models", "--json")
        self.assertEqual((code, [(m["name"], m["files"]) for m in json.loads(out)["models"]]),
                         (0, [("hf:org/repo:P-00001-of-00002.gguf", 2), ("hf:org/repo:m.gguf", 1)]))
        self.assertIn("holds no commit", said)

    def test_a_path_is_a_path(self):
        code, _, said = self.command("info", "org/repo:Q4_0")
        self.assertEqual((code, self.hub.seen), (1, []))
        self.assertIn("No such file", said)


if __name__ == "__main__":
    FORETOKEN, DRAFT = sys.argv[1], sys.argv[2] + "/models/smollm2-draft-17m-q8_0.gguf"
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
