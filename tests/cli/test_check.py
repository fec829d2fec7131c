"""``regard check``: the report of the lint, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_corpus_that_cannot_be_trained_on_exits_with_3_and_names_the_line(regard, tmp_path: Path) -> None:
    source = write(tmp_path, "s", "one", "two", "three")
    target = write(tmp_path, "t", "eins", "", "drei")
    result = regard("check", source, target)
    assert result.exit_code == 3
    assert "error    blank-side: 1" in result.stdout
    assert f"{source}:2: the target is blank" in result.stdout


def test_overlap_with_held_out_data_is_a_warning(regard, tmp_path: Path) -> None:
    source = write(tmp_path, "s", "a dog runs", "a cat sits")
    target = write(tmp_path, "t", "ein Hund rennt", "eine Katze sitzt")
    test = write(tmp_path, "test.tsv", "a cat sits\teine Katze sitzt")
    result = regard("check", source, target, "--test", test, "--test", f"{source},{target}", "--json", "--most", "1")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["counts"]["overlap"] == 3
    assert [each["line"] for each in found["findings"] if each["kind"] == "overlap"] == [1]
    assert "it can be trained on" in regard("check", source, target, "--test", test).stdout
