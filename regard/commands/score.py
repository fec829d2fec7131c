"""``regard score``: print the log probability of translations or of lines of text under a model."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands.bulk import Bulk, Folder, run_bulk, takes_bulk
from regard.commands.evaluate import Stride
from regard.commands.incoming_lines import count_lines, open_lines
from regard.commands.options import (
    CheckpointName,
    DeviceName,
    Run,
    Threads,
    epilog,
    open_predictor,
)
from regard.commands.progress import progress
from regard.core.wording import pluralize
from regard.errors import ConfigError, RegardError

if TYPE_CHECKING:
    from regard.core.predictor_interface import ScoresPairs, ScoresTexts
    from regard.runs.run_folder import RunFolder

CHUNK = 1024  # maximum number of pairs in memory
EPILOG = epilog(
    "regard score runs/m30k test.en test.de > log-probabilities.txt",
    "regard score runs/book --json < sentences.txt",
    'regard score runs/book answers.txt --prompt "Q: Who was it? A: "',
)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Two aligned files of source and target sentences; a .tsv or .jsonl with both sides; or a text for a "
        "language model. In bulk: any number of .tsv, .jsonl or text files.",
        show_default="standard input, for a language model",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        help="Score each line as the continuation of this text (language models).",
        show_default="the beginning of a text",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object per line with the log probability of each piece, and the total last."
    ),
]


class _Scored(NamedTuple):
    """Scores of a pair or of a line of text; empty for a blank line."""

    line: int
    scores: list[float]  # log probability of each piece, in nats
    pieces: list[str]
    bytes: int = 0  # length of a line of text in UTF-8; 0 for pairs


def register(app: typer.Typer) -> None:
    """Add ``regard score`` to the command line."""
    app.command("score", epilog=EPILOG)(score)


@takes_bulk
def score(
    run: Run,
    files: Files = None,
    *,
    output: Folder = None,
    prompt: Prompt = None,
    stride: Stride = None,
    as_json: AsJson = False,
    bulk: Bulk = Bulk(),
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Print log P(target | source) of each pair, end token included, or log P of each line of a text, in nats.

    Prints one line per pair or line of text; a blank line gives a blank line. The total, the perplexity and, for text,
    the bits per byte follow on standard error.

    A language model scores each line as a text without its end token, in windows of its context; with --prompt, as the
    continuation of that prompt. A line of a .jsonl file is a document, {"text": …}, or {"prompt": …, "completion": …},
    of which only the completion is scored.

    With -o OUT/, files are processed in bulk: in blocks, by --workers processes. After an interruption, run the same
    command again to resume.
    """
    from regard.runs.run_folder import RunFolder

    pairs = _scores_pairs(RunFolder.open(run))
    opening: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads}
    _require_scorable(bulk.with_files(files, output), pairs=pairs)
    if (bulk := bulk.with_files(files, output, folder=True)).requested_above(2):
        rows = _rows(bulk.files, pairs=pairs)
        spec = {"verb": "score", "prompt": prompt, "stride": stride, "documents": rows, "json": as_json, "seed": None}
        run_bulk(bulk, run, spec | opening, doing="scoring")
        return
    source, target = [*bulk.files, None, None][:2]
    if pairs:
        source = _require_pairs(run, source, prompt, stride)
        _score_pairs(open_predictor(run, **opening), source, target, as_json)
        return
    if target is not None:
        why = f"{run} is a language model, which scores the lines of one text"
        raise ConfigError("too many input files", where=str(target), why=why)
    _score_text(open_predictor(run, **opening), bulk.source, prompt, stride, as_json)


def _scores_pairs(run: RunFolder) -> bool:
    """Return whether a run scores pairs rather than texts; raise ConfigError if it scores neither."""
    from regard.core.task_table import locate

    if run.task.scores is None:
        kind = run.config.task.kind
        what = f"regard score requires a translation or language model; the task of {run.path} is {kind}"
        help = f"use regard {locate(kind, saved=True).verb} {run.path}"
        raise ConfigError(what, where=str(run.path), help=help)
    return run.task.scores == "pairs"


def _score_pairs(model: ScoresPairs, source: Path, target: Path | None, as_json: bool) -> None:
    from regard.data.reading import CorpusConfig, corpus_of_files, read_pairs
    from regard.data.rows import form_of

    both_sides = corpus_of_files([source]) if target is None and source.is_file() else None
    pairs = read_pairs(both_sides or CorpusConfig(source=source, target=target))
    total = sum(1 for _ in pairs)  # reads all pairs once, to report missing lines before any is scored
    scored = _scored_pairs(model, iter(pairs), source)
    if both_sides is not None and (both_sides.header or form_of(source) in ("csv", "parquet")):
        scored = (one._replace(line=row) for row, one in enumerate(scored, start=1))  # the header has no output
    _print_scores(scored, total, "pairs", as_json)


def _score_text(
    generator: ScoresTexts, text: Path | None, prompt: str | None, stride: int | None, as_json: bool
) -> None:
    from regard.data.documents import is_json_lines

    if prompt is not None and text is not None and is_json_lines(text):
        why = "its documents may have prompts of their own"
        raise ConfigError("this option does not apply to JSON lines", where="--prompt", why=why)
    windows = {"context": generator.context, "stride": stride or generator.context}
    with open_lines(text, watched=True) as (lines, _):
        scored = _scored_lines(generator, lines, text, prompt, stride)
        _print_scores(scored, count_lines(text), "lines", as_json, windows)


def _require_scorable(bulk: Bulk, *, pairs: bool) -> None:
    """Raise ConfigError for --column, and for a table, whose header and cells a language model would score as text."""
    from regard.data.rows import form_of

    if bulk.columns:
        what, help = "regard score does not support --column", "write the texts to a .txt file, one per line"
        raise ConfigError(what, where="--column", why="it scores complete lines, documents and pairs", help=help)
    for file in bulk.files if not pairs else ():
        if form_of(file) in ("csv", "parquet", "conll-u", "word-lines"):
            what = f"a language model cannot score {form_of(file)} files"
            help = "name a text file, or a .jsonl file with a text per line"
            raise ConfigError(what, where=str(file), why="their rows are not lines of text", help=help)


def _rows(files: Sequence[Path], *, pairs: bool) -> bool:
    """Return whether the files are JSON lines.

    Raises:
        ConfigError: if only some of them are, or if a file of pairs does not contain both sides.
    """
    from regard.data.documents import is_json_lines
    from regard.data.file_names import has_ending

    rows = [is_json_lines(file) for file in files]
    if len(set(rows)) > 1:
        what = "one bulk job cannot read both JSON lines and other files"
        raise ConfigError(what, where=str(files[rows.index(True)]), help="use one command for each format")
    for file in files if pairs and not any(rows) else ():
        if not has_ending(file, (".tsv",)):
            why = "in bulk, each file must contain both sides: .tsv or .jsonl"
            raise ConfigError(
                "this file contains only one side", where=str(file), why=why, help="paste SOURCE TARGET > x.tsv"
            )
    return any(rows)


def _require_pairs(run: Path, source: Path | None, prompt: str | None, stride: int | None) -> Path:
    """Return the source file; raise ConfigError for options that do not apply to a translation model."""
    if source is None or prompt is not None:
        why, help = f"{run} is a translation model", f"regard score {run} SOURCE TARGET"
        raise ConfigError("source and target sentences are required", why=why, help=help)
    if stride is not None:
        raise ConfigError("this option does not apply", where="--stride", why=f"{run} is a translation model")
    return source


def _print_scores(
    scored: Iterator[_Scored], total: int | None, what: str, as_json: bool, windows: dict[str, int] | None = None
) -> None:
    """Print the scores as they arrive, then the total.

    Args:
        scored: the scores of each item.
        total: the number of items; None if unknown.
        what: the name of the items: pairs or lines.
        as_json: whether to print JSON.
        windows: the context and the stride of a language model.
    """
    log_p, pieces, size, printed, count = 0.0, 0, 0, 0, 0
    with progress("scoring", total, unit=what, hidden=sys.stdout.isatty()) as advance:
        for one in scored:
            # Flush each line: a reader that exits early, such as head, then ends this command.
            if not as_json:
                print("\n" * (one.line - printed - 1), end="")
                print(f"{math.fsum(one.scores):.4f}" if one.pieces else "", flush=True)
            elif one.pieces:
                print(_as_json(one), flush=True)
            log_p, pieces, printed = log_p + math.fsum(one.scores), pieces + len(one.scores), one.line
            size, count = size + one.bytes, count + bool(one.pieces)
            advance(1)
    perplexity = math.exp(-log_p / pieces) if pieces else math.nan
    bits = -log_p / math.log(2) / size if size else None
    if as_json:
        whole = {what: count, "pieces": pieces, "log_probability": log_p, "perplexity": perplexity}
        print(json.dumps(whole | (windows or {}) | ({} if bits is None else {"bytes": size, "bits_per_byte": bits})))
    else:
        summary = (
            f"{count:,} {what}, {pluralize(pieces, 'piece')}, log P {log_p:,.2f}, perplexity {perplexity:.3f} per piece"
        )
        summary += "" if bits is None else f", {bits:.4f} bits per byte"
        typer.echo(", ".join([summary, *(f"{name} {value}" for name, value in (windows or {}).items())]), err=True)


def _scored_lines(
    generator: ScoresTexts, lines: Iterable[str], file: Path | None, prompt: str | None, stride: int | None
) -> Iterator[_Scored]:
    from regard.data.documents import is_json_lines, parse_document

    if prompt is not None:
        generator.read(prompt)  # reports an invalid prompt here, and not as an error of the first line
    for number, line in enumerate(lines, start=1):
        if not line:
            yield _Scored(number, [], [])
            continue
        where, text, before = f"{file or 'standard input'}:{number}", line, prompt
        if file is not None and is_json_lines(file):
            document = parse_document(line, where=where)
            text, before = document.text, document.prompt or None
        try:
            score = generator.score(text, prompt=before, stride=stride)
        except RegardError as error:
            error.where = where
            raise
        yield _Scored(number, list(score.piece_log_probabilities), list(score.pieces), score.bytes)


def _scored_pairs(model: ScoresPairs, pairs: Iterator[tuple[int, str, str]], path: Path) -> Iterator[_Scored]:
    while chunk := list(itertools.islice(pairs, CHUNK)):
        piece_scores = model.score(
            [source for _, source, _ in chunk],
            [target for _, _, target in chunk],
            where=[f"{path}:{number}" for number, _, _ in chunk].__getitem__,
        )
        for (number, _, target), scores in zip(chunk, piece_scores, strict=True):
            yield _Scored(number, scores, model.scored_pieces(target))


def _as_json(one: _Scored) -> str:
    total = math.fsum(one.scores)
    whole = {"line": one.line, "log_probability": total, "pieces": one.pieces, "piece_log_probabilities": one.scores}
    if one.bytes:
        bits = -total / math.log(2) / one.bytes
        whole |= {"nll": -total, "tokens": len(one.scores), "bytes": one.bytes, "bits_per_byte": bits}
    return json.dumps(whole, ensure_ascii=False)
