"""Folders are layers: a file imports from its own folder and from folders below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

parsed = cache(ast.parse)  # each text is asked for by several tests
LAYERS = {
    "errors": 0,
    "": 1,  # the package itself, which fetches what is above on first use
    "core": 1,
    "config": 2,
    "native": 2,
    "attention": 3,
    "data": 3,
    "search": 3,
    "models": 4,
    "engine": 5,
    "runs": 5,
    "metrics": 4,
    "inference": 6,
    "training": 6,
    "tasks": 7,
    "testing": 7,
    "bulk": 8,
    "share": 8,
    "comparison": 9,
    "inspection": 9,
    "studies": 9,
    "server": 10,
    "commands": 11,
    "cli": 12,
    "__main__": 13,
}
ALONE = ("regard.attention.mechanisms",)  # folders of which no file imports another

ROOT = Path(__file__).parents[1]


def folder(module: str) -> str:
    """The folder under ``regard/`` that a module lies in, or the module's own name where it lies at the top."""
    return module.removeprefix("regard").removeprefix(".").partition(".")[0]


def named(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Modules that a file imports from, inside functions too, and what from each ("" for the module itself); what only
    a type checker reads is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)
        elif not isinstance(node, ast.expr):
            yield from named(node)


@cache
def imported(text: str) -> list[tuple[str, str]]:
    return [*named(parsed(text))]


def imports(text: str, known: frozenset[str]) -> Iterator[str]:
    """Modules of regard that a file imports."""
    for module, name in imported(text):
        whole = f"{module}.{name}"
        if module.startswith("."):
            yield "a relative import"
        elif not name and module in known:
            yield module
        elif name and module.split(".")[0] == "regard":
            yield whole if whole in known else module


def violations(sources: Mapping[str, str]) -> list[str]:
    """Every broken rule, given the text of each module."""
    known, found = frozenset(sources), []
    graph = {module: set(imports(text, known)) for module, text in sources.items()}
    for module, targets in graph.items():
        own = LAYERS.get(folder(module))
        if own is None:
            found.append(f"{module} lies in no layer: move it into a folder, or give its folder a line in the table")
            continue
        for target in sorted(targets - {module}):
            below = LAYERS.get(folder(target), own) < own
            alone = any(module.startswith(each) and target.startswith(each + ".") for each in ALONE)
            if alone or not (below or folder(target) == folder(module)):
                found.append(f"{module} imports {target}, which is not below it")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("these import each other: " + " → ".join(error.args[1]))
    return found


@cache
def house() -> dict[str, str]:
    files = sorted((ROOT / "regard").rglob("*.py"))
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files)
    return {name: file.read_text(encoding="utf-8") for name, file in zip(names, files, strict=True)}


def test_imports_go_down_the_layers() -> None:
    assert violations(house()) == []


def test_every_folder_of_the_table_is_there() -> None:
    assert set(LAYERS) == {folder(module) for module in house()}


def test_a_public_class_name_occurs_once() -> None:
    places: dict[str, list[str]] = {}
    for module, text in house().items():
        for node in parsed(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


FAILURES = ("RegardError", "ConfigError", "DataError", "ModelError", "TrainingError", "StorageError")
WORD = re.compile(r"[A-Z][a-z]* ")  # JSON, LSTM, SentencePiece, TensorBoard and the like are names
NAMES = ("Parquet ",)


def test_a_failure_is_told_in_lower_case_and_without_a_full_stop() -> None:
    """It follows "error: ", and what is refused is worded alike whoever refuses it."""
    found = []
    for module, text in house().items():
        for node in ast.walk(parsed(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in FAILURES
                and node.args
            ):
                parts = getattr(node.args[0], "values", [node.args[0]])  # of an f-string
                first, last = (getattr(each, "value", None) for each in (parts[0], parts[-1]))
                begins = isinstance(first, str) and WORD.match(first) and not first.startswith(NAMES)
                ends = isinstance(last, str) and last.endswith(".")
                found += [f"{module}: {first!r}"] if begins or ends else []
    assert found == []


OPENERS = ("What", "Of", "Who", "Whose", "Where", "How", "Those", "Its")


def test_no_docstring_opens_with_a_riddle() -> None:
    """Docstrings begin with a noun or a verb: the thing returned, or the deed."""
    found = []
    for module, text in house().items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or "").split(maxsplit=1)[:1]
                found += [f"{module}: {getattr(node, 'name', 'the module')}"] if first and first[0] in OPENERS else []
    assert found == []


def test_files_and_functions_fit_on_screens() -> None:
    """At most 400 lines a file, and 50 a function."""
    found = [module for module, text in house().items() if text.count("\n") > 400]
    for module, text in house().items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                found += [f"{module}.{node.name}: {lines} lines"] if lines > 50 else []
    assert found == []


@pytest.mark.parametrize(
    "module, text, complaint",
    [
        ("regard.data.pairs", "def f():\n    from regard.models import build", "imports regard.models.build"),
        ("regard.data.corpus", "import regard.attention.mask", "imports regard.attention.mask"),
        (
            "regard.attention.mechanisms.dot",
            "from regard.attention.mechanisms.general import General",
            "imports regard.attention.mechanisms.general",
        ),
        ("regard.models.dropout", "from regard.runs.config import load_config", "imports regard.runs.config"),
        ("regard.core.state", "from . import errors", "a relative import"),
        ("regard.somewhere", "", "no layer"),
        ("regard.config.toml_layers", "from regard.config.explain import explain", "import each other"),
    ],
)
def test_a_wrong_import_is_found(module: str, text: str, complaint: str) -> None:
    assert any(complaint in line for line in violations(house() | {module: text}))


def test_an_import_for_the_type_checker_alone_is_allowed() -> None:
    text = "if TYPE_CHECKING:\n    from regard.runs.config import load_config"
    assert violations(house() | {"regard.data.pairs": text}) == violations(house())
