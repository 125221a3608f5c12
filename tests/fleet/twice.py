# SPDX-License-Identifier: Apache-2.0
"""Two servers over one behind Envoy, each on a core of its own, and the simulator beside the two.

The target is the demo target with 120 layers, so that edges and the proxy cost little beside the servers, though
they share their cores. `foretoken bench fleet` is the load: real edges with recorded drafts.

    the ratio     as many devices as keep two servers busy, no promises; rounds of both fleets in turn
    the simulator fewer devices, which ask for a promised speed: the two servers, and `simulate fleet` with costs that
                  `fit verify-time` measured on both cores at once

It takes some 15 minutes and wants a machine on which nothing else runs. So it runs only if it is asked for.
"""
import json
import os
import statistics
import subprocess
import threading
import time

import fleet as f
import world as w

RATIO, DISTANCE = 1.8, 0.1  # what must be there; how far the simulator may be off
CONTEXT, KV_TOK = 1024, 24576
TURNS, TOKENS, DRAFT, DRAFT_MS, RTT_MS = 3, 48, 4, 10, 20
BUSY = {"devices": 48, "chats": 240, "think_s": 1, "warm_s": 25, "measure_s": 40, "rounds": 3}
CALM = {"devices": 24, "chats": 160, "warm_s": 60, "measure_s": 120, "rounds": 1}
FIT = {"ctx": 512, "rows": 192, "sessions": 24, "batches": 45, "unseen": 15}
LOAD = 0.7  # of what two servers can do, in the run beside the simulator
SLOWEST = 0.6  # the promised speed, over what a text gets at that load
FIRST = ("I keep notes about {0} of the year {1}. They say that {0} were there first, that {0} came in spring and left "
         "in autumn, that nobody counted them but me. What is a good first sentence for an essay about {0}?")
THINGS = ("harbours", "violins", "glaciers", "foxes", "looms", "lanterns", "orchards", "comets")
SEEDS = 8  # of the simulator: its mean


def write_prompts(world, n):
    path = world.path("chats.jsonl")
    with open(path, "w") as file:
        for i in range(n):
            words = FIRST.format(THINGS[i % len(THINGS)], 1500 + i)
            file.write(json.dumps({"prompt": words}) + "\n")
    return path


class Used(w.Look):
    """Processor seconds of programs, over time."""

    def __init__(self, programs):
        super().__init__(0.2)
        self.programs, self.at = programs, []

    def look(self):
        self.at.append((time.monotonic(), [p.cpu_s() for p in self.programs]))

    def share(self, row):
        """Of a core, by program, while that row was measured."""
        within = [x for x in self.at if row["from_s"] <= x[0] <= row["from_s"] + row["seconds"]]
        (t0, a), (t1, b) = within[0], within[-1]
        return [(y - x) / (t1 - t0) for x, y in zip(a, b)]


class Twice:
    def __init__(self, world, kind, program):
        self.world, self.kind, self.program = world, kind, program
        self.cores = sorted(os.sched_getaffinity(0))
        self.target = f.dear_target()
        self.prompts = write_prompts(world, 2 * max(BUSY["chats"], CALM["chats"]))
        self.costs = None

    def command(self, *words):
        """A command of ours that prints JSON."""
        log = self.world.path(words[1] + ".log")
        with open(log, "a") as said:
            done = subprocess.run([self.world.binary, *words, "--json"], stdout=subprocess.PIPE, stderr=said,
                                  text=True, env=self.world.environment, preexec_fn=w.prepare(None, None))
        if done.returncode:
            with open(log) as said:
                raise RuntimeError(f"{' '.join(words[:2])}: {said.read()[-500:]}")
        return json.loads(done.stdout)

    def fit(self):
        """What passes cost, measured on both cores at once, as both servers use the memory."""
        files = [self.world.path(f"costs-{core}.json") for core in self.cores[:2]]
        how = [word for name, value in FIT.items() for word in ("--" + name, str(value))]
        command = [self.world.binary, "fit", "verify-time", "-m", self.target, "-t", "1", *how, "--out"]
        fits = [w.Program(self.world, "fit", [*command, file], core=core) for core, file in zip(self.cores, files)]
        for fit in fits:
            self.world.check(fit.process.wait() == 0, f"fit verify-time: {fit.said()[-300:]}")
        self.costs = files[0]

    def fleet(self, n, slo):
        flags = ["--kv-tokens", str(KV_TOK), "--slo", slo, *(["--costs", self.costs] if self.costs else [])]
        return f.Fleet(self.world, self.kind, self.program, n=n, more=flags, model=self.target,
                       cores=self.cores[-n:])

    def bench(self, fleets, how, *more):
        flags = [word for name, value in how.items() for word in ("--" + name.replace("_", "-"), str(value))]
        return self.command("bench", "fleet", "-m", self.world.target, "-md", self.world.draft, "--prompts",
                            self.prompts, "--tls-ca", self.world.certificate.cert, "--server",
                            ",".join(f"127.0.0.1:{fleet.proxy.grpc}" for fleet in fleets), "--turns", str(TURNS),
                            "-n", str(TOKENS), "-c", str(CONTEXT), "--draft", str(DRAFT), "--draft-ms", str(DRAFT_MS),
                            "--rtt", str(RTT_MS), "--seed", str(self.world.seed % 10 ** 6), *flags, *more)

    def measured(self, fleets, how, *more):
        """The report, with the shares of a core that servers, proxy and edges used in each row."""
        programs = [p for fleet in fleets for p in (fleet.proxy, *fleet.servers)]
        with Used(programs) as used:
            report = self.bench(fleets, how, *more)
        for row in report["rows"]:
            shares = dict(zip((p.name for p in programs), used.share(row)))
            mine = next(fleet for fleet in fleets if row["server"].endswith(f":{fleet.proxy.grpc}"))
            row["cores"] = {"servers": [round(shares[s.name], 3) for s in mine.servers],
                            "proxy": round(shares[mine.proxy.name], 3),
                            "edges": round(row["edges_cpu_s"] / row["seconds"], 3)}
            self.world.check(row["identical"], f"{row['server']}: other texts than before")
            self.world.say(f"{len(mine.servers)} server(s)", tokens_per_s=f"{row['tokens_per_s']:.1f}",
                           late=f"{row['late']} of {row['texts']}", cores=row["cores"])
        return report

    def ratio(self):
        fleets = [self.fleet(n, "none") for n in (1, 2)]
        report = self.measured(fleets, BUSY)
        for fleet in fleets:
            fleet.end()
        ratio = report["fleets"][1]["ratio"]
        report["ratio_of"] = split_ratio(report)
        self.world.check(ratio >= RATIO, f"two servers have {ratio:.3f} times the throughput of one")
        return report

    def calm(self, tokens_per_s):
        """Two servers at a part of their load: with promises."""
        how = {**CALM, "think_s": CALM["devices"] * TOKENS / (LOAD * tokens_per_s) / 2}
        speed = round(SLOWEST * TOKENS / how["think_s"], 2)  # a user thinks as long as a text takes
        fleet = self.fleet(2, str(speed))
        report = self.measured([fleet], how, "--slo", str(speed))
        fleet.end()
        return report

    def simulated(self, real):
        path = self.world.path("fleet.json")
        with open(path, "w") as file:
            json.dump(config_of(real, self.costs), file)
        rows = [self.command("simulate", "fleet", "--config", path, "--devices", str(real["devices"]), "--servers", "2",
                             "--assign", "ring", "--seed", str(seed))["rows"][0] for seed in range(1, SEEDS + 1)]
        texts = sum(row["texts"][0] + row["given_up"][0] for row in rows)
        return {"tokens_per_s": sum(row["tokens"] for row in rows) / SEEDS / real["measure_s"],
                "late": sum(row["late"][0] + row["given_up"][0] for row in rows) / texts,
                "prefix": sum(row["prefix_found"] for row in rows) / SEEDS,
                "busy": sum(row["busy"] for row in rows) / SEEDS}


def split_ratio(report):
    """Why the ratio is what it is: the processor time that two servers got over one's, the tokens that they made of a
    second of it (a larger batch makes more, and two cores share the memory), and what two cores can do at most."""
    addresses = [fleet["server"] for fleet in report["fleets"]]
    of = [[row for row in report["rows"] if row["server"] == address] for address in addresses]
    speed = [statistics.mean(row["tokens_per_s"] for row in rows) for rows in of]
    servers, proxy, edges = ([statistics.mean(share(row["cores"]) for row in rows) for rows in of] for share in (
        lambda cores: sum(cores["servers"]), lambda cores: cores["proxy"], lambda cores: cores["edges"]))
    per_token = (servers[1] + proxy[1] + edges[1]) / speed[1]
    return {"cores": servers[1] / servers[0], "tokens_a_core_second": (speed[1] / servers[1]) / (speed[0] / servers[0]),
            "at_most": 2 / per_token / (speed[0] / servers[0])}


def accept_of(row):
    """The chance of each token of a chain that brings as many accepted tokens a round as there were."""
    accepted, low, high = row["accepted"] / row["verdicts"], 0.0, 1.0
    for _ in range(50):
        p = (low + high) / 2
        low, high = (p, high) if sum(p ** i for i in range(1, DRAFT + 1)) < accepted else (low, p)
    return p


def config_of(real, costs):
    """The setting of `simulate fleet` that is this run."""
    with open(costs) as file:
        passes = {k: v for k, v in json.load(file).items() if k in ("kind", "model", "error", "us")}
    values = {
        "draft_tokens_per_s": 1000 / DRAFT_MS, "predictor_us": 0, "accept": accept_of(real["rows"][0]),
        "predictor_keeps": 1, "predictor_misses": 1, "draft_most": DRAFT, "rtt_ms": RTT_MS, "jitter_ms": 0,
        "prompt_tokens": real["turn_tokens"], "response_tokens": real["text_tokens"], "text_spread": 0,
        "max_rows": 512, "max_sessions": 256, "kv_blocks": KV_TOK // 16, "prefill_ms": 50, "guard_ms": 5,
        "admission_ms": 10000, "epsilon": 0.05, "turns": TURNS,
        "first_tokens": max(0, real["first_prompt_tokens"] - real["turn_tokens"]), "think_s": real["think_s"],
        "ring_points": 512, "notice_ms": 1000, "reconnect_ms": 120000, "ramp_s": real["warm_s"],
        "measure_s": real["measure_s"], "lost_s": real["measure_s"] / 3, "added_s": real["measure_s"] * 2 / 3}
    return {"kind": "foretoken simulate fleet", "costs": {**passes, "why": "measured here"},
            "classes_tokens_per_s": [real["slo_tokens_per_s"]],
            "constants": {name: {"value": value, "why": "as in this run"} for name, value in values.items()}}


def compared(real):
    row = real["rows"][0]
    return {"tokens_per_s": row["tokens_per_s"], "late": row["late"] / max(1, row["texts"]),
            "prefix": row["found_tokens"] / max(1, row["before_tokens"]), "busy": sum(row["cores"]["servers"]) / 2}


def twice(world, kind, program):
    it = Twice(world, kind, program)
    busy = it.ratio()
    it.fit()
    real = it.calm(busy["fleets"][1]["tokens_per_s"])
    ours, theirs = compared(real), it.simulated(real)
    off = {"tokens_per_s": theirs["tokens_per_s"] / ours["tokens_per_s"] - 1,
           "late": theirs["late"] - ours["late"], "prefix": theirs["prefix"] - ours["prefix"]}
    for name, by in off.items():  # shares are compared as shares of all
        world.check(abs(by) <= DISTANCE, f"the simulator is off by {100 * by:+.1f} % in {name}")
    print(json.dumps({"ratio": busy["fleets"][1]["ratio"], "throughput": busy, "two_servers": real,
                      "compared": {"real": ours, "simulated": theirs, "off": off}}), flush=True)
