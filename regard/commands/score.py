"""``regard score``: print the log probability that a model gives to translations, or to lines of a text."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from regard.commands.options import (
    CheckpointName,
    DeviceName,
    PairTarget,
    Run,
    Threads,
    epilog,
    open_model,
    open_predictor,
)
from regard.commands.progress import progress
from regard.errors import ConfigError, RegardError

if TYPE_CHECKING:
    from regard.tasks.language_model.generator import Generator
    from regard.tasks.translation.translator import Translator

__all__ = ["register"]

CHUNK = 1024  # pairs in memory at a time
EPILOG = epilog(
    "regard score runs/m30k test.en test.de > log-probabilities.txt", "regard score runs/book sentences.txt --json"
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Source sentences, one a line; a .tsv or .jsonl of both sides; or the text for a language model.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print a JSON object a line with the log probability of each piece, and the total last."
    ),
]


class _Scored(NamedTuple):
    """The scores of a pair or of a line of text."""

    line: int
    scores: list[float]  # of each piece
    pieces: list[str]
    bytes: int = 0


def register(app: typer.Typer) -> None:
    """Add ``regard score`` to the command line."""
    app.command("score", epilog=EPILOG)(score)


def score(
    run: Run,
    source: Source,
    target: PairTarget = None,
    *,
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Print log P(target | source) of each pair, in nats, the end symbol included; or log P of each line of a text.

    The output has a line for each pair, or line of text; a blank one gives a blank line. The total and the perplexity
    follow on standard error, for a text bits a byte, too. A language model reads each line from its beginning, without
    its end, in windows of its context.
    """
    from regard.data.corpora import CorpusConfig, read_lines, read_pairs
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    folder = RunFolder.open(run)
    require_task(folder, "translation", "language-model")
    if folder.config.task.kind == "translation":
        model = open_model(run, checkpoint=checkpoint, device=device, threads=threads)
        pairs = read_pairs(CorpusConfig(source=source, target=target))
        total = sum(1 for _ in pairs)  # reads it all once: whatever is not parallel is told before any work
        _print_scores(_scored_pairs(model, iter(pairs), source), total, "pairs", as_json)
        return
    if target is not None:
        why = f"{run} is a language model, which scores the lines of one text"
        raise ConfigError("this file is one too many", where=str(target), why=why)
    generator = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    total = sum(1 for line in read_lines(source) if line)
    _print_scores(_scored_lines(generator, read_lines(source), source), total, "lines", as_json)


def _print_scores(scored: Iterator[_Scored], total: int, what: str, as_json: bool) -> None:
    """Print the scores as they come, then the total; ``what`` they are of: pairs or lines."""
    log_p, pieces, size, printed = 0.0, 0, 0, 0
    with progress("scoring", total, unit=what, hidden=sys.stdout.isatty()) as advance:
        for one in scored:
            if not as_json:
                print("\n" * (one.line - printed - 1), end="")
            line = _as_json(one) if as_json else f"{math.fsum(one.scores):.4f}"
            print(line, flush=True)  # flushed, so that a reader that leaves early, as head does, ends the work
            log_p, pieces, printed = log_p + math.fsum(one.scores), pieces + len(one.scores), one.line
            size += one.bytes
            advance(1)
    perplexity = math.exp(-log_p / pieces) if pieces else math.nan
    bits = -log_p / math.log(2) / size if size else None
    if as_json:
        found = {what: total, "pieces": pieces, "log_probability": log_p, "perplexity": perplexity}
        print(json.dumps(found | ({} if bits is None else {"bytes": size, "bits_per_byte": bits})))
    else:
        told = f"{total:,} {what}, {pieces:,} pieces, log P {log_p:,.2f}, perplexity {perplexity:.3f} a piece"
        typer.echo(told + ("" if bits is None else f", {bits:.4f} bits a byte"), err=True)


def _scored_lines(generator: Generator, lines: Iterator[str], path: Path) -> Iterator[_Scored]:
    for number, line in enumerate(lines, start=1):
        if line:
            try:
                found = generator.score(line)
            except RegardError as error:
                error.where = f"{path}:{number}"
                raise
            yield _Scored(number, list(found.piece_log_probabilities), list(found.pieces), found.bytes)


def _scored_pairs(model: Translator, pairs: Iterator[tuple[int, str, str]], path: Path) -> Iterator[_Scored]:
    while chunk := list(itertools.islice(pairs, CHUNK)):
        found = model.score(
            [source for _, source, _ in chunk],
            [target for _, _, target in chunk],
            where=[f"{path}:{number}" for number, _, _ in chunk].__getitem__,
        )
        for (number, _, target), scores in zip(chunk, found, strict=True):
            yield _Scored(number, scores, [*model.target.pieces(model.target.encode(target)), "</s>"])


def _as_json(one: _Scored) -> str:
    whole = {"line": one.line, "log_probability": math.fsum(one.scores), "pieces": one.pieces}
    return json.dumps(whole | {"piece_log_probabilities": one.scores}, ensure_ascii=False)
