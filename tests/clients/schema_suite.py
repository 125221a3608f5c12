# SPDX-License-Identifier: Apache-2.0
"""The official JSON-Schema-Test-Suite, draft 2020-12, against the constraints of a build.

    python3 schema_suite.py DRIVER FOLDER [-v]     FOLDER has the suite's files, KEYWORD.json

Each case is a schema and values, valid or not. A schema may be refused; no schema may take a text of a value that is not
valid. For the keywords in COMPLETE it also takes all that are valid, written as a constraint writes JSON. Two things make
cases out of the suite's schemas that a constraint knows: a schema without a type gets the one that its keywords are about,
and only values of that type are tried; and where it says nothing of further members or items, they are allowed.

Exit status 0: so it is; 1: not so.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

KINDS = {
    "object": "properties additionalProperties required patternProperties propertyNames minProperties maxProperties "
              "unevaluatedProperties",
    "array": "items prefixItems minItems maxItems unevaluatedItems",
    "string": "minLength maxLength pattern format",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum",
    "integer": "multipleOf",
}
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int}
FILES = ("additionalProperties allOf anyOf boolean_schema const default defs enum exclusiveMaximum exclusiveMinimum format "
         "infinite-loop-detection items maxItems maxLength maxProperties maximum minItems minLength minProperties minimum "
         "multipleOf oneOf pattern patternProperties prefixItems properties propertyNames ref required type "
         "unevaluatedItems unevaluatedProperties not if-then-else dependentRequired dependentSchemas contains uniqueItems "
         "minContains maxContains anchor dynamicRef content vocabulary").split()
# Without those whose valid values a constraint may refuse: objects in `const` and `enum` are written without spaces, patterns
# match as a whole, and formats are written even where they are notes.
COMPLETE = "type items prefixItems properties additionalProperties required minProperties maxProperties minItems maxItems minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum anyOf".split()


def opened(schema, root=True):
    """The schema with a type, and with what it leaves open allowed."""
    if not isinstance(schema, dict):
        return schema
    schema = {k: v for k, v in schema.items() if k not in ("$schema", "$comment")}
    for kind, words in KINDS.items():
        if "type" not in schema and any(word in schema for word in words.split()):
            schema["type"] = kind
    for name in ("properties", "patternProperties", "$defs", "definitions"):
        if isinstance(schema.get(name), dict):
            schema[name] = {k: opened(v, False) for k, v in schema[name].items()}
    for name in ("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames"):
        if name in schema:
            schema[name] = opened(schema[name], False)
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(schema.get(name), list):
            schema[name] = [opened(part, False) for part in schema[name]]
    if schema.get("type") == "object" and "additionalProperties" not in schema and "unevaluatedProperties" not in schema:
        schema["additionalProperties"] = True
    if schema.get("type") == "array" and "items" not in schema and "unevaluatedItems" not in schema:
        schema["items"] = True
    return schema


def ordered(value, schema):
    """The value with its members in the schema's order."""
    if isinstance(value, dict):
        known = schema.get("properties", {}) if isinstance(schema, dict) else {}
        names = [name for name in known if name in value] + [name for name in value if name not in known]
        return {name: ordered(value[name], known.get(name)) for name in names}
    if isinstance(value, list):
        return [ordered(item, schema.get("items") if isinstance(schema, dict) else None) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value  # 1.0 is written as 1


def is_kind(value, schema):
    kind = schema.get("type") if isinstance(schema, dict) else None
    return not isinstance(kind, str) or kind not in TYPES or \
        isinstance(value, TYPES[kind]) and not (isinstance(value, bool) and kind in ("number", "integer"))


def cases_of(folder):
    for name in FILES:
        path = Path(folder, name + ".json")
        for group in json.loads(path.read_text()) if path.exists() else []:
            was_typed = isinstance(group["schema"], dict) and "type" in group["schema"]
            schema = opened(group["schema"])
            tests = [t for t in group["tests"] if was_typed or is_kind(t["data"], schema)]
            yield name, group["description"], schema, tests


def main():
    driver, folder, *flags = sys.argv[1:]
    cases = list(cases_of(folder))
    lines = [json.dumps({"schema": schema, "texts": [json.dumps(ordered(t["data"], schema), ensure_ascii=False) for t in tests]})
             for _, _, schema, tests in cases]
    done = subprocess.run([driver], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    rows, bad, reasons = {}, 0, {}
    for (name, about, schema, tests), line in zip(cases, done.stdout.splitlines(), strict=True):
        row, said = rows.setdefault(name, [0, 0, 0, 0]), json.loads(line)
        if "refused" in said:
            row[0] += 1
            why = re.sub(r"[0-9]+", "N", said["refused"])[:100]
            reasons[why] = reasons.get(why, 0) + 1
            if "-v" in flags:
                print(f"refused {name}: {json.dumps(schema)}: {said['refused']}")
            continue
        row[1] += 1
        for test, takes in zip(tests, said["takes"], strict=True):
            row[2] += 1
            wrong = takes and not test["valid"]
            missing = test["valid"] and not takes
            row[3] += missing
            if wrong or (missing and (name in COMPLETE or "-v" in flags)):
                print(f"{'wrong' if wrong else 'missing'} {name}: {about}: {json.dumps(schema)}\n    {json.dumps(test['data'])}")
                bad += wrong or name in COMPLETE
    print(f"{'keyword':26}{'refused':>8}{'taken':>7}{'values':>8}{'missing':>9}")
    for name, row in rows.items():
        print(f"{name:26}{row[0]:8}{row[1]:7}{row[2]:8}{row[3]:9}")
    total = [sum(row[i] for row in rows.values()) for i in range(4)]
    print(f"{'all':26}{total[0]:8}{total[1]:7}{total[2]:8}{total[3]:9}")
    for why, n in sorted(reasons.items(), key=lambda item: -item[1])[:12]:
        print(f"    {n} times {why}")
    print("held" if not bad and total[2] > 300 else f"{bad} values are wrong, of {total[2]}")
    return 0 if not bad and total[2] > 300 else 1


if __name__ == "__main__":
    sys.exit(main())
