"""Ensembles: the mean of the probabilities of several models, at each step of every search."""

from __future__ import annotations

import json
import math
import pickle  # noqa: TID251 (a copy within the same program)
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import regard
from regard.cli import build_app
from regard.errors import ConfigError

TEXTS = ["a b c", "c a", "b b a c", ""]


def trained(folder: Path, name: str, letters: str, seed: int) -> Path:
    """Return a run on pairs of these letters."""
    draws = random.Random(3)
    lines = [" ".join(draws.choices(letters, k=draws.randint(2, 5))) for _ in range(60)]
    model = {"layers": 1, "width": 16, "feed_forward": 32, "heads": 2, "dropout": 0.1}
    train = {"steps": 40, "learning_rate": 0.02, "threads": 1, "workers": 1, "batch_tokens": 100}
    return regard.train(
        lines, [line.upper() for line in lines], task="translation", folder=folder / name, seed=seed, model=model,
        train=train,
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs on the same pairs, with other weights."""
    folder = tmp_path_factory.mktemp("ensemble")
    return [trained(folder, str(seed), "abcd", seed) for seed in (1, 2)]


@pytest.mark.parametrize("engine", ["reference", "float32"])
@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 3, "nbest": 2}, {"temperature": 1.0, "seed": 1}])
def test_a_model_with_itself_has_its_own_outputs(runs: list[Path], engine: str, settings: dict[str, Any]) -> None:
    alone = regard.load(runs[0], engine=engine)
    both = regard.load(runs[0], engine=engine, ensemble=[runs[0]])
    for one, other in zip(alone(TEXTS, **settings), both(TEXTS, **settings), strict=True):
        assert [candidate.text for candidate in other.candidates] == [candidate.text for candidate in one.candidates]
        assert other.score == pytest.approx(one.score, abs=1e-5)


def test_probabilities_are_averaged_at_each_step(runs: list[Path]) -> None:
    models = [regard.load(run, regard.Translator) for run in runs]
    for output in regard.load(runs[0], ensemble=[runs[1]])(TEXTS[:3], beam=1):
        (scores, others) = (model.score([output.source], [output.text])[0] for model in models)
        expected = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(scores, others, strict=True)]
        found = output.candidates[0].piece_log_probabilities
        np.testing.assert_allclose(found, expected[: len(found)], atol=1e-4)
        assert not np.allclose(found, scores[: len(found)], atol=1e-4), "the second model has no effect"


def test_an_output_does_not_depend_on_the_other_inputs(runs: list[Path]) -> None:
    model = regard.load(runs[0], ensemble=[runs[1]])
    together = [output.text for output in model(TEXTS, beam=3)]
    assert together == [model(text, beam=3).text for text in TEXTS]
    assert [output.text for output in pickle.loads(pickle.dumps(model))(TEXTS, beam=3)] == together  # noqa: S301


def test_the_command_and_the_evaluation_use_the_ensemble(runs: list[Path], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    model = regard.load(runs[0], ensemble=[runs[1]])
    expected = [output.text for output in model(TEXTS, beam=2)]
    ensemble = ["--ensemble", str(runs[1]), "--beam", "2"]
    arguments = ["translate", str(runs[0]), str(tmp_path / "in.txt"), *ensemble]
    assert CliRunner().invoke(build_app(), arguments).stdout.splitlines() == expected
    bulk = CliRunner().invoke(build_app(), [*arguments, "-o", f"{tmp_path}/out/", "--workers", "1"])
    assert bulk.exit_code == 0 and (tmp_path / "out" / "in.txt").read_text().splitlines() == expected
    assert [one.text for one in regard.translate(runs[0], TEXTS, ensemble=[runs[1]], beam=2)] == expected
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS[:3]))
    (tmp_path / "out.txt").write_text("".join(f"{text or 'a'}\n" for text in expected[:3]))
    files = [str(tmp_path / "in.txt"), str(tmp_path / "out.txt")]
    scored = CliRunner().invoke(
        build_app(), ["evaluate", str(runs[0]), *files, *ensemble, "--metric", "exact", "--json"]
    )
    assert scored.exit_code == 0, scored.output
    figures = regard.evaluate(runs[0], *files, ensemble=[runs[1]], beam=2, metrics=["exact"]).figures
    assert figures["exact"] == pytest.approx(json.loads(scored.stdout)["scores"]["exact"]["value"], abs=1e-6)


def test_what_cannot_be_an_ensemble_is_refused(runs: list[Path], tmp_path: Path) -> None:
    other = trained(tmp_path, "other", "xy", 1)
    with pytest.raises(ConfigError, match="model 2 has another source vocabulary"):
        regard.load(runs[0], ensemble=[other])
    labeled = regard.train(["a fine film", "a dull film"] * 10, ["good", "bad"] * 10, folder=tmp_path / "labels",
                           task="classification", train={"steps": 1, "threads": 1, "workers": 1})  # fmt: skip
    with pytest.raises(ConfigError, match="cannot be an ensemble"):
        regard.load(labeled, ensemble=[labeled])
    with pytest.raises(ConfigError, match="different tasks"):
        regard.load(runs[0], ensemble=[labeled])


@pytest.fixture(scope="module")
def generators(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two language models of the same text, with other weights and contexts."""
    folder = tmp_path_factory.mktemp("generators")
    return [written(folder / str(seed), "abcd", seed, context) for seed, context in ((1, 12), (2, 8))]


def written(folder: Path, letters: str, seed: int, context: int) -> Path:
    """Return a language model of random words of these letters."""
    draws = random.Random(3)
    lines = ["".join(draws.choices(letters + " ", k=30)) for _ in range(30)]
    return regard.train(
        lines, task="language-model", folder=folder, seed=seed,
        data={"context": context, "tokenizer": {"kind": "character"}},
        model={"layers": 1, "width": 16, "feed_forward": 32, "heads": 2, "dropout": 0.0},
        train={"steps": 30, "learning_rate": 0.02, "threads": 1, "workers": 1, "batch_tokens": 64},
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["reference", "float32"])
@pytest.mark.parametrize("settings", [{"beam": 3}, {"seed": 1}, {"greedy": True}])
def test_a_generator_with_itself_has_its_own_texts(
    generators: list[Path], engine: str, settings: dict[str, Any]
) -> None:
    alone = regard.load(generators[0], engine=engine)
    both = regard.load(generators[0], engine=engine, ensemble=[generators[0]])
    texts = [one.text for one in alone(["ab", "c a", ""], length=30, **settings)]  # beyond the context
    assert [one.text for one in both(["ab", "c a", ""], length=30, **settings)] == texts


def test_the_probabilities_of_generators_are_averaged_at_each_step(generators: list[Path]) -> None:
    models: list[Any] = [regard.load(run, regard.Generator) for run in generators]
    both: Any = regard.load(generators[0], ensemble=[generators[1]])
    tokens = models[0].tokens("abc a")
    scores = [[token.log_probability for token in model.token_scores(tokens)] for model in (*models, both)]
    expected = np.logaddexp(scores[0], scores[1]) - math.log(2)
    np.testing.assert_allclose(scores[2], expected, atol=1e-4)
    assert not np.allclose(scores[2], scores[0], atol=1e-4), "the second model has no effect"
    assert both.context == both.decoding.context == 8


def test_the_command_generates_with_the_ensemble(generators: list[Path], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("ab\nc a\n")
    expected = [one.text for one in regard.generate(generators[0], ["ab", "c a"], ensemble=[generators[1]], seed=1)]
    assert expected != [one.text for one in regard.generate(generators[0], ["ab", "c a"], seed=1)]
    arguments = ["generate", generators[0], tmp_path / "in.txt", "--ensemble", generators[1], "--seed", 1]
    shown = CliRunner().invoke(build_app(), [*map(str, arguments)]).stdout.splitlines()
    assert shown == [f"{prompt}{text}".replace("\n", " ") for prompt, text in zip(["ab", "c a"], expected, strict=True)]
    bulk = CliRunner().invoke(build_app(), [*map(str, arguments), "-o", f"{tmp_path}/out/", "--workers", "1"])
    assert bulk.exit_code == 0, bulk.output
    other = written(tmp_path / "other", "xy", 1, 8)
    with pytest.raises(ConfigError, match="model 2 has another vocabulary"):
        regard.load(generators[0], ensemble=[other])
