# SPDX-License-Identifier: Apache-2.0
"""Tasks for `foretoken batch`: first turns of many kinds (kinds.py), and further turns behind
answers."""
import json
import random
from pathlib import Path

from exclude import Exclusion
from kinds import Sources, follow, makers, whole_turn
from teach import read_passages


def lines_of(path):
    text = Path(path).read_text(encoding="utf-8")
    return [line.strip() for line in text.split("\n") if line.strip()]  # not at U+2028, as JSON


def read_turns(paths):
    """Whole first turns: JSON strings, one a line."""
    return [json.loads(line) for path in paths or () for line in lines_of(path)]


def sources_of(args, exclusion):
    passages = [p for path in args.passages or () for p in read_passages(path)]
    sentences, topics = ([t for path in paths or () for t in lines_of(path)]
                         for paths in (args.sentences, args.topics))
    return Sources(exclusion.keep(passages), exclusion.keep(sentences),
                   exclusion.keep(read_turns(args.turns)), topics)


def first_turns(args, sources, exclusion, rng):
    """`args.count` tasks of one turn, each text once."""
    chosen = makers()
    if args.kinds:
        chosen = {k: chosen[k] for k in args.kinds.split(",")}
    weights = [weight for weight, _ in chosen.values()]
    seen, tasks = set(), []
    for _ in range(args.count * 20):
        kind = rng.choices(list(chosen), weights)[0]
        text = chosen[kind][1](rng, sources)
        if not text or text in seen or not exclusion.keep([text]):
            continue
        seen.add(text)
        tasks.append({"id": f"{kind}-{args.seed}-{len(tasks)}", "max_tokens": args.max_tokens,
                      "messages": [{"role": "user", "content": text}]})
        if len(tasks) == args.count:
            break
    return tasks


def next_turns(args, sources, exclusion, rng):
    """The tasks of args.after with their answers and one turn more, where the answer ended by
    itself."""
    tasks = {task["id"]: task for task in map(json.loads, lines_of(args.after[0]))}
    result = []
    for answer in map(json.loads, lines_of(args.after[1])):
        task = tasks[answer["id"]]
        text = rng.choice(follow()) if rng.random() < 0.7 else whole_turn(rng, sources)
        if answer["finish"] != "stop" or not text or not exclusion.keep([text]):
            continue
        result.append({"id": answer["id"] + "+", "max_tokens": args.max_tokens,
                       "messages": [*task["messages"],
                                    {"role": "assistant", "content": answer["text"]},
                                    {"role": "user", "content": text}]})
    return result


def prompts(args):
    """Writes args.out, tasks as foretoken batch takes them."""
    rng = random.Random(args.seed)
    exclusion = Exclusion(args.exclude)
    sources = sources_of(args, exclusion)
    make = next_turns if args.after else first_turns
    tasks = make(args, sources, exclusion, rng)
    text = "".join(json.dumps(t, ensure_ascii=False) + "\n" for t in tasks)
    Path(args.out).write_text(text, encoding="utf-8")
    print(f"{args.out}: {len(tasks)} tasks; {exclusion.refused} texts refused (--exclude)")
