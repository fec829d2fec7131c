"""Help pages at any width: each option with its full name, flags without a type, and each verb in one group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from regard.cli import VERB_GROUPS, build_app, run

WIDTHS = (60, 80, 100, 160)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(build_app())))


def page(path: tuple[str, ...], columns: int) -> str:
    command = COMMANDS[path]
    context = command.make_context(" ".join(("regard", *path)), [], resilient_parsing=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        return str(command.get_help(context))


@pytest.mark.parametrize("columns", WIDTHS)
def test_each_option_has_its_full_name_and_no_line_is_too_wide(columns: int) -> None:
    for path, command in COMMANDS.items():
        text = page(path, columns)
        words = set(text.replace(",", " ").split())
        names = {name for option in command.params if not getattr(option, "hidden", False) for name in option.opts}
        missing = {name for name in names if name.startswith("-")} - words
        assert not missing, (path, missing)
        assert max(map(len, text.splitlines())) <= columns, path


def test_flags_have_no_type() -> None:
    for path, command in COMMANDS.items():
        text = page(path, 80)
        assert "<bool>" not in text and "BOOLEAN" not in text, path
        flags = [option for option in command.params if getattr(option, "is_flag", False) and not option.hidden]
        for flag in flags:
            names = " / ".join([flag.opts[0], *flag.secondary_opts])
            line = next(line for line in text.splitlines() if line.startswith(f"  {names}"))
            assert line[2 + len(names) :][:2] in ("", "  "), (path, line)


def test_the_words_of_a_help_text_are_complete() -> None:
    """Wrapping loses no word of the help of any option."""
    for path, command in COMMANDS.items():
        text = " ".join(page(path, 80).split())
        for option in command.params:
            if not getattr(option, "hidden", False):
                assert " ".join((option.help or "").split()) in text, (path, option.name)


def test_each_verb_is_in_one_group_and_a_first_step_is_named() -> None:
    lines = page((), 80).splitlines()
    found: dict[str, list[str]] = {}
    for line in lines:
        if line in VERB_GROUPS:
            names = found.setdefault(line, [])
        elif line.startswith("  ") and line[2] not in " -":
            names.append(line.split()[0])
    visible = {path[0] for path, command in COMMANDS.items() if len(path) == 1 and not command.hidden}
    assert list(found) == list(VERB_GROUPS)
    assert sorted(name for names in found.values() for name in names) == sorted(visible)
    assert "regard demo" in " ".join(lines[:8])


def test_a_name_wider_than_its_column_has_its_text_below() -> None:
    lines = page(("translate",), 80).splitlines()
    at = lines.index("  --early-stopping / --no-early-stopping")
    indent = len(lines[at + 1]) - len(lines[at + 1].lstrip())
    assert lines[at + 1].strip().startswith("End a search") and indent == lines[at - 1].index(lines[at - 1].strip())


@pytest.mark.parametrize("verb", ["data", "keys"])
def test_a_group_without_a_verb_prints_its_help_page(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"Usage: regard {verb}") and "error" not in printed
