# SPDX-License-Identifier: Apache-2.0
"""The chat templates of llama.cpp's archive, by an edge's own code (DRIVER) and by PyPI jinja2 as Hugging Face's
programs use it: drawn conversations must give the same prompt, byte for byte.

    python3 templates.py DRIVER FOLDER [--seed S] [--conversations N] [-v] [TEMPLATE ...]     FOLDER/TEMPLATE.jinja

A conversation is the body of a request, as a client sends it. jinja2 gets the messages as other servers hand them to a
template: the arguments of a call as an object, text parts joined, `content` null as an empty text, `developer` as `system`,
a tool without a description with an empty one. Both know the variables that a server always sets. A conversation that both
refuse counts as the same. Tools that a template does not show are refused by the edge; jinja2's prompt must lack them.
ADAPTED and DIFFERENT say where a template gets something else, and why. All other differences fail, and so does an entry
of DIFFERENT that was not needed.

Exit status 0: so it is; 1: not so.
"""
import argparse
import collections
import copy
import datetime
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox

BOS, EOS = "<|im_start|>", "<|im_end|>"  # of the driver's vocabulary
SPECIAL = re.compile(r"<[|｜][^<>{}'\"\s]{1,40}[|｜]>|\[/?[A-Z_]{2,20}\]|</?(?:s|think|tool_call|tools?|function|bos|eos)>")


# --- jinja2 as Hugging Face's programs use it ---

class Refused(Exception):
    """The template called raise_exception."""


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what a model has said, for training; it shows what is in it."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return jinja2.nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def refuse(words):
    raise Refused(words)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment(mutable):
    kind = jinja2.sandbox.SandboxedEnvironment if mutable else jinja2.sandbox.ImmutableSandboxedEnvironment
    environment = kind(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


# --- conversations ---

# Not drawn, as `common` writes them in its own way under each template: white space that is not ASCII at the end of a text
# (trim leaves it), 3.0 in JSON (3), and as text 1e-07 (0.0) and 1e21 (1000000000000000000000.0).
WORDS = ["Hello", "what is 2+2?", "naïve café", "日本語のテキスト", "Zürich 🙂👍🏽", "e\u0301", "a \"quoted\" word", "it's", "back\\slash",
         "a < b && c > d", "100 %", "{{ x }}", "{% if %}", "{# no #}", "line one\nline two", "\ttab", "a/b", "None", "</b>", "'''"]
KEYS = ["city", "days", "größe", "a-b", "list", "x", "name", "type", "value"]
TOOLS = ["get_weather", "search", "run_2"]
FIXED = {"type": "object", "properties": {"city": {"type": "string", "description": "The city's name, e.g. \"Oslo\" — naïve"},
                                          "days": {"type": "integer", "minimum": 1, "maximum": 7, "default": 3}},
         "required": ["city"]}


class Drawer:
    """Draws one conversation."""

    def __init__(self, seed, specials):
        self.rng = random.Random(seed)
        self.specials = specials if self.chance(0.25) else []
        self.calls = 0

    def chance(self, p):
        return self.rng.random() < p

    def text(self):
        words = [self.rng.choice(WORDS) for _ in range(self.rng.randint(1, 4))]
        if self.specials:
            words.insert(self.rng.randint(0, len(words)), self.rng.choice(self.specials))
        text = self.rng.choice([" ", "\n", "", "\n\n"]).join(words)
        return self.rng.choice(["", "", "", " ", "\n"]) + text + self.rng.choice(["", "", "", " ", "\n"])

    def value(self, depth):
        kinds = [self.text, lambda: self.rng.randint(-99, 10 ** 9), lambda: self.rng.choice([0.5, 0.1, -2.25, 1234.5]),
                 lambda: self.rng.choice([True, False, None])]
        if depth > 0:
            kinds += [lambda: [self.value(depth - 1) for _ in range(self.rng.randint(0, 3))], lambda: self.object(depth - 1)]
        return self.rng.choice(kinds)()

    def object(self, depth):
        return {key: self.value(depth) for key in self.rng.sample(KEYS, self.rng.randint(0, 3))}

    def schema(self, depth):
        kind = self.rng.choice(["string", "integer", "number", "boolean", "array", "object"] if depth > 0 else ["string", "number"])
        schema = {"type": kind}
        if self.chance(0.7):
            schema["description"] = self.text()
        if kind == "string" and self.chance(0.4):
            schema["enum"] = ["red", "grün", "it's"]
        if kind == "number" and self.chance(0.5):
            schema.update(minimum=0.1, maximum=99.5)
        if kind == "array":
            schema["items"] = self.schema(depth - 1)
        if kind == "object":
            names = self.rng.sample(KEYS, self.rng.randint(1, 3))
            schema.update(properties={name: self.schema(depth - 1) for name in names}, required=names[:self.rng.randint(0, 2)])
        return schema

    def parameters(self):
        if self.chance(0.4):
            return FIXED
        return {**self.schema(0), "type": "object", "properties": {name: self.schema(2) for name in self.rng.sample(KEYS, 2)},
                "required": []}

    def tool(self, name):
        function = {"name": name, "description": self.text(), "parameters": self.parameters()}
        for key in ("description", "parameters"):
            if self.chance(0.1):
                del function[key]
        return {"type": "function", "function": function}

    def call(self, names):
        self.calls += 1
        arguments = json.dumps(self.object(2), ensure_ascii=self.chance(0.5))
        return {"id": f"call{self.calls:05}", "type": "function",
                "function": {"name": self.rng.choice(names), "arguments": arguments}}

    def assistant(self):
        message = {"role": "assistant", "content": self.text()}
        if self.thinks and self.chance(0.6):
            message["reasoning_content"] = self.text()
        return message

    def asked_for(self, names):
        """The assistant calls tools, and these answer."""
        calls = [self.call(names) for _ in range(2 if self.chance(0.3) else 1)]
        said = {**self.assistant(), "tool_calls": calls}
        if self.chance(0.7):
            said["content"] = self.rng.choice([None, ""])
        named = self.chance(0.5)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": self.rng.choice([self.text(), json.dumps(self.object(1))]),
                    **({"name": call["function"]["name"]} if named else {})} for call in calls]
        return [said, *results]

    def content(self):
        """A user's: text, or a list of text parts."""
        return [{"type": "text", "text": self.text()} for _ in range(2)] if self.chance(0.1) else self.text()

    def request(self):
        self.thinks = self.chance(0.3)
        tools = [self.tool(name) for name in self.rng.sample(TOOLS, self.rng.randint(1, 3))] if self.chance(0.55) else []
        names = [tool["function"]["name"] for tool in tools] if self.chance(0.75) else []
        messages = []
        if self.chance(0.5):
            messages.append({"role": self.rng.choice(["system", "system", "developer"]), "content": self.text()})
        rounds = self.rng.randint(1, 3)
        for i in range(rounds):
            messages.append({"role": "user", "content": self.content()})
            if names and self.chance(0.7):
                messages += self.asked_for(names)
                if i + 1 == rounds and self.chance(0.5):
                    break
                messages.append(self.assistant())
            elif i + 1 < rounds:
                messages.append(self.assistant())
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": self.text()})
        request = {"messages": messages}
        if tools:
            request["tools"] = tools
            request["tool_choice"] = self.rng.choice(["auto", "none"])
        if self.chance(0.4):
            request["chat_template_kwargs"] = {"enable_thinking": self.chance(0.5)}
        if self.chance(0.2):
            request["reasoning_effort"] = self.rng.choice(["low", "medium", "high"])
        return request


def kinds_of(request):
    """What a conversation has, by the words of DIFFERENT."""
    messages = request["messages"]
    kinds = {"all"} | set(request) - {"messages", "tool_choice"}
    kinds |= {message["role"].replace("developer", "system") for message in messages}
    kinds |= {"calls" for message in messages if "tool_calls" in message}
    kinds |= {"reasoning" for message in messages if "reasoning_content" in message}
    kinds |= {"no parameters" for tool in request.get("tools", ()) if "parameters" not in tool["function"]}
    kinds |= {"</think>" for message in messages if message["role"] == "assistant" and "</think>" in (message["content"] or "")}
    return kinds


# --- what jinja2 gets ---

def text_of(content):
    return "\n".join(part["text"] for part in content) if isinstance(content, list) else content or ""


def variables_of(request, text_arguments):
    """A request as a template sees it."""
    messages = copy.deepcopy(request["messages"])
    for message in messages:
        message["role"] = message["role"].replace("developer", "system")
        message["content"] = text_of(message["content"])
        for call in message.get("tool_calls", ()):
            if not text_arguments:
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    tools = [{"type": "function", "function": {"name": tool["function"]["name"], "description": tool["function"].get("description", ""),
                                               "parameters": tool["function"].get("parameters", {})}} for tool in request.get("tools", ())]
    now = datetime.datetime.now()
    variables = {"messages": messages, "bos_token": BOS, "eos_token": EOS, "add_generation_prompt": True, "enable_thinking": True,
                 "datetime": now.strftime("%b %d %Y"), "date_string": now.strftime("%d %b %Y"), **request.get("chat_template_kwargs", {})}
    if tools:
        variables["tools"] = tools
    if "reasoning_effort" in request:
        variables["reasoning_effort"] = request["reasoning_effort"]
    return variables


def by_jinja(template, request, text_arguments, adapt):
    """(prompt, why not)"""
    variables = variables_of(request, text_arguments)
    try:
        if adapt:
            adapt(variables)
        return template.render(**variables), None
    except Refused as error:
        return None, str(error)
    except Exception as error:  # a template may fail in any way
        return None, f"{type(error).__name__}: {error}"


# --- what differs, and why ---

def trim_contents(variables):
    for message in variables["messages"]:
        for key in {"content", "reasoning_content"} & set(message):
            message[key] = message[key].strip()


def system_into_user(variables):
    messages = variables["messages"]
    if messages[0]["role"] == "system":
        messages[1]["content"] = messages[0]["content"] + "\n" + messages[1]["content"]
        del messages[0]


def thoughts_as_blocks(variables):
    for message in variables["messages"]:
        if message["role"] == "assistant" and "reasoning_content" in message:
            message["content"] = [{"type": "thinking", "thinking": message.pop("reasoning_content")}, {"type": "text", "text": message["content"]}]


def effort_as_strength(variables):
    if "reasoning_effort" in variables:
        variables["reasoning_strength"] = variables["reasoning_effort"]


def no_functions(variables):
    variables["functions"] = ""


# Templates that want the arguments of a call as text, as OpenAI's clients send them, and get them so.
TEXT_ARGUMENTS = {"meetkai-functionary-medium-v3.2"}

# Templates that change lists, which Hugging Face's sandbox forbids, and `common` does not.
MUTABLE = {"Kimi-K2-Instruct", "Kimi-K2-Thinking"}

# TEMPLATE: (what changes the variables that jinja2 gets, why)
ADAPTED = {
    "StepFun3.5-Flash": (trim_contents, "`common` trims contents, as the model has learnt them"),
    "google-gemma-2-2b-it": (system_into_user, "it has no system role: `common` puts such a text in front of the user's"),
    "mistralai-Ministral-3-14B-Reasoning-2512": (thoughts_as_blocks, "it knows thoughts as blocks of a content"),
    "muse-glimmer": (effort_as_strength, "it has another name for the effort"),
    "fireworks-ai-llama-3-firefunction-v2": (no_functions, "it shows a variable that its own server alone sets; `common` shows nothing there"),
}

# TEMPLATE: {a kind of conversation (kinds_of): why its prompt differs}
PRINTED = "it prints lists and objects, which Python writes as repr() does; `common` escapes nothing in them"
DIFFERENT = {
    "Apriel-1.6-15b-Thinker-fixed": {"tools": PRINTED},
    "unsloth-Apriel-1.5": {"tools": PRINTED},
    "LFM2.5-8B-A1B": {"calls": PRINTED},
    "ByteDance-Seed-OSS": {"calls": PRINTED, "no parameters": "it wants their properties; `common` shows nothing there"},
    "openbmb-MiniCPM5-1B": {"calls": PRINTED},
    "google-gemma-4-31B-it": {"calls": "`common` gives a tool's result as part of the call's message, and writes null as nothing"},
    "google-gemma-4-31B-it-interleaved": {"calls": "`common` gives a tool's result as part of the call's message"},
    "meetkai-functionary-medium-v3.1": {"tools": "what is added to a text that is `safe` gets escaped by jinja2 as HTML"},
    "CohereForAI-c4ai-command-r-plus-tool_use": {"tools": "it wants members that a schema need not have; `common` shows nothing there"},
    "llama-cpp-deepseek-r1": {"tools": "it gives tojson a generator, which jinja2 refuses"},
    "unsloth-mistral-Devstral-Small-2507": {"calls": "`common` gives contents as parts, as for Ministral; beside calls the template shows no parts"},
    "poolside-Laguna-XS-2.1": {"</think>": "it splits what the assistant said there; the mark in front of it keeps rstrip from its work"},
    "poolside-Laguna-XS.2": {"</think>": "so too"},
}


# --- the comparison ---

class Outcome:
    def __init__(self):
        self.counts = collections.Counter()
        self.seen = set()  # kinds in DIFFERENT that were needed
        self.failures = []


def compare(name, request, ours, theirs, outcome):
    prompt, why = theirs
    kinds, known = kinds_of(request), DIFFERENT.get(name, {})
    if "does not show tools" in ours.get("refused", "") and "tools" in request:
        lost = prompt is None or not any(tool["function"]["name"] in prompt for tool in request["tools"])
        result = "shows no tools" if lost or "calls" in kinds else "different"
    elif ("prompt" in ours) == (prompt is not None):
        result = "same" if prompt is not None and ours["prompt"] == prompt else "both refuse" if prompt is None else "different"
    else:
        result = "different"
    if result == "different" and (listed := kinds & set(known)):
        outcome.seen |= {(name, kind) for kind in listed}
        result = "listed"
    if result == "different":
        outcome.failures.append((request, ours.get("prompt", f"refused: {ours.get('refused')}"), prompt if prompt is not None else f"refused: {why}"))
    outcome.counts[result] += 1


def special_tokens(source):
    found = set(SPECIAL.findall(source)) - {BOS, EOS, "<|endoftext|>"}
    return sorted(token for token in found if len(token.encode()) < 48)[:60]


def run_template(driver, path, how):
    name, source = path.stem, path.read_text()
    outcome = Outcome()
    specials = special_tokens(source)
    requests = [Drawer(f"{how.seed} {name} {i}", specials).request() for i in range(how.conversations)]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([driver, path, *specials], input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    template = make_environment(name in MUTABLE).from_string(source)
    adapt = ADAPTED.get(name, (None,))[0]
    if len(answers) != len(requests):
        outcome.failures.append(({}, f"the driver ended with {done.returncode} after {len(answers)}: {done.stderr[-300:]}", ""))
    for request, ours in zip(requests, answers):
        compare(name, request, ours, by_jinja(template, request, name in TEXT_ARGUMENTS, adapt), outcome)
    return outcome


def show(name, failure, verbose):
    request, ours, theirs = failure
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    print(f"  {name}: {sorted(kinds_of(request)) if request else ''}\n    ours   ...{ours[max(at - 40, 0):at + 80]!r}\n"
          f"    jinja2 ...{theirs[max(at - 40, 0):at + 80]!r}")
    if verbose:
        print(f"    {json.dumps(request)}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("driver")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--conversations", type=int, default=40)
    parser.add_argument("-v", action="store_true")
    how = parser.parse_intermixed_args()
    paths = [path for path in sorted(how.folder.glob("*.jinja")) if not how.names or path.stem in how.names]
    total, seen, bad = collections.Counter(), set(), 0
    for path in paths:
        outcome = run_template(how.driver, path, how)
        total += outcome.counts
        seen |= outcome.seen
        bad += bool(outcome.failures)
        if outcome.failures or how.v:
            print(f"{path.stem}: {', '.join(f'{n} {what}' for what, n in outcome.counts.most_common())}")
        for failure in outcome.failures[:1 if not how.v else 4]:
            show(path.stem, failure, how.v)
    unused = [(name, kind) for name, kinds in DIFFERENT.items() for kind in kinds
              if (name, kind) not in seen and any(path.stem == name for path in paths)]
    for name, kind in unused:
        print(f"{name}: '{kind}' is listed, but no such conversation differed")
    print(f"{len(paths)} templates: {', '.join(f'{n} {what}' for what, n in total.most_common())}")
    held = paths and not bad and not unused and total["same"] > sum(total.values()) / 2
    print("held" if held else f"{bad} templates differ")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
