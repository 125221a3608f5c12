# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face hub for tests: two HTTP servers on loopback, the hub and the host of its files.

    with Hub() as hub:
        repo = hub.add("org/repo", {"model-Q4_0.gguf": gguf(1000)})
        repo.fault["model-Q4_0.gguf"] = Fault(short=10)
        ... HF_ENDPOINT=hub.url ...
        hub.seen      # each request: Seen(server, method, path, token, range)

It answers what huggingface_hub and foretoken ask: the description of a repository, and a file's
address, which is on the other host as the hub's own large files are. Standard library only.
"""
import hashlib
import http.server
import json
import struct
import sys
import threading
import urllib.parse
from dataclasses import dataclass, field


def gguf(n, seed=0):
    """A GGUF file of about n bytes without tensors."""
    text = hashlib.shake_128(str(seed).encode()).hexdigest(n // 2 + 1).encode()
    name = b"general.name"
    return (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(name)) + name +
            struct.pack("<IQ", 8, len(text)) + text)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@dataclass
class Fault:
    """What is wrong with a file, or (key None) with its repository's description."""
    status: int = 0              # answer with this code instead
    headers: tuple = ()          # and with these headers
    redirect: str = ""           # lead to this URL instead
    short: int = -1              # close the connection behind so many bytes of the body
    hold: threading.Event = None # stop there until the event, then go on
    wrong: bool = False          # other bytes than announced, as many
    longer: int = 0              # so many bytes too many, without a Content-Length
    no_range: bool = False       # ignore Range
    other_range: bool = False    # answer it with other bytes
    no_lfs: bool = False         # do not tell the SHA-256
    size: int = 0                # announce this size


@dataclass
class Repo:
    files: dict                  # path: bytes
    token: str = ""              # who asks without it gets 401
    fault: dict = field(default_factory=dict)  # path or None: Fault
    answer: object = None        # instead of the description: an object for JSON, or bytes

    def fault_of(self, path):
        return self.fault.get(path) or Fault()

    @property
    def commit(self):
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()


@dataclass(frozen=True)
class Seen:
    server: str  # "hub" or "files"
    method: str
    path: str
    token: str
    range: str


class Hub:
    def __init__(self):
        self.repos, self.seen, self.lock = {}, [], threading.Lock()
        self.servers = {}
        for name, handler in (("hub", HubHandler), ("files", FilesHandler)):
            server = Server(("127.0.0.1", 0), handler)
            server.hub, server.name = self, name
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            self.servers[name] = server

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    def url_of(self, name):
        return f"http://127.0.0.1:{self.servers[name].server_address[1]}"

    @property
    def url(self):
        return self.url_of("hub")

    def add(self, name, files, token=""):
        self.repos[name] = Repo(files, token)
        return self.repos[name]

    def bodies(self):
        """The requests for bytes of files."""
        with self.lock:
            return [s for s in self.seen if s.server == "files" and s.method == "GET"]


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that has gone is none
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self):
        return self.server.hub

    def log_message(self, *_):
        pass

    def note(self):
        token = self.headers.get("Authorization", "")
        seen = Seen(self.server.name, self.command, self.path, token.removeprefix("Bearer "),
                    self.headers.get("Range", ""))
        with self.hub.lock:
            self.hub.seen.append(seen)
        return seen

    def answer(self, code, headers=(), body=b""):
        self.send_response(code)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, fault):
        """True if the fault was the answer."""
        if fault.redirect:
            self.answer(302, [("Location", fault.redirect)])
        elif fault.status:
            self.answer(fault.status, fault.headers, b"no\n" * 100)
        return bool(fault.redirect or fault.status)

    def do_HEAD(self):
        self.do_GET()


class HubHandler(Handler):
    def do_GET(self):
        seen = self.note()
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if path.startswith("/loop"):
            return self.answer(302, [("Location", self.path + "x")])
        parts = path.removeprefix("/api/models/").removeprefix("/").split("/")
        name = "/".join(parts[:2])
        repo = self.hub.repos.get(name)
        if not repo:
            return self.answer(404, [("X-Error-Code", "RepoNotFound")])
        if repo.token and seen.token != repo.token:
            return self.answer(401)
        if path.startswith("/api/models/"):
            return self.describe(repo, name)
        if parts[2] != "resolve" or parts[3] not in ("main", repo.commit):
            return self.answer(404, [("X-Error-Code", "RevisionNotFound")])
        return self.resolve(repo, name, "/".join(parts[4:]))

    def describe(self, repo, name):
        if self.refuse(repo.fault_of(None)):
            return
        siblings = []
        for path, data in repo.files.items():
            fault = repo.fault_of(path)
            size = fault.size or len(data)
            siblings.append({"rfilename": path, "size": size, "blobId": "0" * 40})
            if not fault.no_lfs:
                siblings[-1]["lfs"] = {"sha256": sha256(data), "size": size, "pointerSize": 130}
        answer = {"_id": "0", "id": name, "sha": repo.commit, "siblings": siblings}
        answer = answer if repo.answer is None else repo.answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.answer(200, [("Content-Type", "application/json")], body)

    def resolve(self, repo, name, path):
        if path not in repo.files:
            return self.answer(404, [("X-Error-Code", "EntryNotFound")])
        if self.refuse(repo.fault_of(path)):
            return
        data = repo.files[path]
        place = f"{self.hub.url_of('files')}/{name}/{urllib.parse.quote(path)}"
        self.answer(302, [("Location", place), ("X-Repo-Commit", repo.commit),
                          ("X-Linked-Etag", f'"{sha256(data)}"'),
                          ("X-Linked-Size", str(len(data))), ("ETag", f'"{sha256(data)}"')])


class FilesHandler(Handler):
    def do_GET(self):
        seen = self.note()
        parts = urllib.parse.unquote(self.path).split("/")
        repo, path = self.hub.repos["/".join(parts[1:3])], "/".join(parts[3:])
        fault, data = repo.fault_of(path), repo.files[path]
        if fault.wrong:
            data = data[:-1] + bytes([data[-1] ^ 1])
        begin, total = 0, len(data)
        if seen.range and not fault.no_range:
            begin = int(seen.range.removeprefix("bytes=").split("-")[0])
            if begin >= total:
                return self.answer(416, [("Content-Range", f"bytes */{total}")])
            shown = begin + 1 if fault.other_range else begin
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {shown}-{total - 1}/{total}")
        else:
            self.send_response(200)
        if fault.longer:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(total - begin))
        self.end_headers()
        if self.command != "HEAD":
            self.send(data[begin:] + b"x" * fault.longer, fault)

    def send(self, body, fault):
        try:
            if fault.short >= 0 or fault.hold:
                middle = fault.short if fault.short >= 0 else len(body) // 2
                self.wfile.write(body[:middle])
                self.wfile.flush()
                body = body[middle:] if fault.hold else b""
                self.close_connection = not fault.hold
                if fault.hold:
                    fault.hold.wait(60)
            self.wfile.write(body)
            self.close_connection = self.close_connection or bool(fault.longer)
        except OSError:
            self.close_connection = True  # the client has gone: some tests are about that
