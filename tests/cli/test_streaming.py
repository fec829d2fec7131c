"""``regard translate --streaming`` and ``regard evaluate --streaming``: words as they arrive, lags, logs."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.commands.incoming_words import Arrival, arrivals
from regard.core.figure import can_draw
from regard.errors import ConfigError, DataError
from regard.metrics.latency import read_instances

from .conftest import TinyRun

LINES = "a b c d\n\nh g f\n"


@pytest.mark.parametrize(
    "options", [[], ["--policy", "wait-k", "--lag", "2"], ["--policy", "alignatt"], ["--agree", "3"]]
)
def test_a_stream_has_a_line_for_each_line(regard: Any, tiny_run: TinyRun, options: list[str]) -> None:
    result = regard("translate", tiny_run.path, "--streaming", *options, input=LINES)
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert len(lines) == 4 and lines[1] == lines[3] == ""
    assert len(lines[0].split()) >= 3 and set(lines[0].split()) <= set("ABCDEFGH")


def test_json_steps_are_those_of_the_words(regard: Any, tiny_run: TinyRun) -> None:
    result = regard("translate", tiny_run.path, "--streaming", "--json", input=LINES)
    steps = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(step["line"], step["read"], step["final"]) for step in steps] == [
        (1, 1, False), (1, 2, False), (1, 3, False), (1, 4, True), (2, 0, True),
        (3, 1, False), (3, 2, False), (3, 3, True),
    ]  # fmt: skip
    for line in (1, 3):
        own = [step for step in steps if step["line"] == line]
        assert "".join(step["new"] for step in own) == own[-1]["committed"]
        assert all(step["seconds"] >= 0 for step in own)


def test_unstable_text_is_printed_with_its_revisions(regard: Any, tiny_run: TinyRun) -> None:
    result = regard("translate", tiny_run.path, "--streaming", "--revise", input="a b c d\n")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert len(lines) == 4 and all(len(line) == 2 for line in lines) and lines[-1][1] == ""
    assert lines[0] != ["", ""] and "of unstable text" in result.stderr


def test_words_are_printed_while_the_pipe_is_open(tiny_run: TinyRun) -> None:
    command = [sys.executable, "-m", "regard", "translate", str(tiny_run.path), "--streaming", "--policy", "wait-k"]
    with subprocess.Popen(
        [*command, "--lag", "1", "--threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"a b ")
        process.stdin.flush()
        first = process.stdout.read(1)  # arrives before the end of the line
        process.stdin.write(b"c\n")
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait() == 0
    assert (first + rest).decode().split()[0] == "A"


def test_a_reader_that_exits_ends_the_command(tiny_run: TinyRun) -> None:
    command = f"yes 'a b c' | {sys.executable} -m regard translate {tiny_run.path} --streaming --threads 1 | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("\n") == 1 and "Traceback" not in done.stderr


def test_a_file_is_read_plain_or_packed(regard: Any, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(LINES)
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    outputs = [
        regard("translate", tiny_run.path, tmp_path / name, "--streaming").stdout for name in ("in.txt", "in.txt.gz")
    ]
    assert outputs[0] == outputs[1] == regard("translate", tiny_run.path, "--streaming", input=LINES).stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--lag", "2"], "requires --streaming"),
        (["--streaming", "--nbest", "2"], "cannot be used with --streaming"),
        (["--streaming", "--prefix", "A"], "cannot be used with --streaming"),
        (["--streaming", "--workers", "2"], "cannot be used with --streaming"),
        (["--streaming", "-o", "x"], "cannot be used with --streaming"),
        (["--streaming", "--temperature", "1"], "cannot be sampled"),
        (["--streaming", "--policy", "wait-k", "--lag", "0"], "wait-k requires a lag of at least 1"),
        (["--streaming", "--policy", "wait"], "wait-k"),
        (["--streaming", "--policy", "alignatt", "--agree", "3"], "alignatt does not compare hypotheses"),
        (["--streaming", "--agree", "1"], "greater than or equal to 2"),
        (["--agree", "3"], "requires --streaming"),
    ],
)
def test_wrong_options_are_named(regard: Any, tiny_run: TinyRun, options: list[str], problem: str) -> None:
    result = regard("translate", tiny_run.path, *options, input="a b\n")
    assert problem in str(result.exception) + result.stderr.replace("\n", " ")
    assert isinstance(result.exception, ConfigError | SystemExit)


def test_bytes_that_are_no_text_are_refused_with_their_line(regard: Any, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"a b\nc \xff d\n")
    error = regard("translate", tiny_run.path, tmp_path / "in.txt", "--streaming").exception
    assert isinstance(error, DataError) and error.where == f"{tmp_path / 'in.txt'}:2" and "0xff" in str(error.why)


@given(st.lists(st.text("ab \n\r", max_size=6), max_size=8))
def test_arrivals_are_the_text_in_any_pieces(texts: list[str]) -> None:
    whole = "".join(texts)
    parts = list(arrivals(texts))
    lines, current = [], ""
    for arrival in parts:
        current += arrival.text
        if arrival.ends_line:
            lines.append(current)
            current = ""
    expected = whole.replace("\r\n", "\n").split("\n")
    expected = expected if expected[-1] else expected[:-1]
    assert [line.split() for line in lines] == [line.split() for line in expected] and not current.strip()
    assert all(len(arrival.text.split()) <= 1 for arrival in parts)


def test_a_word_arrives_with_its_space() -> None:
    assert list(arrivals(["a b", "c ", "d\n"])) == [
        Arrival("a ", False), Arrival("bc ", False), Arrival("d", True),
    ]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "test.src").write_text("a b c d\nh g f\nb b\n")
    (tmp_path / "test.trg").write_text("A B C D\nH G F\nB B\n")
    return [tmp_path / "test.src", tmp_path / "test.trg"]


def test_quality_and_lag_of_several_lags(regard: Any, tiny_run: TinyRun, files: list[Path], tmp_path: Path) -> None:
    log = tmp_path / "instances.log"
    options = ["--streaming", "--policy", "wait-k", "--lag", "2,1,9", "--metric", "bleu,chrf", "--log", log]
    scores = json.loads(regard("evaluate", tiny_run.path, *files, *options, "--json").stdout)
    assert [score["lag"] for score in scores] == [1, 2, 9]
    whole = scores[-1]
    lengths = [4, 3, 2]
    assert whole["words"]["LAAL"] == pytest.approx(sum(lengths) / 3) and whole["words"]["YAAL"] is None
    assert scores[0]["words"]["LAAL"] <= scores[1]["words"]["LAAL"] <= whole["words"]["LAAL"]
    assert whole["milliseconds"]["LAAL"] > 1000 * sum(lengths) / 3 / 3.0  # three words a second, and computation
    plain = regard("evaluate", tiny_run.path, *files, "--metric", "bleu", "--json")
    assert whole["figures"]["bleu"] == pytest.approx(json.loads(plain.stdout)["scores"]["bleu"]["value"])
    slow = json.loads(regard("evaluate", tiny_run.path, *files, *options, "--rate", "0.1", "--json").stdout)
    assert slow[-1]["milliseconds"]["LAAL"] > 1000 * sum(lengths) / 3 / 0.1
    instances = read_instances(tmp_path / "instances.wait-k-9.log")
    assert [one.source_length for one in instances] == lengths
    assert all(delay == one.source_length for one in instances for delay in one.delays)
    table = regard("evaluate", tiny_run.path, *files, *options).stdout
    assert "LAAL" in table and table.count("wait-k") == 3
    agreeing = ["--streaming", "--agree", 3, "--lag", "1,2", "--metric", "bleu", "--log", log, "--json"]
    three, _ = json.loads(regard("evaluate", tiny_run.path, *files, *agreeing).stdout)
    assert three["policy"] == "local-agreement of 3" and three["words"]["LAAL"] > scores[0]["words"]["LAAL"]
    assert (tmp_path / "instances.local-agreement-of-3-2.log").exists()


@pytest.mark.skipif(not can_draw(), reason="needs matplotlib")
def test_curves_of_all_policies(regard: Any, tiny_run: TinyRun, files: list[Path], tmp_path: Path) -> None:
    options = ["--streaming", "--lag", "0,2", "--curve", tmp_path / "c", "--metric", "bleu", "--together", "3"]
    result = regard("evaluate", tiny_run.path, *files, *options)
    assert "left out wait-k with lag 0" in result.stderr
    picture = (tmp_path / "c" / "curve.svg").read_text()
    for name in ("wait-k", "local-agreement", "alignatt", "whole source", "LAAL (source words)"):
        assert name in picture


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--lag", "1"], "requires --streaming"),
        (["--rate", "2"], "requires --streaming"),
        (["--streaming", "--lag", "1,x"], "a list of lags is required"),
        (["--streaming", "--lag", ""], "a list of lags is required"),
        (["--streaming", "--errors"], "this option does not apply"),
        (["--streaming", "--metric", "blue"], "unknown metric blue"),
    ],
)
def test_wrong_options_of_an_evaluation(
    regard: Any, tiny_run: TinyRun, files: list[Path], options: list[str], problem: str
) -> None:
    error = regard("evaluate", tiny_run.path, *files, *options).exception
    assert isinstance(error, ConfigError) and problem in str(error)


def test_a_line_of_several_sentences_is_evaluated_as_one(regard: Any, tiny_run: TinyRun, tmp_path: Path) -> None:
    """As the offline evaluation does: the words after the first sentence are not lost."""
    (tmp_path / "two.src").write_text("a hg. C d\n")
    (tmp_path / "two.trg").write_text("A B C D\n")
    log = tmp_path / "two.log"
    options = ["--streaming", "--policy", "wait-k", "--lag", "9", "--metric", "chrf", "--log", log]
    assert regard("evaluate", tiny_run.path, tmp_path / "two.src", tmp_path / "two.trg", *options).exit_code == 0
    (instance,) = read_instances(log)
    assert instance.prediction == regard("translate", tiny_run.path, input="a hg. C d\n").stdout.strip()
    assert set(instance.delays) == {4.0}
