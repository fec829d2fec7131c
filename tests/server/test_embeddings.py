"""OpenAI's own client and the embeddings of served models: equal to those of Python, and refusals of hostile input."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import regard as package
from regard.core.task import find_task
from regard.server.batching.served import ServedModel
from regard.server.keys import KeyStore, add_key
from regard.testing import TaskCase

from .conftest import serving
from .copying import capitals
from .predicting import book, mean


def loaded(name: str, predictor: Any) -> ServedModel:
    return ServedModel(name, task=name, load_predictor=lambda: predictor, threads=1)


@pytest.fixture(scope="module")
def predictors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    named: dict[str, Any] = {"book": book()._load_predictor()}
    for name in ("classification", "graphs", "masked"):
        case = TaskCase(find_task(name), name)
        tables = case.tables | {"train": case.tables["train"] | {"steps": 2, "shards": 1}}
        named[name] = package.load(package.train(tables, tmp_path_factory.mktemp("runs") / name))
    return named


@pytest.fixture(scope="module")
def url(predictors: dict[str, Any]) -> Iterator[str]:
    models = [book(), mean()[0], *(loaded(name, one) for name, one in predictors.items() if name != "book")]
    with serving(models, characters=300, texts=4) as (port, _):
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    openai = pytest.importorskip("openai", reason="the openai client is not installed")
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=30) as found:
        yield found


GRAPH = {"edges": [[0, 1], [1, 2]], "features": [[1], [0], [2]]}
INPUTS: dict[str, Any] = {
    "book": ["ab", "abcdefg" * 4],
    "classification": ["a fine film", "a dull film"],
    "masked": ["a text without a gap", "one with ___ gap"],
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("format", ["float", "base64", None])
def test_vectors_are_those_of_python(client: Any, predictors: dict[str, Any], name: str, format: str | None) -> None:
    more: dict[str, Any] = {} if format is None else {"encoding_format": format}  # the client then requests base64
    found = client.embeddings.create(model=name, input=INPUTS[name], **more)
    vectors = [one.embedding for one in found.data]
    if format == "base64":
        vectors = [np.frombuffer(base64.b64decode(one), "<f4") for one in vectors]
    np.testing.assert_allclose(vectors, predictors[name].embed(INPUTS[name]), rtol=1e-4, atol=1e-5)
    assert (found.object, found.model, found.usage.total_tokens) == ("list", name, 0)
    assert [(one.object, one.index) for one in found.data] == [("embedding", i) for i in range(len(vectors))]


def test_layer_and_pooling_are_those_of_python(client: Any, predictors: dict[str, Any]) -> None:
    model = predictors["book"]
    for options in ({"layer": 0}, {"pooling": "last"}, {"layer": -2, "pooling": "max"}):
        (found,) = client.embeddings.create(model="book", input="abc", extra_body=options).data
        np.testing.assert_allclose(found.embedding, model.embed("abc", **options), rtol=1e-4, atol=1e-5)
    width = len(model.embed("abc"))
    assert client.embeddings.create(model="book", input="abc", dimensions=width).data


def ask(url: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{url}/embeddings", json=fields, timeout=30)


def test_a_graph_is_a_json_object(url: str, predictors: dict[str, Any]) -> None:
    model = predictors["graphs"]
    line = json.dumps(GRAPH)
    expected = model.embed([model.read(line)])
    for input in (GRAPH, [GRAPH], line):
        (found,) = ask(url, model="graphs", input=input).json()["data"]
        np.testing.assert_allclose(found["embedding"], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"input": [1, 2, 3]}, 400, "token ids are not supported"),
        ({"input": [True]}, 400, "token ids are not supported"),
        ({"input": [[1, 2], [3]]}, 400, "input.0: expected a text"),
        ({"input": {"text": "a"}}, 400, "input.0: expected a text"),
        ({"input": None}, 400, "input: it should be a list"),
        ({"input": []}, 400, "contains no text"),
        ({"input": ["a"] * 5}, 400, "5 texts exceed the limit of 4"),
        ({"input": "a" * 301}, 400, "exceeds text limit (300)"),
        ({"input": ["a", "xyz"]}, 400, "no piece for"),
        ({"input": "a", "dimensions": 3}, 400, "dimensions must be"),
        ({"input": "a", "dimensions": 0}, 400, "dimensions: it should be at least 1"),
        ({"input": "a", "dimensions": "3"}, 400, "dimensions: it should be a whole number"),
        ({"input": "a", "encoding_format": "hex"}, 400, "encoding_format"),
        ({"input": "a", "pooling": "sum"}, 400, "pooling"),
        ({"input": "a", "layer": 99}, 400, "there is no layer 99"),
        ({"input": "a", "layer": 10**30}, 400, "layer"),
        ({"input": "a", "layer": True}, 400, "layer: it should be a whole number"),
        ({"input": "a", "prompt": "b"}, 400, "prompt: unknown field"),
        ({"input": "1 2", "model": "mean"}, 400, "this model has no embeddings"),
        ({"input": "a", "model": "nobody"}, 404, "does not exist"),
        ({"input": ['{"edges": [[0, 1]]}', "[" * 200], "model": "graphs"}, 400, "Invalid request"),
        ({"input": {"edges": [[0, 10**12]]}, "model": "graphs"}, 400, "Invalid request"),
        ({"input": "a", "model": "graphs", "layer": 1}, 400, "Invalid request"),
    ],
)
def test_a_wrong_request_has_an_error_of_openai(url: str, fields: dict[str, Any], status: int, message: str) -> None:
    answer = ask(url, **fields)
    assert (answer.status_code, message in answer.json()["error"]["message"]) == (status, True), answer.text


def test_an_input_costs_its_characters_and_a_refused_request_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key = add_key(file, "alice", characters=5, requests_per_minute=None)
    with serving([book(), capitals()[0]], keys=KeyStore(file)) as (port, service):
        url, header = f"http://127.0.0.1:{port}/v1/embeddings", {"authorization": f"Bearer {key}"}
        send: Callable[..., httpx.Response] = lambda **fields: httpx.post(url, json=fields, headers=header)  # noqa: E731
        assert httpx.post(url, json={"input": "ab"}).status_code == 401
        assert send(input="abc", layer=99).status_code == 400
        assert send(input="abc", dimensions=3).status_code == 400
        assert service.clients.counts.characters("key alice") == 0
        assert send(input=["ab", "c"]).status_code == 200
        assert service.clients.counts.characters("key alice") == 3
        assert send(input="abc").json()["error"]["code"] == "insufficient_quota"
