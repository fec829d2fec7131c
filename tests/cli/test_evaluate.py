"""``regard evaluate``: what it decodes, what it compares with, what it says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import regard as package
from regard.errors import ConfigError, DataError, ModelError

from .conftest import TinyRun


def test_scores_are_those_of_the_outputs_kept(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    kept = tmp_path / "outputs"
    result = regard(
        "evaluate", tiny_run.path, tiny_run.source, tiny_run.target,
        "--metric", "bleu,wer", "--beam", "1", "--json", "--output", kept, "--checkpoint", "100",
    )  # fmt: skip
    found = json.loads(result.stdout)
    outputs, targets = kept.read_text().splitlines(), tiny_run.target.read_text().splitlines()
    assert len(outputs) == len(targets) == found["lines"] == 40
    sources = dict(zip(tiny_run.source.read_text().splitlines(), zip(outputs, targets, strict=True), strict=True))
    wrong = sum(output != target for output, target in sources.values())
    assert found["scores"]["wer"]["value"] == pytest.approx(100 * wrong / len(sources))
    assert found["distinct_sources"] == len(sources)
    assert found["search"]["beam"] == 1
    assert found["checkpoint"] == "step 100"
    assert found["scores"]["bleu"]["signature"].startswith("BLEU|nrefs:1|case:mixed")
    assert found["scores"]["wer"]["lower_is_better"] is True
    import sacrebleu

    assert found["scores"]["bleu"]["value"] == pytest.approx(sacrebleu.corpus_bleu(outputs, [targets]).score)


def test_lines_of_one_source_are_several_references(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    both = tmp_path / "both.tsv"
    both.write_text("a b\tX Y\na b\tA B\nc d\tC D\n")
    result = regard("evaluate", tiny_run.path, both, "--metric", "wer,bleu-tok-lc")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["wer", "0.00"]
    assert "nrefs:var" in lines[0]
    assert "nrefs:1" in lines[1]
    assert lines[3].startswith("3 lines, beam 5, checkpoint best (step ")
    assert lines[4].startswith("2 distinct sources: for wer and per")


def test_further_files_are_further_references(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b c d\n")
    (tmp_path / "t").write_text("H H H H\n")
    (tmp_path / "u").write_text("A B C D\n")
    one = regard("evaluate", tiny_run.path, tmp_path / "s", tmp_path / "t", "--metric", "ter", "--json")
    two = regard("evaluate", tiny_run.path, tmp_path / "s", tmp_path / "t", tmp_path / "u", "--metric", "ter", "--json")
    assert json.loads(one.stdout)["scores"]["ter"]["value"] == 100
    assert json.loads(two.stdout)["scores"]["ter"]["value"] == 0
    assert "nrefs:2" in json.loads(two.stdout)["scores"]["ter"]["signature"]


def test_a_wrong_metric_is_told_before_anything_is_read(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    result = regard("evaluate", tiny_run.path, tmp_path / "none", "--metric", "bleu,blue")
    assert isinstance(result.exception, ConfigError)
    assert "blue" in result.exception.what


def test_files_that_are_not_parallel(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("A B\n")
    result = regard("evaluate", tiny_run.path, tiny_run.source, tmp_path / "t")
    assert isinstance(result.exception, DataError)


def test_two_systems_are_compared(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    call = ("evaluate", tiny_run.path, tiny_run.source, tiny_run.target, "--metric", "bleu,wer", "--beam", "1")
    poor = tmp_path / "poor"
    poor.write_text("X Y Z\n" * 40)
    found = json.loads(regard(*call, "--against", poor, "--json").stdout)
    for name, better in (("bleu", 1), ("wer", -1)):
        compared = found["against"]["scores"][name]
        assert compared["p"] < 0.01 and compared["difference"] * better > 0
        assert compared["value"] + compared["difference"] == pytest.approx(found["scores"][name]["value"], abs=1e-3)
    told = regard(*call, "--against", tiny_run.path).stdout
    assert f"{tiny_run.path}: score, difference" in told and "+0.00  p = 1.0000" in told
    (tmp_path / "short").write_text("X\n")
    assert isinstance(regard(*call, "--against", tmp_path / "short").exception, DataError)
    assert isinstance(regard(*call, "--against", tmp_path / "absent").exception, ModelError)


# Other tasks


def test_a_language_model_on_its_own_validation_text(regard, language_model: Path, tmp_path: Path) -> None:
    """Gives the loss that training measured at the checkpoint, and bits by the raw bytes."""
    whole = (language_model.parent / "book.txt").read_text()
    given = tmp_path / "valid.txt"
    given.write_text(whole[round(len(whole) * 0.8) :], encoding="utf-8")
    found = json.loads(regard("evaluate", language_model, given, "--json", "--checkpoint", "30").stdout)
    lines = map(json.loads, (language_model / "metrics.jsonl").read_text().splitlines())
    told = [line["validation"]["loss"] for line in lines if line["step"] == 30 and "validation" in line]
    assert found["figures"]["loss"] == pytest.approx(told[0], rel=1e-5)
    assert found["figures"]["perplexity"] == pytest.approx(math.exp(told[0]), rel=1e-5)
    size = len(given.read_bytes())
    assert found["sums"]["bytes"] == size and found["sums"]["tokens"] == size + 1, "every sign, and the end"
    assert found["figures"]["bits_per_byte"] == pytest.approx(found["sums"]["nll"] / math.log(2) / size)
    cut = {"context": 16, "stride": 16, "documents": "streams", "counted": "every token and end"}
    assert found["settings"] == cut and found["checkpoint"] == "step 30"
    assert found["examples"] == -(-(size + 1) // 16)
    plain = regard("evaluate", language_model, given, given, "--metric", "perplexity").stdout.splitlines()
    assert [line.split()[0] for line in plain[:2]] == ["loss", "perplexity"] and "baseline" in plain[2]
    assert "context 16, stride 16" in plain[3] and f"{2 * (size + 1):,} tokens" in plain[3] and "nats" in plain[0]


def test_a_text_that_a_language_model_cannot_spell(regard, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_text("the § cat\n", encoding="utf-8")
    refused = regard("evaluate", language_model, tmp_path / "odd.txt").exception
    assert (
        isinstance(refused, DataError)
        and refused.where == str(tmp_path / "odd.txt")
        and "1 of its 10 tokens" in str(refused.why)
    )
    assert regard("evaluate", language_model, tmp_path / "odd.txt", "--metric", "loss").exit_code == 0


def test_a_task_of_one_s_own(regard, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 2 3\n4\n")
    (tmp_path / "b").write_text("0 0 9\n")
    found = package.evaluate(own_run, tmp_path / "a", tmp_path / "b")
    model = package.load(own_run)
    errors = [one - mean for one, mean in zip(model([[1.0, 2.0, 3.0], [4.0], [0.0, 0.0, 9.0]]), (2, 4, 3), strict=True)]
    assert found.figures["error"] == pytest.approx(sum(map(abs, errors)) / 3)
    assert found.figures["loss"] == pytest.approx(sum(each**2 for each in errors) / 3, rel=1e-5)
    assert (found.examples, found.settings) == (3, {})
    printed = json.loads(regard("evaluate", own_run, tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert printed["figures"] == found.figures
    again = package.evaluate(own_run, own_run.parent / "numbers.txt", checkpoint="last")
    last = [json.loads(line) for line in (own_run / "metrics.jsonl").read_text().splitlines()][-1]
    assert last["validation"] == pytest.approx(again.figures, rel=1e-5), "as the validation that chose the best"


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--beam", "2"], "does not apply"),
        (["--against", "x"], "cannot be evaluated one by one"),
        (["--metric", "bleu"], "unknown metric bleu"),
    ],
)
def test_what_is_not_of_the_task_is_refused(regard, own_run: Path, more: list[str], what: str) -> None:
    refused = regard("evaluate", own_run, own_run.parent / "numbers.txt", *more).exception
    assert isinstance(refused, ConfigError) and what in refused.what


def test_a_file_that_is_not_there(regard, own_run: Path) -> None:
    assert isinstance(regard("evaluate", own_run, own_run / "nowhere").exception, DataError)


def test_python_does_what_the_command_does(regard, tiny_run: TinyRun) -> None:
    call = ("evaluate", tiny_run.path, tiny_run.source, tiny_run.target, "--beam", "1", "--json")
    printed = json.loads(regard(*call).stdout)
    found = package.evaluate(tiny_run.path, tiny_run.source, tiny_run.target, beam=1)
    assert found.figures == {name: each["value"] for name, each in printed["scores"].items()}
    assert found.signatures == {name: each["signature"] for name, each in printed["scores"].items()}
    assert found.settings == printed["search"] and len(found.outputs) == found.examples == 40
    with pytest.raises(ConfigError, match="beem"):
        package.evaluate(tiny_run.path, tiny_run.source, tiny_run.target, beem=1)
    with pytest.raises(ConfigError, match="no file to evaluate on"):
        package.evaluate(tiny_run.path)
