"""``regard score``: print the log probability that a model gives to translations, or to lines of a text."""

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
    from regard.core.scores import ScoresPairs, ScoresTexts
    from regard.runs.run_folder import RunFolder

CHUNK = 1024  # pairs in memory at a time
EPILOG = epilog(
    "regard score runs/m30k test.en test.de > log-probabilities.txt",
    "regard score runs/book --json < sentences.txt",
    'regard score runs/book answers.txt --prompt "Q: Who was it? A: "',
)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Source sentences and target sentences, line by line, in two files; a .tsv or .jsonl of both sides; or "
        "the text for a language model. In bulk any number of files, each .tsv or .jsonl, or a text.",
        show_default="standard input, for a language model",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        help="Text that each line goes on from, for a language model.", show_default="the beginning of a text"
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print a JSON object a line with the log probability of each piece, and the total last."
    ),
]


class _Scored(NamedTuple):
    """The scores of a pair or of a line of text; a blank line has none."""

    line: int
    scores: list[float]  # of each piece
    pieces: list[str]
    bytes: int = 0  # of a line of text


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
    """Print log P(target | source) of each pair, in nats, the end symbol included; or log P of each line of a text.

    The output has a line for each pair, or line of text; a blank one gives a blank line. The total and the perplexity
    follow on standard error, for a text bits a byte, too. A language model reads each line from its beginning, without
    its end, in windows of its context; with --prompt, as what goes on from that, read as regard generate does. A line
    of a .jsonl is a document, {"text": …}, or {"prompt": …, "completion": …} of which the completion alone is scored.
    With -o OUT/ files are work in bulk: in blocks, by --workers that may die, and the same command goes on.
    """
    from regard.runs.run_folder import RunFolder

    pairs = _scores_pairs(RunFolder.open(run))
    opened: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads}
    _require_scorable(bulk.of(files, output), pairs=pairs)
    if (bulk := bulk.of(files, output, folder=True)).wanted_beside(2):
        rows = _rows(bulk.files, pairs=pairs)
        spec = {"verb": "score", "prompt": prompt, "stride": stride, "documents": rows, "json": as_json, "seed": None}
        run_bulk(bulk, run, spec | opened, doing="scoring")
        return
    source, target = [*bulk.files, None, None][:2]
    if pairs:
        source = _require_pairs(run, source, prompt, stride)
        _score_pairs(open_predictor(run, **opened), source, target, as_json)
        return
    if target is not None:
        why = f"{run} scores the lines of one text"
        raise ConfigError("this file is one too many", where=str(target), why=why)
    _score_text(open_predictor(run, **opened), bulk.source, prompt, stride, as_json)


def _scores_pairs(run: RunFolder) -> bool:
    """Return whether a run scores pairs, and not texts. Raises ConfigError if it scores neither."""
    from regard.core.task_table import locate

    if run.task.scores is None:
        kind = run.config.task.kind
        what = f"scores need a model that predicts text, and {run.path} is of {kind}"
        help = f"regard {locate(kind, saved=True).verb} {run.path} is for it"
        raise ConfigError(what, where=str(run.path), help=help)
    return run.task.scores == "pairs"


def _score_pairs(model: ScoresPairs, source: Path, target: Path | None, as_json: bool) -> None:
    from regard.data.reading import CorpusConfig, corpus_of_files, read_pairs
    from regard.data.rows import form_of

    both_sides = corpus_of_files([source]) if target is None and source.is_file() else None
    pairs = read_pairs(both_sides or CorpusConfig(source=source, target=target))
    total = sum(1 for _ in pairs)  # reads it all once: whatever is not parallel is told before any work
    scored = _scored_pairs(model, iter(pairs), source)
    if both_sides is not None and (both_sides.header or form_of(source) in ("csv", "parquet")):
        scored = (one._replace(line=row) for row, one in enumerate(scored, start=1))  # the head has no output
    _print_scores(scored, total, "pairs", as_json)


def _score_text(
    generator: ScoresTexts, text: Path | None, prompt: str | None, stride: int | None, as_json: bool
) -> None:
    from regard.data.documents import is_json_lines

    if prompt is not None and text is not None and is_json_lines(text):
        why = "its documents may have prompts of their own"
        raise ConfigError("this option does not apply to JSON lines", where="--prompt", why=why)
    cut = {"context": generator.context, "stride": stride or generator.context}
    with open_lines(text, watched=True) as (lines, _):
        scored = _scored_lines(generator, lines, text, prompt, stride)
        _print_scores(scored, count_lines(text), "lines", as_json, cut)


def _require_scorable(bulk: Bulk, *, pairs: bool) -> None:
    """ConfigError for a column, and for a table whose head and cells a language model would score as lines of text."""
    from regard.data.rows import form_of

    if bulk.columns:
        what, help = "--column does not apply to scores", "write the texts one a line to a .txt file"
        raise ConfigError(what, where="--column", why="lines, JSON lines and pairs are scored whole", help=help)
    for file in bulk.files if not pairs else ():
        if form_of(file) in ("csv", "parquet", "conll-u", "word-lines"):
            what, help = f"a language model scores no {form_of(file)} files", "name a text, or JSON lines with a text"
            raise ConfigError(what, where=str(file), why="their rows are no lines of text", help=help)


def _rows(files: Sequence[Path], *, pairs: bool) -> bool:
    """Whether the files are JSON lines. ConfigError unless all are alike, and hold both sides where they are pairs."""
    from regard.data.documents import is_json_lines
    from regard.data.file_names import has_ending

    rows = [is_json_lines(file) for file in files]
    if len(set(rows)) > 1:
        raise ConfigError("JSON lines and other files do not go into one job", where=str(files[rows.index(True)]))
    for file in files if pairs and not any(rows) else ():
        if not has_ending(file, (".tsv",)):
            why = "in bulk each file has both sides: .tsv or .jsonl"
            raise ConfigError(
                "this file has one side alone", where=str(file), why=why, help="paste SOURCE TARGET > x.tsv"
            )
    return any(rows)


def _require_pairs(run: Path, source: Path | None, prompt: str | None, stride: int | None) -> Path:
    """The source of the pairs; ConfigError for what a translation is not scored by."""
    if source is None or prompt is not None:
        why, help = f"{run} translates: it scores pairs of sentences", f"regard score {run} SOURCE TARGET"
        raise ConfigError("a translation is scored with its source", why=why, help=help)
    if stride is not None:
        raise ConfigError("this option does not apply", where="--stride", why=f"{run} scores pairs of sentences")
    return source


def _print_scores(
    scored: Iterator[_Scored], total: int | None, what: str, as_json: bool, cut: dict[str, int] | None = None
) -> None:
    """Print the scores as they come, then the total; ``what`` they are of: pairs or lines; ``cut``: their windows."""
    log_p, pieces, size, printed, found = 0.0, 0, 0, 0, 0
    with progress("scoring", total, unit=what, hidden=sys.stdout.isatty()) as advance:
        for one in scored:
            # Flushed, so that a reader that leaves early, as head does, ends the work.
            if not as_json:
                print("\n" * (one.line - printed - 1), end="")
                print(f"{math.fsum(one.scores):.4f}" if one.pieces else "", flush=True)
            elif one.pieces:
                print(_as_json(one), flush=True)
            log_p, pieces, printed = log_p + math.fsum(one.scores), pieces + len(one.scores), one.line
            size, found = size + one.bytes, found + bool(one.pieces)
            advance(1)
    perplexity = math.exp(-log_p / pieces) if pieces else math.nan
    bits = -log_p / math.log(2) / size if size else None
    if as_json:
        whole = {what: found, "pieces": pieces, "log_probability": log_p, "perplexity": perplexity}
        print(json.dumps(whole | (cut or {}) | ({} if bits is None else {"bytes": size, "bits_per_byte": bits})))
    else:
        told = (
            f"{found:,} {what}, {pluralize(pieces, 'piece')}, log P {log_p:,.2f}, perplexity {perplexity:.3f} a piece"
        )
        told += "" if bits is None else f", {bits:.4f} bits a byte"
        typer.echo(", ".join([told, *(f"{name} {value}" for name, value in (cut or {}).items())]), err=True)


def _scored_lines(
    generator: ScoresTexts, lines: Iterable[str], file: Path | None, prompt: str | None, stride: int | None
) -> Iterator[_Scored]:
    from regard.data.documents import is_json_lines, parse_document

    if prompt is not None:
        generator.read(prompt)  # so that what is wrong with it is not told of a line
    for number, line in enumerate(lines, start=1):
        if not line:
            yield _Scored(number, [], [])
            continue
        where, text, before = f"{file or 'standard input'}:{number}", line, prompt
        if file is not None and is_json_lines(file):
            document = parse_document(line, where=where)
            text, before = document.text, document.prompt or None
        try:
            found = generator.score(text, prompt=before, stride=stride)
        except RegardError as error:
            error.where = where
            raise
        yield _Scored(number, list(found.piece_log_probabilities), list(found.pieces), found.bytes)


def _scored_pairs(model: ScoresPairs, pairs: Iterator[tuple[int, str, str]], path: Path) -> Iterator[_Scored]:
    while chunk := list(itertools.islice(pairs, CHUNK)):
        found = model.score(
            [source for _, source, _ in chunk],
            [target for _, _, target in chunk],
            where=[f"{path}:{number}" for number, _, _ in chunk].__getitem__,
        )
        for (number, _, target), scores in zip(chunk, found, strict=True):
            yield _Scored(number, scores, model.scored_pieces(target))


def _as_json(one: _Scored) -> str:
    total = math.fsum(one.scores)
    whole = {"line": one.line, "log_probability": total, "pieces": one.pieces, "piece_log_probabilities": one.scores}
    if one.bytes:
        bits = -total / math.log(2) / one.bytes
        whole |= {"nll": -total, "tokens": len(one.scores), "bytes": one.bytes, "bits_per_byte": bits}
    return json.dumps(whole, ensure_ascii=False)
