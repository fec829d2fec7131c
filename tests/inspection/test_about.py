"""What the page says of a model before anything is asked: its purpose, its quality, its labels, three examples."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from regard.core.predictor_interface import interface_of
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, TokenizerConfig
from regard.inspection.about import about
from regard.inspection.inspector import Inspector
from regard.inspection.run_history import describe_run
from regard.runs.network_comparison import ComparedMetric, write_comparison
from regard.runs.run_examples import LONGEST, NAME, SHORT, choose_examples, read_examples
from regard.tasks.example_lines import gapped, prompts, spread
from regard.tasks.masked.filler import Filler
from regard.testing import TaskCase


@cache
def case_of(kind: str) -> TaskCase:
    return TaskCase(find_task(kind), kind)


def described(kind: str) -> dict[str, Any]:
    case = case_of(kind)
    return describe_run(case.undisturbed[0], name=kind, checkpoint="best", interface=interface_of(case.predictor))


@pytest.mark.parametrize("kind", TASKS)
def test_each_task_has_examples_that_can_be_read_predicted_and_inspected(kind: str) -> None:
    examples = described(kind)["examples"]
    assert 1 <= len(examples) <= 3 and len({*examples}) == len(examples)
    case = case_of(kind)
    inspector = Inspector(case.undisturbed[0], name=kind, open=lambda which: case.predictor)
    inspector.__dict__["_aligner"] = None
    for line in examples:
        assert len(line) <= SHORT
        case.predictor([case.predictor.read(line)])
        assert inspector.inspect(line).observation.predictions


@pytest.mark.parametrize("kind", TASKS)
def test_each_task_states_its_purpose_and_a_figure(kind: str) -> None:
    page = described(kind)
    assert page["about"].endswith(".") and not {"{", '"', "\n"} & set(page["about"])
    assert "read" not in page["about"].split() and "validation" in page["about"] and page["about"][0].isupper()
    assert all(label in page["about"] for label in page["labels"] if kind != "links")
    classes = {"nodes", "links", "graphs", "tagging", "classification"}
    assert bool(page["labels"]) == (kind in classes)


def test_the_figures_are_those_of_the_best_checkpoint(tmp_path: Path) -> None:
    run = shutil.copytree(case_of("classification").undisturbed[0].path, tmp_path / "run")
    folder: Any = SimpleNamespace(**vars(case_of("classification").undisturbed[0]))
    folder.path, folder.data, folder.checkpoints = run, run / "data", run / "checkpoints"
    folder.task, folder.is_baseline = find_task("classification"), lambda: False
    (run / "checkpoints" / "best.json").write_text(json.dumps({"step": 4, "metric": "loss", "value": 0.5}))
    curves = [
        {"name": "validation accuracy", "points": [(2, 0.1), (4, 0.8125), (6, 0.9)]},
        {"name": "validation majority", "points": [(2, 0.2), (4, 0.51), (6, 0.7)]},
        {"name": "training accuracy", "points": [(4, 0.99)]},
    ]
    text = about(folder, "Sorts.", curves)
    assert text == "Sorts. Accuracy 81.2 % on 6 validation examples; the baseline (the most frequent label) has 51.0 %."
    shutil.rmtree(run / "data")
    assert about(folder, "", []) == "Loss 0.5 on the validation data."
    (run / "baseline").mkdir(exist_ok=True)
    summary = {"kind": "x", "description": "a line", "figures": {}}
    (run / "baseline" / "baseline.json").write_text(json.dumps(summary))
    write_comparison(run, "best", {
        "loss": ComparedMetric(network=1, baseline=2, difference=1),
        "accuracy": ComparedMetric(network=0.75, baseline=0.5, difference=0.25),
    })  # fmt: skip
    assert about(folder, "", curves) == "Accuracy 75.0 % on the validation data; the baseline (a line) has 50.0 %."


def test_deleted_and_damaged_examples_are_none(tmp_path: Path) -> None:
    data = shutil.copytree(case_of("tagging").undisturbed[0].data, tmp_path / "data")
    run: Any = SimpleNamespace(data=data)
    assert read_examples(run).lines == ("the dog sees a cat", "a cat hears", "the run")
    assert read_examples(run).validation == 24
    good = (data / NAME).read_text()
    for damaged in (
        "{",
        json.dumps({"version": 1, "validation": 3, "examples": ["x"] * 4}),
        good.replace('"the', '["'),
    ):
        (data / NAME).write_text(damaged)
        assert read_examples(run).lines == ()
    (data / NAME).write_text(good)
    assert read_examples(run).lines
    shutil.rmtree(data)
    assert read_examples(run) == ((), None)


def test_short_different_lines_come_first() -> None:
    long = "x" * (SHORT + 1)
    assert choose_examples([long, "a", "a", " ", "b", "c", "d"]) == ["a", "b", "c"]
    assert choose_examples([long + "yy", long, "z" * (LONGEST + 1)]) == [long, long + "yy"]
    assert choose_examples([]) == []


def test_the_first_indices_are_in_different_thirds() -> None:
    assert spread(0) == [] and spread(1) == [0] and sorted(spread(5)) == [0, 1, 2, 3, 4]
    first, second, third = (3 * index // 1000 for index in spread(1000)[:3])
    assert (first, second, third) == (0, 1, 2) and len({*spread(1000)}) == 24


class _One(NamedTuple):
    """The only text of a corpus, whose only example begins with it."""

    tokens: Any

    def __len__(self) -> int:
        return 2

    def text(self, index: int) -> Any:
        return self.tokens


TEXTS = {
    "word": "the cat sat on the mat near a house", "byte-bpe": "the cat sat on the mat near a house",
    "bpe": "the cat sat on the mat near a house", "character": "the cat sat", "byte": "the cat sat",
    "notes": "C3 G3 E4\nD3 G3 F4\n\nE3 G3 C5\nC3 G3\nD3\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
def test_a_gap_hides_one_token_and_no_other(kind: str) -> None:
    text = TEXTS[kind]
    tokenizer = train_tokenizer([text], TokenizerConfig(kind=kind))
    tokens = tokenizer.encode(text)
    examples: Any = _One(np.array([BEGIN, *tokens, END]))
    line, *_ = gapped(examples, tokenizer, "___")
    filler: Any = SimpleNamespace(
        settings=SimpleNamespace(blank="___"), tokenizer=tokenizer, mask=len(tokenizer), context=100
    )
    found = Filler._tokens(filler, line)[1:-1]
    (place,) = (place for place, token in enumerate(found) if token == filler.mask)
    visible = [token for token in found if token != filler.mask]
    assert visible == tokens[:place] + tokens[place + 1 :][: len(visible) - place], line
    assert len(found) == len(tokens), line


@pytest.mark.parametrize(
    ("kind", "wanted"), [("word", "the cat sat on the mat"), ("character", "the cat sat"), ("notes", TEXTS["notes"])]
)
def test_a_prompt_has_six_words_or_four_frames(kind: str, wanted: str) -> None:
    tokenizer = train_tokenizer([TEXTS[kind]], TokenizerConfig(kind=kind))
    examples: Any = SimpleNamespace(streams=[_One(np.array([BEGIN, *tokenizer.encode(TEXTS[kind]), END]))])
    prompt, *_ = prompts(examples, tokenizer, 100)
    assert prompt == (wanted if kind != "notes" else "C3 G3 E4 \nD3 G3 F4 \n\nE3 G3 C5 \n")
    assert all(len(tokenizer.encode(each)) < 4 for each in prompts(examples, tokenizer, 4))
