"""``regard check``: look a corpus through before hours are spent on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands.options import AsJson
from regard.commands.waiting import progress

if TYPE_CHECKING:
    from regard.config import Config
    from regard.data.check import Lint
    from regard.data.corpora import CorpusConfig

__all__ = ["register"]

EPILOG = (
    "Exit code 3 when something keeps the corpus from being trained on, else 0. "
    "Examples: regard check train.en train.de --test test.en,test.de · regard check multi30k"
)

Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="Sentences; a .tsv or .jsonl of both sides; or a recipe.")
]
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
    """Look through parallel text and name the lines that are wrong or odd; or through a recipe, data and model."""
    from regard.data.corpora import CorpusConfig

    held_out = [_corpus(files) for files in test or []]
    if target is None and _is_recipe(source):
        config = _recipe(source)
        # Training and validation may share a file, dealt out by a hash of each sentence.
        shared = {corpus.source for corpus in config.data.train}
        held_out += [corpus for corpus in config.data.valid or () if corpus.source not in shared]
        looked = [(corpus, _look(corpus, held_out, most)) for corpus in config.data.train]
        remarks = _remarks(config)
        described: Any = {"corpora": [_described(found) for _, found in looked], "remarks": remarks}
    else:
        corpus = CorpusConfig(source=source, target=target)
        looked, remarks = [(corpus, _look(corpus, held_out, most))], []
        described = _described(looked[0][1])
    if as_json:
        print(json.dumps(described, indent=2, ensure_ascii=False))
    else:
        for corpus, found in looked:
            _tell(corpus, found)
        for remark in remarks:
            print(f"\n{remark}")
    if any(_is_error(kind) for _, found in looked for kind in found.counts):
        raise typer.Exit(3)


def _look(corpus: CorpusConfig, held_out: Sequence[CorpusConfig], most: int) -> Lint:
    from regard.data.check import lint

    with progress("reading", None, unit="pairs") as advance:
        done = 0

        def read(line: int) -> None:
            nonlocal done
            advance(line - done)
            done = line

        return lint(corpus, held_out=held_out, most=most, progress=read)


def _is_recipe(source: Path) -> bool:
    from regard.config import recipe_names

    return source.suffix == ".toml" or (not source.exists() and str(source) in recipe_names())


def _recipe(source: Path) -> Config:
    from regard.commands.train import require_data
    from regard.config import load_config
    from regard.setup import require_trainable

    config = load_config(str(source))
    require_data(config)
    require_trainable(config)
    return config


def _remarks(config: Config) -> list[str]:
    """What is odd about the model for these sources, once they are cut into pieces."""
    import tempfile

    import torch

    from regard.models.build import build
    from regard.run import RunFolder
    from regard.setup import prepare, remarks

    with tempfile.TemporaryDirectory() as folder, progress("cutting", None, unit="pairs") as advance:
        run = RunFolder.create(Path(folder) / "run", config)
        source, pieces, data = prepare(run, say=lambda message: None, progress=advance)
        with torch.device("meta"):
            model = build(config.model, source_types=len(source), target_types=len(pieces))
        return remarks(model, data)


def _corpus(files: str) -> CorpusConfig:
    from regard.data.corpora import CorpusConfig

    source, _, target = files.partition(",")
    return CorpusConfig(source=Path(source), target=Path(target) if target else None)


def _is_error(kind: str) -> bool:
    from regard.data.check import KINDS

    return KINDS[kind] == "error"


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
    elif not any(_is_error(kind) for kind in found.counts):
        print("\nit can be trained on as it is")


def _described(found: Lint) -> dict[str, object]:
    return {
        "lines": found.lines,
        "counts": found.counts,
        "findings": [finding._asdict() for finding in found.findings],
        "skipped": found.skipped,
    }
