"""``regard score``: print the log probability that a model gives to translations."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import CheckpointName, DeviceName, PairSource, PairTarget, Run, Threads, epilog, open_model
from regard.commands.progress import progress

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator

__all__ = ["register"]

CHUNK = 1024  # pairs in memory at a time
EPILOG = epilog("regard score runs/m30k test.en test.de > log-probabilities.txt")

AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print a JSON object a line with the log probability of each piece, and the total last."
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard score`` to the command line."""
    app.command("score", epilog=EPILOG)(score)


def score(
    run: Run,
    source: PairSource,
    target: PairTarget = None,
    *,
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Print log P(target | source) of each pair, in nats, the end symbol included.

    The output has a line for each pair; a pair that is blank on both sides gives a blank line. The total and the
    perplexity follow on standard error.
    """
    from regard.data.corpora import CorpusConfig, read_pairs

    model = open_model(run, checkpoint=checkpoint, device=device, threads=threads)
    pairs = read_pairs(CorpusConfig(source=source, target=target))
    total = sum(1 for _ in pairs)  # reads it all once: whatever is not parallel is told before any work
    log_p, pieces, printed = 0.0, 0, 0
    with progress("scoring", total, hidden=sys.stdout.isatty()) as advance:
        for number, scores, names in _scored(model, iter(pairs), source):
            if not as_json:
                print("\n" * (number - printed - 1), end="")
            line = _as_json(number, scores, names) if as_json else f"{math.fsum(scores):.4f}"
            print(line, flush=True)  # flushed, so that a reader that leaves early, as head does, ends the work
            log_p, pieces, printed = log_p + math.fsum(scores), pieces + len(scores), number
            advance(1)
    perplexity = math.exp(-log_p / pieces) if pieces else math.nan
    if as_json:
        print(json.dumps({"pairs": total, "pieces": pieces, "log_probability": log_p, "perplexity": perplexity}))
    else:
        told = f"{total:,} pairs, {pieces:,} pieces, log P {log_p:,.2f}, perplexity {perplexity:.3f} a piece"
        typer.echo(told, err=True)


def _scored(
    model: Translator, pairs: Iterator[tuple[int, str, str]], path: Path
) -> Iterator[tuple[int, list[float], list[str]]]:
    while chunk := list(itertools.islice(pairs, CHUNK)):
        found = model.score(
            [source for _, source, _ in chunk],
            [target for _, _, target in chunk],
            where=[f"{path}:{number}" for number, _, _ in chunk].__getitem__,
        )
        for (number, _, target), scores in zip(chunk, found, strict=True):
            yield number, scores, [*model.target.pieces(model.target.encode(target)), "</s>"]


def _as_json(number: int, scores: list[float], pieces: list[str]) -> str:
    whole = {"line": number, "log_probability": math.fsum(scores), "pieces": pieces, "piece_log_probabilities": scores}
    return json.dumps(whole, ensure_ascii=False)
