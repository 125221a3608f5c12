# SPDX-License-Identifier: Apache-2.0
"""The rounds of one text, as docs/PROTOCOL.md has them, for a server that verifies no drafts.

A draft without a tree asks for a run; one with a tree is answered as a run of one token. Tokens
come in from an engine that is ahead of the rounds, and go out as verdicts. No clock, no network:
both methods return the verdicts that are due now.

    idle --draft--> run --the run's last token--> idle, or run if the next one was asked for
                    run --the text's last token--> over"""
from collections import deque
from dataclasses import dataclass, field
from enum import Enum

import grpc

from foretoken_vllm.protos import pb

RUN_MOST = 1024
VERDICT_MOST = 256  # tokens; an edge takes 257


class Refusal(Exception):
    """Ends the stream with this status and message."""

    def __init__(self, code, message, retry_ms=None):
        super().__init__(message)
        self.code, self.message, self.retry_ms = code, message, retry_ms


def invalid(message):
    return Refusal(grpc.StatusCode.INVALID_ARGUMENT, message)


def precondition(message):
    return Refusal(grpc.StatusCode.FAILED_PRECONDITION, message)


class State(Enum):
    IDLE = 0
    RUN = 1
    OVER = 2


@dataclass
class Made:
    """A token of the text, in the order in which the engine made them."""
    token: int
    us: int  # that it took
    finish: int = 0  # of the text, behind this token
    read_tok: int = 0  # tokens of the prompt that were read before it
    logprob: object = None  # pb.TokenLogprob, if asked for


@dataclass
class Rounds:
    length: int  # of the text, as the edge knows it
    state: State = State.IDLE
    round: int = 0  # the last one that began
    left: int = 0  # tokens of its run that are still to be sent
    next_run: int = 0  # asked for behind it; 0: none
    token_us: int = 0  # about what a token takes; 0: not known
    made: deque = field(default_factory=deque)

    def on_draft(self, draft):
        run = self.check(draft)
        if self.state is State.RUN:
            self.next_run = run
            return []
        self.begin(run)
        return self.due()

    def on_made(self, token):
        if token.read_tok == 0:
            self.token_us = (7 * self.token_us + token.us) // 8 if self.token_us else token.us
        self.made.append(token)
        return self.due()

    def check(self, draft):
        """How many tokens the draft asks for; raises Refusal."""
        if draft.run > RUN_MOST or (draft.nodes and draft.run):
            raise invalid(f"Draft.run: {draft.run}, at most {RUN_MOST}, and none with a tree")
        if draft.under or draft.evidence:
            raise invalid("Draft: this server takes no early drafts and no evidence")
        if self.state is State.OVER:
            raise precondition("Draft: the text has ended")
        if draft.round != self.round + 1:
            raise invalid(f"Draft.round: {draft.round}, the next one is {self.round + 1}")
        if self.state is State.RUN and (draft.nodes or self.next_run):
            raise invalid("Draft: during a run only one draft without a tree is allowed")
        if draft.text_len != self.length + self.left:
            raise precondition(f"Draft.text_len: {draft.text_len}, the text has "
                               f"{self.length + self.left} tokens")
        return 1 if draft.nodes else max(draft.run, 1)

    def begin(self, run):
        self.state, self.left, self.round = State.RUN, run, self.round + 1

    def due(self):
        """The verdicts that the tokens at hand make."""
        verdicts = []
        while self.state is State.RUN and self.made:
            n = min(len(self.made), self.left, VERDICT_MOST)
            verdicts.append(self.verdict([self.made.popleft() for _ in range(n)]))
        return verdicts

    def verdict(self, tokens):
        last = tokens[-1]
        self.length += len(tokens)
        self.left -= len(tokens)
        verdict = pb.Verdict(round=self.round, next=[t.token for t in tokens], length=self.length,
                             verify_us=min(sum(t.us for t in tokens), 2 ** 32 - 1),
                             read_tok=sum(t.read_tok for t in tokens),
                             read_us=min(sum(t.us for t in tokens if t.read_tok), 2 ** 32 - 1),
                             logprobs=[t.logprob for t in tokens if t.logprob is not None],
                             finish=last.finish, more=self.left > 0 and not last.finish,
                             hints=pb.Hints(no_trees=True, token_us=self.token_us))
        if last.finish:
            self.state, self.left = State.OVER, 0
        elif self.left == 0:
            self.state = State.IDLE
            if self.next_run:
                self.begin(self.next_run)
                self.next_run = 0
        return pb.ServerMessage(verdict=verdict)
