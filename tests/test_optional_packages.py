"""Optional packages: the types of the source are checked without those that a development environment may lack."""

from __future__ import annotations

import ast
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = ("demo", "dev", "docs", "serve")  # of scripts/check


def imported_packages(text: str) -> set[str]:
    """Return the first names of all absolute imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def with_requirements(lines: Iterable[str]) -> set[str]:
    """Return the distributions of some requirements and of all that they require in turn."""
    queue, distributions = [Requirement(line) for line in lines], set()
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if name in distributions or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        distributions.add(name)
        try:
            queue += [Requirement(line) for line in importlib.metadata.requires(name) or []]
        except importlib.metadata.PackageNotFoundError:  # of another platform
            continue
    return distributions


def test_types_are_checked_without_packages_that_no_check_installs() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    installed = with_requirements(lines)
    owners = importlib.metadata.packages_distributions()
    ignored = {name.removesuffix(".*") for name in PROJECT["tool"]["mypy"]["overrides"][0]["module"]}
    names = set.union(*(imported_packages(file.read_text("utf-8")) for file in (ROOT / "regard").rglob("*.py")))
    names -= {*sys.stdlib_module_names, "regard", "_typeshed"}
    assert len(names) > 20
    missing = {name for name in names if not {canonicalize_name(owner) for owner in owners.get(name, ())} & installed}
    assert missing <= ignored, "add them to the overrides of mypy in pyproject.toml"
