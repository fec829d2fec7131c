"""Predictions of any task over HTTP: outputs, limits, whose turn it is, and refusals in plain words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from regard.server.keys import KeyStore, add_key

from .conftest import serving
from .copying import capitals
from .predicting import Mean, book, mean

Ask = Callable[..., httpx.Response]


def asking(port: int) -> Ask:
    def ask(path: str = "predict", *, timeout: float = 30, **fields: Any) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{port}/v1/{path}", json=fields, timeout=timeout)

    return ask


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """A server of a language model, a translation model and a task of one's own; outputs of at most 40 tokens."""
    models: list[Any] = [book(), capitals()[0], mean()[0]]
    with serving(models, length=40, characters=60, texts=3) as (port, _):
        yield asking(port)


def test_a_language_model_goes_on_from_prompts(ask: Ask) -> None:
    found = ask(inputs=["ab", "c"], settings={"greedy": True, "length": 5}).json()
    assert found["model"] == "book" and [each["prompt"] for each in found["outputs"]] == ["ab", "c"]
    assert all(each["text"].startswith(each["prompt"]) for each in found["outputs"])
    drawn = [ask(inputs=["ab"], settings={"seed": seed, "temperature": 2.0}).json() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]["outputs"][0]["text"]) <= 2 + 30  # the run's own length
    assert ask(inputs=["abcdefg" * 8], settings={"length": 2}).status_code == 200  # longer than the context


def test_any_other_task_is_served_by_what_its_predictor_reads_and_writes(ask: Ask) -> None:
    assert ask(inputs=["1 2 3", "4"], model="mean").json()["outputs"] == [{"mean": 2.0}, {"mean": 4.0}]
    assert ask(inputs=[[1, 2, 3], "4"], model="mean").json()["outputs"] == [{"mean": 2.0}, {"mean": 4.0}]
    assert ask(inputs=["a dog", ""], model="capitals", settings={"beam": 2}).json()["outputs"] == [
        {"text": "A DOG"}, {"text": ""}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"inputs": ["ab"], "settings": {"length": 41}}, 400, "41 tokens exceed the limit of 40 (--length-limit)"),
        ({"inputs": ["a" * 61]}, 400, "exceeds text limit (60)"),
        ({"inputs": ["a"] * 4}, 400, "4 texts exceed the limit of 3"),
        ({"inputs": []}, 400, "contains no text"),
        ({"inputs": "ab"}, 422, "inputs: it should be a list"),
        ({"inputs": [1]}, 422, "inputs.0: it should be a text"),
        ({"inputs": ["ab", ["ab"]]}, 422, "inputs.1: expected a text"),  # a prompt is no JSON
        ({"inputs": [{"text": "ab"}], "model": "capitals"}, 422, "inputs.0: expected a text"),
        ({"inputs": ["ab"], "settings": [1]}, 422, "settings: it should be"),
        ({"inputs": ["ab"], "settings": {"lenght": 3}}, 422, "settings.lenght: unknown setting; did you mean"),
        ({"inputs": ["ab"], "settings": {"x" * 40: 3}}, 422, "unknown setting"),
        ({"inputs": ["ab"], "settings": {"length": 0}}, 422, "settings.length: it should be at least 1"),
        ({"inputs": ["ab"], "settings": {"length": "9"}}, 422, "settings.length: it should be a whole number"),
        ({"inputs": ["ab"], "settings": {"length": True}}, 422, "settings.length: it should be a whole number"),
        ({"inputs": ["ab"], "settings": {"length": 10**30}}, 400, "exceed the limit"),
        ({"inputs": ["ab"], "settings": {"temperature": 1e-300}}, 422, "settings.temperature: it should be at least"),
        ({"inputs": ["ab"], "settings": {"seed": 2**64}}, 422, "settings.seed"),
        ({"inputs": ["ab"], "settings": {"top_p": 0}}, 422, "settings.top_p"),
        ({"inputs": ["ab"], "settings": {"top_k": {}}}, 422, "settings.top_k"),
        ({"inputs": ["ab"], "settings": {"min_p": 2}}, 422, "settings.min_p"),
        ({"inputs": ["ab"], "settings": {"stop": [""]}}, 422, "settings.stop"),
        ({"inputs": ["ab"], "settings": {"stop": "a"}}, 422, "settings.stop: it should be a list"),
        ({"inputs": ["ab"], "settings": {"presence_penalty": 3}}, 422, "settings.presence_penalty"),
        ({"inputs": ["ab"], "settings": {"no_repeat_ngram": 10**9}}, 422, "settings.no_repeat_ngram"),
        ({"inputs": ["xyz"]}, 400, "no piece for 'x', 'y', 'z'"),
        ({"inputs": ["a"], "settings": {"nbest": 2}}, 422, "settings.nbest: unknown setting"),
        ({"inputs": ["a"], "settings": {"beam": 11}}, 400, "exceeds the limit of 10"),
        ({"inputs": ["a"], "model": "capitals", "settings": {"length": 2}}, 422, "settings.length: unknown setting"),
        ({"inputs": ["a"], "model": "capitals", "settings": {"beam": 11}}, 400, "exceeds the limit of 10"),
        ({"inputs": ["1"], "model": "mean", "settings": {"length": 2}}, 422, "settings.length: this model has"),
        ({"inputs": ["1 x"], "model": "mean"}, 400, "cannot parse the input; could not convert string"),
        ({"inputs": [""], "model": "mean"}, 500, "The model failed."),
        ({"inputs": ["13"], "model": "mean"}, 500, "The model failed."),
        ({"inputs": ["a"], "model": "nobody"}, 404, "The model 'nobody' does not exist."),
        ({"inputs": ["a"], "extra": 1}, 422, "extra: unknown field"),
    ],
)  # fmt: skip
def test_what_cannot_be_predicted_is_told(ask: Ask, fields: dict[str, Any], status: int, told: str) -> None:
    answer = ask(**fields)
    assert (answer.status_code, told in answer.json()["error"]) == (status, True), answer.text
    assert "secret" not in answer.text


def test_settings_that_are_null_are_the_runs_own(ask: Ask) -> None:
    found = ask(inputs=["a"], settings={"length": None, "top_k": None, "seed": 1}).json()
    assert found == ask(inputs=["a"], settings={"seed": 1}).json()


def test_the_runs_own_length_is_cut_to_the_limit_of_the_server() -> None:
    with serving([book()], length=4) as (port, _):
        ask = asking(port)
        assert len(ask(inputs=["a"], settings={"seed": 5}).json()["outputs"][0]["text"]) <= 5


def test_half_of_a_surrogate_pair_is_no_text(ask: Ask) -> None:
    url = ask(inputs=["a"]).url
    answer = httpx.post(url, content=b'{"inputs": ["\\ud800"]}', headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "not Unicode" in answer.json()["error"]


# Which model does what


def test_endpoints_of_translation_refuse_a_language_model_and_name_the_one_to_ask(ask: Ask) -> None:
    answer = ask("translate", text="a", model="book")
    assert answer.status_code == 400, answer.text
    assert (
        answer.json()["error"] == "The model book cannot translate: its task is language-model. Use POST /v1/predict."
    )
    answer = ask("score", sources=["a"], targets=["a"], model="mean")
    assert (
        answer.status_code == 400 and "The model mean cannot score text: its task is own:TASK" in answer.json()["error"]
    )
    assert ask("translate", text="a dog").json()["translations"][0]["model"] == "capitals"
    assert ask("score", sources=["a"], targets=["a"]).status_code == 200


def test_a_server_without_a_translation_model_says_so_in_every_dialect() -> None:
    with serving([book()]) as (port, _):
        url, told = (
            f"http://127.0.0.1:{port}",
            "This server has no translation model, only book (language-model). Use POST /v1/predict.",
        )
        answer = httpx.post(f"{url}/v1/translate", json={"text": "a"})
        assert (answer.status_code, answer.json()) == (400, {"error": told})
        answer = httpx.post(f"{url}/translate", json={"q": "a", "source": "en", "target": "de"})
        assert (answer.status_code, answer.json()) == (400, {"error": told})
        answer = httpx.post(f"{url}/v2/translate", json={"text": ["a"], "target_lang": "DE"})
        assert (answer.status_code, answer.json()) == (400, {"message": told})
        answer = httpx.post(f"{url}/v1/score", json={"sources": ["a"], "targets": ["b"]})
        assert answer.status_code == 200 and len(answer.json()["scores"][0]["pieces"]) == 1
        assert httpx.post(f"{url}/detect", json={"q": "a"}).status_code == 400
        assert httpx.get(f"{url}/languages").json() == [] == httpx.get(f"{url}/v2/languages").json()
        assert httpx.get(f"{url}/frontend/settings").status_code == 200
        assert httpx.get(f"{url}/v2/glossary-language-pairs").json() == {"supported_languages": []}
        (listed,) = httpx.get(f"{url}/v1/models").json()["data"]
        assert (listed["name"], listed["task"], listed["source"]) == ("book", "language-model", None)
        assert httpx.get(f"{url}/metrics").status_code == 200 == httpx.get(f"{url}/readyz").status_code


def test_a_model_tells_what_it_takes_and_gives(ask: Ask) -> None:
    base = str(ask(inputs=["a"]).url).removesuffix("/predict")
    found = httpx.get(f"{base}/models/book").json()
    assert found["task"] == "language-model" and found["inspects"]
    assert found["limits"].items() >= {"characters": 60, "length": 40}.items()
    assert (found["takes"], found["gives"]) == ("a prompt", "text that continues it")
    assert found["settings"]["values"]["length"] == 30 and "top_k" in found["settings"]["schema"]["properties"]
    own = httpx.get(f"{base}/models/mean").json()
    assert own["settings"] is None and own["takes"] == "numbers"


# Looking inside


def test_any_task_with_an_observation_is_looked_into(ask: Ask) -> None:
    found = ask("inspect", text="abca").json()
    assert (found["format"], found["version"]) == ("regard-inspection", 2)
    assert found["model"] == {"name": "book", "task": "language-model", "checkpoint": "best"}
    assert found["surfaces"][0]["pieces"] == list("abca") and len(found["predictions"][-1]["alternatives"]) == 9
    assert found["attention"]["decoder.0.self"]["key"]["labels"] == ["<s>", *"abca"]
    own = ask("inspect", text="1 2", model="mean").json()
    assert (
        own["attention"]["attention"]["key"] == {"name": "number", "labels": ["1.0", "2.0"]}
        and own["predictions"] == []
    )


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"text": ""}, 400, "no text to inspect"),
        ({"text": "a" * 13}, 400, "too long to inspect: 13 tokens"),
        ({"text": "a" * 61}, 400, "exceeds text limit"),
        ({"text": "xa"}, 400, "no piece for 'x'"),
        ({"text": "a", "beam": 2, "force": [4]}, 400, "beam, force: only for translation models"),
        ({"text": ["a"]}, 422, "text: it should be a text"),
        ({"text": "1 x", "model": "mean"}, 400, "cannot parse"),
    ],
)
def test_what_cannot_be_looked_into_is_told(ask: Ask, fields: dict[str, Any], status: int, told: str) -> None:
    answer = ask("inspect", **fields)
    assert (answer.status_code, told in answer.json()["error"]) == (status, True), answer.text


def test_a_predictor_that_offers_nothing_is_refused_in_plain_words() -> None:
    served, _ = mean()
    served._load_predictor = lambda: len
    served.inspector._inner._open = lambda which: len  # type: ignore[union-attr]
    with serving([served]) as (port, _):
        ask = asking(port)
        assert "has no methods read and write" in ask(inputs=["1"]).json()["error"]
        answer = ask("inspect", text="1")
        assert (
            answer.status_code == 400
            and "cannot be inspected; its predictor has no method inspect" in answer.json()["error"]
        )


def test_a_predictor_without_an_interface_is_called_with_its_inputs_alone() -> None:
    class Sums:
        def read(self, line: str) -> list[int]:
            return [int(word) for word in line.split()]

        def write(self, output: int, *, json: bool) -> str:
            return str(output)

        def __call__(self, rows: list[list[int]]) -> list[int]:
            return [sum(row) for row in rows]

    served, _ = mean("sums")
    served._load_predictor = Sums
    with serving([served]) as (port, _):
        ask = asking(port)
        assert ask(inputs=["1 2", "3 4"]).json() == {"outputs": [3, 7], "model": "sums"}
        assert ask(inputs=["1"], settings={"length": 2}).status_code == 422


# Time, turns and keys


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def slow() -> Iterator[tuple[Any, Mean, Ask]]:
    served, found = mean(waiting=4)
    found.gate.clear()
    with serving([served], seconds=20) as (port, _):
        yield served, found, asking(port)
        found.gate.set()


def test_a_queue_that_is_full_refuses_and_says_when_to_come_back(slow: tuple[Any, Mean, Ask]) -> None:
    served, found, ask = slow
    assert ask(inputs=["1"] * 5).status_code == 413
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, inputs=["0"])
        until(lambda: served.load == (0, 1))
        second = pool.submit(ask, inputs=["1", "2", "3", "4"])
        until(lambda: served.load == (4, 1))
        full = ask(inputs=["5"])
        assert full.status_code == 429 and int(full.headers["retry-after"]) >= 1
        found.gate.set()
        assert [each.result().status_code for each in (first, second)] == [200, 200]
    assert found.done == ["0.0", "1.0", "2.0", "3.0", "4.0"] and len(found.threads) == 1


def test_what_nobody_waits_for_takes_no_place_in_the_queue(slow: tuple[Any, Mean, Ask]) -> None:
    served, found, ask = slow
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, inputs=["0"])
        until(lambda: served.load == (0, 1))
        with pytest.raises(httpx.ReadTimeout):
            ask(inputs=["1", "2", "3", "4"], timeout=0.3)
        until(lambda: all(job.future.cancelled() for job in served.start()[1]._queue))
        second = pool.submit(ask, inputs=["5"])
        until(lambda: served.load == (1, 1) or second.done())
        found.gate.set()
        assert first.result().status_code == 200
    assert second.result().status_code == 200 and found.done == ["0.0", "5.0"]


def test_a_client_that_hangs_up_stops_its_prediction(slow: tuple[Any, Mean, Ask]) -> None:
    served, found, ask = slow
    with pytest.raises(httpx.ReadTimeout):
        ask(inputs=["1", "2"], timeout=0.3)
    until(lambda: served.load == (0, 0))
    assert found.stopped == 1 and found.done == []


def test_generation_ends_with_the_time_of_its_request() -> None:
    served, found = mean()
    found.gate.clear()
    with serving([served], seconds=0.3) as (port, _):
        answer = asking(port)(inputs=["1"])
        assert answer.status_code == 503 and "more than" in answer.json()["error"] and "retry-after" in answer.headers
        until(lambda: served.load == (0, 0))
    assert found.stopped == 1


def test_a_language_model_stops_between_two_tokens() -> None:
    from regard.core.predictor_interface import PredictionInterrupted, interface_of

    interface = interface_of(book()._load_predictor())
    asked: list[bool] = []
    assert interface.settings is not None
    seeded = interface.settings.model_copy(update={"seed": 0})  # a text of more than two tokens
    with pytest.raises(PredictionInterrupted):
        interface.predict("a", seeded, lambda: (asked.append(True), len(asked) >= 3)[1])
    assert len(asked) == 3


def test_keys_and_quotas_hold_for_predictions(tmp_path: Any) -> None:
    key = add_key(tmp_path / "keys.json", "one", requests_per_minute=None, characters=3)
    with serving([book()], keys=KeyStore(tmp_path / "keys.json")) as (port, _):
        known = {"authorization": f"Bearer {key}"}
        url = f"http://127.0.0.1:{port}/v1/predict"
        asked = {"inputs": ["ab"], "settings": {"length": 1}}
        headers: list[dict[str, str]] = [{}, {"authorization": "Bearer x"}, known, known]
        told = [httpx.post(url, json=asked, headers=each) for each in headers]
    assert [answer.status_code for answer in told] == [401, 403, 200, 429] and "quota" in told[3].text
