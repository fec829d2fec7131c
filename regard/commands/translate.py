"""``regard translate``: a filter from lines to lines, in constant memory and in order."""

from __future__ import annotations

import itertools
import json
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands.incoming_lines import chunks, open_lines, reader_left
from regard.commands.options import (
    Beam,
    CheckpointName,
    CoveragePenalty,
    DeviceName,
    EngineName,
    LengthPenalty,
    Run,
    Threads,
    checkpoint_name,
    open_model,
    search_settings,
)  # fmt: skip
from regard.commands.output import open_output, printable
from regard.commands.progress import progress
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.inference.results import Candidate, Translation

__all__ = ["register"]

SHOWN = 20  # characters that were never seen
BATCHES = 16  # batches read ahead: among so many lines, those of like length go together

Input = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A sentence a line, .gz or not; standard input unless given.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")]
NBest = Annotated[
    int | None,
    typer.Option("--nbest", min=1, metavar="N", help="The N best of a line: its number, score, text, by tabs."),
]
MaxLength = Annotated[int | None, typer.Option("--max-length", min=1, metavar="N", help="Pieces an output may have.")]
Temperature = Annotated[
    float | None, typer.Option("--temperature", metavar="T", help="Draw from p^(1/T) instead of searching.")
]
TopK = Annotated[int | None, typer.Option("--top-k", min=1, metavar="K", help="Draw among the K most probable pieces.")]
TopP = Annotated[
    float | None, typer.Option("--top-p", metavar="P", help="Draw among the fewest pieces that reach probability P.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, metavar="N", help="Draw the same again.")]
Prefix = Annotated[str | None, typer.Option("--prefix", metavar="TEXT", help="Every output begins so.")]
Prefixes = Annotated[
    Path | None,
    typer.Option("--prefixes", metavar="FILE", help="Each output begins as its line here; a blank line is free."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the -o file of this very command, interrupted before.")
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="A JSON object a line: text, score, log probability, pieces, unknown, candidates."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard translate`` to the command line."""
    app.command("translate", epilog="Example: regard translate runs/m30k < in.txt > out.txt")(translate)


def translate(
    run: Run,
    file: Input = None,
    *,
    output: Output = None,
    beam: Beam = None,
    nbest: NBest = None,
    length_penalty: LengthPenalty = None,
    coverage_penalty: CoveragePenalty = None,
    max_length: MaxLength = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    prefix: Prefix = None,
    prefixes: Prefixes = None,
    as_json: AsJson = False,
    resume: Resume = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
) -> None:
    """Translate lines with a trained model.

    Reads and writes as it goes, in order: a pipe is answered when its writer pauses (with --seed after 1,024 lines or
    at the end, so that the same is drawn again). A line of nothing but white space stays empty; one that is too long is
    translated in parts. A file given with -o is replaced once all is there; --resume goes on after an interruption.
    """
    from regard.data.corpora import read_lines

    begins = _Beginnings(prefix, prefixes)
    model = open_model(run, checkpoint=checkpoint, device=device, threads=threads, engine=engine)
    search = search_settings(
        model.search, beam=beam, nbest=nbest, length_penalty=length_penalty,
        coverage_penalty=coverage_penalty, max_length=max_length,
        temperature=temperature, top_k=top_k, top_p=top_p,
    )  # fmt: skip
    given = file if file is not None and str(file) != "-" else None
    # Someone who types wants each answer at once.
    size = 1 if given is None and sys.stdin.isatty() else BATCHES * search.batch_sentences
    # What is to be drawn again, or gone on with, is cut alike each time; else the first lines are not kept waiting.
    alike = seed is not None or (output is not None and given is not None)
    # The lines of a pipe would be gone once they are counted.
    total = sum(1 for _ in read_lines(given)) if given is not None and given.is_file() else None
    form = _as_json if as_json else _as_table if search.nbest > 1 else _as_text
    hidden = output is None and sys.stdout.isatty()
    job = {
        "run": str(run.resolve()), "checkpoint": checkpoint_name(run, checkpoint), "engine": engine, "seed": seed,
        "search": search.model_dump(mode="json"), "form": form.__name__, "prefix": prefix, "prefixes": begins.digest(),
    }  # fmt: skip
    with (
        open_output(output, given, job=job, resume=resume) as lines,
        progress("translating", total, hidden=hidden) as advance,
        open_lines(given, watched=output is None) as (read, ready),
    ):
        unheard = reader_left if output is None else lambda: False
        start = secrets.randbits(32) if seed is None else seed
        number, unknown = 0, Counter[str]()
        early: dict[str, Any] = {"first": search.batch_sentences, "ready": ready}
        cut = chunks(read, size, whole=output is not None) if alike else chunks(read, size, **early)
        for count, chunk in enumerate(cut):
            begin = begins.take(len(chunk))
            if lines.skip_committed(chunk):
                number += len(chunk)
                advance(len(chunk))
                continue
            found = model.translate(
                chunk, search=search, prefixes=begin, seed=start + count, done=advance, interrupted=unheard
            )
            for one in found:
                number += 1
                unknown.update(one.unknown)
                lines.write(form(number, one))
            lines.commit(chunk)
        begins.end()
    if unknown:
        typer.echo(_never_seen(unknown), err=True)


class _Beginnings:
    """What outputs must begin with: one text for all, or a file with a line for each."""

    def __init__(self, prefix: str | None, file: Path | None) -> None:
        from regard.data.corpora import read_lines

        if prefix is not None and file is not None:
            raise ConfigError("--prefix and --prefixes both say how an output begins", help="give one of them")
        self.prefix, self.file, self.taken = prefix, file, 0
        self.lines = None if file is None else read_lines(file)

    def digest(self) -> str | None:
        """Of the file, which is read as it is needed."""
        from regard.core.atomic_files import sha256

        return None if self.file is None or not self.file.is_file() else sha256(self.file)

    def take(self, count: int) -> list[str] | None:
        """Those of the next ``count`` sentences; None when they are free."""
        if self.lines is None:
            return None if self.prefix is None else [self.prefix] * count
        found = list(itertools.islice(self.lines, count))
        self.taken += len(found)
        if len(found) < count:
            why = f"{self.file} ends after line {self.taken:,}"
            raise DataError("there are fewer prefixes than sentences", where=str(self.file), why=why)
        return found

    def end(self) -> None:
        """DataError where prefixes are left over."""
        if self.lines is not None and (rest := sum(1 for _ in self.lines)):
            where = f"{self.file}:{self.taken + 1}"
            raise DataError(f"{self.file} has {rest:,} lines more than there were sentences", where=where)


def _never_seen(unknown: Counter[str]) -> str:
    """One line, the most frequent first."""
    said = [(printable(each), count) for each, count in unknown.most_common(SHOWN)]
    shown = [f"{each} ({count:,})" if count > 1 else each for each, count in said]
    words = any(len(each) > 1 for each in unknown)
    kind = ("word" if words else "character") + "s" * (len(unknown) > 1)
    more = ", …" if len(unknown) > SHOWN else ""
    return f"{len(unknown):,} {kind} never seen in training, read as <unk>: {', '.join(shown)}{more}"


def _as_text(number: int, translation: Translation) -> str:
    return _one_line(translation.text)


def _as_table(number: int, translation: Translation) -> str:
    return "\n".join(f"{number}\t{each.score:.4f}\t{_one_line(each.text)}" for each in translation.candidates)


def _as_json(number: int, translation: Translation) -> str:
    best = translation.candidates[0]
    unknown = dict(Counter(translation.unknown))
    whole = {"line": number, "source": translation.source, **_described(best), "unknown": unknown}
    return json.dumps(whole | {"candidates": [_described(each) for each in translation.candidates]}, ensure_ascii=False)


def _described(candidate: Candidate) -> dict[str, Any]:
    return candidate._asdict()


def _one_line(text: str) -> str:
    """A vocabulary of characters or bytes can spell a line's end; a line stays a line."""
    return text.replace("\r", " ").replace("\n", " ")
