# SPDX-License-Identifier: Apache-2.0
"""Refuses texts that contain a text which must not be trained on, such as the prompts of a
benchmark.

A text is normalised: letters and digits of any language in lower case, everything else parts words.
It is refused if it shares NGRAM words in a row with an excluded text, or if it contains an excluded
text of fewer words as a whole. Only 64-bit hashes of word sequences are kept and compared."""
import hashlib
import json
import re
from pathlib import Path

NGRAM = 8   # fewer words refuse harmless phrases, more let a changed copy through
SHORTEST = 3  # an excluded text of fewer words says too little to refuse texts for it


def words_of(text):
    return re.findall(r"[^\W_]+", text.lower())


def digest(words):
    return hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest()


def strings_of(value):
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings_of(part)


def texts_of(path):
    """The texts of a file: of JSON lines every string in them, else each line and each
    paragraph."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    if Path(path).suffix in (".jsonl", ".json"):
        for line in text.split("\n"):
            if line.strip():
                yield from strings_of(json.loads(line))
    else:
        yield from text.splitlines()
        yield from text.split("\n\n")


class Exclusion:
    """hashes: {number of words: digests of excluded sequences of so many words}"""

    def __init__(self, paths=()):
        self.hashes, self.refused = {}, 0
        for path in paths or ():
            for text in texts_of(path):
                self.add(text)

    def add(self, text):
        words = words_of(text)
        n = min(NGRAM, len(words))
        if n >= SHORTEST:
            known = self.hashes.setdefault(n, set())
            known.update(digest(words[i:i + n]) for i in range(len(words) - n + 1))

    def finds(self, text):
        """True if the text contains an excluded one."""
        words = words_of(text)
        return any(digest(words[i:i + n]) in known for n, known in self.hashes.items()
                   for i in range(len(words) - n + 1))

    def keep(self, texts):
        """The texts that may be trained on; the others are counted in `refused`."""
        kept = [t for t in texts if not self.finds(t)]
        self.refused += len(texts) - len(kept)
        return kept
