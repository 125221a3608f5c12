# SPDX-License-Identifier: Apache-2.0
"""The official `anthropic` Python client, unchanged, against a server of ours.

    python3 anthropic_client.py BASE_URL [API_KEY]      BASE_URL ends in /v1

Works against any model: checks shapes and promises, not words. Exit status 0: all held; 1: one did
not; 77: the package `anthropic` is not there.
"""
import json
import sys
import urllib.request

try:
    import anthropic
except ImportError:
    print("anthropic_client.py: SKIPPED, the Python package 'anthropic' is not installed", file=sys.stderr)
    sys.exit(77)

ASK = {"messages": [{"role": "user", "content": "Name three colours, please."}], "max_tokens": 8,
       "extra_body": {"temperature": 0},  # newer clients have no argument of this name
       "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]}


def check(condition, what):
    if not condition:
        print(f"anthropic_client.py: failed: {what}", file=sys.stderr)
        sys.exit(1)


def raises(kind, error_type, words, call, **arguments):
    """The client raises its own exception for our error, which has the type and names the field."""
    try:
        call(**arguments)
    except kind as error:
        check(error.body["error"]["type"] == error_type, f"{kind.__name__} has type {error_type!r}: {error.body}")
        check(words in error.body["error"]["message"], f"{kind.__name__} says {words!r}: {error.body}")
        return
    check(False, f"{kind.__name__} is raised for {words}")


def check_messages(client, model):
    whole = client.messages.create(model=model, **ASK)
    check(whole.type == "message" and whole.role == "assistant" and whole.model == model, "the answer is a message")
    check(whole.content[0].type == "text" and whole.content[0].text, "it has text")
    check(whole.stop_reason in ("end_turn", "max_tokens") and whole.stop_sequence is None, "it says why it ended")
    prompt = whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    check(prompt > 0 and 0 < whole.usage.output_tokens <= 8, "tokens are counted")
    with client.messages.stream(model=model, **ASK) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check(text == whole.content[0].text == final.content[0].text, "the stream says the same")
    check(final.stop_reason == whole.stop_reason and final.usage.output_tokens == whole.usage.output_tokens,
          "it ends for the same reason")
    check(final.usage.input_tokens + final.usage.cache_read_input_tokens == prompt, "it counts the same tokens")
    kinds = [event.type for event in client.messages.create(model=model, stream=True, **ASK)]
    check(kinds[:2] == ["message_start", "content_block_start"] and kinds[-3:] ==
          ["content_block_stop", "message_delta", "message_stop"], f"the events have their order: {kinds}")
    counted = client.messages.count_tokens(model=model, messages=ASK["messages"], system=ASK["system"])
    check(counted.input_tokens == prompt, f"count_tokens says {counted.input_tokens}, usage {prompt}")
    letter = whole.content[0].text.strip()[0]
    stopped = client.messages.create(model=model, stop_sequences=["no such text", letter], **ASK)
    check(stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == letter, "a stop sequence is told")
    check(letter not in stopped.content[0].text, "it is not in the text")


def check_errors(client, model):
    create = client.messages.create
    wrong = {**ASK, "model": model}
    raises(anthropic.NotFoundError, "not_found_error", "no-such-model", create, **{**wrong, "model": "no-such-model"})
    raises(anthropic.BadRequestError, "invalid_request_error", "'temperature'", create, **{**wrong, "extra_body": {"temperature": 9}})
    raises(anthropic.BadRequestError, "invalid_request_error", "'stop_sequences'", create, **wrong, stop_sequences=[""])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    raises(anthropic.BadRequestError, "invalid_request_error", "messages[0].content[0]", create,
           **{**wrong, "messages": [{"role": "user", "content": [image]}]})


def main():
    url = sys.argv[1].removesuffix("/v1")
    key = sys.argv[2] if len(sys.argv) > 2 else "unused"
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=120)
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/models", headers={"X-Api-Key": key}),
                                timeout=60) as answer:
        model = json.load(answer)["data"][0]["id"]
    check_messages(client, model)
    check_errors(client, model)
    if len(sys.argv) > 2:
        stranger = anthropic.Anthropic(base_url=url, api_key=key + "x", max_retries=0)
        raises(anthropic.AuthenticationError, "authentication_error", "key", stranger.messages.create, model=model, **ASK)
    print(f"anthropic_client.py: ok (anthropic {anthropic.__version__}, model {model})")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
