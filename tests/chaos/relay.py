# SPDX-License-Identifier: Apache-2.0
"""A TCP relay between edges and a server that reads the messages as they pass.

It tells the owner each message before and after it has been passed on, so a test can act in an exact state
of a round. It adds a delay if asked to, and cuts all connections on demand. One thread runs its loop; the
owner's function is called in it and must return soon.
"""
import asyncio
import threading

import h2

UP, DOWN = "up", "down"          # from edge to server, and back
BEFORE, AFTER = "before", "after"  # the message was passed on


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
    """watch(moment, seen) -> False to lose what is in hand and cut the connection."""

    def __init__(self, server_port, watch=None, delay_s=0.0):
        self.server_port, self.watch, self.delay_s = server_port, watch, delay_s
        self.loop = asyncio.new_event_loop()
        self.writers = set()
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

    def later(self, seconds, function):
        """In the loop's thread: calls it then."""
        self.loop.call_later(seconds, function)

    def _cut(self):
        for writer in self.writers:
            writer.transport.abort()

    def stop(self):
        def end():
            self._cut()
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
            self.writers.add(server_out)
            await asyncio.gather(
                self._pump(UP, number, edge_in, server_out, h2.Frames(len(h2.PREFACE))),
                self._pump(DOWN, number, server_in, edge_out, h2.Frames()))
        except (OSError, asyncio.IncompleteReadError):
            pass
        for writer in (edge_out, server_out):
            if writer:
                writer.transport.abort()
                self.writers.discard(writer)

    async def _pump(self, way, number, source, sink, frames):
        parts = h2.Messages()
        while data := await source.read(1 << 16):
            seen = []
            for kind, _, stream, payload in frames.feed(data):
                if kind == h2.DATA:
                    seen += [Seen(way, (number, stream), body) for body in parts.feed(stream, payload)]
            if self.watch and any(self.watch(BEFORE, s) is False for s in seen):
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
