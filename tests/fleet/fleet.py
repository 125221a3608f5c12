# SPDX-License-Identifier: Apache-2.0
"""Two servers behind a proxy, and who talks to them: edges over gRPC, clients of the OpenAI API over HTTPS."""
import hashlib
import http.client
import json
import ssl
import subprocess
import threading

import chat
import proxies
import world as w

CONTEXT = "4096"
DELAY_S = 5  # health checks fail twice, a second apart, on a busy machine
ENDS = ("0", "2")  # the demo target's end-of-text tokens


def dear_target():
    """The demo target with 120 layers: the same texts, and passes that take four times as long."""
    script = f". {w.ROOT}/tools/setup.sh >&2; ft_demo_target; echo $FT_DEMO_TARGET"
    return subprocess.run(["bash", "-euc", script], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


class Fleet:
    """Servers that keep their ports when they are started again, and a proxy before them. more: further flags of
    each server; cores: each has one of its own."""

    def __init__(self, world, kind, program, form="foretoken", robin=False, n=2, more=(), model=None, cores=None):
        self.world, self.certificate = world, world.certificate
        self.model, self.cores = model, cores or [None] * n
        ports = w.free_ports(3 + 2 * n)
        self.places = list(zip(ports[3::2], ports[4::2]))
        self.flags = ["--per-client-share", "100", "--ctx-size", CONTEXT, "--shutdown-delay-s", str(DELAY_S),
                      "--allow-host", f"127.0.0.1:{ports[1]}",
                      "--allow-host", "localhost:8411", *more]  # health checks name the port of the configuration
        if form == "passthrough":
            for name in ("--tls", "--https"):
                self.flags += [name + "-cert", self.certificate.cert, name + "-key", self.certificate.key]
        self.servers = [self.start(i) for i in range(n)]
        self.proxy = proxies.Proxy(world, kind, program, form, self.places, ports[:3], robin)
        self.edges = []

    def start(self, i):
        grpc, http = self.places[i]
        return w.Server(self.world, *self.flags, port=grpc, http=http, drain_s=None, model=self.model,
                        core=self.cores[i])

    def add_edge(self, **how):
        """It knows the proxy alone."""
        self.edges.append(w.Edge(self.world, [self.proxy.grpc], "--tls-ca", self.certificate.cert, **how))
        return self.edges[-1]

    def metric(self, name):
        return sum(server.metric(name) for server in self.servers if server.alive)

    def end(self):
        for program in [*self.edges, self.proxy, *self.servers]:
            if program.alive:
                program.stop()


def prefix_of(messages):
    """What a client of the API sends: any hash of the words to the end of the first user message."""
    first = next(i for i, m in enumerate(messages) if m["role"] == "user")
    return hashlib.sha256(json.dumps(messages[:first + 1]).encode()).hexdigest()[:16]


def ask(port, messages, max_tokens, ca=None, endless=False, timeout_s=chat.TIMEOUT_S):
    """One turn of a chat, of an edge, or with `ca` over HTTPS through a proxy: (text, error). endless: the text
    has max_tokens."""
    headers = {"Content-Type": "application/json", "foretoken-prefix": prefix_of(messages)}
    body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0.8, "seed": 7}
    if endless:
        body["logit_bias"] = {token: -100 for token in ENDS}
    if ca:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_s,
                                                 context=ssl.create_default_context(cafile=ca))
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.read().decode()
        if response.status != 200:
            return "", f"{response.status} {answer[:300]}"
        return json.loads(answer)["choices"][0]["message"]["content"], None
    except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
        return "", f"{type(e).__name__}: {e}"
    finally:
        connection.close()


def together(work, n):
    """work(i) in n threads; what they returned."""
    results = [None] * n

    def one(i):
        results[i] = work(i)
    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
