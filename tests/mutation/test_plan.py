"""The plan names modules and tests that exist, and every module whose changes tests should notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.plan import TESTS

ROOT = Path(__file__).parents[2]


def test_modules_and_tests_exist() -> None:
    files = {name for stages in TESTS.values() for stage in stages for name in stage if name.startswith("tests/")}
    assert not [name for name in sorted({*TESTS, *files}) if not (ROOT / name).is_file()]


@pytest.mark.parametrize("folder", ["data", "metrics", "models"])
def test_every_module_is_in_the_plan(folder: str) -> None:
    """All that has code: a table of names alone is none."""
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "regard" / folder).rglob("*.py")}
    tables = {name for name in modules if name.endswith(("__init__.py", "metrics/names.py"))}
    assert modules - tables <= TESTS.keys()
