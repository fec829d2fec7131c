"""A scanner of the project's text: docstrings, comments, messages, names, documentation.

Print what breaks the style of ``tests/style_words.toml``::

    python -m tests.style regard/core docs/how-to
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import json
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
CELLS = ("markdown", "code")
TITLES = "papers.md"  # titles of papers, in the words of their authors
LONGEST = 25  # words of a sentence
WORD = re.compile(r"[^\W_][\w'’-]*")
SENTENCE_END = re.compile(r"(?<=[.;:?!])\s+|\s[–·→]\s|\n\s*\n|\n\s*(?:[-*>|#]|\d+\.)\s")
CODE = re.compile(r"``.*?``|`[^`]*`|(?<![\\$\w])\$[^\s$][^$\n]*\$|https?://\S+", re.DOTALL)


class Passage(NamedTuple):
    """Text of one place: its line, its kind, itself."""

    line: int
    kind: str  # docstring, comment, message, documentation
    text: str


class Fault(NamedTuple):
    """A place that breaks a rule."""

    file: str
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}"


@functools.cache
def words() -> dict[str, Any]:
    """Return the lists of ``style_words.toml``."""
    return tomllib.loads((ROOT / "tests" / "style_words.toml").read_text("utf-8"))


@functools.cache
def any_phrase() -> re.Pattern[str]:
    """Return one pattern of all phrases: most passages have none, and one search is faster than forty."""
    return re.compile("|".join(words()["phrases"]), re.IGNORECASE)


@functools.cache
def any_british() -> re.Pattern[str]:
    """Return one pattern of all British spellings."""
    return re.compile("|".join(pattern.removeprefix(r"\b\w*") for pattern in words()["british"]["patterns"]))


def faults(path: Path) -> Iterator[Fault]:
    """Yield the faults of one Python file, Markdown file or notebook; lines of notebooks count their text alone."""
    text, name = path.read_text("utf-8"), str(path.relative_to(ROOT))
    if path.suffix == ".ipynb":
        cells = {kind: [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == kind] for kind in CELLS}
        text, code = ("\n\n".join("".join(cell["source"]) for cell in cells[kind]) for kind in CELLS)
        yield from (Fault(name, line, rule) for line, rule in _name_faults(list(ast.walk(ast.parse(code)))))
    if path.suffix in (".md", ".ipynb"):
        passages = list(_paragraphs(text))
    else:
        nodes = list(ast.walk(ast.parse(text)))
        passages = [*_docstrings(nodes), *_messages(nodes), *_comments(text)]
        yield from (Fault(name, line, rule) for line, rule in (*_opener_faults(nodes), *_name_faults(nodes)))
    for passage in passages:
        yield from (Fault(name, line, rule) for line, rule in passage_faults(passage))


def passage_faults(passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield line and rule of each word to avoid, and of each sentence that is too long."""
    plain = CODE.sub(lambda code: "\n" * code[0].count("\n") + "code", passage.text)
    lists = words()
    for pattern, advice in lists["phrases"].items() if any_phrase().search(plain) else ():
        for match in re.finditer(pattern, plain, re.IGNORECASE):
            yield passage.line + plain.count("\n", 0, match.start()), f"{passage.kind}: “{match[0]}” → {advice}"
    for pattern in lists["british"]["patterns"] if any_british().search(plain) else ():
        for match in re.finditer(pattern, plain):
            yield passage.line + plain.count("\n", 0, match.start()), f"{passage.kind}: “{match[0]}” is not American"
    for sentence in SENTENCE_END.split(plain):
        count = len(WORD.findall(sentence))
        if count > LONGEST and "|" not in sentence:
            start = plain.find(sentence)
            beginning = " ".join(sentence.split()[:6])
            yield passage.line + plain.count("\n", 0, start), f"{passage.kind}: {count} words: “{beginning} …”"


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[Passage]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield Passage(first.lineno, "docstring", _without_code(inspect.cleandoc(first.value.value)))


def _without_code(text: str) -> str:
    """Return the text with its indented blocks of code as empty lines."""
    return re.sub(r"(?<=\n\n)(?: {4}.*(?:\n|$))+", lambda block: "\n" * block[0].count("\n"), text)


def _messages(nodes: Sequence[ast.AST]) -> Iterator[Passage]:
    """Yield strings with spaces that are no docstrings: messages, help, descriptions."""
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in docstrings or id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield Passage(node.lineno, "message", node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "code" for part in node.values)
            text = "".join(map(str, parts))
            if " " in text.strip() and not text.startswith("<"):  # markup is no message
                yield Passage(node.lineno, "message", text)


def _comments(text: str) -> Iterator[Passage]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# type:", "# noqa", "# fmt")):
            yield Passage(token.start[0], "comment", token.string.lstrip("# "))


def _paragraphs(text: str) -> Iterator[Passage]:
    """Yield the paragraphs of a page without blocks of code, which keep their number of lines."""
    blank = re.sub(r"^( *)(```|~~~).*?^\1\2\s*$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    blank = _without_code(blank)
    blank = re.sub(
        r"<!--.*?-->|\]\([^)]*\)|^---$.*?^---$", lambda part: "\n" * part[0].count("\n"), blank, flags=re.S | re.M
    )
    line = 1
    for part in re.split(r"(\n\s*\n)", blank):
        if part.strip():
            yield Passage(line, "documentation", part)
        line += part.count("\n")


def _opener_faults(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    for passage in _docstrings(nodes):
        first = passage.text.split(maxsplit=1)[:1]
        if first and first[0].strip(",.:") in words()["openers"]["words"]:
            yield passage.line, f"docstring begins with “{first[0]}”"


def _name_faults(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    banned = words()["names"]["words"]
    for node in nodes:
        name = None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name, line = node.id, node.lineno
        elif isinstance(node, ast.arg):
            name, line = node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name, line = node.name, node.lineno
        if name is not None and name.strip("_") in banned and not (isinstance(node, ast.FunctionDef) and name == "at"):
            yield line, f"the name “{name}” → the thing itself"


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the Python files, Markdown files and notebooks below some paths."""
    for path in paths:
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (file for file in found if file.suffix in (".py", ".md", ".ipynb") and file.name != TITLES)


def main(arguments: list[str]) -> int:
    """Print the faults of the named files and folders; return 1 if any exist."""
    count = 0
    for file in files(Path(argument).resolve() for argument in arguments or ["regard", "docs"]):
        for fault in faults(file):
            print(fault)  # noqa: T201  the output of this script
            count += 1
    print(f"{count:,} faults", file=sys.stderr)  # noqa: T201
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
