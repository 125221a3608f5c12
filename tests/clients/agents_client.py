# SPDX-License-Identifier: Apache-2.0
"""Agents as people write them, unchanged, against an edge whose model knows tools: each asks for a call, gives the
tool's result, and ends. The first request requires a call and the second allows none, since the demo model is too
small to choose.

    python3 agents_client.py BASE_URL      BASE_URL ends in /v1

A client that is not installed is SKIPPED. Exit status 0: all held; 1: one did not; 77: none is there.
"""
import importlib.util
import json
import sys

PROMPT = "What is the weather in Oslo?"
CITIES = ["Oslo", "Paris"]
SCHEMA = {"type": "object", "properties": {"city": {"enum": CITIES}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
          "required": ["city", "days"], "additionalProperties": False}
RESULT = "sunny, 20 degrees"


def check(condition, what):
    if not condition:
        print(f"agents_client.py: failed: {what}", file=sys.stderr)
        sys.exit(1)


def check_arguments(text, who):
    arguments = json.loads(text) if isinstance(text, str) else text
    check(set(arguments) == {"city", "days"} and arguments["city"] in CITIES and arguments["days"] in range(1, 8),
          f"{who}: arguments fit the schema: {arguments}")


def check_openai_chat(url, model):
    import openai
    client = openai.OpenAI(base_url=url, api_key="any")
    tools = [{"type": "function", "function": {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": PROMPT}]
    ask = {"model": model, "messages": messages, "tools": tools, "seed": 7, "max_completion_tokens": 80}
    said = client.chat.completions.create(**ask, tool_choice="required").choices[0]
    check(said.finish_reason == "tool_calls" and len(said.message.tool_calls) == 1, "openai: one call")
    call = said.message.tool_calls[0]
    check_arguments(call.function.arguments, "openai")
    named = {"type": "function", "function": {"name": "weather"}}
    with client.chat.completions.stream(**ask, tool_choice=named) as stream:
        streamed = stream.get_final_completion().choices[0].message.tool_calls[0]
    check(streamed.function.arguments == call.function.arguments, "openai: the stream has the same call")
    messages += [said.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    last = client.chat.completions.create(**ask, tool_choice="none").choices[0]
    check(last.message.content and not last.message.tool_calls, "openai: an answer behind the result")


def check_openai_parse(url, model):
    import typing

    import openai
    import pydantic

    class Place(pydantic.BaseModel):
        city: typing.Literal["Oslo", "Paris"]
        warm: bool

    client = openai.OpenAI(base_url=url, api_key="any")
    ask = {"model": model, "extra_body": {"seed": 7}}
    said = client.chat.completions.parse(**ask, messages=[{"role": "user", "content": PROMPT}], response_format=Place)
    check(said.choices[0].message.parsed.city in CITIES, "openai: .parse() of a chat")
    said = client.responses.parse(**ask, input=PROMPT, text_format=Place)
    check(said.output_parsed.city in CITIES, "openai: .parse() of a response")


def check_openai_responses(url, model):
    import openai
    client = openai.OpenAI(base_url=url, api_key="any")
    tools = [{"type": "function", "name": "weather", "description": "Weather of a city", "parameters": SCHEMA, "strict": True},
             {"type": "web_search"}]
    ask = {"model": model, "tools": tools, "max_output_tokens": 80, "extra_body": {"seed": 7}}
    said = client.responses.create(**ask, input=PROMPT, tool_choice="required")
    call = said.output[-1]
    check(call.type == "function_call" and call.name == "weather" and call.status == "completed", "responses: a call")
    check_arguments(call.arguments, "responses")
    with client.responses.stream(**ask, input=PROMPT, tool_choice={"type": "function", "name": "weather"}) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response().output[-1]
    check("response.function_call_arguments.delta" in kinds and "response.function_call_arguments.done" in kinds,
          "responses: events of arguments")
    check(streamed.arguments == call.arguments, "responses: the stream has the same call")
    history = [{"role": "user", "content": PROMPT}, call.model_dump(exclude_none=True),
               {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}]
    last = client.responses.create(**ask, input=history, tool_choice="none")
    check(last.output_text, "responses: an answer behind the result")


def check_anthropic(url, model):
    import anthropic
    client = anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="any")
    tools = [{"name": "weather", "description": "Weather of a city", "input_schema": SCHEMA}]
    messages = [{"role": "user", "content": PROMPT}]
    ask = {"model": model, "messages": messages, "tools": tools, "max_tokens": 80, "extra_body": {"seed": 7}}
    said = client.messages.create(**ask, tool_choice={"type": "any"})
    call = said.content[-1]
    check(said.stop_reason == "tool_use" and call.type == "tool_use" and call.name == "weather", "anthropic: a call")
    check_arguments(call.input, "anthropic")
    with client.messages.stream(**ask, tool_choice={"type": "tool", "name": "weather"}) as stream:
        final = stream.get_final_message()
    check(final.content[-1].input == call.input and final.stop_reason == "tool_use", "anthropic: the stream has the same call")
    count = {"model": model, "messages": list(messages)}
    check(client.messages.count_tokens(**count, tools=tools).input_tokens > client.messages.count_tokens(**count).input_tokens,
          "anthropic: tools count")
    messages += [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in said.content]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT}]}]
    last = client.messages.create(**ask, tool_choice={"type": "none"})
    check(last.content and all(block.type != "tool_use" for block in last.content), "anthropic: an answer behind the result")


def check_langchain(url, model):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(model=model, base_url=url, api_key="any", max_tokens=80, seed=7)
    tool = {"type": "function", "function": {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA}}
    history = [HumanMessage(PROMPT)]
    said = chat.bind_tools([tool], tool_choice="required").invoke(history)
    check(len(said.tool_calls) == 1, "langchain: one call")
    check_arguments(said.tool_calls[0]["args"], "langchain")
    history += [said, ToolMessage(RESULT, tool_call_id=said.tool_calls[0]["id"])]
    check(chat.bind_tools([tool], tool_choice="none").invoke(history).content, "langchain: an answer behind the result")


def check_instructor(url, model):
    import typing

    import instructor
    import openai
    import pydantic

    class Weather(pydantic.BaseModel):
        """Weather of a city"""
        city: typing.Literal["Oslo", "Paris"]
        days: int = pydantic.Field(ge=1, le=7)

    client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="any"), mode=instructor.Mode.TOOLS)
    ask = {"model": model, "max_tokens": 80, "seed": 7}
    history = [{"role": "user", "content": PROMPT}]
    asked, said = client.create_with_completion(**ask, response_model=Weather, messages=history)  # requires a call of Weather
    check_arguments(asked.model_dump(), "instructor")
    message = said.choices[0].message
    check([call.function.name for call in message.tool_calls] == ["Weather"], "instructor: one call")
    history += [message.model_dump(include={"role", "content", "tool_calls"}),
                {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": RESULT}]
    tools = [{"type": "function", "function": {"name": "Weather", "parameters": Weather.model_json_schema()}}]
    last = client.create(**ask, response_model=None, messages=history, tools=tools, tool_choice="none").choices[0]
    check(last.message.content and not last.message.tool_calls, "instructor: an answer behind the result")


def pydantic_ai_model(url, model):
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    return OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="any"))


def check_pydantic_ai_tool(url, model):
    import typing

    import pydantic
    import pydantic_ai
    called = []
    agent = pydantic_ai.Agent(pydantic_ai_model(url, model), model_settings=lambda _: {
        "max_tokens": 80, "seed": 7, "tool_choice": "none" if called else "required"})

    @agent.tool_plain
    def weather(city: typing.Literal["Oslo", "Paris"], days: typing.Annotated[int, pydantic.Field(ge=1, le=7)]) -> str:
        """Weather of a city"""
        called.append({"city": city, "days": days})
        return RESULT

    run = agent.run_sync(PROMPT)
    check(len(called) == 1, "pydantic-ai: one call")
    check_arguments(called[0], "pydantic-ai")
    results = [part.content for message in run.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    check(results == [RESULT] and run.output, "pydantic-ai: an answer behind the result")


def check_pydantic_ai_object(url, model):
    import typing

    import pydantic
    import pydantic_ai
    called = []

    class Place(pydantic.BaseModel):
        city: typing.Literal["Oslo", "Paris"]
        warm: bool

    agent = pydantic_ai.Agent(pydantic_ai_model(url, model), output_type=Place, model_settings={"max_tokens": 80, "seed": 7})

    @agent.output_validator
    def note(place):
        called.append(place)
        return place

    place = agent.run_sync(PROMPT).output
    check(place.city in CITIES and called == [place], "pydantic-ai: an object by a call")


CLIENTS = [("openai", check_openai_chat), ("openai", check_openai_parse), ("openai", check_openai_responses), ("anthropic", check_anthropic),
           ("langchain_openai", check_langchain), ("instructor", check_instructor), ("pydantic_ai", check_pydantic_ai_tool),
           ("pydantic_ai", check_pydantic_ai_object)]


def main(url):
    import urllib.request
    with urllib.request.urlopen(f"{url}/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    ran = 0
    for name, check_client in CLIENTS:
        if importlib.util.find_spec(name) is None:
            print(f"agents_client.py: SKIPPED: no {name}", file=sys.stderr)
            continue
        check_client(url, model)
        print(f"{check_client.__name__.removeprefix('check_')}: passed")
        ran += 1
    return 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
