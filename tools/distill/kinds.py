# SPDX-License-Identifier: Apache-2.0
"""Users' first turns of many kinds, made of the templates in turns.txt, drawn numbers and given
texts.

makers() lists the kinds: a function of (rng, sources) each, which returns a turn, or None where the
sources have no text for it."""
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TURN_WEIGHT = 6  # of whole turns among the kinds; turns.txt has the others' weights
PASSAGE_WORDS = (60, 120, 200, 320, 420)
SEARCH_WORDS = 400  # of all passages of a search together
MARKS = ("[{}] ", "Passage {}: ", "{}. ", "Document {}\n", "")  # what stands before each of them


@dataclass
class Sources:
    """Texts that turns are made of: passages to work on, sentences (of another language) to
    translate, whole turns, more topics."""
    passages: list = field(default_factory=list)
    sentences: list = field(default_factory=list)
    turns: list = field(default_factory=list)
    topics: list = field(default_factory=list)


@cache
def sections():
    """{heading: lines} of turns.txt."""
    result, lines = {}, []
    for line in Path(__file__).with_name("turns.txt").read_text(encoding="utf-8").splitlines():
        if m := re.fullmatch(r"\[(.+)\]", line):
            lines = result.setdefault(m[1], [])
        elif line and not line.startswith("#"):
            lines.append(line.replace("\\n", "\n"))
    return result


def values(name):
    return sections()[f"value {name}"]


def follow():
    """Users' further turns, which fit behind any answer."""
    return sections()["follow"]


def numbers(rng):
    """Numbers of word problems: `ab` and `bb` are multiples of `b`, c and c2 have one digit."""
    b = rng.randint(6, 39)
    return {"a": rng.randint(40, 400), "b": b, "ab": b * rng.randint(4, 20),
            "bb": b * rng.randint(2, 5), "c": rng.randint(2, 9), "c2": rng.randint(2, 9),
            "pc": rng.choice((10, 20, 25, 40, 50, 75)), "h": rng.randint(3, 11),
            "n": rng.choice((50, 100, 150, 200))}


def slots(rng, sources):
    """A value for each name in the templates."""
    topics = sources.topics if sources.topics and rng.random() < 0.5 else values("topic")
    p, q, r = rng.sample(values("person"), 3)
    thing, thing2, thing3 = rng.sample(values("thing"), 3)
    topic = rng.choice(topics)
    one = ("place", "role", "form", "lang", "job", "job2", "job3", "day", "number")
    return {"topic": topic, "word": topic.split()[-1], "topic2": rng.choice(values("topic")),
            "p": p, "q": q, "r": r, "thing": thing, "thing2": thing2, "thing3": thing3,
            **{name: rng.choice(values(name)) for name in one}, **numbers(rng)}


def passage(rng, sources, words):
    """The beginning of a passage, cut behind a sentence where that leaves enough."""
    text = " ".join(rng.choice(sources.passages).split()[:words])
    end = max(text.rfind(". "), text.rfind("? "), text.rfind("! "))
    return text[:end + 1] if end > len(text) // 2 else text


def plain(templates):
    return lambda rng, sources: rng.choice(templates).format(**slots(rng, sources))


def on_text(templates):
    """A passage with a task."""
    def make(rng, sources):
        if not sources.passages:
            return None
        text = passage(rng, sources, rng.choice(PASSAGE_WORDS))
        return rng.choice(templates).format(text=text, q=rng.choice(values("asked")),
                                            number=rng.choice(values("number")))
    return make


def on_search(templates):
    """A question with several passages, as a program that retrieves them asks."""
    def make(rng, sources):
        if not sources.passages:
            return None
        count, mark = rng.randint(2, 5), rng.choice(MARKS)
        texts = [passage(rng, sources, SEARCH_WORDS // count) for _ in range(count)]
        about = " ".join(rng.choice(texts).split()[3:8]).strip(".,;:")
        asked = rng.choice((rng.choice(values("asked")), f"what is said about {about}?",
                            f"who or what is {about}?"))
        marked = [mark.format(i + 1) + text for i, text in enumerate(texts)]
        return rng.choice(templates).format(texts=rng.choice(("\n", "\n\n")).join(marked), q=asked)
    return make


def on_sentence(templates):
    """One sentence or two to translate."""
    def make(rng, sources):
        if not sources.sentences:
            return None
        count = min(rng.choice((1, 1, 1, 2)), len(sources.sentences))
        return rng.choice(templates).format(text=" ".join(rng.sample(sources.sentences, count)))
    return make


def whole_turn(rng, sources):
    return rng.choice(sources.turns) if sources.turns else None


def makers():
    """{kind: (weight, function)}"""
    result = {"turn": (TURN_WEIGHT, whole_turn)}
    for heading, templates in sections().items():
        if heading.startswith("turns "):
            _, kind, weight = heading.split()
            how = {"search": on_search, "translation": on_sentence}.get(
                kind, on_text if any("{text}" in t for t in templates) else plain)
            result[kind] = float(weight), how(templates)
    return result
