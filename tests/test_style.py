"""The project's text is plain English: the words of ``style_words.toml``, names, docstrings, commit subjects."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest

from tests.style import ROOT, Passage, _docstrings, _name_faults, _opener_faults, faults, files, passage_faults

FOLDERS = sorted(path.name for path in (ROOT / "regard").iterdir() if path.is_dir() and any(path.rglob("*.py")))
FIRST = "61cb22e"  # the last commit before subjects were checked
LONGEST_SUBJECT = 72


@pytest.mark.parametrize("folder", FOLDERS)
def test_source_text_is_plain(folder: str) -> None:
    """Docstrings, comments, messages and names of one package."""
    assert [str(fault) for file in files([ROOT / "regard" / folder]) for fault in faults(file)] == []


def test_text_beside_the_packages_is_plain() -> None:
    """The modules of the package itself, and the documentation."""
    paths = [
        *(ROOT / "regard").glob("*.py"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "docs",
    ]
    assert [str(fault) for file in files(paths) for fault in faults(file)] == []


@pytest.mark.parametrize(
    "before, after",
    [
        ("this model takes no threshold: it tells one class", "`threshold` applies to multi-label models only"),
        ("Of several labels: tell those of at least P.", "Return every label with probability ≥ P."),
        ("Answer of whoever does not interrupt.", "Return False: never interrupted."),
        ("What stands there is the embedding.", "The value is the embedding."),
        ("It has learned its training data by heart.", "It overfits its training data."),
        ("The normalisation of neighbours.", "The normalization of neighbors."),
        ("One word " * 18, "One word. " * 20),
        ("What it is told.", "The inputs of `told`."),
    ],
)
def test_the_scanner_finds_what_it_should(before: str, after: str) -> None:
    """Code in backticks is no text."""
    assert list(passage_faults(Passage(1, "docstring", before)))
    assert not list(passage_faults(Passage(1, "docstring", after)))


def test_the_scanner_reads_names_and_openers() -> None:
    """Assignments, parameters and functions have names; the method ``at`` of masks is a term."""
    nodes = list(
        ast.walk(
            ast.parse('def tell(each):\n    """Of whom."""\n    found = [given for given in each]\n    def at(): ...\n')
        )
    )
    assert {rule.split("“")[1].split("”")[0] for _, rule in _name_faults(nodes)} == {"tell", "each", "found", "given"}
    assert [line for line, _ in _opener_faults(nodes)] == [2] and len(list(_docstrings(nodes))) == 1


def subjects() -> list[str]:
    """Return the subjects of all commits after ``FIRST``; [] in a copy without its history."""
    command = ["git", "log", "--no-merges", "--format=%s", f"{FIRST}..HEAD"]
    try:
        log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return log.stdout.splitlines()


def test_subjects_of_commits_fit_in_a_line() -> None:
    """At most 5 % are longer, and 1 % have a semicolon."""
    lines = subjects()
    if not lines:
        pytest.skip("the history of the repository is not here")
    assert sum(len(line) > LONGEST_SUBJECT for line in lines) <= 0.05 * len(lines)
    assert sum(";" in line for line in lines) <= 0.01 * len(lines)


@pytest.mark.parametrize("word", ["share", "reading", "part", "origin", "checkpoint", "predictor", "place"])
def test_a_word_of_several_meanings_has_one_in_the_glossary(word: str) -> None:
    """One row of the glossary says which."""
    glossary = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    assert len(re.findall(rf"^\| \*{{0,2}}{word}\*{{0,2}} \|", glossary, re.MULTILINE)) == 1
