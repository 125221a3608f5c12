# SPDX-License-Identifier: Apache-2.0
"""As much of HTTP/2 and gRPC as it takes to attack a server and to watch a stream of messages.

An attacker must do what no gRPC library lets it do: bind to an address, leave calls without a message,
repeat old bytes. So frames are written by hand. Headers are sent without compression; the peer is told
that our header table has size 0, so what it sends needs no table either. Owned by one thread.
"""
import select
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
WINDOW = (1 << 31) - 1  # no answer of a test needs more
STATIC_TABLE = 61       # entries of HPACK's own table; none of them is a header of gRPC's

SESSION = "/foretoken.v1.Verifier/Session"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"

# gRPC's status codes that tests name.
INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE, UNAVAILABLE = 3, 5, 8, 9, 11, 14


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def message(body):
    """A gRPC message, uncompressed."""
    return b"\0" + struct.pack(">I", len(body)) + body


class Frames:
    """Cuts a stream of bytes into frames: (kind, flags, stream, payload)."""

    def __init__(self, preface=0):
        self.skip = preface
        self.held = b""

    def feed(self, data):
        data = self.held + data
        at = min(self.skip, len(data))
        self.skip -= at
        while len(data) - at >= 9:
            end = at + 9 + int.from_bytes(data[at:at + 3], "big")
            if end > len(data):
                break
            kind, flags, stream = struct.unpack(">BBI", data[at + 3:at + 9])
            yield kind, flags, stream & 0x7FFFFFFF, data[at + 9:end]
            at = end
        self.held = data[at:]


class Messages:
    """Puts the gRPC messages of each stream together from DATA frames."""

    def __init__(self):
        self.held = {}

    def feed(self, stream, payload):
        data = self.held.get(stream, b"") + payload
        at = 0
        while len(data) - at >= 5:
            end = at + 5 + int.from_bytes(data[at + 1:at + 5], "big")
            if end > len(data):
                break
            yield data[at + 5:end]
            at = end
        self.held[stream] = data[at:]


# --- HPACK ---

def _literal(text):
    text = text.encode()
    if len(text) < 127:
        return bytes([len(text)]) + text
    n, out = len(text) - 127, b"\x7f"
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n]) + text


def headers_block(headers):
    return b"".join(b"\0" + _literal(name) + _literal(value) for name, value in headers)


def _integer(data, at, bits):
    value, at = data[at] & (1 << bits) - 1, at + 1
    shift = 0
    if value == (1 << bits) - 1:
        while True:
            value, shift, at = value + ((data[at] & 127) << shift), shift + 7, at + 1
            if data[at - 1] < 128:
                break
    return value, at


def _string(data, at):
    n, start = _integer(data, at, 7)
    return data[start:start + n].decode("latin-1"), start + n


def parse_block(data):
    """{name: value} of the headers that the peer spells out; a peer that compresses is not read."""
    headers, at = {}, 0
    while at < len(data):
        if data[at] & 0x80:  # an entry of the static table: a plain :status
            index, at = _integer(data, at, 7)
            assert index <= STATIC_TABLE
            continue
        if data[at] & 0xE0 == 0x20:  # the size of the table
            _, at = _integer(data, at, 5)
            continue
        index, at = _integer(data, at, 6 if data[at] & 0x40 else 4)
        name = None
        if index == 0:
            name, at = _string(data, at)
        value, at = _string(data, at)
        if name:
            headers[name] = value
    return headers


# --- protobuf ---

def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    """One field: an int as varint, bytes with their length; 0 and b"" are left out."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    return varint(number << 3 | 2) + varint(len(value)) + value if value else b""


def fields(data):
    """{number: [value, ...]}; varints as int, all else as bytes."""
    out, at = {}, 0
    while at < len(data):
        key, at = _varint_at(data, at)
        if key & 7 == 0:
            value, at = _varint_at(data, at)
        else:
            n, at = {1: (8, at), 5: (4, at)}.get(key & 7) or _varint_at(data, at)
            value, at = data[at:at + n], at + n
        out.setdefault(key >> 3, []).append(value)
    return out


def _varint_at(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def open_message(prompt=(), max_tokens=0, resume=None):
    """A ClientMessage with Open. resume: (session, secret, text_len)."""
    body = field(1, 1) + field(7, b"".join(map(varint, prompt))) + field(9, max_tokens)
    if resume:
        session, secret, length = resume
        body += field(8, field(1, session) + field(2, secret) + field(3, length))
    return field(1, body)


def pack_tree(tokens, parents):
    """Fields of a Draft; parents[i] is 0 or k <= i (docs/PROTOCOL.md, "The packed tree")."""
    width = max(max(tokens).bit_length(), 1)
    number = at = last = 0
    for i, (token, parent) in enumerate(zip(tokens, parents)):
        number |= (parent != last) << at
        at += 1
        if parent != last:
            number |= parent << at
            at += i.bit_length()
        number |= token << at
        at, last = at + width, parent
    return field(3, len(tokens)) + field(4, width) + field(5, number.to_bytes((at + 7) // 8, "little"))


def draft_message(round_, text_len, tree=b"", run=0):
    return field(2, field(1, round_) + field(2, text_len) + tree + field(8, run))


# --- a connection ---

class Stream:
    def __init__(self):
        self.messages = []
        self.headers = {}
        self.ended = False

    @property
    def status(self):
        """gRPC's status code; None: not ended, or without one."""
        code = self.headers.get("grpc-status")
        return None if code is None else int(code)


class Connection:
    """One connection to 127.0.0.1, from the address `source`. It answers pings while it is pumped."""

    def __init__(self, port, source="127.0.0.1", timeout_s=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s, (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.authority = f"127.0.0.1:{port}"
        self.frames, self.parts = Frames(), Messages()
        self.streams = {}
        self.next_id = 1
        self.closed = False
        settings = struct.pack(">HIHI", 1, 0, 4, WINDOW)  # header table 0, initial window
        self._send(PREFACE + frame(SETTINGS, 0, 0, settings) +
                   frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW - 65535)))

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.closed = True
        self.socket.close()

    def _send(self, data):
        try:
            if not self.closed:
                self.socket.sendall(data)
        except OSError:
            self.closed = True

    def call(self, path, body=None, end=False):
        """Begins a call, with a first message if `body` is given; returns the stream's number."""
        number, self.next_id = self.next_id, self.next_id + 2
        block = headers_block([(":method", "POST"), (":scheme", "http"), (":path", path),
                               (":authority", self.authority), ("te", "trailers"),
                               ("content-type", "application/grpc")])
        self.streams[number] = Stream()
        data = frame(HEADERS, END_HEADERS, number, block)
        if body is not None:
            data += frame(DATA, END_STREAM if end else 0, number, message(body))
        self._send(data)
        return number

    def send(self, number, body):
        self._send(frame(DATA, 0, number, message(body)))

    def pump(self, timeout_s=0):
        """Takes what has come, waiting for something at most so long."""
        if self.closed or not select.select([self.socket], [], [], timeout_s)[0]:
            return
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.closed = True
        for kind, flags, number, payload in self.frames.feed(data):
            self._take(kind, flags, number, payload)

    def _take(self, kind, flags, number, payload):
        stream = self.streams.get(number)
        if kind in (SETTINGS, PING) and not flags & ACK:
            self._send(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind == GOAWAY:
            self.closed = True
        elif stream is None:
            return
        elif kind == DATA:
            stream.messages += self.parts.feed(number, payload)
        elif kind == HEADERS:
            stream.headers.update(parse_block(payload))
        stream_ends = kind in (DATA, HEADERS) and flags & END_STREAM or kind == RST_STREAM
        if stream and stream_ends:
            stream.ended = True

    def wait(self, number, done, timeout_s=20):
        """Pumps until done(stream), the stream's end or the connection's; the stream."""
        until = time.monotonic() + timeout_s
        stream = self.streams[number]
        while not (done(stream) or stream.ended or self.closed) and time.monotonic() < until:
            self.pump(0.1)
        return stream


def health(port, source="127.0.0.1", timeout_s=10):
    """What Health.Check says, over a connection of its own: True is SERVING."""
    try:
        connection = Connection(port, source, timeout_s)
    except OSError:
        return False
    number = connection.call(CHECK, b"", end=True)
    stream = connection.wait(number, lambda s: s.messages, timeout_s)
    connection.close()
    return bool(stream.messages) and fields(stream.messages[0]).get(1) == [1]
