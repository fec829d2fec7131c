"""The public Python interface changes only on purpose: its signatures are compared with a saved list."""

from __future__ import annotations

from .public_signatures import COMMAND, FILE, blocks, changes, signatures
from .python_reference import Documented

ADVICE = (
    "\nThe public interface has changed. Read “Public interface and deprecation” in CONTRIBUTING.md: keep the old form "
    f"with a DeprecationWarning, or add a line to CHANGELOG.md. Then run: {COMMAND}"
)


def test_public_signatures_are_those_of_the_saved_list() -> None:
    found = changes(FILE.read_text(encoding="utf-8").splitlines(), signatures(blocks()))
    assert found == [], "\n".join(found) + ADVICE


def test_the_saved_list_has_all_documented_names() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines)) and len(lines) > len(blocks())
    assert any(line.startswith("regard.train(*what: Any") for line in lines)


def test_a_line_has_kinds_defaults_and_results() -> None:
    lines = signatures([
        Documented("regard.training.progress.Reporter", ("finished",)),
        Documented("regard.training.progress.Outcome", ("is_complete",)),
        Documented("regard.training.trackers.MLflowReporter"),
    ])  # fmt: skip
    assert lines == [
        "regard.training.progress.Outcome(progress: TrainingProgress, reason: str)",
        "regard.training.progress.Outcome.is_complete -> bool",
        "regard.training.progress.Reporter.finished(outcome: Outcome) -> None",
        "regard.training.progress.Reporter: protocol",
        "regard.training.trackers.MLflowReporter(experiment: str = 'regard', tracking_uri: str | None = None, "
        "every: int = 10)",
    ]


def test_a_difference_is_described() -> None:
    before = ["a.f(x: int) -> int", "a.g() -> str", "a.C: protocol"]
    after = ["a.f(x: int, y: int = 0) -> int", "a.h() -> str", "a.C: protocol"]
    assert changes(before, after) == [
        "changed: a.f(x: int) -> int\n     to: a.f(x: int, y: int = 0) -> int",
        "removed: a.g() -> str",
        "added: a.h() -> str",
    ]
    assert changes(before, before) == []
