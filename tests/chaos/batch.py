# SPDX-License-Identifier: Apache-2.0
"""A batch of tasks whose edge and server are killed in turn, at random moments: resumed again and again,
it ends with each task once, in order, and with the texts of a batch in peace.
"""
import json
import os
import random
import subprocess
import time

import world as w

TASKS = 24
KILLS, KILLS_LONG = 6, 50
LEAST_S = 0.05    # from the start of a process, or a server that is there again, to the next kill
AGAIN_S = 120     # a batch ends within this time once nobody is killed


def write_tasks(path, rng):
    topics = ("a dog", "the sea", "winter", "a king", "bread", "the moon", "a map", "a train")
    with open(path, "w") as file:
        for i in range(TASKS):
            task = {"id": f"task {i}", "prompt": f"Number {i}: there once was {rng.choice(topics)} and",
                    "max_tokens": rng.randrange(8, 64)}
            file.write(json.dumps(task) + "\n")


def start(world, server, tasks, out):
    return w.Program(world, "batch", [world.binary, "batch", "--server", f"127.0.0.1:{server.grpc}",
                                      "-md", world.draft, "-t", "1", "--batch", "4", "--at-once", "12",
                                      tasks, "-o", out, "--resume"])


def answers(path):
    """(id, text, finish, tokens) of each line."""
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return [(a["id"], a["text"], a["finish"], a["tokens"]) for a in lines]


def ended(world, batch, seconds):
    """Whether the batch has ended within these seconds; it may only have ended well."""
    try:
        code = batch.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return world.check(code == 0, f"{batch.name} ended with {code}: {batch.said()[-300:]}")


def run_killed(world, rng, tasks, peace_s, kills):
    """Batches until so many kills; each ends in peace. Returns the outputs."""
    server, outs = w.Server(world), []
    while kills > 0 and not world.failures:
        outs.append(world.path(f"answers-{len(outs)}.jsonl"))
        batch = start(world, server, tasks, outs[-1])
        while kills > 0 and not ended(world, batch, rng.uniform(LEAST_S, peace_s / 2)):
            if world.failures:
                return outs
            kills -= 1
            if kills % 2:
                server.kill()
                server = w.Server(world, port=server.grpc)
            else:
                batch.kill()
                batch = start(world, server, tasks, outs[-1])
        world.check(ended(world, batch, AGAIN_S), f"{batch.name} has not ended in {AGAIN_S} s")
    world.check(server.stop() == 0, "the server did not end in order")
    return outs


def run(world):
    if not world.knows("batch", "--resume"):
        world.check(False, "no batches: there is no such command")
        return
    rng = random.Random(world.seed)
    tasks, quiet = world.path("tasks.jsonl"), world.path("peace.jsonl")
    write_tasks(tasks, rng)
    server = w.Server(world)
    began = time.monotonic()
    if not world.check(ended(world, start(world, server, tasks, quiet), AGAIN_S), "a batch in peace"):
        return
    peace_s = time.monotonic() - began
    server.stop()
    expected = answers(quiet)
    world.check([a[0] for a in expected] == [f"task {i}" for i in range(TASKS)], "ids in peace")
    kills = KILLS_LONG if world.long else KILLS
    outs = run_killed(world, rng, tasks, peace_s, kills)
    for out in outs:
        if world.check(os.path.exists(out), f"no {out}"):
            world.check(answers(out) == expected, f"{out}: other answers than in peace")
        world.check(not os.path.exists(out + ".part"), f"{out}.part is left")
    world.say("killed batches", kills=kills, batches=len(outs))
