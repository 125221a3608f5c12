#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""netlab as a program: links that really are as long, lossy and slow as asked for, namespaces that
reach nothing else, exit codes, nothing left behind; and foretoken over such a link.

    netlab_check.py NETLAB FORETOKEN

Run by ctest. Where netlab may not make namespaces (mostly: without root) or finds no TUN driver it says
SKIPPED and exits with 77. Times are compared with
lower bounds only, which the link itself guarantees. With a word as first argument it is one of the
commands that run in the namespaces.
"""
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

SKIP = 77
PORT = 7000
MODEL = os.path.join(os.path.dirname(__file__), "../../models/smollm2-draft-17m-q8_0.gguf")
LIMIT_S = 120
NETLAB = FORETOKEN = ""


def read(path):
    with open(path) as file:
        return file.read()


def udp():
    """A socket that holds a whole burst, however long its owner waits for a processor."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    s.settimeout(LIMIT_S)
    return s


def echo():
    s = udp()
    s.bind((os.environ["NETLAB_ADDRESS"], PORT))
    s.settimeout(None)
    while True:
        data, sender = s.recvfrom(2000)
        s.sendto(data, sender)


def round_trips(n):
    """The shortest of n round trips to the echoing server, in ms."""
    s, best = udp(), float("inf")
    s.connect((os.environ["NETLAB_SERVER"], PORT))
    for i in range(n):
        began = time.monotonic()
        s.send(b"%d" % i)
        assert s.recv(100) == b"%d" % i
        best = min(best, time.monotonic() - began)
    return best * 1e3


def burst(n, size):
    """Sends n datagrams at once; (ms until all echoes were there, were they in order)."""
    s = udp()
    s.connect((os.environ["NETLAB_SERVER"], PORT))
    began = time.monotonic()
    for i in range(n):
        s.send(b"%06d" % i + bytes(size - 6))
    order = [int(s.recv(2000)[:6]) for _ in range(n)]
    return (time.monotonic() - began) * 1e3, order == sorted(order)


def flood(n):
    """Sends n datagrams that may get lost, then asks until an answer comes."""
    s = udp()
    s.connect((os.environ["NETLAB_SERVER"], PORT))
    for _ in range(n):
        s.send(b"x")
    s.settimeout(0.05)
    while True:
        try:
            s.send(b"end")
            while s.recv(100) != b"end":
                pass
            return
        except TimeoutError:
            pass


def silence(seconds):
    """Sends a datagram every 10 ms for so long; the longest time without an echo, in ms."""
    s, longest = udp(), 0
    s.connect((os.environ["NETLAB_SERVER"], PORT))
    s.settimeout(0.01)
    began = heard = time.monotonic()
    while time.monotonic() - began < seconds:
        s.send(b"x")
        try:
            s.recv(100)
        except TimeoutError:
            continue
        longest = max(longest, time.monotonic() - heard)
        heard = time.monotonic()
    return longest * 1e3


def stray():
    """Writes to the other edge and to the world; what the system says of it."""
    said = {"devices": sorted(name for _, name in socket.if_nameindex())}
    other = os.environ["NETLAB_SERVER"][:-1] + "3"
    s = udp()
    s.sendto(b"to the other edge", (other, PORT))
    try:
        s.sendto(b"to the world", ("192.0.2.1", PORT))
        said["world"] = "sent"
    except OSError as e:
        said["world"] = os.strerror(e.errno)
    local = udp()
    local.bind(("127.0.0.1", 0))
    local.sendto(b"loopback", local.getsockname())
    said["loopback"] = local.recv(100).decode()
    round_trips(1)  # packets keep their order: what went before this has been looked at
    return said


def complete(port_file):
    """Asks the edge's API, once it listens, for a completion."""
    while not (os.path.exists(port_file) and read(port_file).endswith("\n")):
        time.sleep(0.01)
    body = {"prompt": PROMPT, "max_tokens": 48, "temperature": 0.8, "seed": 7, "top_k": 40,
            "top_p": 0.95, "min_p": 0.05}
    request = urllib.request.Request(
        f"http://127.0.0.1:{int(read(port_file))}/v1/completions",
        json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return json.load(answer)


PROMPT = "Once upon a time there was a"
COMMANDS = {"echo": echo, "round_trips": round_trips, "burst": burst, "flood": flood,
            "silence": silence, "stray": stray, "complete": complete}


def command(name, *arguments):
    """A command line for a namespace; it prints its result as JSON."""
    return " ".join(shlex.quote(str(a))
                    for a in ("exec", sys.executable, os.path.abspath(__file__), name, *arguments)
                    ).replace("'exec'", "exec")


class Netlab(unittest.TestCase):
    def run_lab(self, flags, edges, server=None, code=0):
        """(what the edges printed, netlab's own report)"""
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report")
            arguments = [NETLAB, "--json", report, "--server", server or command("echo")]
            if server is None:
                arguments += ["--wait-port", str(PORT)]
            for edge in edges:
                arguments += ["--edge", edge]
            result = subprocess.run(arguments + flags, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
            self.assertEqual(result.returncode, code, result.stderr)
            return result.stdout, json.loads(read(report))

    def test_round_trip(self):
        out, report = self.run_lab(["--rtt-ms", "20"], [command("round_trips", 5)])
        self.assertGreaterEqual(json.loads(out), 20)
        link = report["links"][0]
        for way in "up", "down":
            self.assertGreaterEqual(link[way]["delay_ms"], 10)
            self.assertEqual(link[way]["delivered"], 5)
            self.assertEqual(link[way]["lost"] + link[way]["dropped"], 0)
        self.assertEqual(link["address"], "10.77.0.2")

    def test_jitter_keeps_order(self):
        out, _ = self.run_lab(["--rtt-ms", "4", "--jitter-ms", "5"], [command("burst", 200, 50)])
        ms, in_order = json.loads(out)
        self.assertGreaterEqual(ms, 4)
        self.assertTrue(in_order)

    def test_loss(self):
        _, report = self.run_lab(["--loss", "0.2", "--seed", "5"], [command("flood", 400)])
        up = report["links"][0]["up"]
        self.assertGreaterEqual(up["packets"], 401)
        self.assertGreater(up["lost"], up["packets"] * 0.1)
        self.assertLess(up["lost"], up["packets"] * 0.3)

    def test_reorder(self):
        out, report = self.run_lab(["--reorder", "0.2", "--rate-mbit", "10", "--queue-ms", "1000"],
                                   [command("burst", 200, 200)])
        up = report["links"][0]["up"]
        self.assertFalse(json.loads(out)[1])
        self.assertEqual((up["delivered"], up["lost"]), (200, 0))
        self.assertGreater(up["reordered"], 20)
        self.assertLess(up["reordered"], 60)

    def test_partition(self):
        """Nothing passes while it lasts, whatever else is slow."""
        out, report = self.run_lab(["--partition", "0.5:0.4", "--partition", "1.2:0.2"],
                                   [command("silence", 2)])
        self.assertGreater(json.loads(out), 300)
        self.assertGreater(report["cut"], 0)
        self.assertEqual(report["partitions"], ["0.5:0.4", "1.2:0.2"])

    def test_rate(self):
        for flags, least_ms in ((["--rate-mbit", "8"], 100), (["--rate-mbit", "80"], 10),
                                (["--rate-mbit", "80", "--up-mbit", "4"], 200)):
            out, report = self.run_lab(flags + ["--queue-ms", "1000"],
                                       [command("burst", 100, 1000 - 28)])
            self.assertGreaterEqual(json.loads(out)[0], least_ms)
            self.assertEqual(report["links"][0]["up"]["dropped"], 0)

    def test_steps(self):
        """100 kB take no less than at the higher of the two rates; with no chance to change it, one of
        five seeds has the lower one."""
        out, report = self.run_lab(["--up-steps", "4,8", "--up-step-ms", "5", "--up-stay", "0.8",
                                    "--queue-ms", "1000"], [command("burst", 100, 1000 - 28)])
        self.assertGreaterEqual(json.loads(out)[0], 100)
        self.assertEqual(report["links"][0]["up"]["dropped"], 0)
        self.assertEqual((report["up_steps"], report["up_step_ms"], report["up_stay"]),
                         ([4, 8], 5, 0.8))
        times = []
        for seed in range(5):
            out, _ = self.run_lab(["--up-steps", "1,1000", "--up-stay", "1", "--queue-ms", "1000",
                                   "--seed", str(seed)], [command("burst", 25, 1000 - 28)])
            times.append(json.loads(out)[0])
        self.assertGreaterEqual(max(times), 200)

    def test_queue(self):
        _, report = self.run_lab(["--rate-mbit", "0.1", "--queue-ms", "1"],
                                 [command("flood", 100)])
        self.assertGreater(report["links"][0]["up"]["dropped"], 0)

    def test_isolation(self):
        out, report = self.run_lab([], [command("stray"), command("round_trips", 3) + " >/dev/null"])
        said = json.loads(out)
        self.assertEqual(said["devices"], ["lo", "netlab0"])
        self.assertEqual(said["world"], os.strerror(101))  # no route
        self.assertEqual(said["loopback"], "loopback")
        self.assertGreaterEqual(report["strays"], 1)
        self.assertEqual(report["links"][1]["down"]["packets"], 3)
        self.assertFalse(os.path.exists("/sys/class/net/netlab0"))

    def test_exit_codes(self):
        for server, edges, code in (("sleep 100", ["exit 0", "exit 3", "exit 4"], 3),
                                    ("exit 5", ["sleep 100"], 5),
                                    ("exit 0", ["exit 0"], 0),
                                    ("sleep 100 & sleep 100", ["kill -9 $$"], 137),
                                    ("sleep 100", ["nosuchprogram"], 127)):
            _, report = self.run_lab([], edges, server, code)
            self.assertEqual(len(report["links"]), len(edges))
        self.run_lab(["--wait-port", "9"], ["exit 0"], "exit 6", 125)
        self.run_lab(["--wait-port", "9", "--wait-s", "0.1"], ["exit 0"], "sleep 100", 125)

    def test_bad_usage(self):
        for flags in ([], ["--server", "true"], ["--server", "true", "--edge", "true", "word"],
                      ["--server", "true", "--edge", "true", "--loss", "2"],
                      ["--server", "true", "--edge", "true", "--partition", "1"],
                      ["--server", "true", "--edge", "true", "--partition", "1:0"],
                      ["--server", "true", "--edge", "true", "--up-steps", "2"],
                      ["--server", "true", "--edge", "true", "--up-steps", "2,0"],
                      ["--server", "true", "--edge", "true", "--up-steps", "2,6", "--up-mbit", "3"],
                      ["--server", "true", "--edge", "a", "--edge", "b", "--edges", "1"]):
            result = subprocess.run([NETLAB, *flags], stderr=subprocess.PIPE, text=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn("--help", result.stderr)

    def test_environment(self):
        os.environ["http_proxy"] = "http://proxy.example"
        out, report = self.run_lab(["--edges", "3", "--rtt-ms", "8"], [
            'echo $NETLAB_SERVER $NETLAB_ADDRESS $NETLAB_EDGE $NETLAB_EDGES $NETLAB_RTT_MS '
            '"$http_proxy"; exit 0'], "sleep 100")
        del os.environ["http_proxy"]
        self.assertEqual(sorted(line.strip() for line in out.splitlines()),
                         [f"10.77.0.1 10.77.0.{i + 1} {i} 3 8" for i in (1, 2, 3)])
        self.assertEqual(len(report["links"]), 3)

    def test_input(self):
        """One edge has netlab's standard input, several have none."""
        for edges, expected in ("1", "to you\n"), ("2", ""):
            result = subprocess.run([NETLAB, "--quiet", "--server", "sleep 100", "--edge", "sh",
                                     "--edges", edges], input="echo to you", text=True,
                                    stdout=subprocess.PIPE, timeout=LIMIT_S)
            self.assertEqual((result.returncode, result.stdout), (0, expected))

    def end_early(self, sig):
        """All commands hold netlab's standard output: it ends when the last of them has."""
        process = subprocess.Popen(
            [NETLAB, "--quiet", "--server", "trap '' HUP; echo up; sleep 1000",
             "--edge", "echo up; sleep 1000 & exec setsid sleep 1000"],
            stdout=subprocess.PIPE, text=True)
        self.assertEqual([process.stdout.readline() for _ in range(2)], ["up\n", "up\n"])
        process.send_signal(sig)
        self.assertEqual(process.stdout.read(), "")
        process.stdout.close()
        return process.wait(LIMIT_S)

    def test_cleanup(self):
        for sig in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            self.assertEqual(self.end_early(sig), 128 + sig)
        self.assertEqual(self.end_early(signal.SIGKILL), -signal.SIGKILL)

    def test_foretoken(self):
        """An answer over 1 % loss is the one that both models give on one machine."""
        local = subprocess.run(
            [FORETOKEN, "run", "-m", MODEL, "-md", MODEL, "-p", PROMPT, "--raw", "-n", "48", "--temp",
             "0.8", "-s", "7", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05", "--json"],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT_S)
        expected = json.loads(local.stdout)["text"]
        with tempfile.TemporaryDirectory() as folder:
            port_file = os.path.join(folder, "port")
            quoted = shlex.quote(FORETOKEN), shlex.quote(MODEL), shlex.quote(port_file)
            out, report = self.run_lab(
                ["--rtt-ms", "10", "--loss", "0.01", "--rate-mbit", "20", "--wait-port", "7411"],
                ["FORETOKEN_LOG=error %s edge --server $NETLAB_SERVER:7411 -md %s -t 1 --port 0 "
                 "--port-file %s >/dev/null & " % quoted + command("complete", port_file)],
                "exec env FORETOKEN_LOG=error %s serve -m %s -t 1 --host $NETLAB_SERVER --port 7411 "
                "--insecure" % quoted[:2])
        answer = json.loads(out)
        self.assertGreater(len(expected), 20)
        self.assertEqual(answer["choices"][0]["text"], expected)
        counts = answer["usage"]["foretoken"]  # whether drafts pay here is the machine's matter
        self.assertGreater(counts["rounds"] + counts["runs"], 0)
        self.assertGreater(report["links"][0]["up"]["packets"], 5)


def main():
    global NETLAB, FORETOKEN
    if sys.argv[1] in COMMANDS:
        arguments = [int(a) if a.isdigit() else a for a in sys.argv[2:]]
        print(json.dumps(COMMANDS[sys.argv[1]](*arguments)), flush=True)
        return
    NETLAB, FORETOKEN = (os.path.abspath(path) for path in sys.argv[1:3])
    probe = subprocess.run([NETLAB, "--quiet", "--server", "exit 0", "--edge", "exit 0"],
                           stderr=subprocess.PIPE, text=True)
    if probe.returncode == SKIP:
        print("SKIPPED: the links' tests:", probe.stderr.strip())
        sys.exit(SKIP)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])


if __name__ == "__main__":
    main()
