"""Help pages of the command line: one entry per option, whose name is never cut, at any width of the terminal.

Names are in one column and the text is next to them; the text of a name that is wider than this column starts below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from rich.console import RenderableType

NAMES = 26  # largest width of the column of names
INDENT = 2
GAP = 2
PANEL = "rich_help_panel"  # the attribute of typer for the heading of an option or a verb

Entry = tuple[str, str]


class HelpfulCommand(TyperCommand):
    """A command with a help page of this module."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page to ``formatter``."""
        formatter.write(_page(self, ctx))


class HelpfulGroup(TyperGroup):
    """A group of commands with a help page of this module."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page to ``formatter``."""
        formatter.write(_page(self, ctx))


def _page(command: Any, context: Any) -> str:
    """Return the help page of a command, as wide as the terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(Text(command.get_usage(context)), "", sep="\n")
        for paragraph in _paragraphs(command.help):
            console.print(Text(paragraph), "", sep="\n")
        sections = _sections(command, context)
        names = max(
            (len(name) for entries in sections.values() for name, _ in entries if len(name) <= NAMES), default=0
        )
        for title, entries in sections.items():
            console.print(Text(title, style="bold"), *_lines(entries, names), "", sep="\n")
        for paragraph in _paragraphs(command.epilog):
            console.print(Text(paragraph))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _paragraphs(text: str | None) -> list[str]:
    return [paragraph for paragraph in (text or "").split("\n\n") if paragraph]


def _sections(command: Any, context: Any) -> dict[str, list[Entry]]:
    """Return the entries of each heading: arguments, options without a heading, the other options, and verbs."""
    sections: dict[str, list[Entry]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        argument = parameter.param_type_name == "argument"
        entry = ((parameter.metavar or parameter.name.upper()) if argument else record[0], record[1])
        title = getattr(parameter, PANEL, None) or ("Arguments" if argument else "Options")
        sections.setdefault(title, []).append(entry)
    options = sections.pop("Options")
    for verb in getattr(command, "commands", {}).values():
        if not verb.hidden:
            entry = verb.name, verb.short_help or next(iter(_paragraphs(verb.help)), "")
            sections.setdefault(getattr(verb, PANEL, None) or "Commands", []).append(entry)
    return {title: entries for title, entries in (sections | {"Options": options}).items() if entries}


def _lines(entries: Iterable[Entry], names: int) -> Iterator[RenderableType]:
    """Yield each entry, with its text next to the name, or below it if the name is wider than ``names`` columns."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    for name, text in entries:
        label = Text(name, style="cyan")
        if len(name) > names:
            yield Padding(label, (0, 0, 0, INDENT))
            yield Padding(Text(text), (0, 0, 0, INDENT + names + GAP))
            continue
        row = Table.grid(padding=(0, GAP, 0, 0))
        row.add_column(width=names)
        row.add_column()
        row.add_row(label, Text(text))
        yield Padding(row, (0, 0, 0, INDENT))
