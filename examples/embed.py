#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A text from a foretoken server, drafted for on this machine, by libforetoken and ctypes.

usage: embed.py LIBFORETOKEN.so HOST:PORT DRAFT.gguf PROMPT TOKENS
"""
import ctypes as c
import sys

ON_TEXT = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.POINTER(c.c_char), c.c_size_t)


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("message", c.c_char * 384)]


class Sampling(c.Structure):
    _fields_ = [("temperature", c.c_float), ("top_k", c.c_int32), ("top_p", c.c_float),
                ("min_p", c.c_float), ("seed", c.c_uint64)]


class ClientOpts(c.Structure):
    _fields_ = [("server", c.c_char_p), ("token", c.c_char_p), ("draft", c.c_char_p),
                ("vocabulary", c.c_char_p), ("tls", c.c_bool), ("threads", c.c_int)]


class Request(c.Structure):
    _fields_ = [("prompt", c.c_char_p), ("chat", c.c_bool), ("max_tokens", c.c_uint32),
                ("sampling", Sampling), ("on_text", ON_TEXT), ("ctx", c.c_void_p)]


class Answer(c.Structure):
    _fields_ = [(name, c.c_uint64) for name in ("tokens", "drafted", "accepted", "sent_bytes",
                                                "received_bytes")]


def main():
    path, server, draft, prompt, tokens = sys.argv[1:6]
    library = c.CDLL(path)
    library.foretoken_client_close.argtypes = [c.c_void_p]
    error, client, answer = Error(), c.c_void_p(), Answer()

    def must(code):
        if code:
            sys.exit(f"embed.py: {error.message.decode()}")

    @ON_TEXT
    def on_text(_, text, n):
        sys.stdout.buffer.write(text[:n])
        return True

    opts = ClientOpts(server=server.encode(), draft=draft.encode())
    must(library.foretoken_client_open(c.byref(opts), c.byref(error), c.byref(client)))
    request = Request(prompt=prompt.encode(), max_tokens=int(tokens), on_text=on_text)
    must(library.foretoken_client_generate(client, c.byref(request), c.byref(answer), c.byref(error)))
    sys.stdout.buffer.flush()
    print(f"\n{answer.tokens} tokens, {answer.drafted} drafted, {answer.accepted} accepted",
          file=sys.stderr)
    library.foretoken_client_close(client)


if __name__ == "__main__":
    main()
