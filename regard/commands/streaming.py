"""Options of streams, and ``regard translate --streaming``: words are printed as they are committed."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands.bulk import Bulk
from regard.commands.incoming_words import open_words
from regard.commands.output import printable
from regard.commands.setting_options import SharedOption
from regard.config.stream_settings import MOST_AGREE, PolicyName
from regard.core.wording import pluralize
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.inference.text_stream import StreamOutput
    from regard.tasks.translation.streaming import StreamingTranslator

PANEL = "Streaming"
DIM, RESET, CLEAR = "\x1b[2m", "\x1b[0m", "\r\x1b[K"

Streaming = Annotated[
    bool, typer.Option("--streaming", help="Translate while the source is still arriving.", rich_help_panel=PANEL)
]
PolicyOption = Annotated[
    PolicyName | None,
    typer.Option(
        "--policy",
        help="Commit words by this policy. wait-k: after k source words; local-agreement: where two hypotheses agree; "
        "alignatt: where attention has left the last source words.",
        show_default="local-agreement",
        rich_help_panel=PANEL,
    ),
]
Lag = Annotated[
    int | None,
    typer.Option(
        "--lag",
        min=0,
        max=1000,
        metavar="N",
        help="Lag in source words: k of wait-k, words between two hypotheses of local-agreement, last words that "
        "alignatt waits for.",
        show_default="5, 1, 2",
        rich_help_panel=PANEL,
    ),
]
Agree = Annotated[
    int | None,
    typer.Option(
        "--agree",
        min=2,
        max=MOST_AGREE,
        metavar="N",
        help="Of local-agreement: commit words in which the last N hypotheses agree. 3 makes fewer errors, and waits.",
        show_default="2",
        rich_help_panel=PANEL,
    ),
]
Revise = Annotated[
    bool,
    typer.Option(
        "--revise",
        help="Also print the unstable rest of each hypothesis, and count its revisions.",
        rich_help_panel=PANEL,
    ),
]


class StreamRequest(NamedTuple):
    """Requested stream: see the options."""

    streaming: bool = False
    policy: PolicyName | None = None
    lag: int | None = None
    agree: int | None = None
    revise: bool = False


STREAM_OPTIONS = {
    "streaming": SharedOption(Streaming, False),
    "policy": SharedOption(PolicyOption),
    "lag": SharedOption(Lag),
    "agree": SharedOption(Agree),
    "revise": SharedOption(Revise, False),
}


def require_streaming(request: Any) -> None:
    """Raise ConfigError if an option of streams, a NamedTuple with the field ``streaming``, is set without it."""
    changed = [name for name, value in request._asdict().items() if value != request._field_defaults[name]]
    if changed and not request.streaming:
        raise ConfigError("this option requires --streaming", where=f"--{changed[0]}", help="add --streaming")


def refuse_with_streaming(bulk: Bulk | None = None, **options: Any) -> None:
    """Raise ConfigError if one of these options, or an option of bulk processing, is set."""
    if bulk is not None:
        options |= {name.removeprefix("--"): True for name in bulk.option_names()} | {"column": bulk.column}
    for name, value in options.items():
        if value:
            raise ConfigError("this option cannot be used with --streaming", where=f"--{name.replace('_', '-')}")


def print_stream(model: StreamingTranslator, file: Path | None, *, as_json: bool, revise: bool) -> None:
    """Translate the words of a file or of standard input as they arrive, a stream for each line.

    Args:
        model: the model.
        file: the file; None for standard input.
        as_json: print an object for each word that arrives.
        revise: also print the unstable rest of each hypothesis.
    """
    from regard.inference.continued_text import ContinuedText
    from regard.inference.streamed import revised_words

    printer = _JsonSteps() if as_json else _Revisions() if revise else _Words()
    closed = revised = 0
    with open_words(file, watched=True) as arriving:
        text = ContinuedText()
        for word, ends_line in arriving:
            begin, before = time.perf_counter(), text.output
            outputs, text = text.advance(model, word.strip(), final=ends_line)
            seconds = (time.perf_counter() - begin) / len(outputs)
            revised += revised_words(before, outputs[0])
            closed += sum(output.final and bool(output.rest) for output in outputs)
            for output in outputs:
                printer.add(output, output.final and not output.rest and ends_line, seconds)
    if closed:
        typer.echo(f"completed {pluralize(closed, 'sentence')} before the end of the line", err=True)
    if revise:
        typer.echo(f"revised {pluralize(revised, 'word')} of unstable text", err=True)


class _Words:
    """Prints committed text, a line for each line of the source."""

    def __init__(self) -> None:
        self._has_words = False

    def add(self, output: StreamOutput, ends_line: bool, seconds: float) -> None:
        begins = output.new == output.committed  # of a sentence
        space = " " if self._has_words and begins and output.new else ""
        sys.stdout.write(space + _one_line(output.new) + ("\n" if ends_line else ""))
        self._has_words = not ends_line and (self._has_words or bool(output.new))
        sys.stdout.flush()


class _Revisions:
    """Prints a line for each step: committed text, a tab, unstable text; on a terminal, in place and dim."""

    def __init__(self) -> None:
        self._before = ""  # sentences of the line that are complete

    def add(self, output: StreamOutput, ends_line: bool, seconds: float) -> None:
        committed = " ".join(filter(None, [self._before, _one_line(output.committed)]))
        unstable = _one_line(output.unstable)
        if sys.stdout.isatty():
            line = f"{CLEAR}{printable(committed)}{DIM}{printable(unstable)}{RESET}" + ("\n" if ends_line else "")
        else:
            line = f"{committed}\t{unstable}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        self._before = "" if ends_line else committed if output.final else self._before


class _JsonSteps:
    """Prints an object for each step; ``line`` counts the lines of the source from 1."""

    def __init__(self) -> None:
        self._line = 1

    def add(self, output: StreamOutput, ends_line: bool, seconds: float) -> None:
        step = {"line": self._line, "read": output.read, "committed": output.committed, "new": output.new}
        step |= {"unstable": output.unstable, "final": output.final, "seconds": round(seconds, 6)}
        sys.stdout.write(json.dumps(step, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        self._line += ends_line


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
