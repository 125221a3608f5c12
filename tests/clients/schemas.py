# SPDX-License-Identifier: Apache-2.0
"""Schemas of many kinds, which PyPI hypothesis-jsonschema draws, against a real edge: each is a `response_format`,
sampled at temperature 1. What ends with `stop` must fit the schema by PyPI jsonschema.

    python3 schemas.py BASE_URL [--schemas N] [--json]      BASE_URL ends in /v1

Exit status 0: all texts that ended fit, at least 90 % ended within 512 tokens, and at most 30 % of the schemas were
refused; 1: not so.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import re
import sys
import urllib.error
import urllib.request
import warnings

import hypothesis
import hypothesis_jsonschema
import jsonschema

TOKENS = 512


NAMES = ["name", "city", "n", "tags", "at"]


def choice(**properties):
    """The schema of an object with exactly these members; those whose name ends in _ may be absent."""
    return {"type": "object", "additionalProperties": False, "required": [k for k in properties if not k.endswith("_")],
            "properties": {k.rstrip("_"): v for k, v in properties.items()}}


def range_of(low, high):
    return {"type": "integer", "minimum": low, "maximum": high}


def schema_of_schemas(depth):
    """What a schema may look like, as a schema: the keywords that programs use, and some that are refused."""
    word = {"type": "string", "pattern": "^[a-z]{1,6}$"}
    kinds = [
        choice(type={"const": "string"}, maxLength_=range_of(3, 20), minLength_=range_of(0, 3), description_=word),
        choice(type={"const": "string"}, pattern={"enum": ["^[a-z]{2,5}$", "^[0-9]{4}-[0-9]{2}$", "^(yes|no)$"]}),
        choice(type={"const": "string"}, format={"enum": ["date", "uuid", "email", "time", "ipv4"]}),
        choice(type={"const": "integer"}, minimum_=range_of(-9, 3), maximum_=range_of(4, 2000)),
        choice(type={"const": "integer"}, multipleOf=range_of(2, 5)),
        choice(type={"const": "number"}, minimum_=range_of(-9, 3), maximum_=range_of(4, 99)),
        choice(type={"enum": ["boolean", "null"]}),
        choice(enum={"type": "array", "items": {"anyOf": [word, range_of(-5, 99), {"type": "null"}]}, "minItems": 1,
                     "maxItems": 4, "uniqueItems": True}),
        choice(const={"anyOf": [word, range_of(0, 9), {"type": "boolean"}]}),
    ]
    if depth > 0:
        part = schema_of_schemas(depth - 1)
        members = {"type": "object", "properties": {name: part for name in NAMES}, "additionalProperties": False,
                   "minProperties": 1, "maxProperties": 4}
        required = {"type": "array", "items": {"enum": NAMES}, "uniqueItems": True, "maxItems": 3}
        kinds += 3 * [choice(type={"const": "object"}, properties=members, required=required,
                             additionalProperties_={"const": {"type": "boolean"}}, title_=word)]
        kinds += [choice(type={"const": "array"}, items=part, minItems_=range_of(0, 2), maxItems=range_of(2, 4)),
                  choice(anyOf={"type": "array", "items": part, "minItems": 1, "maxItems": 3}),
                  choice(type={"const": "array"}, items=part, uniqueItems={"const": True}),
                  choice(type={"const": "object"}, properties=members, patternProperties={"const": {"^x": {}}})]
    return {"anyOf": kinds}


class Enough(BaseException):
    """Ends the drawing: no error, which hypothesis would try again and make smaller."""


def make_schemas(n):
    """The same n schemas on each machine."""
    made = []

    @hypothesis.seed(20)
    @hypothesis.settings(max_examples=4 * n, database=None, deadline=None, phases=[hypothesis.Phase.generate],
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(hypothesis_jsonschema.from_schema(schema_of_schemas(2)))
    def collect(schema):
        if schema not in made:
            made.append(schema)
        if len(made) == n:
            raise Enough

    with contextlib.suppress(Enough):
        collect()
    return made


def ask(url, i, schema):
    """Returns (outcome, text): refused, late, length, fits or misfit."""
    body = {"messages": [{"role": "user", "content": "Answer with a short example, as JSON."}], "temperature": 1, "seed": i, "max_tokens": TOKENS,
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            choice = json.load(answer)["choices"][0]
    except urllib.error.HTTPError as error:
        message = json.load(error)["error"]["message"]
        return ("refused" if error.code == 400 else "late" if error.code == 503 else "error"), message
    text = choice["message"]["content"]
    if choice["finish_reason"] != "stop":
        return "length", text
    try:
        value = json.loads(text)
        jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema).validate(value)
    except (ValueError, jsonschema.ValidationError) as error:
        return "misfit", f"{text}: {str(error).splitlines()[0]}"
    return "fits", text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    how = parser.parse_args()
    warnings.simplefilter("ignore")
    schemas = make_schemas(how.schemas)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda job: ask(how.url, *job), enumerate(schemas)))
    count = collections.Counter(outcome for outcome, _ in outcomes)
    ended, tried = count["fits"] + count["misfit"], len(schemas) - count["refused"]
    reasons = collections.Counter(re.sub(r"[0-9]+", "N", text)[:90] for outcome, text in outcomes if outcome == "refused")
    for schema, (outcome, text) in zip(schemas, outcomes):
        if outcome not in ("fits", "refused"):
            print(f"{outcome}: {json.dumps(schema)[:600]}\n    {text[:300]}", file=sys.stderr)
    report = {"schemas": len(schemas), **count, "refused_share": count["refused"] / len(schemas),
              "ended_share": ended / max(tried, 1)}
    good = count["misfit"] == count["error"] == 0 and report["refused_share"] <= 0.3 and report["ended_share"] >= 0.9
    if how.json:
        print(json.dumps({**report, "refused_for": reasons}))
    else:
        for name, value in report.items():
            print(f"{name:14} {value:.3g}")
        for reason, n in reasons.most_common(8):
            print(f"    {n} times {reason}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
