"""Settings of a request for links and next items: as many answers as are asked for, the run's own otherwise."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import regard
from regard.config.search_settings import GenerationSettings, SearchSettings
from regard.config.setting import settings_of
from regard.server.api.api_v1 import ScoredPair, ScoreRequest, TranslatedText, TranslateRequest
from regard.server.api.generation_api import GenerateBody, GenerateResponse
from regard.server.api.inspection_api import InspectRequest
from regard.server.api.prediction_api import PredictRequest, PredictResponse
from regard.server.batching.jobs import Limits
from regard.server.batching.served import ServedModel
from regard.tasks.links.task import TASK as LINKS
from regard.tasks.next_item.task import TASK as NEXT_ITEM

from .conftest import serving

Asked = dict[str, Any]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve.md"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Runs of one update each, open."""
    found: dict[str, Any] = {}
    for task in (LINKS, NEXT_ITEM):
        folder = tmp_path_factory.mktemp(task.name)
        tables = dict(task.sample(folder))
        train = tables.pop("train", {}) | {"steps": 1, "threads": 1}
        found[task.name] = regard.load(regard.train({"task": task.name, **tables, "train": train}, folder / "run"))
    return found


@pytest.fixture(scope="module")
def url(models: dict[str, Any]) -> Iterator[str]:
    def opener(model: Any) -> Any:
        return lambda: model

    served: list[Any] = [
        ServedModel(task, task=task, load_predictor=opener(model), limits=Limits(waiting=9))
        for task, model in models.items()
    ]
    with serving(served) as (port, _):
        yield f"http://127.0.0.1:{port}/v1"


def ask(url: str, model: str, line: str, settings: Asked) -> httpx.Response:
    return httpx.post(f"{url}/predict", json={"inputs": [line], "model": model, "settings": settings}, timeout=30)


def test_as_many_links_as_are_asked_for(url: str, models: dict[str, Any]) -> None:
    for settings, number in (({"top_k": 3}, 3), ({}, 9), ({"top_k": 1000}, 9)):
        (found,) = ask(url, "links", "n2", settings).json()["outputs"]
        best = models["links"](["n2"], top_k=number)[0].links
        assert [each["target"] for each in found["links"]] == [each.target for each in best]
        assert len(best) == number
    (pair,) = ask(url, "links", "n0 n6", {"top_k": 3}).json()["outputs"]
    assert pair["probability"] == pytest.approx(models["links"]([("n0", "n6")])[0].probability, abs=1e-6)


def test_as_many_items_as_are_asked_for_and_new_ones_alone(url: str, models: dict[str, Any]) -> None:
    asked: list[Asked] = [{"top_k": 2}, {}, {"new": True}, {"top_k": 3, "new": True}]
    for settings in asked:
        (found,) = ask(url, "next-item", "i0 i1", settings).json()["outputs"]
        assert found["items"] == list(models["next-item"](["i0 i1"], **settings)[0].items)
    assert [len(models["next-item"](["i0 i1"], **each)[0].items) for each in asked] == [2, 6, 4, 3]


@pytest.mark.parametrize(
    ("model", "settings", "told"),
    [
        ("links", {"top_k": 0}, "settings.top_k: it should be at least 1"),
        ("links", {"top_k": 1001}, "settings.top_k: it should be at most 1000"),
        ("links", {"top_k": "3"}, "settings.top_k: it should be a whole number"),
        ("links", {"topk": 3}, "settings.topk: unknown setting; did you mean"),
        ("next-item", {"top_k": 0}, "settings.top_k: it should be at least 1"),
        ("next-item", {"top_k": True}, "settings.top_k: it should be a whole number"),
        ("next-item", {"new": 1}, "settings.new: it should be true or false"),
    ],
)
def test_settings_out_of_range_are_refused(url: str, model: str, settings: Asked, told: str) -> None:
    answer = ask(url, model, "n2" if model == "links" else "i0", settings)
    assert answer.status_code == 422 and told in answer.json()["error"]


def test_settings_that_a_request_leaves_out_are_told(models: dict[str, Any]) -> None:
    values = {task: model.interface.settings.model_dump() for task, model in models.items()}
    assert values == {"links": {"top_k": 10}, "next-item": {"top_k": 10, "new": False}}


def documented(endpoint: str) -> tuple[set[str], set[str]]:
    """Fields of an endpoint's requests, and of its answers, by the table of the docs."""
    rows = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    linked = {"#search": SearchSettings, "#generate-task-language-model": GenerationSettings}
    first = next(number for number, row in enumerate(rows) if row[1].strip() == f"POST `{endpoint}`")
    more = itertools.takewhile(lambda row: not row[1].strip(), rows[first + 1 :])
    fields, answers = zip(*((row[2], row[3]) for row in (rows[first], *more)), strict=True)
    told = [re.sub(r"\([^)]*\)|: `.*", "", each) for each in fields]  # without what stands for a value
    declared = (settings_of(kind) for anchor, kind in linked.items() if f"config.md{anchor})" in " ".join(fields))
    settings = {name for each in declared for name, own in each.items() if not own.config_only}
    return settings | set(re.findall(r"`(\w+)`", " ".join(told))), set(re.findall(r"`(\w+)`", " ".join(answers)))


@pytest.mark.parametrize(
    ("endpoint", "request_kind", "answer"),
    [
        ("/v1/translate", TranslateRequest, TranslatedText),
        ("/v1/predict", PredictRequest, PredictResponse),
        ("/v1/generate", GenerateBody, GenerateResponse),
        ("/v1/score", ScoreRequest, ScoredPair),
        ("/v1/inspect", InspectRequest, None),
    ],
)
def test_the_docs_name_every_field_and_no_other(endpoint: str, request_kind: Any, answer: Any) -> None:
    fields, answers = documented(endpoint)
    assert fields == set(request_kind.model_fields)
    assert answer is None or set(answer.model_fields) <= answers
