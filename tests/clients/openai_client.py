# SPDX-License-Identifier: Apache-2.0
"""The official `openai` Python client, unchanged, against a server of ours.

    python3 openai_client.py BASE_URL [API_KEY]      BASE_URL ends in /v1

Works against any model: checks shapes and promises, not words. Exit status 0: all held; 1: one did
not; 77: the package `openai` is not there.
"""
import sys

try:
    import openai
except ImportError:
    print("openai_client.py: SKIPPED, the Python package 'openai' is not installed", file=sys.stderr)
    sys.exit(77)

PROMPT = [{"role": "user", "content": "Name three colours, please."}]


def check(condition, what):
    if not condition:
        print(f"openai_client.py: failed: {what}", file=sys.stderr)
        sys.exit(1)


def raises(kind, code, call, **arguments):
    """The client raises its own exception for our error."""
    try:
        call(**arguments)
    except kind as error:
        check(error.code == code, f"{kind.__name__} has code {error.code!r}, not {code!r}")
        check(error.message, f"{kind.__name__} has a message")
        return
    check(False, f"{kind.__name__} is raised")


def check_chat(client, model):
    whole = client.chat.completions.create(
        model=model, messages=PROMPT, max_tokens=8, seed=7, temperature=0, logprobs=True,
        top_logprobs=2)
    choice = whole.choices[0]
    check(choice.message.role == "assistant" and choice.message.content, "chat has text")
    check(choice.finish_reason in ("stop", "length"), "chat has a finish_reason")
    check(whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens,
          "usage adds up")
    check(0 < whole.usage.completion_tokens <= 8, "max_tokens is kept")
    check(whole.usage.foretoken["rounds"] >= 0, "usage.foretoken is there")
    check(len(choice.logprobs.content) > 0, "logprobs are there")
    check(all(t.logprob <= 0 and len(t.top_logprobs) <= 2 for t in choice.logprobs.content),
          "logprobs are log-probabilities")
    several = client.chat.completions.create(
        model=model, messages=PROMPT, max_tokens=8, seed=7, n=2, presence_penalty=0.5, logit_bias={"0": -100})
    check([c.index for c in several.choices] == [0, 1], "there are two texts")
    check(several.usage.prompt_tokens_details.cached_tokens >= 0, "cached tokens are counted")
    chunks = list(client.chat.completions.create(
        model=model, messages=PROMPT, max_tokens=8, seed=7, temperature=0, stream=True,
        stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    check(text == choice.message.content, "the stream says the same")
    check(chunks[0].choices[0].delta.role == "assistant", "the first chunk names the role")
    check([c.choices[0].finish_reason for c in chunks if c.choices][-1] == choice.finish_reason,
          "the stream ends for the same reason")
    check(not chunks[-1].choices and chunks[-1].usage.completion_tokens > 0,
          "the last chunk has usage")
    check(all(c.usage is None for c in chunks[:-1]), "no other has")


def check_completions(client, model):
    whole = client.completions.create(model=model, prompt="Once upon a time", max_tokens=6,
                                      temperature=0, logprobs=1)
    choice = whole.choices[0]
    check(whole.object == "text_completion" and choice.text, "a completion has text")
    n = len(choice.logprobs.tokens)
    check(n == len(choice.logprobs.token_logprobs) == len(choice.logprobs.text_offset),
          "one logprob and offset a token")
    check(0 < n <= whole.usage.completion_tokens, "no more logprobs than tokens")
    chunks = list(client.completions.create(model=model, prompt="Once upon a time", max_tokens=6,
                                            temperature=0, stream=True))
    check("".join(c.choices[0].text for c in chunks) == choice.text, "the stream says the same")


def check_responses(client, model):
    ask = {"model": model, "input": "Name three colours, please.", "instructions": "Be brief.", "temperature": 0,
           "max_output_tokens": 8}
    whole = client.responses.create(**ask)
    check(whole.object == "response" and whole.model == model and whole.output_text, "a response has text")
    check(whole.status == ("incomplete" if whole.incomplete_details else "completed"), "it says whether it is complete")
    check(whole.output[-1].type == "message" and whole.output[-1].role == "assistant", "its last item is a message")
    check(whole.usage.input_tokens > 0 and 0 < whole.usage.output_tokens <= 8, "tokens are counted")
    check(whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens, "and added")
    events = list(client.responses.create(**ask, stream=True))
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    check(text == whole.output_text == events[-1].response.output_text, "the stream says the same")
    check([e.sequence_number for e in events] == list(range(len(events))), "its events are numbered")
    check([e.type for e in events[:2]] == ["response.created", "response.in_progress"], "it begins so")
    check(events[-1].type == f"response.{whole.status}", "it ends like the whole answer")
    # the client's own accumulation, which wants a complete text: it stops before its last letter
    with client.responses.stream(**ask, extra_body={"stop": [text[-1]]}) as stream:
        check("".join(e.delta for e in stream if e.type == "response.output_text.delta") == text.split(text[-1])[0] ==
              stream.get_final_response().output_text, "the client gathers the same")
    history = client.responses.create(**{**ask, "input": [{"role": "user", "content": ask["input"]}, *whole.output, {
        "role": "user", "content": [{"type": "input_text", "text": "More."}]}]}, tools=[{"type": "web_search"}],
        include=["reasoning.encrypted_content"], store=False)
    check(history.output_text, "an answer's items are input again")
    raises(openai.BadRequestError, "unsupported_parameter", client.responses.create, **ask,
           previous_response_id=whole.id)
    raises(openai.BadRequestError, "invalid_value", client.responses.create, **{**ask, "max_output_tokens": 0})


def check_errors(client, model):
    chat = client.chat.completions.create
    raises(openai.NotFoundError, "model_not_found", chat, model="no-such-model", messages=PROMPT)
    raises(openai.BadRequestError, "invalid_value", chat, model=model, messages=PROMPT,
           temperature=9)
    raises(openai.BadRequestError, "invalid_type", chat, model=model, messages=[])
    raises(openai.BadRequestError, "invalid_value", chat, model=model, messages=PROMPT, n=17)
    raises(openai.BadRequestError, "unsupported_parameter", chat, model=model, messages=PROMPT, verbosity="high")
    raises(openai.NotFoundError, "model_not_found", client.models.retrieve, model="no-such-model")


def main():
    key = sys.argv[2] if len(sys.argv) > 2 else "unused"
    client = openai.OpenAI(base_url=sys.argv[1], api_key=key, max_retries=0, timeout=120)
    models = list(client.models.list())
    check(len(models) >= 1, "the model is listed by each of its names")
    model = models[0].id
    check(client.models.retrieve(model).id == model, "the model is found by its name")
    check_chat(client, model)
    check_completions(client, model)
    check_responses(client, model)
    check_errors(client, model)
    if len(sys.argv) > 2:
        wrong = openai.OpenAI(base_url=sys.argv[1], api_key=key + "x", max_retries=0)
        raises(openai.AuthenticationError, "invalid_api_key", wrong.models.list)
    print(f"openai_client.py: ok (openai {openai.__version__}, model {model})")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
