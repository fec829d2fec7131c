"""Bulk work of the verbs: the same text as one file at a time gives, and words for what is no such work."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.bulk import processes
from regard.bulk.worker import Share, do_share, open_order, open_work
from regard.errors import ConfigError, DataError

from .conftest import TinyRun


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker in this process, which loads no library anew."""

    def run(order, workers, report, say) -> None:
        job = open_order(order)
        do_share(job, Share(*order.share), open_work(order.spec, job.seed), report)

    monkeypatch.setattr(processes, "run_processes", run)


@pytest.fixture
def inputs(tiny_run: TinyRun, tmp_path: Path) -> list[Path]:
    lines = tiny_run.source.read_text().splitlines()
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in [lines[0], *lines, "", *lines[:4]]))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(lines[7:20]).encode()))
    return [tmp_path / "a.txt", tmp_path / "b.txt.gz"]


def test_translating_in_processes_gives_the_text_of_one(
    regard, tiny_run: TinyRun, inputs: list[Path], tmp_path: Path
) -> None:
    """The one test that starts workers."""
    expected = [regard("translate", tiny_run.path, path).stdout for path in inputs]
    result = regard(
        "translate", tiny_run.path, *inputs, "-o", f"{tmp_path / 'out'}/", "--block", "10", "--workers", "2"
    )
    assert result.exit_code == 0, result.output
    assert [(tmp_path / "out" / name).read_text() for name in ("a.txt", "b.txt")] == expected
    assert f"59 lines (58 distinct) written to {tmp_path / 'out'}" in result.stderr


def test_objects_have_the_numbers_of_their_lines(
    regard, here: None, tiny_run: TinyRun, inputs: list[Path], tmp_path: Path
) -> None:
    result = regard("translate", tiny_run.path, *inputs, "-o", tmp_path / "out", "--json", "--block", "8")
    summary = json.loads(result.stdout)
    assert (summary["lines"], summary["quarantined"]) == (59, 0) and 0 < summary["distinct"] < 59
    for path, name in zip(inputs, ("a.txt", "b.txt"), strict=True):
        expected = [json.loads(line) for line in regard("translate", tiny_run.path, path, "--json").stdout.splitlines()]
        found = [json.loads(line) for line in (tmp_path / "out" / name).read_text().splitlines()]
        assert [(row["line"], row["text"]) for row in found] == [(row["line"], row["text"]) for row in expected]


def test_shards_and_merge(regard, here: None, tiny_run: TinyRun, inputs: list[Path], tmp_path: Path) -> None:
    call = ("translate", tiny_run.path, *inputs, "-o", tmp_path / "out", "--block", "10")
    assert "(--merge joins the shards)" in regard(*call, "--shard", "2/2").stderr
    early = regard(*call, "--merge").exception
    assert isinstance(early, DataError) and "4 of 7 blocks are missing" in early.what
    assert regard(*call, "--shard", "1/2").exit_code == 0
    assert not (tmp_path / "out/a.txt").exists()
    assert "59 lines" in regard(*call, "--merge").stderr
    assert (tmp_path / "out/a.txt").read_text() == regard("translate", tiny_run.path, inputs[0]).stdout
    other = regard(*call, "--beam", "1").exception
    assert isinstance(other, ConfigError) and "differs in search" in str(other.why)


def test_a_line_set_aside_is_told_and_strict_fails(regard, here: None, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a b\n\xff\nc d\n")
    call = ("translate", tiny_run.path, tmp_path / "a.txt", "-o", tmp_path / "out", "--workers", "1")
    result = regard(*call)
    assert result.exit_code == 0 and "1 line failed and got a blank output" in result.stderr
    assert f"{tmp_path / 'a.txt'}:2: not UTF-8" in result.stderr
    assert (tmp_path / "out/a.txt").read_text() == "A B\n\nC D\n"
    strict = regard(*call, "--strict").exception
    assert isinstance(strict, DataError) and str(strict.where).startswith(f"{tmp_path / 'a.txt'}:2")


def test_a_draw_depends_on_the_line_and_the_seed_alone(regard, here: None, tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a b c d\nd c b a\nb a\n" * 4)

    def drawn(out: str, *options: str) -> str:
        call = ("translate", tiny_run.path, tmp_path / "a.txt", "-o", tmp_path / out, "--temperature", "30", "--strict")
        assert regard(*call, *options).exit_code == 0
        return (tmp_path / out / "a.txt").read_text()

    first = drawn("one", "--seed", "5")
    assert drawn("two", "--seed", "5") == first != drawn("three", "--seed", "6")
    assert first.splitlines() == first.splitlines()[:3] * 4 and len(set(first.splitlines())) > 1
    assert drawn("four", "--seed", "5", "--block", "2") == first, "blocks draw nothing of their own"


def test_generating_and_scoring_text(regard, here: None, language_model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat\n§\nthe\nthe cat\n")
    seeded = ("--seed", "3", "--length", "5")
    result = regard("generate", language_model, tmp_path / "a.txt", "-o", tmp_path / "out", *seeded)
    (tmp_path / "sound.txt").write_text("the cat\nthe\nthe cat\n")
    expected = regard("generate", language_model, tmp_path / "sound.txt", *seeded).stdout.splitlines()
    assert (tmp_path / "out/a.txt").read_text().splitlines() == [expected[0], "", *expected[1:]]
    assert "no piece for '§'" in result.stderr
    (tmp_path / "b.txt").write_text("the cat\n\nthe rat\n")
    assert regard("score", language_model, tmp_path / "b.txt", "-o", tmp_path / "scores").exit_code == 0
    assert (tmp_path / "scores/b.txt").read_text() == regard("score", language_model, tmp_path / "b.txt").stdout
    regard("score", language_model, tmp_path / "b.txt", "-o", tmp_path / "objects", "--json")
    found = [line and json.loads(line) for line in (tmp_path / "objects/b.txt").read_text().splitlines()]
    *objects, _ = map(json.loads, regard("score", language_model, tmp_path / "b.txt", "--json").stdout.splitlines())
    assert found == [objects[0], "", objects[1]]


def test_scoring_pairs(regard, here: None, tiny_run: TinyRun, tmp_path: Path) -> None:
    pairs = zip(tiny_run.source.read_text().splitlines(), tiny_run.target.read_text().splitlines(), strict=True)
    rows = [f"{source}\t{target}\n" for source, target in pairs]
    (tmp_path / "a.tsv").write_text("".join(rows))
    expected = regard("score", tiny_run.path, tmp_path / "a.tsv").stdout.splitlines()
    (tmp_path / "a.tsv").write_text("".join([rows[0], "\n", "alone\n", "half\t\n", *rows[1:]]))
    result = regard("score", tiny_run.path, tmp_path / "a.tsv", "-o", tmp_path / "out")
    found = (tmp_path / "out/a.tsv").read_text().splitlines()
    assert [float(line) for line in found if line] == pytest.approx([float(line) for line in expected], abs=2e-4)
    assert found[1:4] == ["", "", ""] and "2 lines failed" in result.stderr
    assert isinstance(
        regard("score", tiny_run.path, tiny_run.source, tiny_run.target, "-o", tmp_path / "x").exception, ConfigError
    )


def test_predicting_by_a_task_of_one_s_own(regard, here: None, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2 3\nno number\n4 5\n")
    result = regard("predict", own_run, tmp_path / "a.txt", "-o", tmp_path / "out", "--json")
    expected = regard("predict", own_run, "--json", input="1 2 3\n4 5\n").stdout.splitlines()
    assert (tmp_path / "out/a.txt").read_text().splitlines() == [expected[0], "", expected[1]]
    assert json.loads(result.stdout)["quarantined"] == 1
    unknown = regard("predict", own_run, tmp_path / "a.txt", "-o", tmp_path / "y", "--set", "gone=1").exception
    assert isinstance(unknown, ConfigError) and "gone" in unknown.what


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", "b"), "several input files require an output folder"),
        (("a", "--shard", "1/2"), "--shard requires an output folder"),
        (("-o", "out/"), "cannot read standard input"),
        (("-", "-o", "out/"), "cannot read standard input"),
        (("a", "b", "-o", "a"), "must be a folder"),
        (("a", "-o", "out/", "--merge", "--shard", "1/2"), "--merge cannot be combined with --shard"),
        (("a", "-o", "out/", "--shard", "0/2"), "shard 0/2 does not exist"),
        (("a", "-o", "out/", "--resume"), "cannot be used in bulk"),
        (("a", "-o", "out/", "--nbest", "2"), "cannot be used in bulk"),
        (("a", "-o", "out/", "--prefixes", "a"), "cannot be used in bulk"),
        (("gone", "-o", "out/"), "file not found"),
    ],
)
def test_what_is_no_work_in_bulk_is_told(
    regard, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("a b\n")
    (tmp_path / "b").write_text("a b\n")
    assert words in str(regard("translate", tiny_run.path, *arguments).exception)
    assert not (tmp_path / "out").exists()


def test_ray_that_is_not_installed_is_told(
    regard, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    found = regard("translate", tiny_run.path, tiny_run.source, "-o", tmp_path / "out", "--on", "ray").exception
    assert isinstance(found, ConfigError) and "[ray]" in str(found.help)
