# SPDX-License-Identifier: Apache-2.0
"""100 sessions and SIGTERM: with a second server to go to, no request fails and no text differs.

The first server is told to end when the first tenth of the texts has begun. It may finish what it can within its
five seconds (world.DRAIN_S); the rest goes on at the second one. New requests come all the while: they find the second server.
"""
import threading

import chat
import world as w

PEOPLE = 100
TOKENS = 40
LATE = 8  # people who come after the signal


def run(world):
    if not w.Edge.takes_several(world):
        world.check(False, "two servers: edge --server takes one only")
        return
    first, second = w.Server(world), w.Server(world)
    edge = w.Edge(world, [first.grpc, second.grpc])
    asked = chat.asks(PEOPLE, world.seed, TOKENS)
    world.learn(chat.crowd([edge.http], asked))
    told, lock, began = threading.Event(), threading.Lock(), set()

    def piece(answer):
        with lock:
            began.add(answer.ask.key)
            if len(began) == PEOPLE // 10 and not told.is_set():
                told.set()
                first.process.terminate()

    people = chat.Crowd([edge.http], asked, piece)
    told.wait(chat.TIMEOUT_S)
    late = chat.crowd([edge.http], asked[:LATE])
    answers = people.wait()
    code = first.process.wait(60)
    world.check(code == 0, f"the first server ended with {code}")
    world.alive(second, "after the drain")
    world.say("100 sessions", texts=world.same(answers, "drain"), late=world.same(late, "late"),
              moved=int(second.metric("sessions_opened_total")) - LATE)
    world.check(second.stop() == 0, "the second server did not end in order")
