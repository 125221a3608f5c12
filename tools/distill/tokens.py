# SPDX-License-Identifier: Apache-2.0
"""Tokens of a GGUF file's vocabulary and the fixed pieces of its chat template.

Encoding is for prompts that seed the teacher's text: merges are the vocabulary's, the splitting
into words is one for all (letters, single digits, signs, spaces). Where a model splits otherwise
a prompt may get other tokens than its own tokenizer would choose, all of them valid."""
import re

import gguf
import jinja2
import jinja2.sandbox

from llama import field

CONTROL, USER_DEFINED = 3, 4  # token types in GGUF
WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+|\d| ?(?:[^\w\s]|_)+|\s+(?!\S)|\s+")
END_NAMES = {"<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>",
             "<end_of_turn>", "<|eom_id|>"}


def byte_alphabet():
    """The printable character that stands for each byte in byte-level vocabularies (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in plain}
    rest = (b for b in range(256) if b not in table)
    table.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return table


class Tokenizer:
    def __init__(self, reader):
        self.kind = field(reader, "tokenizer.ggml.model")
        if self.kind not in ("gpt2", "llama"):
            raise ValueError(f"tokenizer '{self.kind}': this distillation knows 'gpt2' (byte-level "
                             "BPE) and 'llama' (SentencePiece)")
        self.text = field(reader, "tokenizer.ggml.tokens")
        self.id = {t: i for i, t in enumerate(self.text)}
        types = field(reader, "tokenizer.ggml.token_type", [1] * len(self.text))
        self.special = {t: i for i, t in enumerate(self.text)
                        if types[i] in (CONTROL, USER_DEFINED)}
        self.ranks, self.scores = {}, []
        if self.kind == "gpt2":
            merges = field(reader, "tokenizer.ggml.merges")
            self.ranks = {tuple(m.split(" ", 1)): r for r, m in enumerate(merges)}
        else:
            self.scores = field(reader, "tokenizer.ggml.scores")
        self.eos = field(reader, "tokenizer.ggml.eos_token_id")
        self.bos = field(reader, "tokenizer.ggml.bos_token_id", self.eos)
        self.add_bos = bool(field(reader, "tokenizer.ggml.add_bos_token", self.kind == "llama"))
        self.ends = {self.eos} | {i for t, i in self.special.items() if t in END_NAMES}
        template = reader.get_field("tokenizer.chat_template")
        self.template = template.contents() if template else None
        self.bytes = byte_alphabet()
        self.known = {}  # words and their tokens
        self.specials_re = re.compile("|".join(map(re.escape, sorted(self.special, key=len,
                                                                     reverse=True))) or r"(?!)")

    def encode(self, text, special=True):
        """Token ids; special: names of control tokens in the text become those tokens."""
        ids, at = [], 0
        for m in self.specials_re.finditer(text) if special else ():
            ids += self._plain(text[at:m.start()]) + [self.special[m.group()]]
            at = m.end()
        return ids + self._plain(text[at:])

    def _plain(self, text):
        if not text:
            return []
        if self.kind == "llama":
            return self._merge_scores(text.replace(" ", "\u2581"))
        ids = []
        for word in WORDS.findall(text):
            if word not in self.known:
                self.known[word] = self._merge_ranks([self.bytes[b] for b in word.encode()])
            ids += self.known[word]
        return ids

    def _merge_ranks(self, parts):
        while len(parts) > 1:
            ranks = [self.ranks.get(pair, 1 << 60) for pair in zip(parts, parts[1:])]
            best = min(range(len(ranks)), key=ranks.__getitem__)
            if ranks[best] == 1 << 60:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        return [self.id[p] for p in parts if p in self.id]

    def _merge_scores(self, text):
        parts = list(text)
        while len(parts) > 1:
            ids = [self.id.get(a + b, -1) for a, b in zip(parts, parts[1:])]
            best = max(range(len(ids)), key=lambda i: self.scores[ids[i]] if ids[i] >= 0 else -1e30)
            if ids[best] < 0:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        out = []
        for part in parts:
            known = part in self.id
            out += [self.id[part]] if known else [self.id[f"<0x{b:02X}>"] for b in part.encode()]
        return out

    def decode(self, ids):
        """Text of these tokens, for people; special tokens by name."""
        back = {c: b for b, c in self.bytes.items()}
        data = b""
        for i in ids:
            t = self.text[i]
            if t in self.special or self.kind == "llama":
                data += t.replace("\u2581", " ").encode()
            else:
                data += bytes(back.get(c, 63) for c in t)
        return data.decode("utf-8", "replace")


class Chat:
    """What the chat template puts before a user's turn, between user and assistant, and between the
    assistant and the next user, as tokens."""

    def __init__(self, tokenizer):
        if not tokenizer.template:
            raise ValueError("the target has no chat template: pass --chat-share 0 --free-share 1")
        env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        marks = ["@0@", "@1@", "@2@", "@3@"]
        roles = ["user", "assistant"] * 2
        text = env.from_string(tokenizer.template).render(
            messages=[{"role": r, "content": m} for r, m in zip(roles, marks)],
            bos_token=tokenizer.text[tokenizer.bos], eos_token=tokenizer.text[tokenizer.eos],
            add_generation_prompt=False)
        pieces = re.split("|".join(marks), text)
        if len(pieces) != 5:
            raise ValueError("the target's chat template does not repeat the turns it is given")
        self.first, self.to_assistant, self.to_user = (tokenizer.encode(p) for p in pieces[:3])
        if tokenizer.add_bos and self.first[:1] != [tokenizer.bos]:
            self.first.insert(0, tokenizer.bos)
        self.ends = tokenizer.ends | set(self.to_assistant[:1]) & set(tokenizer.special.values())


def open_tokenizer(path):
    return Tokenizer(gguf.GGUFReader(path))
