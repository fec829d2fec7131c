"""OpenAI's own client against this server: chat completions whole and streamed, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from .conftest import serving
from .predicting import book, mean
from .test_openai import client_of, openai

ASKED: dict[str, Any] = {"model": "book", "messages": [{"role": "user", "content": "ab"}], "max_tokens": 20}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving([mean()[0], book(), book("plain", chats=False)], length=60, characters=100, texts=6) as (port, _):
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    with client_of(url) as found:
        yield found


@pytest.fixture(scope="module")
def web() -> Iterator[httpx.Client]:
    with httpx.Client(verify=False, timeout=30) as client:
        yield client


def test_a_reply_is_the_continuation_of_the_conversation(client: Any) -> None:
    generator = book()._load_predictor()
    for seed in range(5):
        found = client.chat.completions.create(**ASKED, seed=seed)
        (choice,) = found.choices
        ours = generator.chat(ASKED["messages"], seed=seed, length=20)
        assert (choice.message.content, choice.message.role, choice.index) == (ours.text, "assistant", 0)
        assert "\n" not in ours.text and choice.finish_reason == ("stop" if ours.finished else "length")
        assert ours.text == generator("ab\n", seed=seed, length=20, stop="\n").text
        assert (found.object, found.model, found.id[:9]) == ("chat.completion", "book", "chatcmpl-")
        assert found.usage.prompt_tokens == 3 and found.usage.completion_tokens == ours.tokens


def test_turns_parts_and_samples(client: Any) -> None:
    turns = [
        ("user", "a"),
        ("assistant", "b"),
        ("user", [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}]),
    ]
    messages = [{"role": role, "content": content} for role, content in turns]
    found = client.chat.completions.create(model="book", messages=messages, n=3, seed=2, max_completion_tokens=6)
    texts = [choice.message.content for choice in found.choices]
    generator = book()._load_predictor()
    assert texts == [each.text for each in generator.samples("a\nb\ncd\n", 3, seed=2, length=6, stop="\n")]
    assert len(set(texts)) > 1 and found.usage.prompt_tokens == 7
    greedy = [
        client.chat.completions.create(**ASKED, **more).choices
        for more in ({"temperature": 0}, {"extra_body": {"top_k": 1}}, {"temperature": 0, "tool_choice": "none"})
    ]
    assert greedy[0] == greedy[1] == greedy[2]


def test_a_stop_string_ends_a_reply(client: Any) -> None:
    seed = next(
        seed
        for seed in range(50)
        if len(client.chat.completions.create(**ASKED, seed=seed).choices[0].message.content) > 4
    )
    text = client.chat.completions.create(**ASKED, seed=seed).choices[0].message.content
    found = client.chat.completions.create(**ASKED, seed=seed, stop=text[2:4]).choices[0]
    assert (found.message.content, found.finish_reason) == (text[: text.find(text[2:4])], "stop")


def test_a_stream_gives_the_same_replies_in_chunks(client: Any) -> None:
    whole = client.chat.completions.create(**ASKED, n=2, seed=1)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = client.chat.completions.create(**ASKED, n=2, seed=1, **options)
    texts, ends, roles = {0: "", 1: ""}, {}, []
    for chunk in chunks:
        assert chunk.object == "chat.completion.chunk" and chunk.usage is None
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            roles += [choice.index] if choice.delta.role == "assistant" else []
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    assert texts == {choice.index: choice.message.content for choice in whole.choices}
    assert ends == {choice.index: choice.finish_reason for choice in whole.choices} and roles == [0, 1]
    assert last.choices == [] and last.usage == whole.usage and len({chunk.id for chunk in [*chunks, last]}) == 1


TOOL = {"type": "function", "function": {"name": "f"}}
IMAGE = {"type": "image_url", "image_url": {"url": "x"}}
USER = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tools": [TOOL]}, "tools is not supported"),
        ({"tool_choice": "auto"}, "tool_choice is not supported"),
        ({"functions": [{}]}, "functions is not supported"),
        ({"response_format": {"type": "json_object"}}, "response_format is not supported"),
        ({"logprobs": True}, "logprobs is not supported"),
        ({"modalities": ["audio"]}, "modalities is not supported"),
        ({"lenght": 3}, "Unrecognized request argument supplied: lenght"),
        ({"length": 3}, "Unrecognized request argument supplied: length"),
        ({"max_tokens": 61}, "max_tokens: 61 tokens exceed the limit of 60"),
        ({"max_completion_tokens": 61}, "max_completion_tokens: 61 tokens exceed the limit of 60"),
        ({"max_tokens": 0}, "max_tokens: it should be at least 1"),
        ({"n": 7}, "7 texts to generate exceed the limit of 6"),
        ({"beam": 2}, "not searched with a beam"),
        ({"messages": []}, "at least one message"),
        ({"messages": "a"}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": ["a"]}, "messages.0; expected an object"),
        ({"messages": [USER, USER]}, "messages.1; its role is 'user', and 'assistant' is expected"),
        ({"messages": [USER, {"role": "assistant", "content": "b"}]}, "the last message must be one of the user"),
        ({"messages": [{"role": "tool", "content": "b"}]}, "the role 'tool' is not supported"),
        ({"messages": [USER | {"tool_calls": [TOOL]}]}, "tool_calls is not supported"),
        ({"messages": [USER | {"content": [IMAGE]}]}, "a part of the type 'image_url' is not supported"),
        ({"messages": [USER | {"content": None}]}, "`content` must be a text"),
        ({"messages": [{"role": "system", "content": "a"}, USER]}, "does not support system messages"),
        ({"messages": [USER | {"content": "xyz"}]}, "no piece for 'x', 'y', 'z'"),
        ({"messages": [USER | {"content": "a" * 12}]}, "the conversation has 14 tokens; the model attends to 12"),
        ({"messages": [USER | {"content": "a" * 101}]}, "exceeds text limit (100)"),
        ({"model": "plain"}, "this model has no chat template; its config.toml has no section `chat`"),
        ({"model": "mean"}, "cannot generate text"),
    ],
)
def test_what_is_refused_is_named(url: str, web: httpx.Client, fields: dict[str, Any], told: str) -> None:
    for stream in (False, True):
        answer = web.post(
            f"{url}/chat/completions", json={"model": "book", "messages": [USER], "stream": stream} | fields
        )
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (400, "invalid_request_error"), answer.text
        assert told in error["message"] and len(answer.text) < 500


def test_the_client_raises_its_errors(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="no chat template"):
        client.chat.completions.create(**ASKED | {"model": "plain"})
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**ASKED | {"model": "nobody"})
