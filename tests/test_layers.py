"""Imports go down the layers, and only down: the table below is the plan of the house."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

# A file imports from lower layers, and from its own folder within its layer; data/ and attention/ thus stay apart.
LAYERS = {
    "regard.errors": 0,
    "regard.installation": 0,
    "regard.wording": 0,
    "regard.state": 0,
    "regard": 1,  # the package itself; it fetches what is above when asked
    "regard.data": 1,
    "regard.data.*": 1,
    "regard.attention": 1,
    "regard.attention.bias": 1,
    "regard.attention.contract": 1,
    "regard.attention.inturn": 1,
    "regard.attention.kernel": 1,
    "regard.attention.located": 1,
    "regard.attention.looked": 1,
    "regard.attention.mask": 1,
    "regard.attention.perceptron": 1,
    "regard.attention.position": 1,
    "regard.attention.rotary": 1,
    "regard.attention.score": 1,
    "regard.attention.short": 1,
    "regard.search": 1,
    "regard.beams": 1,
    "regard.constrained": 1,
    "regard.wanted": 1,
    "regard.coverage_penalty": 2,
    "regard.losses": 1,
    "regard.optim": 1,
    "regard.settings": 1,
    "regard.pace": 1,
    "regard.journal": 1,
    "regard.layered": 1,
    "regard.keys": 1,
    "regard.options": 1,
    "regard.storage": 0,
    "regard.received": 0,
    "regard.streams": 1,
    "regard.tensors": 1,
    "regard.memory": 1,
    "regard.randomness": 1,
    "regard.textbook": 0,
    "regard.attention.catalogue": 3,
    "regard.attention.heads": 3,
    "regard.attention.*": 2,  # mechanisms: all that no line above names
    "regard.models.build*": 4,
    "regard.models.model": 4,
    "regard.engine": 4,
    "regard.engine.*": 4,
    "regard.models": 3,
    "regard.models.*": 3,
    "regard.observe": 4,
    "regard.config": 5,
    "regard.notebook": 1,
    "regard.picture": 5,
    "regard.pronunciation": 5,
    "regard.run": 5,
    "regard.setup": 5,
    "regard.significance": 5,
    "regard.train": 5,
    "regard.fitting": 5,
    "regard.gradients": 5,
    "regard.averaging": 5,
    "regard.card": 5,
    "regard.checkpoint": 5,
    "regard.choosing": 5,
    "regard.compare": 5,
    "regard.compare_results": 5,
    "regard.interrupt": 5,
    "regard.evaluate": 5,
    "regard.decoding": 5,
    "regard.translate": 5,
    "regard.translation": 5,
    "regard.testing": 5,
    "regard.testing.*": 5,
    "regard.inspection": 6,
    "regard.inspection.*": 6,
    "regard.server": 7,
    "regard.server.*": 7,
    "regard.studies": 7,
    "regard.studies.*": 7,
    "regard.share": 7,
    "regard.share.*": 7,
    "regard.commands": 8,
    "regard.commands.*": 8,
    "regard.__main__": 10,
    "regard.cli": 9,
}
MECHANISMS = 2  # none imports another

ROOT = Path(__file__).parents[1]


def layer(module: str) -> int | None:
    """Of the first line that fits, so an exact name stands before its pattern."""
    return next((number for pattern, number in LAYERS.items() if fnmatch(module, pattern)), None)


def imports(module: str, tree: ast.AST, known: frozenset[str]) -> Iterator[str]:
    """Modules of regard that a file imports, inside functions too; what only a type checker reads is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "a relative import"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "regard":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else str(node.module)
        else:
            yield from imports(module, node, known)


def violations(sources: Mapping[str, str]) -> list[str]:
    """What breaks the rule, given the text of every module."""
    known, found = frozenset(sources), []
    graph = {module: set(imports(module, ast.parse(text), known)) for module, text in sources.items()}
    for module, targets in graph.items():
        mine = layer(module)
        if mine is None:
            found.append(f"{module} stands in no layer: give it a line in the table")
            continue
        for target in sorted(targets - {module}):
            its = layer(target)
            folder = target.rpartition(".")[0]
            beside = its == mine != MECHANISMS and folder in (module, module.rpartition(".")[0])
            if its is None or not (its < mine or beside):
                found.append(f"{module} (layer {mine}) imports {target} (layer {its})")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append("these import each other: " + " → ".join(error.args[1]))
    return found


def house() -> dict[str, str]:
    files = sorted((ROOT / "regard").rglob("*.py"))
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files)
    return {name: file.read_text(encoding="utf-8") for name, file in zip(names, files, strict=True)}


def test_imports_go_down_the_layers() -> None:
    assert violations(house()) == []


@pytest.mark.parametrize(
    "module, text, complaint",
    [
        ("regard.losses", "def f():\n    from regard.models import model", "imports regard.models.model"),
        ("regard.data.text", "import regard.attention.mask", "imports regard.attention.mask"),
        ("regard.attention.dot", "from regard.attention.general import General", "imports regard.attention.general"),
        ("regard.models.norms", "from regard.config import Config", "imports regard.config"),
        ("regard.state", "from . import errors", "a relative import"),
        ("regard.somewhere", "", "no layer"),
        ("regard.layered", "from regard.keys import explain", "import each other"),
    ],
)
def test_a_wrong_import_is_found(module: str, text: str, complaint: str) -> None:
    assert any(complaint in line for line in violations(house() | {module: text}))


def test_an_import_for_the_type_checker_alone_is_allowed() -> None:
    text = "if TYPE_CHECKING:\n    from regard.config import Config"
    assert violations(house() | {"regard.losses": text}) == violations(house())
