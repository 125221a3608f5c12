# SPDX-License-Identifier: Apache-2.0
"""What the system refuses: a server with too few file descriptors for its connections, an edge whose disk
is full. There is an error, no crash, and serving goes on.
"""
import os
import shutil
import socket
import time

import chat
import h2
import world as w

FILES = 64        # descriptors of the server: about 20 are its own
STRANGERS = 200   # connections to each port
PEOPLE = 4
TOKENS = 32
PAGE = "size=4k"  # a timeline's beginning
DISK = "size=64k"  # less than a trace's file needs
AGAIN_S = 30


def too_many_files(world, asked):
    """Strangers use up all descriptors and leave."""
    server = w.Server(world, files=FILES)
    world.learn(chat.crowd([server.http], asked))
    strangers = []
    for port in (server.grpc, server.http, server.metrics_port):
        for _ in range(STRANGERS):
            s = socket.socket()
            s.setblocking(False)
            s.bind(("127.0.0.2", 0))
            s.connect_ex(("127.0.0.1", port))
            strangers.append(s)
    during = h2.health(server.grpc, timeout_s=2)
    for s in strangers:
        s.close()
    world.alive(server, "out of descriptors")
    if not world.check(serves_again(server), "out of descriptors: the gRPC port is dead for good"):
        return
    edge = w.Edge(world, [server.grpc])
    world.say("out of descriptors", health_meanwhile=during,
              texts=world.same(chat.crowd([edge.http, server.http], asked), "out of descriptors"))
    edge.stop()
    world.check(server.stop() == 0, "out of descriptors: the server did not end in order")


def serves_again(server):
    """Whether it does within some seconds: it closes hundreds of connections first."""
    until = time.monotonic() + AGAIN_S
    while not (serves := h2.health(server.grpc)) and time.monotonic() < until:
        time.sleep(0.1)
    return serves


def full_disk(world, asked):
    """An edge that records traces and a timeline on disks that are full, or get full."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        world.skip("a full disk: mounting one takes root, and unshare")
        return
    disk, page = world.path("disk"), world.path("page")
    os.mkdir(disk)
    os.mkdir(page)
    mount = (f'mount -t tmpfs -o {DISK} none {disk} && mount -t tmpfs -o {PAGE} none {page} && '
             'exec "$0" "$@"')
    draws = world.knows("edge", r"--timeline")
    timeline = ["--timeline", os.path.join(page, "timeline.json")] if draws else []
    server = w.Server(world)
    edge = w.Edge(world, [server.grpc], "--trace", os.path.join(disk, "trace.db"), "--draft", "tree:12:4",
                  *timeline, wrap=("unshare", "-m", "sh", "-c", mount))
    answers = []
    for _ in range(4):  # a trace is written some time after its round
        answers += chat.crowd([edge.http], asked)
    dropped = edge.metric("trace_dropped_total")
    world.check(dropped > 0, "a full disk: no trace was dropped: the disk was not full")
    world.alive(edge, "a full disk")
    world.say("full disk", texts=world.same(answers, "full disk"), traces_dropped=int(dropped))
    world.check(edge.stop() == 0, "a full disk: the edge did not end in order")
    world.check(not draws or edge.said().count("timeline: events are dropped") == 1,
                "a full disk: not one warning of a timeline that has ended")
    server.stop()


def run(world):
    asked = chat.asks(PEOPLE, world.seed, TOKENS)
    too_many_files(world, asked)
    full_disk(world, asked)
