"""The plan names modules and tests that exist."""

from __future__ import annotations

from pathlib import Path

from tests.mutation.plan import TESTS

ROOT = Path(__file__).parents[2]


def test_modules_and_tests_exist() -> None:
    files = {name for stages in TESTS.values() for stage in stages for name in stage if name.startswith("tests/")}
    assert not [name for name in sorted({*TESTS, *files}) if not (ROOT / name).is_file()]
