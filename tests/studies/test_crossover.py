"""Learning curves: subsets, pairing, the crossing, missing data, and a verdict of either kind."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import ConfigError, DataError
from regard.studies import crossover
from regard.studies.catalog import STUDIES
from regard.studies.crossover import CurvePlan, ModelValues, Settings, parse_settings
from regard.studies.curve_corpora import TASKS, link_problem, open_problems, session_problem
from regard.studies.learning_curves import (
    CurvePoint,
    LineProblem,
    crossing,
    holm,
    paired_difference,
    train_and_measure,
    with_known_tags,
)
from regard.studies.study import Findings, ignore_report

LINES = [f"text {number} is {'good' if number % 2 else 'bad'}\t{number % 2}\n" for number in range(60)]
PROBLEM = LineProblem(LINES, LINES[:10], "data.tsv", "accuracy", keys=("task=classification",))


def tagged(*tags: str) -> str:
    return json.dumps({"tokens": [tag.lower() for tag in tags], "tags": tags}) + "\n"


def test_sentences_with_unknown_tags_are_left_out_and_counted(tmp_path: Path) -> None:
    train, test = [tagged("A", "B"), tagged("C")], [tagged("A"), tagged("A", "X"), tagged("C", "B"), tagged("Y")]
    assert with_known_tags(train, test) == [test[0], test[2]]
    files = LineProblem(train, test, "data.jsonl", "accuracy").write(tmp_path, 2, 1)
    assert files.omitted == 2 and files.test.read_text() == test[0] + test[2]
    assert with_known_tags(train, ['{"items": ["i1"]}\n']) == ['{"items": ["i1"]}\n'], "sessions have no tags"


def test_a_test_with_unknown_tags_is_measured(tmp_path: Path) -> None:
    """Both model and baseline read the remaining sentences; without the selection, evaluation is refused."""
    train = [tagged("A", "B"), tagged("B", "A"), tagged("A", "A")] * 10
    problem = LineProblem(train, [tagged("A"), tagged("RARE")], "data.jsonl", "accuracy", keys=("task=tagging",))
    measured = train_and_measure(problem, 30, 1, ["train.steps=2", "train.threads=1"])
    assert measured.omitted == 1 and measured.baseline is not None and measured.wide


def test_a_subset_is_a_draw_of_the_seed(tmp_path: Path) -> None:
    texts = [PROBLEM.write(tmp_path, 20, seed).train.read_text() for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    drawn = texts[0].splitlines(keepends=True)
    assert len({*drawn}) == 20 and {*drawn} < {*LINES}
    ordered = replace(PROBLEM, ordered=True).write(tmp_path, 20, 3).train.read_text()
    assert ordered in "".join(LINES), "a text is cut, not drawn line by line"
    assert replace(PROBLEM, head="a\tb\n").write(tmp_path, 60, 1).test.read_text().startswith("a\tb\ntext 0 ")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """A ring of 60 nodes with one feature of the neighborhood."""
    nodes = np.arange(60)
    edges = np.stack([nodes, (nodes + 1) % 60], 1)
    np.savez(tmp_path / "ring.npz", x=np.eye(60, dtype=np.float32), edges=edges, y=nodes % 3)
    return tmp_path / "ring.npz"


def test_edges_of_the_test_are_unknown_to_training(graph: Path, tmp_path: Path) -> None:
    problem = link_problem(graph)
    assert (len(problem), len(problem.test)) == (54, 6)
    files = problem.write(tmp_path, 30, 1)
    train, test = ({*map(tuple, np.load(path)["edges"].tolist())} for path in (files.train, files.test))
    assert len(train) == 30 and len(test) == 6 and not train & test
    assert "y" not in np.load(files.train), "a link model reads no labels"
    assert train != {*map(tuple, np.load(problem.write(tmp_path, 30, 2).train)["edges"].tolist())}
    measured = train_and_measure(problem, 40, 1, ["train.epochs=2", "train.threads=1"])
    assert 0 <= measured.model <= 1 and measured.baseline is not None


def test_differences_are_paired_and_signed() -> None:
    difference = paired_difference([0.5, 0.7, 0.9], [0.6, 0.8, 0.9])
    assert difference.mean == pytest.approx(-0.2 / 3) and difference.error == pytest.approx(0.1 / 3)
    assert difference.p == pytest.approx(0.0917, abs=1e-4), "t = −2 with 2 degrees of freedom"
    assert paired_difference([2.0, 2.0], [1.0, 1.0], lower_is_better=True) == (-1.0, 0.0, 0.0)
    assert paired_difference([1.0, 1.0], [1.0, 1.0]).p == 1.0
    assert math.isnan(paired_difference([1.0], [2.0]).p)


def test_holm_multiplies_the_smallest_by_the_number_of_tests() -> None:
    assert holm([0.04, 0.01, 0.5]) == pytest.approx([0.08, 0.03, 0.5])
    assert holm([0.02, 0.03]) == pytest.approx([0.04, 0.04]), "never smaller than that of a smaller p"
    corrected = holm([math.nan, 0.02])
    assert math.isnan(corrected[0]) and corrected[1] == 0.02


@pytest.mark.parametrize(
    "differences, size",
    [([-1, 1, 2], 10**2.5), ([-1, -1, 3], 10**3.25), ([1, -1, 3], 10**3.25), ([0, 1, 2], 0), ([1, 1, -1], math.inf)],
)
def test_the_crossing_is_the_last_one(differences: Sequence[float], size: float) -> None:
    assert crossing([100, 1_000, 10_000], differences) == pytest.approx(size)


def test_missing_data_are_named_with_their_origin(tmp_path: Path) -> None:
    (tmp_path / "sst").mkdir()
    for part in ("train", "test"):
        (tmp_path / "sst" / f"sst2-{part}.tsv").write_text("".join(LINES))
    with pytest.raises(ConfigError) as failure:
        open_problems(TASKS, tmp_path, {})
    text = str(failure.value)
    assert all(part in text for part in ("tags", "ud-lines/test.jsonl", "regard data fetch multi30k", "cora.npz"))
    assert "sst2" not in text and "tasks=sentiment,items" in text
    assert {*open_problems(["sentiment", "items"], tmp_path, {})} == {"sentiment", "items"}
    with pytest.raises(ConfigError, match="data for the study are missing"):
        STUDIES["crossover"].run(options={"tasks": "tags"})


@pytest.mark.parametrize("task", [task for task in TASKS if task != "links"])
def test_a_file_of_the_user_replaces_a_corpus(task: str, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("".join(LINES))
    problem = open_problems([task], None, {task: tmp_path / "own"})[task]
    assert isinstance(problem, LineProblem) and len(problem) == 54 and not {*problem.train} & {*problem.test}
    assert problem.ordered == problem.lower_is_better == (task == "characters")
    (tmp_path / "own").write_text("a\tb\n")
    with pytest.raises(DataError, match="too few lines"):
        open_problems([task], None, {task: tmp_path / "own"})


def test_settings_are_lists_or_words_between_commas() -> None:
    settings = parse_settings({"tasks": "tags, links", "sizes": [300, 100], "seeds": 2, "minutes": 0.5, "links": "g"})
    assert (
        settings.tasks == ("tags", "links") and settings.sizes == (100, 300) and settings.files == {"links": Path("g")}
    )
    assert {*Settings.model_fields} == {*STUDIES["crossover"].options}
    assert parse_settings({"sizes": 100}).sizes == (100,) and parse_settings({}).seeds == 5
    for wrong in ({"tasks": "songs"}, {"sizes": [1]}, {"seeds": 0}, {"minutes": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            parse_settings(wrong)


Curve = Callable[[int, int], tuple[float, float, float]]  # (size, seed) → baseline, network, both


def judged(monkeypatch: pytest.MonkeyPatch, curve: Curve, **options: Any) -> Findings:
    """The study of sessions where models reach these metrics."""

    def measure(problem: Any, size: int, seed: int, keys: Sequence[str]) -> CurvePoint:
        baseline, network, both = curve(size, seed)
        alone = "model.wide=false" in keys
        return CurvePoint(network if alone else both, baseline, not alone, 1.0, 0)

    monkeypatch.setattr(crossover, "train_and_measure", measure)
    monkeypatch.setattr(crossover, "open_problems", lambda *_: {"items": session_problem(0, 3_000, 10)})
    return crossover.run(seed=1, minimal=False, report=ignore_report, options=options)


def crossing_curves(size: int, seed: int) -> tuple[float, float, float]:
    network = 0.2 * math.log10(size) - 0.1 + 0.001 * seed
    return 0.4 + 0.001 * seed, network, max(network, 0.4 + 0.001 * seed)


def test_it_holds_where_curves_cross_and_both_follow_the_better(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = judged(monkeypatch, crossing_curves)
    assert findings.holds and [row[1] for row in findings.rows] == [100, 300, 1_000, 3_000]
    assert any("items: 10,000, 30,000 examples are omitted; 3,000 examples exist" in line for line in findings.remarks)
    assert any("items from 316 examples on" in line for line in findings.remarks)
    assert findings.rows[0][2:8:2] == pytest.approx((0.403, 0.303, 0.403))
    assert findings.rows[0][-1] == 5


@pytest.mark.parametrize(
    "curve, holds",
    [
        (lambda size, seed: (0.5, 0.1 + size / 1e5, 0.4 + 0.01 * seed), [False, True, True, True]),
        (lambda size, seed: (0.2 + size / 1e4, 0.9, 0.6 + 0.01 * seed), [True, False, False, False]),
    ],
)
def test_it_fails_where_both_are_below_one_or_nothing_crosses(
    monkeypatch: pytest.MonkeyPatch, curve: Curve, holds: list[bool]
) -> None:
    assert [criterion.holds for criterion in judged(monkeypatch, curve).criteria] == holds


def test_a_single_seed_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [criterion.holds for criterion in judged(monkeypatch, crossing_curves, seeds=1).criteria[:2]] == [
        False,
        False,
    ]


def test_finished_trainings_are_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[Sequence[str]] = []

    def measure(problem: Any, size: int, seed: int, keys: Sequence[str]) -> CurvePoint:
        ran.append(keys)
        return CurvePoint(0.5, 0.4, True, 1.0, 0)

    monkeypatch.setattr(crossover, "train_and_measure", measure)

    def measured(problem: LineProblem, keys: Sequence[str] = ()) -> int:
        crossover._measure(problem, "sentiment", 20, 1, keys, tmp_path)
        return len(ran)

    assert measured(PROBLEM) == 2 and ran == [[], ["model.wide=false"]]
    assert measured(PROBLEM) == 2
    assert measured(PROBLEM, ["train.minutes=1"]) == 4, "another budget"
    assert measured(PROBLEM) == 6
    assert measured(replace(PROBLEM, train=LINES[1:])) == 8, "another file"


def test_without_a_wide_part_the_network_is_trained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossover, "train_and_measure", lambda *_: CurvePoint(0.5, 0.4, False, 1.0, 0))
    both, network = crossover._measure(PROBLEM, "translation", 20, 1, [], None)
    assert both is network


def test_a_figure_has_one_plot_per_task_with_its_crossing() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    values = {100: ModelValues([0.5, 0.6], [0.1, 0.2], [0.5, 0.6]), 300: ModelValues([0.5], [0.7], [0.7])}
    problems: Mapping[str, Any] = {"sentiment": PROBLEM, "other": PROBLEM}
    crossover._draw(figure, dict.fromkeys(problems, values), {"sentiment": 200.0, "other": math.inf}, problems)
    assert [axes.get_title() for axes in figure.axes] == ["sentiment", "other"]
    marks = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert marks == [["200"], []]


def test_a_size_without_examples_is_refused() -> None:
    with pytest.raises(ConfigError, match="too few examples"):
        crossover._plan({"sentiment": PROBLEM}, [100])
    assert isinstance(crossover._plan({"sentiment": PROBLEM}, [50, 100]), CurvePlan)
