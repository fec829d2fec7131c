"""The commands that pages, recipes and help texts show, and what is wrong with each, found without running any."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import typer

from regard.cli import VERBS, build_app
from regard.comparison.members import load_entries, make_rows, parse_budget
from regard.data.public.catalog import corpora, corpus_named
from regard.errors import RegardError
from regard.metrics.text import check_names
from regard.runs.config import load_config
from regard.runs.run_config import RunConfig
from regard.studies.catalog import find_study
from regard.training.setup import require_trainable

__all__ = ["Shown", "problem", "shown_in_epilogs", "shown_in_page", "shown_in_recipe"]

ROOT = Path(__file__).parents[1]
COMMAND: Any = typer.main.get_command(build_app(VERBS))
# Typer bundles or imports click, by version; this is the name that both have.
WRONG_USAGE: Any = next(parent for parent in typer.BadParameter.__mro__ if parent.__name__ == "ClickException")
OWN_FILES = {"data": {"train": [{"source": "a", "target": "b"}]}, "train": {"steps": 1}}
OWN_TABLE = {"task": "classification", "data": {"train": [{"source": "a.csv"}]}, "train": {"steps": 1}}
OWN_SERIES = OWN_TABLE | {"task": "forecasting"}
OWN_TEXT = {"task": "language-model", "data": {"train": [{"source": "a"}]}, "train": {"steps": 1}}
PLACEHOLDER = re.compile(r"[A-Z][A-Z_0-9]*|…|\.\.\.")  # RUN, NAME …: to be filled in by the reader

_FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?:    .*\n)+")
_INLINE = re.compile(r"`([^`]+)`")
_CONTINUED = re.compile(r"\s*\\\n\s*")
_OPERATORS = {"|", "||", "&", "&&", ";", "<", ">", ">>", "(", ")"}


class Shown(NamedTuple):
    """One call of ``regard`` or of a script, and whether it is whole: inline code may name a verb alone."""

    words: tuple[str, ...]
    whole: bool


def shown_in_page(text: str) -> Iterator[Shown]:
    """The commands in blocks of a shell, in indented blocks and in inline code of a Markdown page."""
    for language, block in _FENCE.findall(text):
        if language in ("sh", "console"):
            # Of a transcript the commands alone: what they print may name commands, too, but for other folders.
            lines = _CONTINUED.sub(" ", block).splitlines()
            yield from _in_lines(line.removeprefix("$ ") for line in lines if language == "sh" or line[:2] == "$ ")
    text = _FENCE.sub("", text)
    for block in _INDENTED.findall(text):
        yield from _in_lines(_CONTINUED.sub(" ", block).splitlines())
    for code in _INLINE.findall(_INDENTED.sub("", text)):
        yield from _in_lines([" ".join(code.split())], whole=False)


def shown_in_recipe(text: str) -> Iterator[Shown]:
    """Those in the comment at the head of a recipe."""
    head = "".join(line.removeprefix("#") + "\n" for line in text.splitlines() if line.startswith("#"))
    yield from _in_lines(_CONTINUED.sub(" ", head).splitlines(), first="regard ")


def shown_in_epilogs() -> Iterator[Shown]:
    """Those that ``--help`` gives as examples."""
    for command in _commands(COMMAND):
        for example in re.split(r"·|\|  |: |\n", command.epilog or ""):
            yield from _in_lines([re.sub(r"  +\(.*", "", example)], first="regard ")


def problem(shown: Shown) -> str | None:
    """Why this command cannot be run as written, as far as that can be told without files of the reader's."""
    first, *rest = shown.words
    try:
        if first == "regard":
            return _problem_of_verb(rest, shown.whole)
        if first == "scripts/bench":
            return _problem_of_bench(rest)
        if first == ".venv/bin/python":
            return _problem_of_python(rest)
    except RegardError as error:
        return str(error)
    return None if (ROOT / first).is_file() else f"there is no {first}"


def _commands(group: Any) -> Iterator[Any]:
    for command in getattr(group, "commands", {}).values():
        yield command
        yield from _commands(command)


def _in_lines(lines: Iterable[str], *, whole: bool = True, first: str = "") -> Iterator[Shown]:
    """Those of all lines that begin with the word ``first``."""
    for line in lines:
        if not line.strip().startswith(first):
            continue
        for words in _simple_commands(re.sub(r"\d?>&\d", "", line)):
            verb = words[0] == "regard" and len(words) > 1 and re.fullmatch(r"-?-?[a-z]+", words[1])
            if verb or re.fullmatch(r"scripts/\w[\w-]*|\.venv/bin/python", words[0]):
                yield Shown(tuple(words), whole)


def _simple_commands(line: str) -> Iterator[list[str]]:
    """The words of each command of a pipeline or list, without redirections' targets."""
    split = shlex.shlex(line, posix=True, punctuation_chars=True)
    split.whitespace_split, split.commenters = True, "#"
    try:
        words = list(split)
    except ValueError:  # prose with a lone quote
        return
    found: list[str] = []
    redirected = False
    for word in [*words, ";"]:
        if word in _OPERATORS:
            redirected = word in ("<", ">", ">>")
            if not redirected:
                if found:
                    yield [each for word in found for each in _expanded(word)]
                found = []
        elif redirected:
            redirected = False
        elif found or "=" not in word:  # what comes before a command sets its environment
            found.append(word)


def _expanded(word: str) -> Iterator[str]:
    """``a{b,c}`` as a shell expands it; what is no such list stays."""
    if re.search(r"\{[\w.,-]+\}", word) and "=" not in word:
        parts = [part[1:-1].split(",") if part[:1] == "{" else [part] for part in re.split(r"(\{[^{}]+\})", word)]
        yield from ("".join(chosen) for chosen in product(*parts))
    else:
        yield word


def _problem_of_verb(arguments: list[str], whole: bool) -> str | None:
    command = COMMAND
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        name = arguments.pop(0)
        if name not in command.commands:
            return f"there is no verb {name!r}"
        command = command.commands[name]
    given = [each for each in arguments if not (each.startswith("[") or each.endswith("]"))]  # may be left out
    if "--help" in given or (hasattr(command, "commands") and not given):  # both print a help page
        return None
    try:
        if any(map(PLACEHOLDER.fullmatch, given)):
            context = command.make_context(command.name, [], resilient_parsing=True)
            values, rest, _ = command.make_parser(context).parse_args(given)
            return f"{' '.join(rest)} is too much" if rest else None
        values = command.make_context(command.name, given).params
    except WRONG_USAGE as error:
        left_out = type(error).__name__ == "MissingParameter" and not whole
        return None if left_out else str(error.format_message())
    check = _VALUES.get(command.name)
    return check(values) if check else None


def _problem_of_bench(arguments: list[str]) -> str | None:
    scripts = dict(re.findall(r"^([\w-]+)\) script=(\w+)\.py", (ROOT / "scripts/bench").read_text(), re.MULTILINE))
    if not arguments:
        return None
    if arguments[0] not in scripts:
        return f"scripts/bench knows {', '.join(scripts)}, not {arguments[0]!r}"
    return _problem_of_options(scripts[arguments[0]], arguments[1:])


def _problem_of_python(arguments: list[str]) -> str | None:
    if arguments[0] == "-m":
        module = find_spec(arguments[1])
        return None if module else f"there is no module {arguments[1]}"
    path = Path(arguments[0])
    if path.parts[0] == "bench" and (ROOT / path).is_file():
        return _problem_of_options(path.stem, arguments[1:])
    return None if (ROOT / path).is_file() else f"there is no {path}"


def _problem_of_options(script: str, arguments: list[str]) -> str | None:
    """What the script itself says of its options; nothing of it runs."""
    if any(map(PLACEHOLDER.fullmatch, arguments)):
        return None
    said = io.StringIO()
    try:
        with mock.patch("sys.path", [str(ROOT / "bench"), *sys.path]), mock.patch("sys.argv", [script, *arguments]):
            with redirect_stderr(said):
                import_module(script)._arguments()
    except SystemExit:
        return said.getvalue()
    return None


def _train(values: dict[str, Any]) -> str | None:
    what = values["what"] or []
    given = [
        each
        for each in values["set_"] or []
        if not each.startswith(("model.from=", "model.encoder.from=", "model.lora."))
    ]  # a run of the reader's own
    recipe = len(what) == 1 and "." not in what[0] and not what[0].endswith("/")
    text = len(what) == 1 and ".txt" in what[0]
    table = len(what) == 1 and what[0].endswith((".csv", "/"))  # a folder of tables
    own = OWN_SERIES if any(each.startswith("data.horizon=") for each in given) else OWN_TABLE
    _require(load_config(what[0] if recipe else OWN_TEXT if text else own if table else OWN_FILES, given), given)
    return None


def _require(config: RunConfig, overrides: Sequence[str]) -> None:
    """That the model can be built, where the command changes it: recipes as they are have tests of their own."""
    if any(each.startswith("model.") for each in overrides):
        require_trainable(config)


def _compare(values: dict[str, Any]) -> str | None:
    limit = parse_budget(values["budget"]) if values["budget"] else None
    if any(each.endswith(".toml") and not Path(each).is_file() for each in values["sources"]):
        return None  # files of the reader's own
    rows = make_rows(values["sources"], values["vary"] or [], values["set_"] or [], limit)
    for entry in load_entries(rows, limit):
        if entry.config is None:
            return str(entry.error)
        _require(entry.config, entry.row.overrides)
    return _unknown_file(values["test"] or [])


def _evaluate(values: dict[str, Any]) -> str | None:
    if values["metric"] is not None:
        check_names(values["metric"].split(","))
    return _unknown_file([values["source"], *(values["targets"] or [])])


def _unknown_file(paths: list[Any]) -> str | None:
    """A file in ``data/CORPUS`` is one that fetching that corpus brings."""
    for path in paths:
        match = re.fullmatch(r"data/([\w-]+)/(.+)", str(path))
        if match and match[1] in corpora() and match[2] not in {file.name for file in corpora()[match[1]].files}:
            return f"{match[1]} has no file {match[2]}"
    return None


def _study(values: dict[str, Any]) -> str | None:
    for name in values["names"]:
        if name not in ("list", "all", "page"):
            find_study(name)
    return None


def _fetch(values: dict[str, Any]) -> str | None:
    corpus_named(values["name"])
    return None


_VALUES = {"train": _train, "compare": _compare, "evaluate": _evaluate, "study": _study, "fetch": _fetch}
