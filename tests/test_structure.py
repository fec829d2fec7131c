"""The figures of the structure count what they name."""

from __future__ import annotations

from pathlib import Path

from tests.structure import (
    class_checks,
    comments,
    cycles,
    function_lengths,
    import_lines,
    imports,
    include_cycles,
    task_comparisons,
)

KNOWN = frozenset({"regard.core.state", "regard.runs.config", "regard.tasks"})


def test_imports_that_are_hidden_are_read() -> None:
    text = """
import numpy
if TYPE_CHECKING:
    from regard.core.state import State
def f():
    from regard.runs import config
    importlib.import_module("regard.tasks").TASKS
"""
    assert set(imports(text, KNOWN)) == {"regard.core.state", "regard.runs.config", "regard.tasks"}


def test_a_name_of_a_module_that_is_computed_is_not_read() -> None:
    assert list(imports("import_module(name)\nimport_module(f'regard.studies.{name}')", KNOWN)) == []


def test_cycles_are_groups_of_modules_that_reach_each_other() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(cycles(graph)) == [["a", "b", "c"], ["d", "e"]]


def test_a_c_header_that_uses_names_of_the_file_that_includes_it_is_a_cycle(tmp_path: Path) -> None:
    folder = tmp_path / "regard/native/source"
    folder.mkdir(parents=True)
    (folder / "outer.h").write_text('typedef struct {\n    int x;\n} Rows;\n#include "inner.h"\n#include "other.h"\n')
    (folder / "inner.h").write_text("static int of(Rows rows) { return rows.x; }\n")
    (folder / "other.h").write_text("// Rows are none of its business.\nstatic int one(void) { return 1; }\n")
    assert include_cycles(tmp_path) == [["outer.h", "inner.h"]]


def test_lines_of_imports_comments_and_functions() -> None:
    text = 'from a import (\n    b,\n    c,\n)\nimport d  # why\n__all__ = ["f"]\ndef f():\n    return 1  # one\n'
    assert (import_lines(text), comments(text), function_lengths(text)) == (6, 2, [2])


def test_checks_on_classes_of_one_task_are_forks() -> None:
    text = """
from regard.tasks.links.config import LinksConfig
isinstance(config, LinksConfig)
isinstance(served, ServedModel | ServedGenerator)
isinstance(config, dict)
"""
    assert [each.partition(": ")[2] for each in class_checks("m", text)] == [
        "isinstance(config, LinksConfig)",
        "isinstance(served, ServedModel | ServedGenerator)",
    ]


def test_comparisons_with_the_name_of_a_task_are_forks() -> None:
    text = 'a = kind == "links"\nb = kind in ("links", "nodes")\nc = found["links"]\nd = kind == "other"\n'
    assert [each.partition(": ")[0] for each in task_comparisons("m", text, ["links", "nodes"])] == ["m:1", "m:2"]
