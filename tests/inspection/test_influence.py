"""Influence of a piece: the log probability of the prediction, less that of the same input with an unknown piece."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.core.observation import WHOLE, Influence, Prediction, Site, require_observation
from regard.core.task import find_task
from regard.errors import ConfigError
from regard.inspection.build_document import SearchOptions, inspect_text
from regard.inspection.inspector import Inspector
from regard.tasks.influence import HiddenPieces, influences
from regard.testing import TaskCase
from tests.laws import frames_task

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


def test_a_predictor_without_influences_is_refused() -> None:
    case = TaskCase(find_task("next-item"), "next-item")
    run, observation = case.undisturbed[0], case.predictor.inspect(["i0"])  # type: ignore[attr-defined]
    own = SimpleNamespace(inspect=lambda input: observation)
    inspector = Inspector(run, name="one", open=lambda which: own)
    assert inspector.inspect("i0").observation.influences == ()
    with pytest.raises(ConfigError, match="influence is not available for next-item models"):
        inspector.inspect("i0", influence=True)


def test_influences_by_hand() -> None:
    """The score of a sum is what its visible numbers are together: each number counts for itself."""
    numbers = (1.0, 2e-6, 4.0)  # the second is a rounding error

    def scores(hidden: list[int]) -> list[list[float]]:
        return [[sum(numbers), 2 * sum(numbers)]] + [
            [sum(numbers) - numbers[each], 2 * sum(numbers) - 2 * numbers[each]] for each in hidden
        ]

    predictions = (Prediction(WHOLE, "label", "sum", 7.0), Prediction(Site("after", (1,)), "token", "double", 14.0))
    pieces = [HiddenPieces(0, "left out", (0, None, 2, 1)), HiddenPieces(1, "left out", (1,))]
    values = [(each.prediction, each.surface, each.values) for each in influences(predictions, pieces, scores)]
    assert values == [(0, 0, (1, 0, 4, 0)), (0, 1, (0,)), (1, 0, (2, 0, 0, 0)), (1, 1, (0,))]


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
