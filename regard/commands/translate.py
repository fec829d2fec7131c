"""``regard translate``: translate lines as a filter does, in order and in constant memory."""

from __future__ import annotations

import itertools
import json
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands.bulk import Bulk, run_bulk, takes_bulk
from regard.commands.incoming_lines import chunks, count_lines, open_inputs, reader_left
from regard.commands.options import (
    CheckpointName,
    DeviceName,
    EngineName,
    Run,
    Threads,
    checkpoint_name,
    epilog,
    open_model,
    search_settings,
)
from regard.commands.output import open_output, printable
from regard.commands.progress import progress
from regard.commands.setting_options import takes_settings
from regard.config.search_settings import SearchSettings
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.commands.output import LineWriter
    from regard.config.settings import SearchConfig
    from regard.inference.results import Translation
    from regard.tasks.translation.translator import Translator

SHOWN = 20  # unknown characters named at the end
BATCHES = 16  # batches read ahead, so that lines of like length can be decoded together

Input = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Text with a sentence a line, plain or .gz; several for bulk.",
        show_default="standard input",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file instead of standard output; OUT/ for work in bulk.",
        rich_help_panel="Output",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", metavar="TEXT", help="Text that every output must begin with.", rich_help_panel="Search"),
]
Prefixes = Annotated[
    Path | None,
    typer.Option(
        "--prefixes",
        metavar="FILE",
        help="File with a prefix for each line; a blank line leaves the output free.",
        rich_help_panel="Search",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on with the -o file of the same command after an interruption.", rich_help_panel="Output"
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print a JSON object a line: text, score, log probability, pieces, unknown, candidates.",
        rich_help_panel="Output",
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard translate`` to the command line."""
    examples = "regard translate runs/m30k < in.txt > out.txt", "regard translate runs/m30k a.txt b.txt.gz -o out/"
    app.command("translate", epilog=epilog(*examples))(translate)


@takes_bulk
@takes_settings("requested", SearchSettings)
def translate(
    run: Run,
    files: Input = None,
    *,
    output: Output = None,
    requested: dict[str, Any],
    prefix: Prefix = None,
    prefixes: Prefixes = None,
    as_json: AsJson = False,
    resume: Resume = False,
    bulk: Bulk = Bulk(),
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
) -> None:
    """Translate lines with a trained model.

    Output is written in order while input is read: a pipe is answered when its writer pauses. A blank line stays
    blank; a line that is too long is translated in parts. With --nbest above 1 an output is a line of line number,
    score and text, separated by tabs. The file of -o is replaced once the output is complete;
    --resume continues after an interruption. With -o OUT/ files are work in bulk: in blocks, by --workers that may
    die; the same command continues.
    """
    opened: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads, "engine": engine}
    if (bulk := bulk.of(files, output)).wanted:
        _refuse_in_bulk(prefixes=prefixes, resume=resume, nbest=None if as_json else requested["nbest"])
        spec: dict[str, Any] = {"verb": "translate", "prefix": prefix, "json": as_json, "seed": requested["seed"]}
        spec["search"] = _search_of(run, requested)
        run_bulk(bulk, run, spec | opened, doing="translating")
        return
    model, begins = open_model(run, **opened), _Prefixes(prefix, prefixes)
    search = search_settings(model.search, **requested)
    form = _as_json if as_json else _as_table if search.nbest > 1 else _as_text
    work = _Translation(model, search, begins, form)
    job = _job_of(run, checkpoint, model.engine if engine == "auto" else engine, work)
    if search.seed is None:  # one of the whole command: equal lines have equal outputs, in whatever chunks they are
        work = work._replace(search=search.model_copy(update={"seed": secrets.randbits(63)}))
    _tell(model, *_translate_lines(work, run, bulk, job=job, resume=resume))


def _tell(model: Translator, unknown: Counter[str], unread: int) -> None:
    """Say what of the input the model has not read as it stands."""
    if unknown:
        typer.echo(_never_seen(unknown), err=True)
    if unread:
        lines = f"{unread:,} line{'s' * (unread > 1)}"
        typer.echo(f"of {lines} the first {model.max_length:,} pieces were read, the rest was not", err=True)


def _job_of(run: Path, checkpoint: str | None, engine: str | None, work: _Translation) -> dict[str, Any]:
    """All that decides the outputs: what is continued after an interruption must have the same."""
    return {
        "run": str(run.resolve()), "checkpoint": checkpoint_name(run, checkpoint), "engine": engine,
        "search": work.search.model_dump(mode="json"), "form": work.form.__name__, "prefix": work.prefixes.prefix,
        "prefixes": work.prefixes.digest(),
    }  # fmt: skip


def _refuse_in_bulk(**given: Any) -> None:
    if wrong := [name for name, value in given.items() if value]:
        why = "the same command goes on anyway" if wrong[0] == "resume" else "each line has one output, the best"
        if wrong[0] == "prefixes":
            why = "the lines are cut into blocks; --prefix is for all of them"
        raise ConfigError("this option is not for work in bulk", where=f"--{wrong[0]}", why=why)


def _search_of(run: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """The settings of the search of a run, with these instead, told before any process loads the model."""
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    folder = RunFolder.open(run)
    require_task(folder, "translation")
    config: Any = folder.config  # a TranslationConfig
    return search_settings(config.search, **wanted).model_dump(mode="json")


def _translate_lines(
    work: _Translation, run: Path, named: Bulk, *, job: dict[str, Any], resume: bool
) -> tuple[Counter[str], int]:
    """Translate a file or standard input; return what ``_Translation.run`` does."""
    source, output = named.source, None if named.output is None else Path(named.output)
    with (
        open_output(output, source, job=job, resume=resume) as lines,
        progress("translating", count_lines(source), hidden=output is None and sys.stdout.isatty()) as advance,
        open_inputs(run, source, named.columns, watched=output is None) as (read, ready, _),
    ):
        batch = work.search.batch_sentences
        # Someone who types wants each answer at once.
        size = 1 if source is None and sys.stdin.isatty() else BATCHES * batch
        # The same chunks must come again after a resume; else the first lines are not kept waiting.
        resumable = output is not None and source is not None
        early: dict[str, Any] = {} if resumable else {"first": batch, "ready": ready}
        parts = chunks(read, size, whole=resumable, **early)
        return work.run(parts, lines, advance, reader_left if output is None else lambda: False)


class _Translation(NamedTuple):
    """One job: what is decoded, how, and as which text each result is written."""

    model: Translator
    search: SearchConfig
    prefixes: _Prefixes
    form: Callable[[int, Translation], str]  # a line's number and its translation to the text of the output

    def run(
        self, parts: Iterable[list[str]], lines: LineWriter, advance: Callable[[int], None],
        interrupted: Callable[[], bool],
    ) -> tuple[Counter[str], int]:  # fmt: skip
        """Translate chunk after chunk and write the results.

        Return how often each word or character unknown to the model occurred, and how many lines were cropped.
        """
        number, unread, unknown = 0, 0, Counter[str]()
        for chunk in parts:
            prefixes = self.prefixes.take(len(chunk))
            if lines.skip_committed(chunk):
                number += len(chunk)
                advance(len(chunk))
                continue
            found = self.model.translate(
                chunk, search=self.search, prefixes=prefixes, done=advance,
                interrupted=interrupted,
            )  # fmt: skip
            for one in found:
                number += 1
                unknown.update(one.unknown)
                unread += one.unread > 0
                lines.write(self.form(number, one))
            lines.commit(chunk)
        self.prefixes.end()
        return unknown, unread


class _Prefixes:
    """Required beginnings of the outputs: one text for all, or a file with a line for each."""

    def __init__(self, prefix: str | None, file: Path | None) -> None:
        from regard.data.text_files import read_lines

        if prefix is not None and file is not None:
            raise ConfigError("--prefix and --prefixes cannot be combined", help="give one of them")
        self.prefix, self.file, self.taken = prefix, file, 0
        self.lines = None if file is None else read_lines(file)

    def digest(self) -> str | None:
        """Return the sha256 of the file; None without one."""
        from regard.core.atomic_files import sha256

        return None if self.file is None or not self.file.is_file() else sha256(self.file)

    def take(self, count: int) -> list[str] | None:
        """Return the prefixes of the next ``count`` sentences; None if outputs may begin freely."""
        if self.lines is None:
            return None if self.prefix is None else [self.prefix] * count
        found = list(itertools.islice(self.lines, count))
        self.taken += len(found)
        if len(found) < count:
            why = f"{self.file} ends after line {self.taken:,}"
            raise DataError("there are fewer prefixes than sentences", where=str(self.file), why=why)
        return found

    def end(self) -> None:
        """Raise DataError if prefixes are left over."""
        if self.lines is not None and (rest := sum(1 for _ in self.lines)):
            where = f"{self.file}:{self.taken + 1}"
            raise DataError(f"{self.file} has {pluralize(rest, 'line')} more than there were sentences", where=where)


def _never_seen(unknown: Counter[str]) -> str:
    """Describe unknown words or characters in one line, the most frequent first."""
    most_frequent = [(printable(each), count) for each, count in unknown.most_common(SHOWN)]
    shown = [f"{each} ({count:,})" if count > 1 else each for each, count in most_frequent]
    words = any(len(each) > 1 for each in unknown)
    kind = ("word" if words else "character") + "s" * (len(unknown) > 1)
    more = ", …" if len(unknown) > SHOWN else ""
    return f"{len(unknown):,} {kind} never seen in training, read as <unk>: {', '.join(shown)}{more}"


def _as_text(number: int, translation: Translation) -> str:
    return _one_line(translation.text)


def _as_table(number: int, translation: Translation) -> str:
    return "\n".join(f"{number}\t{each.score:.4f}\t{_one_line(each.text)}" for each in translation.candidates)


def _as_json(number: int, translation: Translation) -> str:
    return json.dumps({"line": number} | translation.as_dict(), ensure_ascii=False)


def _one_line(text: str) -> str:
    """Replace line breaks, which a vocabulary of characters or bytes can spell, by spaces."""
    return text.replace("\r", " ").replace("\n", " ")
