"""Text generation over HTTP: whole and as events, who waits, who left, and what is refused."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest

from regard.config.search_requests import GenerateRequest
from regard.core.predictor_interface import PredictionInterrupted
from regard.server.api.event_stream import EventStream, event
from regard.server.api.openai import _scored
from regard.server.batching.generating import _scores
from regard.tasks.language_model.config import GenerateConfig

from .conftest import serving
from .copying import capitals
from .predicting import Halting, book, halting

Ask = Callable[..., httpx.Response]


def asking(port: int, web: httpx.Client) -> Ask:
    def ask(path: str = "generate", **fields: Any) -> httpx.Response:
        body = json.dumps(fields)
        headers = {"content-type": "application/json"}
        return web.post(f"http://127.0.0.1:{port}/v1/{path}", content=body, headers=headers)

    return ask


@pytest.fixture(scope="module")
def web() -> Iterator[httpx.Client]:
    """One client for all: a new one for each request reads all certificates."""
    with httpx.Client(verify=False, timeout=30) as found:
        yield found


@pytest.fixture(scope="module")
def ask(web: httpx.Client) -> Iterator[Ask]:
    with serving([capitals()[0], book()], length=40, characters=60, texts=6) as (port, _):
        yield asking(port, web)


def events(text: str) -> list[tuple[str, Any]]:
    """Name and data of each event."""
    found = re.findall(r"(?:event: (\w+)\n)?data: (.*)\n\n", text)
    return [(name, json.loads(data)) for name, data in found]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_texts_in_order_of_prompts_and_samples(ask: Ask) -> None:
    generator = book()._load_predictor()
    found = ask(prompt=["ab", "c"], samples=2, length=9, seed=3).json()
    assert found["model"] == "book"
    assert [(each["prompt"], each["sample"]) for each in found["texts"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    alone = [*generator.samples("ab", 2, seed=3, length=9), *generator.samples("c", 2, seed=3, length=9)]
    for each, own in zip(found["texts"], alone, strict=True):
        assert (each["text"], each["finish_reason"], each["tokens"]) == (own.text, own.finish_reason, own.tokens)
        assert each["log_probability"] == pytest.approx(own.log_probability)
    (one,) = ask(prompt="ab", length=9, seed=3).json()["texts"]
    assert one["text"] == alone[0].text
    predicted = ask("predict", inputs=["ab"], settings={"length": 9, "seed": 3}, model="book").json()
    assert predicted["outputs"][0]["text"] == "ab" + alone[0].text


def test_every_setting_of_generation_may_be_asked_for(ask: Ask) -> None:
    assert set(GenerateConfig.model_fields) - {"nbest"} <= set(GenerateRequest.model_fields)
    described = ask("generate", prompt="a", nothing=1).json()["error"]
    assert "nothing: unknown field" in described
    text = ask(prompt="a", length=12, seed=5).json()["texts"][0]["text"]
    (cut,) = ask(prompt="a", length=12, seed=5, stop=[text[3]]).json()["texts"]
    assert cut["text"] == text[: text.index(text[3])] and cut["finish_reason"] == "stop"
    (plain,) = ask(prompt="ab", length=5, no_repeat_ngram=1, greedy=True).json()["texts"]
    assert len(set("ab" + plain["text"])) == 2 + len(plain["text"])


def test_events_give_the_same_texts_as_they_grow(ask: Ask) -> None:
    asked: dict[str, Any] = {"prompt": ["ab", "c"], "samples": 2, "length": 9, "seed": 3}
    answer, whole = ask(**asked, stream=True), ask(**asked).json()["texts"]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store" and "content-security-policy" in answer.headers
    found = events(answer.text)
    assert len(found) > 12 and {name for name, _ in found} == {""}
    for number, own in enumerate(whole):
        parts = [data for _, data in found if 2 * data["prompt"] + data["sample"] == number]
        assert parts[-1] | {"text": "".join(part["text"] for part in parts)} == own
        assert {part["finish_reason"] for part in parts[:-1]} <= {None}


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"length": 41}, 400, "length: 41 tokens exceed the limit of 40 (--length-limit)"),
        ({"length": 10**30}, 400, "exceed the limit"),
        ({"samples": 7}, 400, "7 texts to generate exceed the limit of 6 (--batch-limit)"),
        ({"samples": 2**30}, 400, "exceed the limit"),
        ({"samples": 0}, 422, "samples: it should be at least 1"),
        ({"samples": "2"}, 422, "samples: it should be a whole number"),
        ({"prompt": ["a"] * 7}, 400, "7 texts exceed the limit of 6"),
        ({"prompt": "a" * 61}, 400, "exceeds text limit (60)"),
        ({"prompt": []}, 400, "contains no text"),
        ({"prompt": [1]}, 422, "prompt"),
        ({"prompt": "xyz"}, 400, "no piece for 'x', 'y', 'z'"),
        ({"prompt": "\ud800"}, 400, "not Unicode"),
        ({"stop": ["ab"] * 10_000}, 422, "stop: it should be a list of at most"),
        ({"stop": [""]}, 422, "stop.0: it should be a text of at least 1"),
        ({"stop": ["\ud800"]}, 400, "the body is not Unicode"),
        ({"temperature": 1e-300}, 422, "temperature: it should be at least"),
        ({"min_p": 2}, 422, "min_p: it should be at most 1"),
        ({"lenght": 2}, 422, "lenght: unknown field; did you mean length"),
        ({"model": "capitals"}, 400, "The model capitals cannot generate text: its task is translation"),
        ({"model": "nobody"}, 404, "The model 'nobody' does not exist."),
    ],
)
def test_what_cannot_be_generated_is_told_with_a_status_whole_or_streamed(
    ask: Ask, fields: dict[str, Any], status: int, told: str
) -> None:
    for stream in (False, True):
        answer = ask(**({"prompt": "a"} | fields), stream=stream)
        assert (answer.status_code, told in answer.json()["error"]) == (status, True), answer.text


def test_a_server_without_a_language_model_says_so(web: httpx.Client) -> None:
    with serving([capitals()[0]]) as (port, _):
        ask = asking(port, web)
        for path in ("generate", "completions"):
            answer = ask(path, prompt="a")
            assert answer.status_code == 400 and "The model capitals cannot generate text" in answer.text


def test_scores_of_whole_texts_and_of_what_goes_on_from_prompts(ask: Ask) -> None:
    generator = book()._load_predictor()
    text = "abcdefg" * 3  # longer than the context
    for sources in (None, ["", "gaga"]):
        scores = ask("score", targets=[text, "c"], sources=sources, model="book").json()["scores"]
        for score, target, prompt in zip(scores, [text, "c"], sources or [None, None], strict=True):
            own = generator.score(target, prompt=prompt)
            assert score["pieces"] == pytest.approx(own.piece_log_probabilities)
            assert score["log_probability"] == pytest.approx(-own.nll)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"targets": ["a"], "model": "capitals"}, "sources: required for a translation model"),
        ({"targets": ["a"]}, "sources: required for a translation model"),
        ({"targets": ["a", "b"], "sources": ["a"]}, "1 sources for 2 targets"),
        ({"targets": [""]}, "there is no text to score"),
        ({"targets": ["x"]}, "no piece for 'x'"),
        ({"targets": ["a"], "sources": ["x"]}, "no piece for 'x'"),
        ({"targets": []}, "contains no text"),
        ({"targets": ["a" * 61]}, "exceeds text limit"),
    ],
)
def test_what_cannot_be_scored_is_told(ask: Ask, fields: dict[str, Any], told: str) -> None:
    default = {} if told.startswith("sources") else {"model": "book"}
    answer = ask("score", **(default | fields))
    assert answer.status_code == 400 and told in answer.json()["error"], answer.text


# Time and turns


@pytest.fixture
def still(web: httpx.Client) -> Iterator[tuple[Any, Halting, Ask, str]]:
    """A server whose model stands still until it is allowed to go on."""
    served, batch = halting(waiting=4)
    with serving([served], seconds=20) as (port, _):
        yield served, batch, asking(port, web), f"http://127.0.0.1:{port}"
        batch.allowed = 10**6


@pytest.mark.parametrize("path", ["generate", "completions"])
def test_events_come_while_the_text_grows_and_who_leaves_ends_it(
    still: tuple[Any, Halting, Ask, str], web: httpx.Client, path: str
) -> None:
    served, batch, _, url = still
    batch.allowed = 2
    with web.stream("POST", f"{url}/v1/{path}", json={"prompt": "a", "stream": True, "seed": 0}) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        assert [next(lines)[:6] for _ in range(4)] == ["data: ", "", "data: ", ""]
        assert served.load == (0, 1)
    until(lambda: served.load == (0, 0))
    assert not any(batch.load)


def test_who_leaves_before_the_whole_text_ends_it(still: tuple[Any, Halting, Ask, str]) -> None:
    served, batch, _, url = still
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/generate", json={"prompt": "a", "samples": 4}, timeout=0.5)
    until(lambda: served.load == (0, 0))
    assert not any(batch.load)


def test_a_queue_that_is_full_refuses_with_429(still: tuple[Any, Halting, Ask, str]) -> None:
    served, batch, ask, _ = still
    assert ask(prompt="a", samples=5).status_code == 413
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, prompt="a", samples=4, seed=0, length=2)
        until(lambda: served.load == (0, 4))
        second = pool.submit(ask, prompt="a", samples=4, seed=0, length=2)
        until(lambda: served.load == (4, 4))
        for path in ("generate", "completions"):
            for stream in (False, True):
                full = ask(path, prompt="a", stream=stream)
                assert full.status_code == 429 and int(full.headers["retry-after"]) >= 1
        batch.allowed = 10
        assert [each.result().status_code for each in (first, second)] == [200, 200]


@pytest.mark.parametrize("path", ["generate", "completions"])
def test_a_text_whose_time_is_over_fails_whole_or_in_its_stream(web: httpx.Client, path: str) -> None:
    served, batch = halting()
    batch.allowed = 2
    with serving([served], seconds=1.0) as (port, _):
        ask = asking(port, web)
        ask("predict", inputs=["a"], settings={"length": 1, "seed": 0})
        whole = ask(path, prompt="a", seed=0)
        assert whole.status_code == 503 and "retry-after" in whole.headers and "more than 1 s" in whole.text
        streamed = ask(path, prompt="a", seed=0, stream=True)
        assert streamed.status_code == 200
        *parts, (name, last) = events(streamed.text)
        assert len(parts) == 2 and "more than 1 s" in str(last["error"]) and "[DONE]" not in streamed.text
        assert name == ("error" if path == "generate" else "")
        until(lambda: served.load == (0, 0))


def test_generated_tokens_are_counted(web: httpx.Client) -> None:
    from regard.server.batching.metrics import ModelMetrics

    served = book()
    with serving([served]) as (port, service):
        served.start()[1].observer = ModelMetrics(service.metrics, "book")
        ask = asking(port, web)
        tokens = sum(each["tokens"] for each in ask(prompt=["a", "b"], length=5).json()["texts"])
        tokens += ask("completions", prompt="a", max_tokens=4).json()["usage"]["completion_tokens"]
        tokens += events(ask(prompt="a", length=3, stream=True).text)[-1][1]["tokens"]
        told = web.get(f"http://127.0.0.1:{port}/metrics").text
    assert f'regard_tokens_total{{model="book"}} {tokens:.1f}' in told
    assert 'regard_step_rows_total{model="book"}' in told and 'route="/v1/generate"' in told


def test_a_client_that_reads_nothing_is_left_and_its_text_ends() -> None:
    ended: list[bool] = []

    async def grow() -> AsyncGenerator[str, None]:
        try:
            while True:
                yield "data: 1\n\n"
        finally:
            ended.append(True)

    async def answer() -> None:
        source = grow()
        await anext(source)
        await EventStream(grow(), source=source, seconds=0.02)({"type": "http"}, never, never)

    async def never(message: object = None) -> Any:
        await asyncio.Event().wait()

    asyncio.run(answer())
    assert ended == [True]


def test_text_in_events_keeps_to_its_line() -> None:
    assert event({"text": "a\n\ndata: é\r"}) == 'data: {"text": "a\\n\\ndata: é\\r"}\n\n'
    assert event("[DONE]", "end") == "event: end\ndata: [DONE]\n\n"


def test_a_score_that_nobody_waits_for_ends_at_the_next_window() -> None:
    """Texts of all clients wait for the model's thread: one prompt of many windows must not keep it."""
    generator = book()._load_predictor()
    tokens = generator.tokens("ab" * 50)
    assert len(tokens) > 3 * generator.context
    works: list[Callable[[Callable[[], bool]], Any]] = [
        partial(_scored, generator, tokens, 2), partial(_scores, generator, "ab" * 50, None),
        partial(_scores, generator, "ab" * 50, "a"),
    ]  # fmt: skip
    for work in works:
        assert len(work(lambda: False)) >= 100
        answers = iter([False, True])
        with pytest.raises(PredictionInterrupted):
            work(lambda answers=answers: next(answers))  # type: ignore[misc]
