"""A setting is declared in one place; options, requests, config keys, docs and docstrings follow from it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import typer
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

from regard.answers.label_set import SeveralLabels
from regard.answers.next_item import NextItem
from regard.answers.one_class import OneClass
from regard.commands import classify, fill, generate, links, recommend, translate
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import (
    AbstentionSettings,
    GapSettings,
    LinkedNodeSettings,
    RankingSettings,
    ThresholdSettings,
)
from regard.config.search_settings import ChoiceSettings, GenerationSettings, SearchSettings
from regard.config.setting import Bounds, document_settings, setting, settings_of
from regard.config.setting_models import config_model, request_model
from regard.config.settings import SearchConfig
from regard.server.api.api_v1 import TranslateRequest
from regard.server.api.generation_api import GenerateBody
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.links.linker import LinkSettings
from regard.tasks.masked.config import FillConfig
from regard.tasks.masked.filler import FillRequest
from regard.tasks.next_item.config import RecommendConfig
from tests.config_reference import setting_rows

DECLARED = (
    ChoiceSettings, SearchSettings, GenerationSettings, AbstentionSettings, ThresholdSettings, RankingSettings,
    GapSettings, LinkedNodeSettings,
)  # fmt: skip
CONFIGS = (
    (SearchSettings, SearchConfig), (GenerationSettings, GenerateConfig), (RankingSettings, RecommendConfig),
    (GapSettings, FillConfig),
)  # fmt: skip
GROUPS = ("Input", "Model", "Search", "Sampling", "Output", "Bulk", "Advanced")


class ToySettings(SearchSettings):
    """Settings with one more, and another default."""

    beam: int = setting(7)
    patience: float | None = setting(
        None, bounds=Bounds(0, 9), request=Bounds(0, 4), unit="steps", example=2.5, metavar="S",
        help="Wait this number of steps",
    )  # fmt: skip
    words: tuple[str, ...] = setting((), bounds=Bounds(characters=3), request=Bounds(texts=2), help="Avoid this word")
    hidden: int = setting(3, config_only=True, help="Keep this number of rows")


def toy_command(seen: list[dict[str, Any]]) -> typer.Typer:
    @takes_settings("requested", ToySettings, without=("nbest",))
    def toy(*, requested: dict[str, Any]) -> None:
        seen.append(requested)

    app = typer.Typer()
    app.command()(toy)
    return app


def test_a_declared_setting_is_an_option_in_the_help_of_its_group() -> None:
    seen: list[dict[str, Any]] = []
    app, runner = toy_command(seen), CliRunner()
    shown = runner.invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
    assert shown.index(" Search ") < shown.index("--patience") < shown.index(" Sampling ") < shown.index("--top-k")
    assert "Wait this number of steps." in shown and "0<=x<=9" in shown
    assert "--nbest" not in shown and "--hidden" not in shown
    assert (
        runner.invoke(app, ["--patience", "2.5", "--words", "a", "--words", "b", "--no-early-stopping"]).exit_code == 0
    )
    given = {name: value for name, value in seen[0].items() if value is not None}
    assert given == {"patience": 2.5, "words": ["a", "b"], "early_stopping": False}
    assert runner.invoke(app, ["--patience", "9.5"]).exit_code == 2


def test_a_declared_setting_is_a_field_of_requests() -> None:
    schema = request_model(ToySettings).model_json_schema()
    field = schema["properties"]["patience"]
    assert field["description"] == "Wait this number of steps." and field["examples"] == [2.5]
    assert field["unit"] == "steps" and field["group"] == "Search"
    assert field["anyOf"] == [{"type": "number", "minimum": 0, "maximum": 4}, {"type": "null"}]
    assert "patience" not in schema.get("required", ()) and "hidden" not in schema["properties"]
    assert set(request_model(ToySettings, only=("beam", "patience")).model_fields) == {"beam", "patience"}


@pytest.mark.parametrize("values", [{"patience": 4.5}, {"patience": "1"}, {"words": ["a", "b", "c"]}, {"words": [""]}])
def test_a_request_is_held_to_its_own_bounds(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request_model(ToySettings).model_validate(values)


def test_a_declared_setting_is_a_key_of_a_config() -> None:
    model = config_model(ToySettings)
    assert list(model.model_fields) == ["beam", "patience", "words", "hidden"], "the other keys are of the class above"
    assert model.model_validate({"words": "abc"}).model_dump() == {
        "beam": 7, "patience": None, "words": ("abc",), "hidden": 3
    }  # fmt: skip
    for wrong in ({"patience": 9.5}, {"words": "abcd"}, {"beam": 0}):
        with pytest.raises(ValidationError):
            model.model_validate(wrong)


def test_a_declared_setting_is_a_row_of_the_docs_and_of_a_docstring() -> None:
    assert setting_rows(config_model(ToySettings))["patience"] == [
        "`patience`", "number ≥ 0, ≤ 9 (steps)", "unset", "Wait this number of steps."
    ]  # fmt: skip

    @document_settings(ToySettings)
    def call() -> None:
        """Search."""

    assert "    patience: Wait this number of steps." in (inspect.getdoc(call) or "")


@pytest.mark.parametrize("settings", DECLARED)
def test_every_example_is_valid_and_every_help_is_one_sentence(settings: type) -> None:
    model = config_model(settings)
    for name, each in settings_of(settings).items():
        if each.example is not None and name in model.model_fields:
            model.model_validate({name: each.example})
            if not each.config_only:
                request_model(settings).model_validate({name: each.example})
        assert each.help[0].isupper() and not each.help.endswith(".") and each.group in GROUPS


@pytest.mark.parametrize(("settings", "config"), CONFIGS)
def test_a_config_has_every_declared_setting_and_no_other(settings: type, config: type[BaseModel]) -> None:
    declared = settings_of(settings)
    assert list(config.model_fields) == list(declared)
    assert {name: field.default for name, field in config.model_fields.items()} == {
        name: each.default for name, each in declared.items()
    }


@pytest.mark.parametrize(
    ("settings", "command", "request_kind"),
    [
        (SearchSettings, translate.translate, TranslateRequest),
        (GenerationSettings, generate.generate, GenerateBody),
        (RankingSettings, recommend.recommend, NextItem.settings),
        (GapSettings, fill.fill, FillRequest),
        (LinkedNodeSettings, links.links, LinkSettings),
        (AbstentionSettings, classify.classify, OneClass.settings),
        (ThresholdSettings, classify.classify, SeveralLabels.settings),
    ],
    ids=lambda value: value.__name__,
)
def test_the_verb_and_the_requests_of_a_task_have_every_setting(
    settings: type, command: Any, request_kind: type[BaseModel]
) -> None:
    names = {name for name, each in settings_of(settings).items() if not each.config_only}
    assert names <= set(inspect.signature(command).parameters)
    assert names <= set(request_kind.model_fields)
