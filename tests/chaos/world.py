# SPDX-License-Identifier: Apache-2.0
"""The programs under attack, and what is said about them.

A World owns a folder with logs and port files, the models, the processes that it started, and the list
of failures. Everything listens on loopback, on ports that the system chooses.
"""
import ctypes
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

import h2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_S = 120
DRAIN_S = 5  # what a part waits for a server to end is more
MEMORY_MB = 100  # a server may grow by less, whatever strangers send
SANITIZED_MEMORY_MB = 300  # AddressSanitizer pads each block and keeps freed ones
PR_SET_PDEATHSIG = 1
REPORT = re.compile(r"(?:ERROR: \w+Sanitizer|runtime error:).*")  # of a sanitized build


def wait_for(what, done, seconds=START_S):
    """Looks 50 times a second; what done() returned. The caller's words say what did not come."""
    until = time.monotonic() + seconds
    while not (result := done()):
        if time.monotonic() > until:
            raise RuntimeError(f"waited {seconds} s for {what}")
        time.sleep(0.02)
    return result


def is_free(port):
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def free_ports(n):
    """Ports that nobody has now, and that the system gives to no connection: a server that was killed needs
    its own again."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first = int(file.read().split()[0])
    ports = []
    while len(ports) < n:
        port = random.randrange(first // 2, first)
        if port not in ports and is_free(port):
            ports.append(port)
    return ports


def metric(port, name):
    """A sample of a metrics page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        return float(re.search(rf"^foretoken_{name} (\S+)$", page.read().decode(), re.M).group(1))


def prepare(core, files):
    """What a child does before it becomes the program. It ends with the thread that started it."""
    def child():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if core is not None:
            os.sched_setaffinity(0, {core})
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    return child


class Program:
    """One process of ours with its log."""

    def __init__(self, world, name, command, core=None, files=None, env=None, stdin=None):
        world.count += 1
        self.world, self.name = world, f"{name}-{world.count}"
        self.log = world.path(self.name + ".log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=stdin or subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT,
                env={**world.environment, **(env or {})}, preexec_fn=prepare(core, files))
        world.programs.append(self)

    @property
    def pid(self):
        return self.process.pid

    @property
    def alive(self):
        return self.process.poll() is None

    def said(self):
        with open(self.log, errors="replace") as log:
            return log.read()

    def port(self, file):
        """The number that the program writes into this file."""
        def read():
            if not self.alive:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}: "
                                   f"{self.said()[-500:]}")
            if os.path.exists(file):
                with open(file) as f:
                    text = f.read()
                return text.endswith("\n") and int(text)
        return wait_for(f"{self.name} to listen", read)

    def rss_mb(self):
        try:
            with open(f"/proc/{self.pid}/status") as status:
                return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024
        except (OSError, AttributeError):
            return 0.0

    def cpu_s(self):
        """Seconds of processors that all its threads have used; 0 if it has ended."""
        try:
            with open(f"/proc/{self.pid}/stat") as stat:
                user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
        except OSError:
            return 0.0
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, seconds=30):
        """SIGTERM; the exit status."""
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL


class Server(Program):
    """foretoken serve, with its API and its metrics. `port` 0: any. drain_s None: the program's own."""

    def __init__(self, world, *flags, port=0, http=0, metrics=0, drain_s=DRAIN_S, model=None,
                 **how):
        files_of = [world.path(f"port-{world.count}-{kind}") for kind in ("grpc", "http", "metrics")]
        command = [world.binary, "serve", "-m", model or world.target, "-t", "1", "--ctx-size", "2048",
                   "--port", str(port), "--port-file", files_of[0],
                   "--http-port", str(http), "--http-port-file", files_of[1],
                   "--metrics", str(metrics), "--metrics-port-file", files_of[2], *flags]
        if drain_s is not None:
            command += ["--drain-s", str(drain_s)]
        super().__init__(world, "serve", command, **how)
        self.grpc, self.http, self.metrics_port = (self.port(f) for f in files_of)

    def metric(self, name):
        return metric(self.metrics_port, name)


class Edge(Program):
    """foretoken edge. drafts False: it asks for runs only."""

    def __init__(self, world, servers, *flags, drafts=True, wrap=(), **how):
        file = world.path(f"port-{world.count}-edge")
        model = ["-md", world.draft, "-t", "1"] if drafts else ["-m", world.draft]
        command = [*wrap, world.binary, "edge", "--server",
                   ",".join(f"127.0.0.1:{port}" for port in servers), *model,
                   "--parallel", "256", "--port", "0", "--port-file", file, *flags]
        super().__init__(world, "edge", command, **how)
        self.http = self.port(file)
        wait_for(f"{self.name} to meet its server", self.healthy)

    def healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/health", timeout=30):
                return True
        except OSError:
            return False

    @staticmethod
    def takes_several(world):
        """Whether --server takes a list."""
        return world.knows("edge", r"--server \S*,")

    def metric(self, name):
        return metric(self.http, "edge_" + name)


class Look:
    """Calls look() in a thread, again and again, and once more at the end; use as a context."""

    def __init__(self, every_s):
        self.every_s = every_s
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        self.look()
        while not self.stop.wait(self.every_s):
            self.look()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.look()


class Memory(Look):
    """The most memory that a program has, looked at ten times a second."""

    def __init__(self, program):
        super().__init__(0.1)
        self.program = program
        self.before = self.most = program.rss_mb()

    def look(self):
        self.most = max(self.most, self.program.rss_mb())

    @property
    def growth(self):
        return self.most - self.before


class Health(Look):
    """Asks Health.Check twice a second, each time anew, as a probe does."""

    def __init__(self, port):
        super().__init__(0.5)
        self.port = port
        self.asked = self.serving = 0

    def look(self):
        serving = h2.health(self.port, "127.0.0.3")
        self.asked, self.serving = self.asked + 1, self.serving + serving


class World:
    def __init__(self, build, seed, minutes):
        self.build, self.seed, self.minutes = build, seed, minutes
        self.binary = os.path.join(build, "foretoken")
        self.netlab = os.path.join(build, "tools", "netlab")
        self.draft = os.path.join(ROOT, "models", "smollm2-draft-17m-q8_0.gguf")
        self.target = os.environ["FT_TARGET"]
        self.folder = tempfile.mkdtemp(prefix="foretoken-chaos-")
        self.environment = {**os.environ, "FORETOKEN_LOG": "info", "XDG_CACHE_HOME": self.folder,
                            "ASAN_OPTIONS": "quarantine_size_mb=16:" + os.environ.get("ASAN_OPTIONS", "")}
        self.programs, self.failures, self.count = [], [], 0
        self.part = self.case = ""
        self.texts = {}  # what each ask's text must be
        with open(os.path.join(build, "CMakeCache.txt")) as cache:
            self.sanitized = "FT_SANITIZE:BOOL=ON" in cache.read()
        self.memory_mb = SANITIZED_MEMORY_MB if self.sanitized else MEMORY_MB
        self.until = time.monotonic() + 60 * (minutes or 0)
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.attacker_core = cores[0], cores[-1]
        self.people_cores = set(cores[1:-1]) or {cores[0]}  # the attacker's core is its own

    @property
    def long(self):
        return self.minutes is not None

    def path(self, name):
        return os.path.join(self.folder, name)

    def knows(self, command, pattern):
        """Whether the command's help has this."""
        text = subprocess.run([self.binary, command, "--help"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        return bool(re.search(pattern, text))

    def wanted(self, cases):
        """The case that was asked for, or all."""
        return [case for case in cases if self.case in ("", case)]

    def say(self, what, **facts):
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
        print(f"{self.part}: {what}{': ' if words else ''}{words}", flush=True)

    def check(self, condition, what):
        if not condition:
            self.failures.append(f"{self.part}: {what}")
            print(f"{self.part}: FAILED: {what}", flush=True)
        return condition

    def skip(self, why):
        print(f"{self.part}: SKIPPED: {why}", flush=True)

    # --- texts ---

    def learn(self, answers):
        """These were told in peace: what the texts are."""
        for answer in answers:
            if self.check(answer.whole, f"a text in peace: {answer.error}"):
                self.texts[answer.ask.key] = answer.text

    def same(self, answers, when):
        """All whole and as in peace; how many."""
        lost = [a for a in answers if not a.whole]
        differ = [a for a in answers if a.whole and a.text != self.texts[a.ask.key]]
        self.check(not lost, f"{when}: {len(lost)} of {len(answers)} texts lost: "
                             f"{lost[0].error if lost else ''}")
        for a in differ[:1]:
            self.check(False, f"{when}: {len(differ)} of {len(answers)} texts differ: "
                              f"{a.text!r} is not {self.texts[a.ask.key]!r}")
        return f"{len(answers) - len(lost) - len(differ)} of {len(answers)}"

    # --- processes ---

    def stop_all(self):
        """Ends what is left. No program may have said that a sanitizer found something."""
        for program in self.programs:
            if program.alive:
                program.kill()
            report = REPORT.search(program.said())
            self.check(not report, f"{program.name}: {report and report.group(0)}")
        self.programs.clear()

    def alive(self, program, when):
        return self.check(program.alive, f"{when}: {program.name} ended with "
                                         f"{program.process.returncode}: {program.said()[-300:]}")

    def clean_up(self, keep):
        self.stop_all()
        if keep or self.failures:
            print(f"logs: {self.folder}")
        else:
            shutil.rmtree(self.folder)
