"""``regard translate``: translate lines as a filter, in order and in constant memory."""

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
    Ensemble,
    Run,
    Threads,
    checkpoint_name,
    epilog,
    open_model,
    search_settings,
)
from regard.commands.output import open_output, printable
from regard.commands.progress import progress
from regard.commands.setting_options import option_group, takes_settings
from regard.commands.streaming import (
    STREAM_OPTIONS,
    StreamRequest,
    print_stream,
    refuse_with_streaming,
    require_streaming,
)
from regard.config.search_settings import SearchSettings
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.commands.output import LineWriter
    from regard.config.settings import SearchConfig
    from regard.inference.results import Translation
    from regard.tasks.translation.translator import Translator

SHOWN = 20  # maximum number of unknown characters listed at the end
BATCHES = 16  # batches read ahead, to decode lines of similar length together

Input = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Sentences, one per line, plain or .gz; several files run in bulk.",
        show_default="standard input",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file instead of standard output; to a folder OUT/ in bulk.",
        rich_help_panel="Output",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", metavar="TEXT", help="Begin every output with this text.", rich_help_panel="Search"),
]
Prefixes = Annotated[
    Path | None,
    typer.Option(
        "--prefixes",
        metavar="FILE",
        help="Begin each output with the prefix in the same line of this file; a blank line sets none.",
        rich_help_panel="Search",
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Resume an interrupted command with the same -o file.", rich_help_panel="Output"),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object per line: text, score, log probability, pieces, unknown, candidates.",
        rich_help_panel="Output",
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard translate`` to the command line."""
    examples = (
        "regard translate runs/m30k < in.txt > out.txt",
        "regard translate runs/m30k a.txt b.txt.gz -o out/",
        "regard translate runs/m30k --ensemble runs/m30k-2 < in.txt",
        "talk | regard translate runs/m30k --streaming --policy alignatt --lag 2",
    )
    app.command("translate", epilog=epilog(*examples))(translate)


@option_group("stream", STREAM_OPTIONS, StreamRequest)
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
    stream: StreamRequest = StreamRequest(),
    checkpoint: CheckpointName = None,
    ensemble: Ensemble = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
) -> None:
    """Translate lines with a trained model.

    Output is written in order. Standard input is read as a stream: results are flushed when no more input is waiting. A
    blank line stays blank; a line that is too long is translated in parts. With --nbest above 1, each candidate is a
    line with line number, score and text, separated by tabs. The -o file is replaced once the output is complete;
    --resume continues after an interruption.

    With -o OUT/, files are processed in bulk: in blocks, by --workers processes, and the same command resumes.

    With --streaming, words are translated as they arrive, a stream for each line, and printed as they are committed.
    Committed words are never taken back. A sentence is completed when the next one begins.
    """
    opening: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads, "engine": engine}
    together = {"ensemble": [str(other.resolve()) for other in ensemble]} if ensemble else {}
    require_streaming(stream)
    if stream.streaming:
        refuse_with_streaming(bulk, output=output, prefix=prefix, prefixes=prefixes, resume=resume, ensemble=ensemble)
        return _stream(run, files, requested, stream, opening, as_json=as_json)
    if (bulk := bulk.with_files(files, output)).requested:
        _refuse_in_bulk(prefixes=prefixes, resume=resume, nbest=None if as_json else requested["nbest"])
        spec: dict[str, Any] = {"verb": "translate", "prefix": prefix, "json": as_json, "seed": requested["seed"]}
        spec |= {"search": _search_of(run, requested), **together}
        return run_bulk(bulk, run, spec | opening, doing="translating")
    model, required = open_model(run, ensemble=ensemble, **opening), _Prefixes(prefix, prefixes)
    search = search_settings(model.search, **requested)
    form = _as_json if as_json else _as_table if search.nbest > 1 else _as_text
    work = _Translation(model, search, required, form)
    job = _job_of(run, checkpoint, model.engine if engine == "auto" else engine, work)
    job |= together
    if search.seed is None:  # one seed for the whole command: equal lines give equal outputs in any chunk
        work = work._replace(search=search.model_copy(update={"seed": secrets.randbits(63)}))
    _report(model, *_translate_lines(work, run, bulk, job=job, resume=resume))


def _stream(
    run: Path, files: list[Path] | None, requested: dict[str, Any], stream: StreamRequest, opening: dict[str, Any],
    *, as_json: bool,
) -> None:  # fmt: skip
    """Translate the words of standard input or of one file as they arrive."""
    from regard.inspection.streams import StreamSettings, open_stream
    from regard.runs.run_folder import RunFolder

    refuse_with_streaming(nbest=requested["nbest"])
    if len(files or []) > 1:
        raise ConfigError("--streaming reads one file, or standard input", where="FILE")
    model = open_model(run, **opening)
    options = StreamSettings(stream.policy, stream.lag, agree=stream.agree)
    search = search_settings(model.search, **requested)
    streaming = open_stream(RunFolder.open(run), model, options, search=search, checkpoint=opening["checkpoint"])
    file = next((file for file in files or [] if str(file) != "-"), None)
    print_stream(streaming, file, as_json=as_json, revise=stream.revise)


def _report(model: Translator, unknown: Counter[str], unread: int) -> None:
    """Report unknown words or characters and truncated lines."""
    if unknown:
        typer.echo(_describe_unknown(unknown), err=True)
    if unread:
        typer.echo(f"truncated {pluralize(unread, 'line')} to {model.max_length:,} pieces", err=True)


def _job_of(run: Path, checkpoint: str | None, engine: str | None, work: _Translation) -> dict[str, Any]:
    """Return all settings that determine the outputs; a resumed command must have the same."""
    return {
        "run": str(run.resolve()), "checkpoint": checkpoint_name(run, checkpoint), "engine": engine,
        "search": work.search.model_dump(mode="json"), "form": work.form.__name__, "prefix": work.prefixes.prefix,
        "prefixes": work.prefixes.digest(),
    }  # fmt: skip


def _refuse_in_bulk(**options: Any) -> None:
    if invalid := [name for name, value in options.items() if value]:
        why = {
            "resume": "the same command always resumes",
            "nbest": "each line has one output",
            "prefixes": "the lines are divided into blocks; --prefix applies to all lines",
        }
        raise ConfigError("this option cannot be used in bulk", where=f"--{invalid[0]}", why=why[invalid[0]])


def _search_of(run: Path, requested: dict[str, Any]) -> dict[str, Any]:
    """Return the search settings of a run, overridden by ``requested``, before any process loads the model."""
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    folder = RunFolder.open(run)
    require_task(folder, "translation")
    config: Any = folder.config  # a TranslationConfig
    return search_settings(config.search, **requested).model_dump(mode="json")


def _translate_lines(
    work: _Translation, run: Path, bulk: Bulk, *, job: dict[str, Any], resume: bool
) -> tuple[Counter[str], int]:
    """Translate a file or standard input; see ``_Translation.run`` for the result."""
    source, output = bulk.source, None if bulk.output is None else Path(bulk.output)
    with (
        open_output(output, source, job=job, resume=resume) as lines,
        progress("translating", count_lines(source), hidden=output is None and sys.stdout.isatty()) as advance,
        open_inputs(run, source, bulk.columns, watched=output is None) as (read, ready, _),
    ):
        batch = work.search.batch_sentences
        # On a terminal, translate each line immediately.
        size = 1 if source is None and sys.stdin.isatty() else BATCHES * batch
        # A resumed command must form the same chunks. Otherwise, start with small chunks for early output.
        resumable = output is not None and source is not None
        early: dict[str, Any] = {} if resumable else {"first": batch, "ready": ready}
        parts = chunks(read, size, whole=resumable, **early)
        return work.run(parts, lines, advance, reader_left if output is None else lambda: False)


class _Translation(NamedTuple):
    """A translation job: the model, the search, the prefixes, and the form of the output."""

    model: Translator
    search: SearchConfig
    prefixes: _Prefixes
    form: Callable[[int, Translation], str]  # from line number and translation to the output text

    def run(
        self, parts: Iterable[list[str]], lines: LineWriter, advance: Callable[[int], None],
        interrupted: Callable[[], bool],
    ) -> tuple[Counter[str], int]:  # fmt: skip
        """Translate the chunks and write the results.

        Returns:
            The count of each unknown word or character, and the number of truncated lines.
        """
        number, unread, unknown = 0, 0, Counter[str]()
        for chunk in parts:
            prefixes = self.prefixes.take(len(chunk))
            if lines.skip_committed(chunk):
                number += len(chunk)
                advance(len(chunk))
                continue
            translations = self.model.translate(
                chunk, search=self.search, prefixes=prefixes, done=advance,
                interrupted=interrupted,
            )  # fmt: skip
            for translation in translations:
                number += 1
                unknown.update(translation.unknown)
                unread += translation.unread > 0
                lines.write(self.form(number, translation))
            lines.commit(chunk)
        self.prefixes.end()
        return unknown, unread


class _Prefixes:
    """Required beginnings of the outputs: one text for all, or a file with a line for each."""

    def __init__(self, prefix: str | None, file: Path | None) -> None:
        from regard.data.text_files import read_lines

        if prefix is not None and file is not None:
            raise ConfigError("--prefix and --prefixes cannot be combined", help="use only one of them")
        self.prefix, self.file, self.used = prefix, file, 0
        self.lines = None if file is None else read_lines(file)

    def digest(self) -> str | None:
        """Return the sha256 of the file; None without a file."""
        from regard.core.atomic_files import sha256

        return None if self.file is None or not self.file.is_file() else sha256(self.file)

    def take(self, count: int) -> list[str] | None:
        """Return the prefixes of the next ``count`` sentences; None without prefixes."""
        if self.lines is None:
            return None if self.prefix is None else [self.prefix] * count
        prefixes = list(itertools.islice(self.lines, count))
        self.used += len(prefixes)
        if len(prefixes) < count:
            why = f"{self.file} ends after line {self.used:,}"
            raise DataError("the file has fewer prefixes than there are sentences", where=str(self.file), why=why)
        return prefixes

    def end(self) -> None:
        """Raise DataError if prefixes are left over."""
        if self.lines is not None and (rest := sum(1 for _ in self.lines)):
            where = f"{self.file}:{self.used + 1}"
            raise DataError(
                f"the file has {pluralize(rest, 'more prefix', 'more prefixes')} than sentences", where=where
            )


def _describe_unknown(unknown: Counter[str]) -> str:
    """Describe unknown words or characters in one line, the most frequent first."""
    frequent = [(printable(symbol), count) for symbol, count in unknown.most_common(SHOWN)]
    shown = [f"{symbol} ({count:,})" if count > 1 else symbol for symbol, count in frequent]
    noun = "word" if any(len(symbol) > 1 for symbol in unknown) else "character"
    more = ", …" if len(unknown) > SHOWN else ""
    return f"{pluralize(len(unknown), f'unknown {noun}')} replaced by <unk>: {', '.join(shown)}{more}"


def _as_text(number: int, translation: Translation) -> str:
    return _one_line(translation.text)


def _as_table(number: int, translation: Translation) -> str:
    return "\n".join(
        f"{number}\t{candidate.score:.4f}\t{_one_line(candidate.text)}" for candidate in translation.candidates
    )


def _as_json(number: int, translation: Translation) -> str:
    return json.dumps({"line": number} | translation.as_dict(), ensure_ascii=False)


def _one_line(text: str) -> str:
    """Replace line breaks by spaces; a vocabulary of characters or bytes can generate line breaks."""
    return text.replace("\r", " ").replace("\n", " ")
