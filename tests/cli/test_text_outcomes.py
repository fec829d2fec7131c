"""The rows of language models: one for each counted token, with the loss that evaluation prints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import regard as package
from regard.core.task import find_task
from regard.inference.interpolated_model import InterpolatedModel
from regard.metrics.error_analysis import sign_flip_p
from regard.runs.run_folder import RunFolder
from regard.tasks.language_model.outcomes import BLOCK
from regard.tasks.run_comparison import compare_runs
from tests.laws.test_lanes import XL

WORDS = ["cat", "rat", "hat", "bat", "mat"]
FORMS: dict[str, dict[str, Any]] = {
    "stream": {"documents": "stream"},
    "overlapping": {"documents": "stream", "stride": 3},
    "prompts": {"documents": "json-line", "stride": 5},
    "lines": {"documents": "line", "order": "lanes", "context": 4},
    "lanes": {"documents": "stream", "order": "lanes", "context": 4},
}
TRAIN = {"batch_tokens": 64, "steps": 3, "threads": 1, "precision": "float32", "learning_rate": 0.02}
CASES = [(form, wide) for form in FORMS for wide in (False, True) if not wide or "order" not in FORMS[form]]


def sample(folder: Path, form: str, wide: bool) -> Any:
    """A text with lines of several lengths, or documents with prompts."""
    tables = dict(find_task("language-model").sample(folder))
    lines = [f"the {word} sat on the {WORDS[n * n % 5]}" + " again" * (n % 3) for n, word in enumerate(WORDS * 4)]
    if form == "prompts":
        rows = [{"prompt": line[:8], "completion": line[8:]} for line in lines]
        lines = [json.dumps(row) for row in rows]
    path = folder / ("text.jsonl" if form == "prompts" else "text.txt")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    data = {part: [{"source": str(path)}] for part in ("train", "valid")} | {"context": 8} | FORMS[form]
    model = tables["model"] | {"wide": wide, "dropout": 0.0}
    if FORMS[form].get("order") == "lanes":
        model |= {"mixer": XL, "position": "none"}
    return tables | {
        "data": data,
        "model": model,
        "train": {"batch_tokens": 24, "steps": 3, "threads": 1, "precision": "float32", "learning_rate": 0.02},
    }


class Evaluated(NamedTuple):
    """A run, its tables, its file, and its evaluation on this file."""

    run: Path
    tables: dict[str, Any]
    file: Path
    evaluation: Any


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Evaluated]:
    """Train and evaluate once for each form."""

    @cache
    def trained(form: str, wide: bool) -> Evaluated:
        folder = tmp_path_factory.mktemp(form)
        tables = sample(folder, form, wide) | {"task": "language-model"}
        run, file = package.train(tables, folder / "run"), Path(tables["data"]["train"][0]["source"])
        return Evaluated(run, tables, file, package.evaluate(run, file, outcomes=True))

    return trained


@pytest.mark.parametrize("form, wide", CASES)
def test_rows_give_the_printed_metrics(evaluated: Any, form: str, wide: bool) -> None:
    run, _, file, evaluation = evaluated(form, wide)
    rows = evaluation.outcomes.rows
    losses = [row.loss for row in rows]
    assert len(rows) == evaluation.sums["tokens"]
    assert np.mean(losses) == pytest.approx(evaluation.figures["loss"], rel=1e-5)
    assert len({(row.where, row.example, row.position) for row in rows}) == len(rows)
    total = sum(float(group["bytes"]) for group in evaluation.outcomes.groups)
    assert math.fsum(losses) / math.log(2) / total == pytest.approx(evaluation.figures["bits_per_byte"], rel=1e-5)
    tokenizer, pieces = package.load(run).tokenizer, ""
    for row in rows:
        assert row.outcome.target_probability == pytest.approx(math.exp(-row.loss))
        assert row.outcome.probability >= row.outcome.target_probability or row.is_right
        pieces += "" if row.outcome.target == "</s>" else row.outcome.target
    text = file.read_text()
    if form == "prompts":
        text = "".join(json.loads(line)["completion"] for line in text.splitlines())
    elif form == "lines":
        text = text.replace("\n", "")
    assert tokenizer.config.kind == "character" and pieces == text, "every counted token once, in order"
    assert evaluation.outcomes.unit == ("documents" if form in ("prompts", "lines") else f"blocks of {BLOCK} tokens")


@pytest.mark.parametrize("form, wide", [pair for pair in CASES if pair[0] in ("stream", "overlapping", "prompts")])
def test_predictions_are_those_of_decoding(evaluated: Any, form: str, wide: bool) -> None:
    """Each token is predicted from the ``length`` tokens before it, by the model that generates."""
    run, *_, evaluation = evaluated(form, wide)
    generator: Any = package.load(run)
    opened = RunFolder.open(run)
    valid: Any = opened.task.prepare(opened, lambda message: None, None).valid
    streams, model = valid.streams, generator.model
    model = InterpolatedModel(model, generator.ngrams, model.gate) if wide else model
    several = 0
    for row in evaluation.outcomes.rows[::7]:
        offsets = getattr(streams[0], "offsets", [0])
        first = int(offsets[row.example - 1]) if form == "prompts" else 0
        place = first + row.position
        window = torch.from_numpy(streams[0].tokens[place - row.length : place].astype(np.int64))[None]
        with torch.no_grad():
            log_p, _ = model.step(window, model.start(1))
        if not wide:
            log_p = log_p if float(log_p.exp().sum(-1)[0, -1]) < 1.01 else log_p.log_softmax(-1)
        log_p = log_p[0, -1].double()
        target = int(streams[0].tokens[place])
        assert float(log_p[target]) == pytest.approx(-row.loss, abs=2e-4)
        best = generator.tokenizer.pieces([int(log_p.argmax())])[0]
        assert row.outcome.prediction == best or math.isclose(float(log_p.max().exp()), row.outcome.probability)
        several += row.length > 1
        before = generator.tokenizer.decode(streams[0].tokens[max(first, place - 40) : place].tolist())
        assert row.input.removeprefix("…") == before
    assert several > 5


def test_a_run_is_compared_with_one_of_another_context(evaluated: Any, tmp_path: Path) -> None:
    run, tables, file, evaluation = evaluated("stream", False)
    tables = tables | {"data": tables["data"] | {"context": 5}}
    other = RunFolder.open(package.train(tables, tmp_path / "other"))
    comparison = compare_runs(RunFolder.open(run), evaluation.outcomes, other, [file])
    others = package.evaluate(other.path, file, outcomes=True)
    for name in ("loss", "bits_per_byte", "perplexity"):
        difference = evaluation.figures[name] - others.figures[name]
        assert comparison.metrics.differences[name][0] == pytest.approx(difference, rel=1e-4, abs=1e-5)
    pairs = [*zip(evaluation.outcomes.rows, others.outcomes.rows, strict=True)]
    assert comparison.right == (
        sum(one.is_right > two.is_right for one, two in pairs), sum(one.is_right < two.is_right for one, two in pairs)
    )  # fmt: skip
    blocks = [[0.0, 0.0] for _ in range(max(row.example for row, _ in pairs))]
    for one, two in pairs:
        blocks[(one.position or 0) // BLOCK][0] += (one.loss or 0) - (two.loss or 0)
        blocks[(one.position or 0) // BLOCK][1] += one.is_right - two.is_right
    assert comparison.values == len(blocks) > 2
    assert comparison.loss_p == pytest.approx(sign_flip_p([loss for loss, _ in blocks]))
    assert comparison.p == pytest.approx(sign_flip_p([right for _, right in blocks]))


def test_the_command_writes_analyzes_and_compares(regard: Any, evaluated: Any, tmp_path: Path) -> None:
    run, _, file, _ = evaluated("prompts", True)
    printed = regard("evaluate", run, file, "-o", tmp_path / "rows.jsonl", "--errors", "--against", run).stdout
    assert "highest losses" in printed and "rare classes" in printed and "\nlength " in printed
    assert "McNemar's test by documents: p = 1.0000" in printed
    assert "loss, paired permutation test over 20 documents: p = 1.0000" in printed
    records = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    figures = json.loads(regard("evaluate", run, file, "--json").stdout)["figures"]
    assert np.mean([record["loss"] for record in records]) == pytest.approx(figures["loss"], rel=1e-5)
    assert records[0]["location"].endswith("text.jsonl: document 1") and records[0]["position"] == 9


def test_the_permutation_test_by_hand() -> None:
    """Of 8 signs of 1, 2, 3: 6 and −6 are as large as 6; 4, 6, −4 and −6 as large as 4 = −1 + 2 + 3."""
    assert sign_flip_p([1, 2, 3]) == 2 / 8 and sign_flip_p([-1, 2, 3, 0]) == 4 / 8 and sign_flip_p([]) == 1.0
    draw = np.random.default_rng(1).normal(0.3, 1, 40)
    exact = sign_flip_p(draw[:12].tolist())
    assert sign_flip_p([*draw[:12], *[1e-12] * 4]) == pytest.approx(exact, abs=0.02)  # drawn, not enumerated
    many = np.random.default_rng(2).normal(0.05, 1, 1001).tolist()
    assert sign_flip_p(many) == pytest.approx(sign_flip_p(many[:-1]), abs=0.03)
    assert sign_flip_p([1.0] * 1001) < 1e-100
