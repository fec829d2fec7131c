"""Figures of the structure of the source: sizes, imports between packages, cycles, forks by task.

    python -m tests.structure [--root FOLDER | --before FOLDER]

Prints JSON. ``--root`` measures another tree of the project, such as a worktree of an earlier commit; its layers are
those of its own ``tests/test_layers.py``. ``--before`` compares this tree with such a worktree, and counts the commit
subjects since then.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

parsed = cache(ast.parse)  # several figures and tests read the same text
Graph = dict[str, set[str]]

ROOT = Path(__file__).parents[1]
RELATIVE = "a relative import"
SUBJECT_LIMIT = 72  # characters
# Classes that belong to one task or to one of several forms of the same thing; those in regard/tasks belong here, too.
FORKS = re.compile(r"EncoderDecoder|LanguageModel|Served\w+|\w*Inspector")


def modules(root: Path, folder: str = "regard") -> dict[str, str]:
    """Return the text of each Python module below a folder, by dotted name."""
    files = sorted((root / folder).rglob("*.py"))
    names = (".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for file in files)
    return {name: file.read_text(encoding="utf-8") for name, file in zip(names, files, strict=True)}


def package(module: str) -> str:
    """Return the folder under ``regard/`` of a module, or the module's own name at the top; ``bench`` of a script."""
    return module.removeprefix("regard").removeprefix(".").partition(".")[0]


@cache
def imported_names(text: str) -> list[tuple[str, str]]:
    """List the imports of a file as (module, name); the name is "" for a whole module.

    Imports inside functions and for type checkers alone count, and so do calls of ``import_module`` with a constant.
    """
    found = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "import_module":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.append((first.value, ""))
    return found


def imports(text: str, known: frozenset[str]) -> Iterator[str]:
    """Yield the modules of regard that a file imports, and ``RELATIVE`` for a relative import."""
    for module, name in imported_names(text):
        whole = f"{module}.{name}"
        if module.startswith("."):
            yield RELATIVE
        elif not name and module in known:
            yield module
        elif name and module.split(".")[0] == "regard":
            yield whole if whole in known else module


def import_graph(sources: Mapping[str, str]) -> Graph:
    """Return the imports of each module; a module that imports itself is not listed."""
    known = frozenset(sources)
    return {module: set(imports(text, known)) - {module} for module, text in sources.items()}


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for target in sorted(graph.get(module, ())):
            if target not in order:
                visit(target)
            if target in path:
                lowest[module] = min(lowest[module], lowest[target])
        if lowest[module] == order[module]:
            group = path[path.index(module) :]
            del path[-len(group) :]
            found.extend([sorted(group)] if len(group) > 1 else [])

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return found


FUNCTION = re.compile(r"^(?:INLINE|static)[^;={]*?\b(\w+)\([^;]*?\{", re.MULTILINE)
TYPE_OR_MACRO = re.compile(r"^#define (\w+)|^\} (\w+);", re.MULTILINE)


def include_cycles(root: Path) -> list[list[str]]:
    """List the pairs of C files of which one includes the other, and that other uses names of the first."""
    files = (root / "regard/native/source").glob("*.[hc]")
    code = {file.name: re.sub(r"//.*", "", file.read_text(encoding="utf-8")) for file in sorted(files)}
    names = {
        file: {rf"{name}\(" for name in FUNCTION.findall(text)}
        | {f"{macro or type}\\b" for macro, type in TYPE_OR_MACRO.findall(text)}
        for file, text in code.items()
    }
    return [
        [file, included]
        for file, text in code.items()
        for included in re.findall(r'^#include "(.+)"', text, re.MULTILINE)
        if any(re.search(rf"\b{name}", code[included]) for name in names[file] - names[included])
    ]


def layers(root: Path) -> dict[str, int]:
    """Return the table of layers of a tree."""
    for node in ast.parse((root / "tests/test_layers.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            table: dict[str, int] = ast.literal_eval(node.value)
            return table
    raise LookupError("tests/test_layers.py has no LAYERS")


def upward_imports(graph: Graph, table: Mapping[str, int]) -> list[str]:
    """List the imports of modules that are in the layer of the importer or above it, and in another folder."""
    return [
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in sorted(targets)
        if package(module) != package(target) and table[package(target)] >= table[package(module)]
    ]


def package_imports(root: Path, graph: Graph, sources: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the pairs of packages of which one imports the other; the folders bench and deploy count as packages."""
    pairs = {(package(module), package(target)) for module, targets in graph.items() for target in targets}
    for folder in ("bench", "deploy"):
        for text in modules(root, folder).values():
            targets = imports(text, frozenset(sources))
            pairs |= {(folder, package(target)) for target in targets if target.split(".")[0] == "regard"}
    return {(one, other) for one, other in pairs if one != other}


def import_lines(text: str) -> int:
    """Count the lines of import statements and of ``__all__``."""
    count = 0
    for node in ast.walk(parsed(text)):
        exports = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if exports or isinstance(node, ast.Import | ast.ImportFrom):
            count += (node.end_lineno or node.lineno) - node.lineno + 1
    return count


def comments(text: str) -> int:
    return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline))


def function_lengths(text: str) -> list[int]:
    functions = (node for node in ast.walk(parsed(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions]


def class_checks(module: str, text: str) -> list[str]:
    """List the isinstance checks on whole networks, inspectors, and classes of tasks and of served models."""
    homes = {name: source for source, name in imported_names(text)}
    found = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" and len(node.args) == 2:
            names = [part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)]
            if any(FORKS.fullmatch(name) or homes.get(name, "").startswith("regard.tasks.") for name in names):
                found.append(f"{module}:{node.lineno}: {ast.unparse(node)}")
    return found


def task_comparisons(module: str, text: str, tasks: Iterable[str]) -> list[str]:
    """List the lines that compare something with the name of a task."""
    names, lines = set(tasks), {}
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Compare):
            values = {
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
            if values & names:
                lines[node.lineno] = f"{module}:{node.lineno}: {ast.unparse(node)}"
    return [lines[number] for number in sorted(lines)]


def task_names(sources: Mapping[str, str]) -> list[str]:
    """Return the names of the tasks from the table ``TASKS``, which earlier trees have in ``regard.tasks``."""
    for text in sources.values():
        for node in parsed(text).body if "TASKS" in text else []:
            target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
            if isinstance(target, ast.Name) and target.id == "TASKS" and isinstance(node.value, ast.Dict):
                return [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
    raise LookupError("no module has a table TASKS")


def git_lines(root: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def structure(root: Path, revisions: str = "HEAD") -> dict[str, Any]:
    """Return every figure of a tree, and of the commits of ``revisions``; lists where places matter."""
    sources = modules(root)
    counted = {module: text for module, text in sources.items() if package(module) != "studies"}
    tasks = {module: text for module, text in counted.items() if package(module) == "tasks"}
    above = {module: text for module, text in counted.items() if package(module) != "tasks"}
    names, graph = task_names(sources), import_graph(sources)
    lines = sum(text.count("\n") for text in counted.values())
    lengths = [length for text in counted.values() for length in function_lengths(text)]
    subjects = git_lines(root, "log", "--no-merges", "--format=%s", revisions)
    long = sum(len(subject) > SUBJECT_LIMIT for subject in subjects)
    checks = [check for module, text in above.items() for check in class_checks(module, text)]
    comparisons = [line for module, text in above.items() for line in task_comparisons(module, text, names)]
    return {
        "lines": lines,
        "files": len(counted),
        "task_lines": sum(text.count("\n") for text in tasks.values()),
        "task_files": sum(bool(text.strip()) for text in tasks.values()),
        "package_imports": len(package_imports(root, graph, sources)),
        "upward_imports": upward_imports(graph, layers(root)),
        "import_cycles": cycles(graph) + include_cycles(root),
        "import_lines_percent": round(100 * sum(map(import_lines, counted.values())) / lines, 1),
        "comments_per_100_lines": round(100 * sum(map(comments, counted.values())) / lines, 1),
        "mean_function_lines": round(sum(lengths) / len(lengths), 1),
        "class_checks_outside_tasks": len(checks),
        "task_names_compared_outside_tasks": len(comparisons),
        "places": checks + comparisons,
        "commit_subjects": len(subjects),
        "commit_subjects_over_72_characters": long,
    }


def compared(root: Path, before: Path) -> dict[str, Any]:
    """Return the figures of an earlier worktree and those of now, places of forks left out."""
    (revision,) = git_lines(before, "rev-parse", "--short=7", "HEAD")
    trees = {"before": structure(before), "after": structure(root, f"{revision}..HEAD")}
    command = f"git worktree add --detach ../before {revision} && scripts/structure --before ../before"
    kept = {name: {key: value for key, value in tree.items() if key != "places"} for name, tree in trees.items()}
    return {"command": command, "revision_before": revision, **kept}


def main() -> None:
    parser = argparse.ArgumentParser(description="Print figures of the structure of the source as JSON.")
    parser.add_argument("--root", type=Path, default=ROOT, help="Measure another tree.")
    parser.add_argument("--before", type=Path, help="Compare with the worktree of an earlier commit.")
    arguments = parser.parse_args()
    figures = compared(arguments.root, arguments.before) if arguments.before else structure(arguments.root)
    sys.stdout.write(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
