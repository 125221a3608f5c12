# SPDX-License-Identifier: Apache-2.0
"""Clients other than OpenAI's own, unchanged, against a server of ours: litellm, langchain-openai, llm.

    python3 other_clients.py BASE_URL      BASE_URL ends in /v1

What each needs is in docs/CLIENTS.md. A client that is not installed is SKIPPED. Exit status 0: all held;
1: one did not; 77: none is there.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

PROMPT = "Name three colours, please."


def check(condition, what):
    if not condition:
        print(f"other_clients.py: failed: {what}", file=sys.stderr)
        sys.exit(1)


def check_litellm(url, model):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch a list of prices
    import litellm
    litellm.suppress_debug_info = True
    ask = {"model": f"openai/{model}", "api_base": url, "api_key": "any", "max_tokens": 8, "seed": 7,
           "messages": [{"role": "user", "content": PROMPT}]}
    whole = litellm.completion(**ask)
    check(whole.choices[0].message.content, "litellm has text")
    parts = list(litellm.completion(**ask, stream=True))
    text = "".join(part.choices[0].delta.content or "" for part in parts)
    check(text == whole.choices[0].message.content, "litellm's stream says the same")
    try:
        litellm.completion(**ask, response_format={"type": "xml"})
        check(False, "litellm raises what is refused")
    except litellm.BadRequestError as error:
        check("response_format" in str(error), "litellm says the field")


def check_langchain(url, model):
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(model=model, base_url=url, api_key="any", max_tokens=8, seed=7, frequency_penalty=0.5)
    whole = chat.invoke(PROMPT)
    check(whole.content and whole.usage_metadata["output_tokens"] <= 8, "langchain has text and usage")
    text = "".join(part.content for part in chat.stream(PROMPT))
    check(text == whole.content, "langchain's stream says the same")


def check_llm(url, model):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "extra-openai-models.yaml").write_text(
            f"- model_id: ours\n  model_name: {json.dumps(model)}\n  api_base: {url}\n")
        ran = subprocess.run([sys.executable, "-m", "llm", "-m", "ours", "--key", "any", "-o", "max_tokens", "8", PROMPT],
                             env={**os.environ, "LLM_USER_PATH": folder}, capture_output=True, text=True, check=False,
                             stdin=subprocess.DEVNULL, timeout=300)
        check(ran.returncode == 0 and ran.stdout.strip(), f"llm has text: {ran.stderr}")


def main(url):
    with urllib.request.urlopen(f"{url}/models", timeout=60) as answer:
        model = json.load(answer)["data"][0]["id"]
    found = 0
    for module, run in (("litellm", check_litellm), ("langchain_openai", check_langchain), ("llm", check_llm)):
        if importlib.util.find_spec(module) is None:
            print(f"other_clients.py: SKIPPED, the Python package '{module}' is not installed", file=sys.stderr)
            continue
        run(url, model)
        found += 1
        print(f"{module}: passed")
    return 0 if found else 77


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
