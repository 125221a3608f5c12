# SPDX-License-Identifier: Apache-2.0
"""People who chat: each streams one completion and notes when its pieces come.

A crowd is one thread a person. Each person has an address of its own, as people have.
"""
import http.client
import json
import threading
import time

import world as w

TIMEOUT_S = 180
WORDS = ("Once upon a time there was a", "The lighthouse keeper wrote that the storm had",
         "To bake a good bread you need", "In the year 1887 a small town in",
         "My favourite colour has always been", "The river runs through the valley and",
         "She opened the letter, read it twice and", "Every morning the baker's dog")
POOL_TOKENS = 8192
FILLER = "The quick brown fox jumps over the lazy dog, and then it sleeps in the sun. " * 90


class Ask:
    """One completion to ask for; the text is a function of this. more: further fields of the request."""

    def __init__(self, prompt, seed, max_tokens, **more):
        self.key = (prompt, seed, max_tokens)
        self.body = {"prompt": prompt, "seed": seed, "max_tokens": max_tokens, "temperature": 0.8,
                     "stream": True, "stream_options": {"include_usage": True}, **more}


def asks(n, seed, max_tokens, before="", **more):
    """n different ones; `before` begins each prompt."""
    return [Ask(f"{before}{WORDS[i % len(WORDS)]}", seed + i, max_tokens, **more) for i in range(n)]


class Answer:
    """What one person got."""

    def __init__(self, ask):
        self.ask = ask
        self.text = ""
        self.tokens, self.leads = [], []  # if logprobs of 2 were asked for: of each token, what it is worth over the other
        self.finish = self.error = None
        self.usage = {}
        self.began = time.monotonic()
        self.times = []  # of the pieces of text
        self.took_s = float("inf")

    @property
    def whole(self):
        return self.error is None and self.finish is not None

    @property
    def first_s(self):
        return self.times[0] - self.began if self.times else float("inf")

    @property
    def gaps(self):
        """Seconds from piece to piece."""
        return [b - a for a, b in zip(self.times, self.times[1:])]

    @property
    def silence_s(self):
        """The longest time without a piece, from the question on."""
        return max([self.first_s, *self.gaps])

    def silent_since(self, moment):
        """Seconds from then to the next piece, or to the end; 0 if it had ended."""
        later = [t for t in [*self.times, self.began + self.took_s] if t > moment]
        return min(later) - moment if later else 0.0

    def take(self, event):
        """One event of the stream."""
        if "error" in event:
            self.error = event["error"]["message"]
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", ()):
            if choice["text"]:
                self.times.append(time.monotonic())
                self.text += choice["text"]
            self.finish = choice["finish_reason"] or self.finish
            logprobs = choice.get("logprobs") or {"tokens": [], "top_logprobs": []}
            self.tokens += logprobs["tokens"]
            self.leads += [max(two.values()) - min(two.values()) for two in logprobs["top_logprobs"]]


def chat(port, ask, source="127.0.0.1", on_piece=None, timeout_s=TIMEOUT_S):
    """Asks, reads to the end. Errors of any kind are in the answer, not raised."""
    answer = Answer(ask)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s, source_address=(source, 0))
    try:
        connection.request("POST", "/v1/completions", json.dumps(ask.body),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            answer.error = f"{response.status} {response.read(500).decode()}"
        while response.status == 200 and (line := response.readline()):
            if line.startswith(b"data: {"):
                answer.take(json.loads(line[len("data: "):]))
                if on_piece:
                    on_piece(answer)
        if answer.error is None and answer.finish is None:
            answer.error = "the stream ended before the text did"
    except (OSError, http.client.HTTPException, ValueError) as e:
        answer.error = f"{type(e).__name__}: {e}"
    connection.close()
    answer.took_s = time.monotonic() - answer.began
    return answer


class Crowd:
    """People that chat at the same time; ports are given out in turns."""

    def __init__(self, ports, asked, on_piece=None):
        self.answers = [None] * len(asked)
        self.threads = [threading.Thread(target=self._one, daemon=True,
                                         args=(i, ports[i % len(ports)], ask, on_piece))
                        for i, ask in enumerate(asked)]
        for thread in self.threads:
            thread.start()

    def _one(self, i, port, ask, on_piece):
        self.answers[i] = chat(port, ask, f"127.0.0.{10 + i % 16}", on_piece=on_piece)

    def wait(self):
        """The answers, when the last one has come."""
        for thread in self.threads:
            thread.join()
        return self.answers


def crowd(ports, asked):
    return Crowd(ports, asked).wait()


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def full_server(world, *flags, **how):
    """A server whose whole KV pool has been written once. The operator chooses the pool's size, no stranger;
    and with huge pages one token can take a page of each of the pool's tensors, 120 MB of the demo target's."""
    server = w.Server(world, "--kv-tokens", str(POOL_TOKENS), *flags, **how)
    tokens = 0
    while tokens < POOL_TOKENS:
        tokens += chat(server.http, Ask(f"{tokens}. {FILLER}", 0, 1)).usage["prompt_tokens"]
    return server
