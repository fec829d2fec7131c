"""Influence of a piece: the log probability of the prediction, less that of the same input with an unknown piece."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.core.observation import Influence, require_observation
from regard.core.task import find_task
from regard.errors import ConfigError
from regard.inspection.build_document import SearchOptions, inspect_text
from regard.inspection.inspector import Inspector
from regard.testing import TaskCase
from tests.laws import frames_task

from .language_models import generator
from .models import translator


def of(predictor: Any, input: Any) -> tuple[Any, tuple[Influence, ...]]:
    observation = predictor.inspect(input)
    influences = predictor.influences(input, observation)
    require_observation(observation._replace(influences=influences))
    return observation, influences


def test_a_word_of_a_class_is_replaced_by_one_that_nobody_knows() -> None:
    predictor = TaskCase(find_task("classification"), "classification").predictor
    text = "a fine film"
    observation, (influence,) = of(predictor, text)
    label, words = observation.predictions[0].label, text.split()
    whole = predictor([text])[0].probabilities[label]
    assert len(influence.values) == len(words) + 2 and influence.values[0] == influence.values[-1] == 0
    for place, value in enumerate(influence.values[1:-1]):
        changed = " ".join("zzz" if place == other else word for other, word in enumerate(words))
        assert value == pytest.approx(np.log(whole / predictor([changed])[0].probabilities[label]), abs=1e-6)
    assert any(abs(value) > 1e-4 for value in influence.values)


def test_each_tag_has_an_influence_of_each_token() -> None:
    case = TaskCase(find_task("tagging"), "tagging")
    case.tables["model"] |= {"affixes": 0, "wide": False}  # an unknown word has affixes, a hidden one none
    predictor = case.predictor
    tokens = ["the", "dog", "sleeps"]
    observation, influences = of(predictor, tokens)
    assert [influence.prediction for influence in influences] == [0, 1, 2]
    for hidden in range(3):
        changed = predictor.inspect(["zzz" if place == hidden else token for place, token in enumerate(tokens)])
        for before, after, influence in zip(observation.predictions, changed.predictions, influences, strict=True):
            (log_p,) = (each.log_probability for each in after.alternatives if each.label == before.label)
            assert influence.values[hidden] == pytest.approx(before.log_probability - log_p, abs=1e-6)


def test_a_frame_is_replaced_by_the_mean() -> None:
    predictor = TaskCase(frames_task.TASK, "classification").predictor
    frames = json.loads(frames_task.TASK.sample_lines[0])
    observation, (influence,) = of(predictor, frames)
    label = observation.predictions[0].label
    mean = predictor.codec.fields["frames"].scale[0].tolist()
    whole = predictor([frames])[0].probabilities[label]
    for place, value in enumerate(influence.values):
        changed = [mean if place == other else frame for other, frame in enumerate(frames)]
        assert value == pytest.approx(np.log(whole / predictor([changed])[0].probabilities[label]), abs=1e-5)


def test_a_source_piece_of_a_translation() -> None:
    model, text = translator(), "a b c d"
    found = inspect_text(model, text, SearchOptions(include=["influence"]))
    output, pieces = found.text, text.split()
    whole = model.score([text], [output])[0]
    assert len(found.observation.influences) == len(found.observation.predictions)
    for place in range(len(pieces)):
        changed = model.score([" ".join("zzz" if place == at else piece for at, piece in enumerate(pieces))], [output])
        for target, influence in enumerate(found.observation.influences):
            assert influence.values[-1] == 0 and len(influence.values) == len(pieces) + 1
            assert influence.values[place] == pytest.approx(whole[target] - changed[0][target], abs=1e-5)
    assert found.document["influences"][0]["hidden"] == "replaced by the unknown piece"


def test_the_inspector_of_a_translation_model_hides_pieces_too() -> None:
    config = SimpleNamespace(task=SimpleNamespace(kind="translation"), languages=(None, None))
    task = SimpleNamespace(serves=frozenset({"translate"}))
    run: Any = SimpleNamespace(config=config, task=task, is_baseline=lambda which=None: False)
    inspector = Inspector(run, name="one", open=lambda which: translator())
    inspector.__dict__.update(checkpoint="best", _aligner=None)
    assert inspector.inspect("a b c").observation.influences == ()
    for include in ((), ("beam",)):
        found = inspector.inspect("a b c", SearchOptions(include=include), influence=True)
        assert len(found.observation.influences) == len(found.observation.predictions)
        assert ("beam" in found.document) is bool(include)


def test_a_model_whose_pieces_cannot_be_hidden_says_so() -> None:
    case = TaskCase(find_task("next-item"), "next-item")
    run = case.undisturbed[0]
    inspector = Inspector(run, name="one", open=lambda which: case.predictor)
    assert inspector.inspect("i0 i1").observation.influences == ()
    for predictor in (case.predictor, generator()):
        inspector = Inspector(run, name="one", open=lambda which, found=predictor: found)  # type: ignore[misc]
        with pytest.raises(ConfigError, match="influence is not available"):
            inspector.inspect("i0 i1" if predictor is case.predictor else "abc", influence=True)


def test_the_command_has_it_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from regard import cli

    case = TaskCase(find_task("classification"), "classification")
    path = str(case.undisturbed[0].path)
    assert cli.run(["inspect", path, "a fine film", "--json", "--influence"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["influences"][0]["values"]) == len(document["surfaces"][0]["pieces"])
    assert cli.run(["inspect", path, "a fine film", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["influences"] == []
    assert cli.run(["inspect", path, "a fine film", "--influence"]) == 2
    assert "--influence requires" in capsys.readouterr().err
