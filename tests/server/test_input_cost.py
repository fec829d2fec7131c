"""What an input costs is stated by its predictor, and bounded before anything is computed."""

from __future__ import annotations

import json
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from regard.core.observation import WHOLE, Influence, Observation, Prediction
from regard.core.predictor_interface import input_cost
from regard.core.task import find_task
from regard.fields.items import Items
from regard.fields.text import Text
from regard.fields.tokens import Tokens
from regard.tasks.graphs.config import GraphsConfig
from regard.tasks.graphs.task import GRAPHS
from regard.tasks.influence import BATCH_ROWS
from regard.tasks.language_model.generator import Generator
from regard.tasks.masked.filler import Filler
from regard.tasks.translation.translator import Translator
from regard.testing import TaskCase

from .conftest import serving
from .predicting import Mean, mean

PREDICTORS = (
    "supervised_predictor:SupervisedPredictor",
    "language_model.generator:Generator",
    "links.linker:Linker", "masked.filler:Filler",
    "nodes.classifier:NodeClassifier", "translation.translator:Translator",
)  # fmt: skip


@pytest.mark.parametrize("place", PREDICTORS)
def test_each_predictor_states_the_cost_of_an_input(place: str) -> None:
    module, name = place.split(":")
    assert callable(getattr(import_module(f"regard.tasks.{module}"), name).cost)


def graph_cost(line: str, sees: str) -> int:
    model = {"sees": sees, "heads": 2, "output_heads": 1, "width": 8}
    data = {"train": [{"source": "a.jsonl"}]}
    (graphs,) = GRAPHS.fields(GraphsConfig.model_validate({"task": "graphs", "data": data, "model": model})).values()
    return graphs.cost(graphs.parse(line))


def test_few_characters_of_a_graph_may_cost_much() -> None:
    line = '{"edges": [], "nodes": 12000}'
    assert graph_cost(line, "all") == 2 * 12_000**2
    assert graph_cost(line, "edges") == 12_000 * 16
    assert graph_cost('{"edges": [[0, 1], [1, 2]]}', "edges") == 3 * 16


def test_a_sequence_costs_the_square_of_what_is_read() -> None:
    text, tokens = Text((1,), max_length=10), Tokens((1,), max_length=10)
    assert (text.cost(("abc",)), text.cost(("abc" * 1_000,))) == (25, 121)
    assert (tokens.cost(("a", "bc")), tokens.cost(("a",) * 98)) == (25, 1_200)
    short: Any = SimpleNamespace(
        context=4, _tokens=str.split, _encode=str.split,
        parts=lambda line: [part.split() for part in line.split(";")],
        settings=SimpleNamespace(blank="_"), tokenizer=SimpleNamespace(encode=str.split),
    )  # fmt: skip
    assert (Filler.cost(short, "_"), Filler.cost(short, "a b _ c")) == (9, 16)
    assert [Generator.cost(short, prompt) for prompt in ("a b", "a b c d e")] == [9, 16]
    items = Items(("items",), max_length=4)
    assert [items.cost(("a",) * number) for number in (2, 5)] == [9, 16]
    assert Translator.cost(short, "a b c; d e") == 9 + 4


def test_series_cost_the_squares_of_their_patches() -> None:
    case = TaskCase(find_task("forecasting"), "forecasting")  # two series of 8 time steps: patches of 4 every 2
    line = json.dumps({"values": [[1.0, 2.0]] * 8})
    assert input_cost(case.predictor, case.predictor.read(line)) == 2 * 3**2


class Costly(Mean):
    """A predictor whose inputs cost the square of their numbers."""

    def cost(self, row: list[float]) -> int:
        return len(row) ** 2


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/predict", "inputs"), ("/v1/inspect", "text")], ids=["predict", "inspect"]
)
def test_an_input_beyond_the_limit_is_refused_before_it_is_computed(path: str, field: str) -> None:
    served, _ = mean()
    costly = Costly()
    served._load_predictor = lambda: costly  # type: ignore[method-assign]
    with serving([served], numbers=100) as (port, service):

        def answer(line: str) -> httpx.Response:
            body = {field: [line] if field == "inputs" else line}
            return httpx.post(f"http://127.0.0.1:{port}{path}", json=body, timeout=20)

        assert answer("1 " * 10).status_code == 200
        done = list(costly.done)
        refused = answer("1 " * 11)
        assert (refused.status_code, costly.done) == (413, done)
        assert "needs 121 values per layer; the limit is 100" in refused.json()["error"]
        assert service.clients.counts.characters("address 127.0.0.1") == 20


class Influencing(Costly):
    """It owes its own value to each number."""

    def inspect(self, row: list[float]) -> Observation:
        return super().inspect(row)._replace(predictions=(Prediction(WHOLE, "number", "0"),))

    def influences(self, row: list[float], observation: Observation) -> tuple[Influence, ...]:
        return (Influence(0, 0, tuple(row), "left out"),)


def test_inputs_without_a_piece_that_are_read_together_cost_as_many() -> None:
    served, _ = mean()
    model = Influencing()
    served._load_predictor = lambda: model  # type: ignore[method-assign]
    served.inspector._inner._open = lambda which: model  # type: ignore[union-attr]
    with serving([served], numbers=100 * BATCH_ROWS) as (port, _):

        def ask(count: int, **fields: Any) -> httpx.Response:
            body = {"text": "1 " * count} | fields
            return httpx.post(f"http://127.0.0.1:{port}/v1/inspect", json=body, timeout=20)

        assert ask(10, include=["influence"]).json()["influences"][0]["values"] == [1] * 10
        assert ask(11, include=["influence"]).status_code == 413
        plain = ask(11)
        assert (plain.status_code, plain.json()["influences"]) == (200, [])
        refused = ask(10, include=["influence", "beam"])
        assert refused.status_code == 400 and "include: only for translation models" in refused.json()["error"]


def test_a_predictor_of_ones_own_need_not_state_it() -> None:
    assert input_cost(object(), np.zeros(3)) == 0
