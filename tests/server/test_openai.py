"""OpenAI's own client against this server: completions whole and streamed, errors, keys, and what is refused."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from regard.server.keys import KeyStore, add_key

from .conftest import serving
from .copying import capitals
from .predicting import book, mean

openai = pytest.importorskip("openai", reason="the openai client is not installed")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of a translation model, a language model and another task; texts of at most 60 tokens."""
    with serving([capitals()[0], book(), mean()[0]], length=60, characters=100, texts=6) as (port, _):
        yield f"http://127.0.0.1:{port}/v1"


WEB = httpx.Client(verify=False, timeout=30)  # a new one for each request reads all certificates


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    with WEB:
        yield


def client_of(url: str, key: str = "any") -> Any:
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=30)


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    with client_of(url) as found:
        yield found


def test_a_completion(client: Any) -> None:
    found = client.completions.create(model="book", prompt="abc", max_tokens=7, seed=1)
    (choice,) = found.choices
    assert (found.object, found.model, found.id[:5]) == ("text_completion", "book", "cmpl-")
    assert choice.index == 0 and choice.logprobs is None and choice.text
    assert found.usage.prompt_tokens == 3 and found.usage.total_tokens == 3 + found.usage.completion_tokens
    assert found.usage.completion_tokens == 7 if choice.finish_reason == "length" else choice.finish_reason == "stop"
    again = client.completions.create(model="book", prompt="abc", max_tokens=7, seed=1)
    assert again.choices == found.choices and again.id != found.id


def test_sixteen_tokens_unless_more_are_asked_for(client: Any) -> None:
    lengths = {}
    for seed in range(20):
        found = client.completions.create(model="book", prompt="", seed=seed)
        lengths[found.choices[0].finish_reason] = found.usage.completion_tokens
        if "length" in lengths:
            break
    assert lengths["length"] == 16


def test_several_prompts_and_samples_in_order(client: Any) -> None:
    whole = client.completions.create(model="book", prompt=["a", "bc"], n=3, max_tokens=5, seed=3, echo=True)
    assert [choice.index for choice in whole.choices] == list(range(6))
    assert [choice.text[:2] for choice in whole.choices[3:]] == ["bc"] * 3
    assert len({choice.text for choice in whole.choices[:3]}) > 1, "samples differ"
    first = client.completions.create(model="book", prompt="a", max_tokens=5, seed=3, echo=True)
    assert first.choices[0].text == whole.choices[0].text, "a text depends on its prompt, seed and number alone"


def test_temperature_zero_is_greedy_and_our_own_settings_may_stand_beside(client: Any) -> None:
    greedy = client.completions.create(model="book", prompt="ab", max_tokens=9, temperature=0).choices[0].text
    again = client.completions.create(model="book", prompt="ab", max_tokens=9, seed=4, extra_body={"top_k": 1})
    assert again.choices[0].text == greedy
    bounded = client.completions.create(
        model="book", prompt="ab", max_tokens=9, temperature=0, extra_body={"no_repeat_ngram": 1}
    )
    assert len(set("ab" + bounded.choices[0].text)) == 2 + len(bounded.choices[0].text)


@pytest.mark.parametrize("stop", ["{0}", ["zz", "{0}"]])
def test_a_stop_string_ends_the_text_and_is_no_part_of_it(client: Any, stop: Any) -> None:
    asked: dict[str, Any] = {"model": "book", "prompt": "a", "max_tokens": 30, "seed": 5}
    text = client.completions.create(**asked).choices[0].text
    assert len(text) > 4
    mark = text[2:4]
    given = [each.format(mark) for each in stop] if isinstance(stop, list) else stop.format(mark)
    found = client.completions.create(**asked, stop=given).choices[0]
    assert (found.text, found.finish_reason) == (text[: text.find(mark)], "stop")


# Streams


def joined(chunks: Any) -> dict[int, str]:
    texts: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    return texts


def test_a_stream_gives_the_same_texts_in_many_chunks(client: Any) -> None:
    asked: dict[str, Any] = {"model": "book", "prompt": ["a", "b"], "n": 2, "max_tokens": 20, "seed": 1, "echo": True}
    whole = client.completions.create(**asked)
    chunks = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert joined(chunks) == {choice.index: choice.text for choice in whole.choices}
    assert len(chunks) > 8 and len({chunk.id for chunk in chunks}) == 1
    ended = [(each.index, each.finish_reason) for chunk in chunks for each in chunk.choices if each.finish_reason]
    assert sorted(ended) == [(choice.index, choice.finish_reason) for choice in whole.choices]
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_an_asynchronous_stream(url: str, client: Any) -> None:
    asked: dict[str, Any] = {"model": "book", "prompt": "ab", "max_tokens": 12, "seed": 2}

    async def read() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as many:
            first, second = await asyncio.gather(
                *(many.completions.create(**asked, stream=True) for _ in range(2))
            )  # fmt: skip
            chunks = [chunk async for chunk in first]
            assert [chunk.choices async for chunk in second] == [chunk.choices for chunk in chunks]
            return chunks

    chunks = asyncio.run(read())
    assert joined(chunks) == {0: client.completions.create(**asked).choices[0].text}
    assert all(chunk.usage is None for chunk in chunks)


def test_the_wire_is_events_that_end_with_done(url: str) -> None:
    body = {"model": "book", "prompt": "a", "max_tokens": 3, "stream": True}
    answer = WEB.post(f"{url}/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert all(json.loads(event.removeprefix("data: "))["object"] == "text_completion" for event in events)


# Log-probabilities


def test_log_probabilities_of_each_token(client: Any) -> None:
    asked: dict[str, Any] = {"model": "book", "prompt": "abc", "max_tokens": 15, "seed": 2, "logprobs": 3}
    found = client.completions.create(**asked)
    (choice,) = found.choices
    told = choice.logprobs
    assert len(told.tokens) == found.usage.completion_tokens == len(told.token_logprobs) == len(told.top_logprobs)
    assert "".join(each for each in told.tokens if each != "</s>") == choice.text
    places = zip(told.text_offset, told.tokens, strict=True)
    assert all(choice.text[at:].startswith(each) for at, each in places if each != "</s>")
    for token, value, best in zip(told.tokens, told.token_logprobs, told.top_logprobs, strict=True):
        assert len(best) == 3 and value <= max(best.values()) and (token not in best or best[token] == value)
        assert sum(map(math.exp, best.values())) <= 1 + 1e-9
    streamed = [chunk.choices[0].logprobs for chunk in client.completions.create(**asked, stream=True)]
    assert [each for part in streamed for each in part.tokens] == told.tokens
    assert [each for part in streamed for each in part.text_offset] == told.text_offset
    bare = client.completions.create(**{**asked, "logprobs": 0}).choices[0].logprobs
    assert bare.top_logprobs is None and bare.token_logprobs == pytest.approx(told.token_logprobs)


def test_an_echo_alone_scores_the_prompt_as_the_generator_does(client: Any) -> None:
    generator = book()._load_predictor()
    text = "abcabc" * 5  # longer than the context
    found = client.completions.create(model="book", prompt=["ga", text], max_tokens=0, echo=True, logprobs=1)
    assert [choice.text for choice in found.choices] == ["ga", text] and found.usage.completion_tokens == 0
    scored = generator.score(text, prompt="")
    assert found.choices[1].logprobs.token_logprobs == pytest.approx(scored.piece_log_probabilities)
    assert found.choices[1].logprobs.tokens == list(text) and found.choices[1].finish_reason == "length"
    longer = client.completions.create(model="book", prompt="ga", max_tokens=2, echo=True, logprobs=1, seed=1)
    assert longer.choices[0].logprobs.tokens[:2] == ["g", "a"] and longer.choices[0].text.startswith("ga")
    chunks = client.completions.create(model="book", prompt="ga", max_tokens=0, echo=True, stream=True)
    assert joined(chunks) == {0: "ga"}


# Models


def test_models_in_openais_shape_and_our_own_at_once(client: Any, url: str) -> None:
    assert [model.id for model in client.models.list()] == ["capitals", "book", "mean"]
    assert (client.models.retrieve("book").id, client.models.retrieve("book").object) == ("book", "model")
    (listed,) = (each for each in WEB.get(f"{url}/models").json()["data"] if each["name"] == "book")
    assert (listed["object"], listed["owned_by"], listed["task"]) == ("model", "regard", "language-model")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_the_first_language_model_answers_where_none_is_named(url: str) -> None:
    answer = WEB.post(f"{url}/completions", json={"prompt": "a", "max_tokens": 1})
    assert answer.json()["model"] == "book"


# What is refused


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"max_tokens": 61}, "max_tokens: 61 tokens exceed the limit of 60"),
        ({"max_tokens": 10**18}, "exceed the limit"),
        ({"max_tokens": -1}, "max_tokens: it should be at least 0"),
        ({"max_tokens": 0}, "requires echo"),
        ({"max_tokens": "9"}, "max_tokens: it should be a whole number"),
        ({"n": 7}, "7 texts to generate exceed the limit of 6"),
        ({"n": 10**9}, "n: it should be at most 128"),
        ({"n": 0}, "n: it should be at least 1"),
        ({"prompt": "a" * 101}, "exceeds text limit (100)"),
        ({"prompt": []}, "contains no text"),
        ({"prompt": [4, 5]}, "token ids are not supported"),
        ({"prompt": [[4, 5], [6]]}, "token ids are not supported"),
        ({"prompt": None}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": "xyz"}, "no piece for 'x', 'y', 'z'"),
        ({"prompt": "\ud800"}, "the body is not Unicode"),
        ({"stop": "\ud800"}, "the body is not Unicode"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ["ab"] * 10_000}, "stop"),
        ({"stop": ""}, "stop"),
        ({"temperature": -1}, "temperature: it should be at least 0"),
        ({"temperature": 2.1}, "temperature: it should be at most 2"),
        ({"temperature": 1e-9}, "temperature: it should be at least 0.01"),
        ({"top_p": 0}, "top_p"),
        ({"presence_penalty": 3}, "presence_penalty: it should be at most 2"),
        ({"frequency_penalty": float("nan")}, ""),
        ({"logprobs": 6}, "logprobs: it should be at most 5"),
        ({"seed": 2**64}, "seed"),
        ({"best_of": 2}, "best_of must equal n"),
        ({"suffix": "b"}, "suffix is not supported"),
        ({"logit_bias": {"5": 3.0}}, "logit_bias is not supported"),
        ({"stream_options": {"include_usage": 3}}, "stream_options.include_usage"),
        ({"top_k": 0}, "top_k: it should be at least 1"),
        ({"repetition_penalty": -1}, "repetition_penalty"),
        ({"lenght": 3}, "Unrecognized request argument supplied: lenght"),
        ({"length": 3}, "Unrecognized request argument supplied: length"),
        (
            {"model": "capitals"},
            "The model capitals cannot generate text: its task is translation. Use POST /v1/predict.",
        ),
        ({"model": "mean"}, "cannot generate text"),
    ],
)
def test_what_cannot_be_is_told_in_openais_shape(url: str, fields: dict[str, Any], told: str) -> None:
    for stream in (False, True):
        body = json.dumps({"model": "book", "prompt": "a", "stream": stream} | fields)
        answer = WEB.post(f"{url}/completions", content=body, headers={"content-type": "application/json"})
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["code"]) == (400, "invalid_request_error", None), answer.text
        assert told in error["message"] and len(answer.text) < 1000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, 400),
        (b'{"prompt": ' + b'{"a": ' * 20_000, 400),
        (b'{"prompt": "\xff"}', 400),
        (b"", 400),
        (b"[]", 400),
        (b'{"prompt": "' + b"a" * 10_000_000 + b'"}', 413),
    ],
)
def test_a_body_that_is_none_is_told_in_openais_shape(url: str, body: bytes, status: int) -> None:
    answer = WEB.post(f"{url}/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status and answer.json()["error"]["type"] == "invalid_request_error", answer.text


def test_errors_are_those_of_the_client(client: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="model 'nobody' does not exist") as caught:
        client.completions.create(model="nobody", prompt="a")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="exceed the limit"):
        client.completions.create(model="book", prompt="a", max_tokens=1000, stream=True)


def test_keys_and_quotas_and_rates(tmp_path: Any) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "one", requests_per_minute=None, characters=3)
    slow = add_key(file, "two", requests_per_minute=1, characters=None)
    with serving([book()], keys=KeyStore(file)) as (port, _):
        base = f"http://127.0.0.1:{port}/v1"

        def ask(key: str) -> Any:
            with client_of(base, key) as client:
                return client.completions.create(model="book", prompt="ab", max_tokens=1)

        with pytest.raises(openai.AuthenticationError) as caught:
            ask("wrong")
        assert caught.value.code == "invalid_api_key"
        assert WEB.post(f"{base}/completions", json={"prompt": "a"}).status_code == 401
        ask(key)
        with pytest.raises(openai.RateLimitError) as caught:
            ask(key)
        assert caught.value.code == "insufficient_quota"
        ask(slow)
        with pytest.raises(openai.RateLimitError) as caught:
            ask(slow)
        assert caught.value.code == "rate_limit_exceeded" and int(caught.value.response.headers["retry-after"]) >= 1
