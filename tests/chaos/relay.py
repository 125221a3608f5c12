# SPDX-License-Identifier: Apache-2.0
"""A TCP relay between edges and a server that reads the messages as they pass.

It tells the owner each message before and after it has been passed on, so a test can act in an exact state
of a round. It adds a delay if asked to, cuts all connections on demand, and does what bad proxies do: it cuts
within a message, resets one stream, leaves the server's side open. One thread runs its loop; the
owner's function is called in it and must return soon.
"""
import asyncio
import threading

import h2

UP, DOWN = "up", "down"          # from edge to server, and back
BEFORE, AFTER = "before", "after"  # the message was passed on
HALF = "half"                    # half of what is in hand is passed on, then the connection ends


HALF_S = 0.05


class Seen:
    """One message on its way: what it is, and whose. kind "": none of the method Session."""

    NAMES = {UP: {1: "open", 2: "draft", 3: "cancel", 4: "close"}, DOWN: {1: "opened", 2: "verdict"}}

    def __init__(self, way, key, body):
        self.way, self.key = way, key  # key: (connection, stream)
        number, (self.body, *_) = next(iter(h2.fields(body).items()), (0, [b""]))
        self.kind = self.NAMES[way].get(number, "") if isinstance(self.body, bytes) else ""

    def get(self, number, absent=0):
        """A field of Open, Draft, Opened or Verdict."""
        return h2.fields(self.body).get(number, [absent])[0]

    @property
    def is_resume(self):
        return self.kind == "open" and bool(self.get(8))

    @property
    def is_early(self):
        return self.kind == "draft" and bool(self.get(10))

    @property
    def has_more(self):
        return self.kind == "verdict" and bool(self.get(10))


class Relay:
    """watch(moment, seen) -> False to lose what is in hand and cut the connection, HALF to lose half of it. lazy:
    the server's side of a connection that was cut stays open until the relay ends."""

    def __init__(self, server_port, watch=None, delay_s=0.0, lazy=False):
        self.server_port, self.watch, self.delay_s, self.lazy = server_port, watch, delay_s, lazy
        self.loop = asyncio.new_event_loop()
        self.writers, self.kept = set(), []
        self.ways = {}  # (connection, way) -> (frames, sink), to add frames of our own
        self.n = 0
        ready = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self.thread.start()
        ready.wait()

    def _run(self, ready):
        asyncio.set_event_loop(self.loop)
        self.server = self.loop.run_until_complete(
            asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = self.server.sockets[0].getsockname()[1]
        self.loop.call_soon(ready.set)
        self.loop.run_forever()

    def cut(self):
        """Any thread: all connections break."""
        self.loop.call_soon_threadsafe(self._cut)

    def reset(self, key, code):
        """In the loop's thread: a RST_STREAM to both sides, as soon as neither is within a frame."""
        number, stream = key
        ends = [self.ways[number, way] for way in (UP, DOWN)]
        if any(frames.held for frames, _ in ends):
            self.later(0.001, lambda: self.reset(key, code))
            return
        for _, sink in ends:
            sink.write(h2.frame(h2.RST_STREAM, 0, stream, code.to_bytes(4, "big")))

    def later(self, seconds, function):
        """In the loop's thread: calls it then."""
        self.loop.call_later(seconds, function)

    def _cut(self):
        for writer in self.writers:
            writer.transport.abort()

    def stop(self):
        def end():
            self._cut()
            for writer in self.kept:
                writer.transport.abort()
            self.server.close()
            self.loop.stop()
        self.loop.call_soon_threadsafe(end)
        self.thread.join()

    async def _connected(self, edge_in, edge_out):
        self.n += 1
        number = self.n
        self.writers.add(edge_out)
        server_out = None
        try:
            server_in, server_out = await asyncio.open_connection("127.0.0.1", self.server_port)
            if self.lazy:
                self.kept.append(server_out)
            else:
                self.writers.add(server_out)
            await asyncio.gather(
                self._pump(UP, number, edge_in, server_out, h2.Frames(len(h2.PREFACE))),
                self._pump(DOWN, number, server_in, edge_out, h2.Frames()))
        except (OSError, asyncio.IncompleteReadError):
            pass
        for writer in (edge_out, server_out):
            if writer and writer not in self.kept:
                writer.transport.abort()
                self.writers.discard(writer)

    async def _pump(self, way, number, source, sink, frames):
        parts = h2.Messages()
        self.ways[number, way] = frames, sink
        while data := await source.read(1 << 16):
            seen = []
            for kind, _, stream, payload in frames.feed(data):
                if kind == h2.DATA:
                    seen += [Seen(way, (number, stream), body) for body in parts.feed(stream, payload)]
            orders = [self.watch(BEFORE, s) for s in seen] if self.watch else []
            if HALF in orders:
                sink.write(data[:len(data) // 2])
                await sink.drain()
                await asyncio.sleep(HALF_S)  # so that the other side reads it
            if HALF in orders or False in orders:
                break
            if self.delay_s:
                self.loop.call_later(self.delay_s, self._pass_on, sink, data, seen)
            else:
                self._pass_on(sink, data, seen)
        raise ConnectionError  # one way has ended: so does the other

    def _pass_on(self, sink, data, seen):
        if sink.is_closing():
            return
        sink.write(data)
        for s in seen:
            if self.watch:
                self.watch(AFTER, s)
