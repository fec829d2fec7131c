"""``regard check``: look a corpus through before hours are spent on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import AsJson
from regard.commands.waiting import progress

if TYPE_CHECKING:
    from regard.data.check import Lint
    from regard.data.corpora import CorpusConfig

__all__ = ["register"]

EPILOG = (
    "Exit code 3 when something keeps the corpus from being trained on, else 0. "
    "Example: regard check train.en train.de --test test.en,test.de"
)

Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="Sentences; or a .tsv or .jsonl of both sides.")]
Target = Annotated[Path | None, typer.Argument(metavar="TARGET", help="The translation of each.")]
Test = Annotated[
    list[str] | None,
    typer.Option(
        "--test", metavar="FILES", help="Held-out data no pair of which may be there: SOURCE,TARGET or a .tsv."
    ),
]
Most = Annotated[int, typer.Option("--most", min=0, metavar="N", help="Lines named of each kind.")]


def register(app: typer.Typer) -> None:
    """Add ``regard check`` to the command line."""
    app.command("check", epilog=EPILOG)(check)


def check(source: Source, target: Target = None, *, test: Test = None, most: Most = 5, as_json: AsJson = False) -> None:
    """Look through parallel text and name the lines that are wrong or odd."""
    from regard.data.check import KINDS, lint
    from regard.data.corpora import CorpusConfig

    config = CorpusConfig(source=source, target=target)
    held_out = [_corpus(files) for files in test or []]
    with progress("reading", None, unit="pairs") as advance:
        done = 0

        def read(line: int) -> None:
            nonlocal done
            advance(line - done)
            done = line

        found = lint(config, held_out=held_out, most=most, progress=read)
    if as_json:
        print(json.dumps(_described(found), indent=2, ensure_ascii=False))
    else:
        _tell(config, found)
    if any(KINDS[kind] == "error" for kind in found.counts):
        raise typer.Exit(3)


def _corpus(files: str) -> CorpusConfig:
    from regard.data.corpora import CorpusConfig

    source, _, target = files.partition(",")
    return CorpusConfig(source=Path(source), target=Path(target) if target else None)


def _tell(config: CorpusConfig, found: Lint) -> None:
    from regard.data.check import KINDS

    print(f"{found.lines:,} lines in {config.source}" + (f" and {config.target}" if config.target else ""))
    for kind, count in found.counts.items():
        print(f"\n{KINDS[kind]:<8} {kind}: {count:,}")
        named = [finding for finding in found.findings if finding.kind == kind]
        for finding in named:
            where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
            print(f"  {where}: {finding.message}")
        if count > len(named):
            print(f"  and {count - len(named):,} more")
    for skipped in found.skipped:
        print(f"\nnot checked: {skipped}")
    if not found.counts:
        print("nothing to remark")
    elif not any(KINDS[kind] == "error" for kind in found.counts):
        print("\nit can be trained on as it is")


def _described(found: Lint) -> dict[str, object]:
    return {
        "lines": found.lines,
        "counts": found.counts,
        "findings": [finding._asdict() for finding in found.findings],
        "skipped": found.skipped,
    }
