"""A test that catches nothing is no test: each of these wrong versions must fail the one that is named beside it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from regard.answers import spans
from regard.testing import ANSWER_LAWS, FIELD_LAWS
from tests.test_train import Making

from .declared import DECLARED
from .editing import Edit
from .imported import IMPORTED
from .measured import MEASURED
from .series import SERIES
from .table import MUTANTS, Mutant


@pytest.fixture
def making(tmp_path: Path) -> Iterator[Making]:
    yield Making(tmp_path)


ALL = MUTANTS | MEASURED | DECLARED | IMPORTED | SERIES


@pytest.mark.parametrize("mutant", ALL.values(), ids=ALL)
def test_it_is_caught(mutant: Mutant, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    fixtures = [name for name in inspect.signature(mutant.test).parameters if name not in mutant.arguments]
    arguments = mutant.arguments | {name: request.getfixturevalue(name) for name in fixtures}
    with monkeypatch.context() as patch, without_caches():
        mutant.edit.apply(patch)
        _draw_only(mutant.test, patch)
        with pytest.raises(AssertionError):
            mutant.test(**arguments)


@contextmanager
def without_caches() -> Iterator[None]:
    """Forget what functions of ``regard`` remember: before, so that the wrong version computes, and after it."""
    _forget()
    try:
        yield
    finally:
        _forget()


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "regard":
            for value in vars(module).values():
                if callable(forget := getattr(value, "cache_clear", None)):
                    forget()


def test_what_a_function_remembered_does_not_outlive_a_wrong_version() -> None:
    kinds = ("O", "B-X", "I-X")
    assert barred(kinds) == 2  # I-X first, and after O; every tag may end
    with pytest.MonkeyPatch.context() as patch, without_caches():
        Edit(spans._may_follow, "return continues or begins", "return True").apply(patch)
        assert barred(kinds) == 0
    assert barred(kinds) == 2


def barred(kinds: tuple[str, ...]) -> int:
    return sum(int((each < 0).sum()) for each in spans._allowed(kinds, "iob2"))


def test_every_law_of_fields_and_answers_catches_some_mutant() -> None:
    laws = {mutant.arguments["law"] for mutant in DECLARED.values() if "law" in mutant.arguments}
    assert laws == {law.name for law in (*FIELD_LAWS, *ANSWER_LAWS)}


def _draw_only(test: Any, patch: pytest.MonkeyPatch) -> None:
    """Let a test of hypothesis report its first counterexample: nobody reads the smallest one."""
    name = "_hypothesis_internal_use_settings"
    if hasattr(test, "hypothesis"):
        patch.setattr(test, name, settings(getattr(test, name), phases=[Phase.explicit, Phase.generate]))


def sum_of(one: int, other: int) -> int:
    return one + other


def test_an_edit_holds_for_whoever_has_the_function_and_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = sum_of
    with monkeypatch.context() as patch:
        Edit(sum_of, "one + other", "one - other").apply(patch)
        assert kept(3, 2) == 1
    assert kept(3, 2) == 5


@pytest.mark.parametrize("old", ["one * other", "one"])
def test_an_edit_of_what_is_not_there_or_not_once_is_refused(old: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="mend this row"):
        Edit(sum_of, old, "0").apply(monkeypatch)
