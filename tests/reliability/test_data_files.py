"""Data files changed at random, a few of each kind: what ``scripts/fuzz`` does for an hour."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.errors import DataError

from . import data_files, fuzz
from .data_files import READERS, SAMPLES

DRAWS = int(os.environ.get("REGARD_FUZZ", "15"))


@pytest.mark.parametrize("name", READERS)
def test_a_changed_file_is_read_or_refused(name: str, tmp_path: Path) -> None:
    """In this process, where an end of it would be seen; without a limit of memory."""
    for other, content in SAMPLES.items():
        (tmp_path / other).write_bytes(content)
    for reader in READERS[name]:
        reader(tmp_path / name)
    refused = 0
    for seed in range(DRAWS):
        (tmp_path / name).write_bytes(fuzz.case(name, SAMPLES[name], seed))
        for reader in READERS[name]:
            try:
                reader(tmp_path / name)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is judged
                assert fuzz.is_refusal(error), f"scripts/fuzz --file {name} --seed {seed}"
                refused += 1
    assert refused, "no change was ever noticed"


def test_a_fault_is_reported_with_its_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A reader that fails otherwise, or takes memory, or ends its process, is what the runs look for."""
    assert fuzz.is_refusal(DataError("no music")) and not fuzz.is_refusal(ValueError("no music"))
    assert not fuzz.is_refusal(DataError("no music", why="it needs more memory than is available"))
    outcome = fuzz.run_cases("music.json", 0, 3)
    assert outcome.read + outcome.refused == 3 and outcome.faults == []
    ending = fuzz.run_cases("music.json", 0, 3, preamble="import os; os.abort()")
    assert [fault.seed for fault in ending.faults] == [0, 1, 2] and "ended with -6" in ending.faults[0].what
    failing_reader = "lambda path: path.read_bytes() == d.MUSIC or 1 / 0"
    wrong = f"from tests.reliability import data_files as d; d.READERS['music.json'].append({failing_reader})"
    failing = fuzz.run_cases("music.json", 0, 3, preamble=wrong)
    assert len(failing.faults) == 3 and "ZeroDivisionError" in failing.faults[0].what


def test_every_reader_of_the_table_reads_its_sample() -> None:
    assert SAMPLES.keys() == READERS.keys() == data_files.FILES.keys()
