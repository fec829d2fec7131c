"""``regard translate``: text in, text out, whatever stands in the way."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from regard.errors import ConfigError, DataError, ModelError, StorageError
from regard.inference.results import Translation
from regard.tasks.translation.translator import Translator

from .conftest import TinyRun


def test_standard_input_to_standard_output_line_for_line(regard, tiny_run: TinyRun) -> None:
    result = regard("translate", tiny_run.path, "--threads", "1", input="a b\n\nh g f\n")
    assert result.exit_code == 0
    assert result.stdout == "A B\n\nH G F\n"


def test_order_is_kept_over_chunks(regard, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.commands.translate.BATCHES", 1)
    lines = [f"{first} {second}" for first in "abcdefgh" for second in "abcdefgh"] * 2 + ["a b c d"]
    result = regard("translate", tiny_run.path, "--beam", "1", input="".join(f"{line}\n" for line in lines))
    outputs = result.stdout.splitlines()
    assert len(outputs) == len(lines) == 129
    right = sum(output == line.upper() for output, line in zip(outputs, lines, strict=True))
    assert right > 100  # a shift by one line would leave next to none


def test_json_says_what_the_model_says(regard, tiny_run: TinyRun) -> None:
    from regard import load

    result = regard("translate", tiny_run.path, "--json", "--nbest", "3", input="c a b\n")
    found = json.loads(result.stdout)
    expected = load(tiny_run.path)("c a b", nbest=3)
    assert found["line"] == 1
    assert found["source"] == "c a b"
    assert found["text"] == expected.text
    assert found["score"] == pytest.approx(expected.score)
    assert [each["text"] for each in found["candidates"]] == [each.text for each in expected.candidates]
    best = found["candidates"][0]
    assert math.fsum(best["piece_log_probabilities"]) == pytest.approx(best["log_probability"], abs=1e-4)
    assert best["pieces"] == found["text"].split()


def test_what_was_never_seen_in_training_is_said_once_and_counted(regard, tiny_run: TinyRun) -> None:
    result = regard("translate", tiny_run.path, "--json", input="a é b\na b\né \x1bz é\n")
    found = [json.loads(line)["unknown"] for line in result.stdout.splitlines()]
    assert found == [{"é": 1}, {}, {"é": 2, "\x1bz": 1}]
    assert "2 unknown words replaced by <unk>: é (3), U+001Bz" in result.stderr
    assert "replaced by <unk>" not in regard("translate", tiny_run.path, input="a b\n").stderr


@pytest.mark.parametrize(
    ("engine", "hardware", "told"), [("bfloat16", False, True), ("bfloat16", True, False), ("float32", False, False)]
)
def test_emulated_bfloat16_is_told(
    regard, tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch, engine: str, hardware: bool, told: bool
) -> None:
    monkeypatch.setattr("regard.core.processor.bfloat16_in_hardware", lambda: hardware)
    result = regard("translate", tiny_run.path, "--engine", engine, input="a b\n")
    assert result.stdout == "A B\n"
    assert ("emulates bfloat16" in result.stderr) is told


def test_nbest_is_a_table_of_number_score_and_text(regard, tiny_run: TinyRun) -> None:
    result = regard("translate", tiny_run.path, "--nbest", "2", "--length-penalty", "0", input="a b\nc d\n")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert float(rows[0][1]) > float(rows[1][1])
    assert rows[2][2] == "C D"


def test_more_best_than_the_usual_beam_widens_the_beam(regard, tiny_run: TinyRun) -> None:
    result = regard("translate", tiny_run.path, "--nbest", "7", input="a b\n")
    assert len(result.stdout.splitlines()) == 7


def test_forced_beginnings(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    same = regard("translate", tiny_run.path, "--prefix", "H H", input="a b\nc d\n")
    assert all(line.startswith("H H") for line in same.stdout.splitlines())
    (tmp_path / "begin").write_text("H\n\n")
    each = regard("translate", tiny_run.path, "--prefixes", tmp_path / "begin", input="a b\nc d\n")
    assert each.stdout.splitlines()[0].startswith("H ")
    assert each.stdout.splitlines()[1] == "C D"
    fewer = regard("translate", tiny_run.path, "--prefixes", tmp_path / "begin", input="a b\nc d\ne f\n")
    assert isinstance(fewer.exception, DataError)
    more = regard("translate", tiny_run.path, "--prefixes", tmp_path / "begin", input="a b\n")
    assert isinstance(more.exception, DataError)
    assert "1 more prefix" in more.exception.what
    both = regard("translate", tiny_run.path, "--prefix", "A", "--prefixes", tmp_path / "begin", input="a b\n")
    assert isinstance(both.exception, ConfigError)


def test_draws_are_repeatable_with_a_seed_and_differ_without(regard, tiny_run: TinyRun) -> None:
    def draw(*options: str) -> str:
        return regard(
            "translate", tiny_run.path, "--temperature", "30", *options, input="a b c d\nd c b a\nb a\nc c a b\n"
        ).stdout

    assert draw("--seed", "5") == draw("--seed", "5")
    assert len({draw("--seed", "5"), draw("--seed", "6"), draw(), draw()}) == 4


def test_equal_lines_have_equal_draws_in_any_chunk(regard, tiny_run: TinyRun) -> None:
    lines = regard("translate", tiny_run.path, "--temperature", "30", input="a b c d\n" * 70).stdout.splitlines()
    assert len(lines) == 70 and len({*lines}) == 1


def test_drawing_among_one_piece_is_greedy(regard, tiny_run: TinyRun) -> None:
    lines = tiny_run.source.read_text()
    drawn = regard("translate", tiny_run.path, "--temperature", "5", "--top-k", "1", input=lines)
    assert drawn.stdout == regard("translate", tiny_run.path, "--beam", "1", input=lines).stdout


def test_file_to_file(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    result = regard("translate", tiny_run.path, tiny_run.source, "--output", tmp_path / "out")
    assert result.stdout == ""
    expected = regard("translate", tiny_run.path, input=tiny_run.source.read_text()).stdout
    assert (tmp_path / "out").read_text() == expected
    assert expected.count("\n") == 40


def test_an_interrupted_translation_goes_on(
    regard, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.commands.translate.BATCHES", 1)
    text, out = tmp_path / "in", tmp_path / "out"
    text.write_text(tiny_run.source.read_text() * 5)  # 200 lines, 64 at a time
    call = ("translate", tiny_run.path, text, "--beam", "1", "-o", out)
    made: list[int] = []

    def counted(self: Translator, lines: list[str], **options: object) -> list[Translation]:
        made.append(len(lines))
        if len(made) == 3:
            raise KeyboardInterrupt
        return whole(self, lines, **options)

    whole = Translator.translate
    monkeypatch.setattr(Translator, "translate", counted)
    said = regard(*call).stderr
    assert not out.exists() and "128 lines are done; add --resume to the command to continue" in said
    other = regard(*call[:-3], "2", *call[-2:], "--resume").exception
    assert isinstance(other, ConfigError) and "differs in search" in str(other.why)
    assert "resuming after line 128" in regard(*call, "--resume").stderr
    assert made == [64, 64, 64, 64, 8]
    monkeypatch.undo()
    assert out.read_text() == regard(*call[:-2]).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@pytest.mark.parametrize("options", [["--resume"], ["--resume", "-o", "/dev/null"]])
def test_what_cannot_be_gone_on_with_is_told(regard, tiny_run: TinyRun, options: list[str]) -> None:
    error = regard("translate", tiny_run.path, tiny_run.source, *options).exception
    assert isinstance(error, ConfigError) and "requires an input file and an output file" in str(error)


def test_a_pipe_for_a_file_is_read_once(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    """As a shell's ``<(zcat text.gz)``: to count its lines first would use them up."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a b\nc d\n",), daemon=True)
    writer.start()
    result = regard("translate", tiny_run.path, pipe)
    writer.join(timeout=60)
    assert result.stdout == "A B\nC D\n"


def test_the_file_of_before_stays_until_all_is_there(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("before\n")
    failed = regard("translate", tiny_run.path, "--output", out, input=b"a b\n\xff\n")
    assert isinstance(failed.exception, DataError)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "before\n")]
    (tmp_path / "link").symlink_to(out)
    assert regard("translate", tiny_run.path, "--output", tmp_path / "link", input="a b\n").exit_code == 0
    assert (tmp_path / "link").is_symlink() and out.read_text() == "A B\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


def test_a_device_is_written_and_not_replaced(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert regard("translate", tiny_run.path, "--output", pipe, input="a b\n").exit_code == 0
    reader.join(timeout=60)
    assert read == ["A B\n"] and pipe.is_fifo()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full, which is a disk without room")
def test_a_full_disk_is_told(regard, tiny_run: TinyRun) -> None:
    error = regard("translate", tiny_run.path, "--output", "/dev/full", input="a b\n").exception
    assert isinstance(error, StorageError) and "No space left" in error.what


def test_a_place_that_cannot_be_written_is_told_before_any_work(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    result = regard("translate", tiny_run.path, "--output", tmp_path / "no" / "out", input=b"\xff\n")
    assert isinstance(result.exception, StorageError)


def test_never_writes_over_its_input(regard, tiny_run: TinyRun, tmp_path: Path) -> None:
    text = tmp_path / "in"
    text.write_text("a b\n")
    result = regard("translate", tiny_run.path, text, "--output", text)
    assert isinstance(result.exception, ConfigError)
    assert text.read_text() == "a b\n"


def test_bytes_that_are_no_text_name_their_line_and_lose_nothing_before(regard, tiny_run: TinyRun) -> None:
    result = regard("translate", tiny_run.path, input=b"a b\nc d\n\xff\xfe\ne f\n")
    assert isinstance(result.exception, DataError)
    assert result.exception.where == "standard input:3"
    assert result.stdout == "A B\nC D\n"


def test_a_checkpoint_by_name(regard, tiny_run: TinyRun) -> None:
    early = regard("translate", tiny_run.path, "--checkpoint", "100", "--json", input="a b c d e\n")
    late = regard("translate", tiny_run.path, "--checkpoint", "last", "--json", input="a b c d e\n")
    assert json.loads(early.stdout)["log_probability"] < json.loads(late.stdout)["log_probability"]
    missing = regard("translate", tiny_run.path, "--checkpoint", "average", input="a\n")
    assert isinstance(missing.exception, ModelError)


@pytest.mark.parametrize(
    ("options", "where"),
    [(["--device", "quantum"], "--device"), (["--nbest", "3", "--beam", "2"], None), (["--top-k", "3"], None)],
)
def test_options_that_cannot_be_used(regard, tiny_run: TinyRun, options: list[str], where: str | None) -> None:
    result = regard("translate", tiny_run.path, *options, input="a\n")
    assert isinstance(result.exception, ConfigError)
    assert result.exception.where == where


def test_no_run_folder(regard, tmp_path: Path) -> None:
    result = regard("translate", tmp_path / "nothing", input="a\n")
    assert isinstance(result.exception, ModelError)


def test_a_reader_that_goes_away_is_no_failure(tiny_run: TinyRun, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a b c\n" * 20_000)
    arguments = ["regard", "translate", str(tiny_run.path), str(text), "--beam", "1", "--threads", "1"]
    code = f"import sys, regard.cli; sys.argv = {arguments!r}; regard.cli.main()"
    running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.readline() == b"A B C\n"
    running.stdout.close()
    assert running.wait(timeout=60) == 141
    assert running.stderr.read() == b""
    running.stderr.close()
