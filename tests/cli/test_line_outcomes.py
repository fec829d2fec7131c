"""The rows of translation models: one for each line, with the metrics of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from scipy import stats

import regard as package
from regard.core.outcomes import OutcomeRow, TargetOutcome
from regard.errors import ConfigError
from regard.metrics.error_analysis import confusions, slices, worst_rows
from regard.metrics.significance import only_exact
from regard.metrics.text import EvaluationSet
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import config_with_files, open_files
from regard.tasks.load import load_net
from regard.tasks.translation.evaluation import TranslationTest
from regard.tasks.translation.outcomes import reference_losses

from .conftest import TinyRun
from .test_outcomes import read


@pytest.fixture(scope="module")
def rows(tiny_run: TinyRun) -> list[OutcomeRow]:
    found = package.evaluate(
        tiny_run.path, tiny_run.source, tiny_run.target, metrics=["exact", "chrf"], beam=2, outcomes=True
    )
    assert found.outcomes is not None
    assert found.figures["exact"] == pytest.approx(100 * np.mean([row.is_right for row in found.outcomes.rows]))
    assert [row.outcome.prediction for row in found.outcomes.rows] == found.outputs
    return found.outcomes.rows


def test_rows_are_the_lines_with_their_outputs(rows: list[OutcomeRow], tiny_run: TinyRun) -> None:
    model: Any = package.load(tiny_run.path)
    lines = zip(tiny_run.source.read_text().splitlines(), tiny_run.target.read_text().splitlines(), strict=True)
    for number, (row, (source, target)) in enumerate(zip(rows, lines, strict=True), 1):
        assert (row.where, row.example, row.input) == (f"{tiny_run.source}:{number}", number, source)
        assert row.outcome.target == target and row.length == len(source.split())
        output = str(row.outcome.prediction)
        assert row.outcome.chrf == pytest.approx(sacrebleu.sentence_chrf(output, [target]).score)
        assert row.outcome.exact == (output.split() == target.split())
        (scores,) = model.score([source], [target])
        assert row.loss == pytest.approx(-np.mean(scores), rel=1e-4)
    best = model(rows[0].input, beam=2).candidates[0]
    assert rows[0].outcome.log_probability == pytest.approx(best.log_probability, abs=1e-4)
    assert len({row.outcome.log_probability for row in rows}) > 5


def test_losses_of_references_are_those_of_validation(
    rows: list[OutcomeRow], tiny_run: TinyRun, tmp_path: Path
) -> None:
    run = RunFolder.open(tiny_run.path)
    pairs = tmp_path / "pairs.tsv"
    texts = (tiny_run.source.read_text().splitlines(), tiny_run.target.read_text().splitlines())
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*texts, strict=True)))
    examples: Any = open_files(run, config_with_files(run, [pairs], {}), tmp_path / "data")
    objective, net, nll, tokens = run.task.objective(run.config), load_net(run.path)[0].eval(), 0.0, 0
    with torch.no_grad():
        for batch in examples.batches(None):
            sums = objective(net, examples.collate(batch), ()).sums
            nll, tokens = nll + float(sums["nll"]), tokens + int(sums["tokens"])
    lengths = [len(str(row.outcome.target).split()) + 1 for row in rows]  # with END
    assert sum(lengths) == tokens
    assert np.average([row.loss or 0 for row in rows], weights=lengths) == pytest.approx(nll / tokens, rel=1e-4)


def test_a_row_has_the_reference_that_equals_the_output(tiny_run: TinyRun, tmp_path: Path) -> None:
    source, target = ([path.read_text().splitlines()[0]] for path in (tiny_run.source, tiny_run.target))
    for name, lines in (("s", source), ("wrong", ["A A A"]), ("right", target)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    run = RunFolder.open(tiny_run.path)
    test = TranslationTest(run.config, package.load(run.path), [tmp_path / name for name in ("s", "wrong", "right")])  # type: ignore[arg-type]
    for output, shown in ((target[0], target[0]), ("B", "A A A")):
        (row,) = test.rows([output])
        assert (row.outcome.target, row.is_right) == (shown, shown == output)
        assert row.outcome.chrf == pytest.approx(sacrebleu.sentence_chrf(output, ["A A A", *target]).score)


def test_a_pair_that_is_too_long_has_no_loss(tiny_run: TinyRun) -> None:
    model: Any = package.load(tiny_run.path)
    long = " ".join(["a"] * (model.max_length + 1))
    losses = reference_losses(model, ["a b", long, "a", ""], ["A B", "A", long.upper(), "A"])
    assert losses[1:3] == [None, None] and losses[0] is not None and losses[3] is not None


def test_the_command_writes_rows_and_errors(regard: Any, tiny_run: TinyRun, tmp_path: Path) -> None:
    call = ("evaluate", tiny_run.path, tiny_run.source, tiny_run.target, "--beam", "1", "--metric", "exact,chrf")
    printed = regard(*call, "-o", tmp_path / "rows.csv", "--errors").stdout
    assert "lowest chrF" in printed and "confusions" not in printed and "highest" not in printed
    records = read(tmp_path / "rows.csv")
    assert len(records) == 40 and {"chrf", "exact", "log_probability", "loss", "input", "target"} <= {*records[0]}
    record = json.loads(regard(*call, "-o", tmp_path / "rows.jsonl", "--errors", "--json").stdout)
    exact = [each["exact"] for each in read(tmp_path / "rows.jsonl")]
    assert 100 * np.mean(exact) == pytest.approx(record["scores"]["exact"]["value"])
    assert len(record["errors"]["worst"]) == 5 and record["errors"]["confusions"] == []
    regard(*call, "-o", tmp_path / "plain.txt")
    lines = (tmp_path / "plain.txt").read_text().splitlines()
    assert lines == [each["prediction"] for each in read(tmp_path / "rows.jsonl")]


def test_exact_outputs_are_compared_by_distinct_source(regard: Any, tiny_run: TinyRun, tmp_path: Path) -> None:
    call = ("evaluate", tiny_run.path, tiny_run.source, tiny_run.target, "--beam", "1", "--against", tmp_path / "other")
    own, targets = package.evaluate(tiny_run.path, tiny_run.source, tiny_run.target, beam=1), []
    for number, target in enumerate(tiny_run.target.read_text().splitlines()):
        targets.append(target if number % 2 else "X")
    (tmp_path / "other").write_text("".join(f"{line}\n" for line in targets))
    references = tiny_run.target.read_text().splitlines()
    sources = tiny_run.source.read_text().splitlines()
    first = {source: number for number, source in reversed([*enumerate(sources)])}
    sides = [[lines[n] == references[n] for n in first.values()] for lines in (own.outputs, targets)]
    pairs = [*zip(*sides, strict=True)]
    this, other = pairs.count((True, False)), pairs.count((False, True))
    p = stats.binomtest(this, this + other).pvalue
    told = regard(*call).stdout
    assert f"exact outputs of this run only: {this}, of the other only: {other}, of {len(first)} distinct" in told
    assert f"McNemar's exact test: p = {p:.4f}" in told
    exact = json.loads(regard(*call, "--json").stdout)["against"]["exact"]
    assert exact == {"only_right": {"this": this, "other": other}, "p": pytest.approx(p)}


def test_any_reference_of_a_source_is_right() -> None:
    examples = EvaluationSet(["a", "a", "b", "c"], [["x"], ["y"], ["z"], ["w"]])
    assert only_exact(["y", "y", "z", "q"], ["q", "q", "z", "w"], examples) == (1, 1)


def test_worst_lines_and_slices_by_hand() -> None:
    chrf, exact = [50.0, 10.0, 100.0, 10.0], [False, False, True, False]
    lines = [
        OutcomeRow("f", n, None, None, "s", 1 + n // 2, TargetOutcome("t", "p", exact=exact[n], chrf=chrf[n]), float(n))
        for n in range(4)
    ]
    assert [row.example for row in worst_rows(lines, 2)] == [3, 1]
    assert confusions(lines).rows == ()
    assert slices(lines).columns == ("slice", "n", "exact", "chrf", "loss")
    assert slices(lines).rows == (("length 1", 2, 0.0, 30.0, 0.5), ("length 2", 2, 0.5, 55.0, 2.5))


def test_several_ranks_write_no_rows(regard: Any, tiny_run: TinyRun, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RANK", "0")
    for option in (("--errors",), ("-o", tmp_path / "rows.csv")):
        wrong = regard("evaluate", tiny_run.path, tiny_run.source, tiny_run.target, *option).exception
        assert isinstance(wrong, ConfigError) and "single process" in wrong.what
