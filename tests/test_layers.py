"""Folders are layers: a file imports from its own folder and from folders below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache

import pytest

from tests.structure import (
    RELATIVE,
    ROOT,
    class_checks,
    cycles,
    import_graph,
    include_cycles,
    modules,
    package,
    parsed,
    task_comparisons,
    task_names,
    upward_imports,
)

LAYERS = {
    "errors": 0,
    "": 12,  # the package itself: its public functions, fetched on first use
    "core": 1,
    "config": 2,
    "native": 2,
    "attention": 3,
    "data": 3,
    "search": 3,
    "models": 4,
    "fields": 4,
    "engine": 5,
    "runs": 5,
    "metrics": 4,
    "baselines": 4,
    "inference": 6,
    "answers": 6,
    "training": 6,
    "tasks": 7,
    "testing": 7,
    "bulk": 8,
    "share": 8,
    "comparison": 9,
    "inspection": 9,
    "studies": 10,
    "server": 10,
    "commands": 11,
    "functions": 11,
    "integrations": 8,
    "sklearn": 12,
    "cli": 12,
    "__main__": 13,
}
ALONE = ("regard.attention.mechanisms",)  # folders of which no file imports another


def violations(sources: Mapping[str, str]) -> list[str]:
    """Every broken rule, given the text of each module."""
    graph = import_graph(sources)
    homeless = [module for module in graph if package(module) not in LAYERS]
    if homeless:
        return [
            f"{module} is in no layer: move it into a folder, or add its folder to the table" for module in homeless
        ]
    relative = [f"{module} has a relative import" for module, targets in graph.items() if RELATIVE in targets]
    inside = {module: targets - {RELATIVE} for module, targets in graph.items()}
    siblings = [
        f"{module} imports {target}, and files of {folder} do not import each other"
        for folder in ALONE
        for module, targets in inside.items()
        for target in sorted(targets)
        if module.startswith(folder) and target.startswith(folder + ".")
    ]
    circles = ["these import each other: " + ", ".join(group) for group in cycles(inside)]
    return relative + siblings + upward_imports(inside, LAYERS) + circles


@cache
def house() -> dict[str, str]:
    return modules(ROOT)


def test_imports_go_down_the_layers() -> None:
    assert violations(house()) == []


def test_every_folder_of_the_table_is_there() -> None:
    assert set(LAYERS) == {package(module) for module in house()}


def test_no_c_header_needs_the_file_that_includes_it() -> None:
    assert include_cycles(ROOT) == []


def forks(sources: Mapping[str, str]) -> list[str]:
    """Every check of a class that belongs to one task, and comparison with a task's name, outside the tasks."""
    names, found = task_names(sources), list[str]()
    for module, text in sources.items():
        if package(module) not in ("tasks", "studies"):
            found += [*class_checks(module, text), *task_comparisons(module, text, names)]
    return sorted(re.sub(r":\d+:", ":", line) for line in found)


def test_code_above_the_tasks_asks_what_they_declare() -> None:
    assert forks(house()) == []


@pytest.mark.parametrize(
    "fork",
    [
        'if run.config.task.kind == "masked": ...',
        "from regard.models.language_model import LanguageModel\nisinstance(net, LanguageModel)",
        "from regard.tasks.links.config import LinksConfig\nisinstance(config, LinksConfig)",
    ],
)
def test_a_fork_is_found(fork: str) -> None:
    assert len(forks({"regard.core.task_table": house()["regard.core.task_table"], "regard.share.other": fork})) == 1


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


def test_a_list_of_exports_stands_where_names_are_handed_on() -> None:
    """A public name of any other module begins without an underscore."""
    packages = {".".join(file.relative_to(ROOT).parts[:-1]) for file in ROOT.glob("regard/**/__init__.py")}
    found = {module for module, text in house().items() if "\n__all__ =" in text}
    assert found - packages == {"regard.runs.checkpoint"}


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
        (
            "regard.core.observation",
            "if TYPE_CHECKING:\n    from regard.data.pairs import Pairs",
            "imports regard.data.pairs",
        ),
        ("regard.core.seeds", "tasks = importlib.import_module('regard.tasks')", "imports regard.tasks"),
        ("regard.runs.plan", "from regard import load", "imports regard"),
        ("regard.models.dropout", "from regard.runs.config import load_config", "imports regard.runs.config"),
        ("regard.core.state", "from . import errors", "a relative import"),
        ("regard.somewhere", "", "no layer"),
        ("regard.config.toml_layers", "from regard.config.explain import explain", "import each other"),
    ],
)
def test_a_wrong_import_is_found(module: str, text: str, complaint: str) -> None:
    assert any(complaint in line for line in violations(house() | {module: text}))
