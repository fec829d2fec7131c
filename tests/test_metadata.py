"""Metadata of the package and of the citation file agree and are valid."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from regard.core.task_table import TASKS

from .documented import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = ROOT / "CITATION.cff"


def test_classifiers_are_known_and_name_each_python_version() -> None:
    known = pytest.importorskip("trove_classifiers", reason="trove-classifiers is not installed").classifiers
    classifiers = PROJECT["classifiers"]
    assert [name for name in classifiers if name not in known] == [] and classifiers == sorted(set(classifiers))
    versions = [name.rpartition(" ")[2] for name in classifiers if "Python :: 3." in name]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == f">={versions[0]}"


@pytest.mark.skipif(not CITATION.is_file(), reason="CITATION.cff is not in this distribution")
def test_the_citation_has_the_authors_and_keywords_of_the_package() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed")
    citation = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    assert citation["authors"] == PROJECT["authors"]
    assert set(citation["keywords"]) <= set(PROJECT["keywords"])
    assert citation["license"] == PROJECT["license"]


def test_core_dependencies_are_few_and_have_lower_bounds() -> None:
    assert len(PROJECT["dependencies"]) <= 12
    assert [name for name in PROJECT["dependencies"] if ">=" not in name] == []


@pytest.mark.parametrize(
    "word", ["translation", "classification", "tagging", "speech", "forecasting", "graph", "language-model"]
)
def test_keywords_name_the_tasks(word: str) -> None:
    assert any(word in keyword for keyword in PROJECT["keywords"]) and len(TASKS) >= 10
