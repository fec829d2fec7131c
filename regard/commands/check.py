"""``regard check``: check a corpus and a config before hours are spent on training."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands import completion
from regard.commands.options import AsJson, PairTarget
from regard.commands.progress import progress
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.data.corpora import CorpusConfig
    from regard.data.lint.check import Lint
    from regard.runs.config import RunConfig

__all__ = ["register"]

EPILOG = (
    "Exit code 0 if training could start, 3 if the corpus prevents it, 2 if the config does. "
    "Examples: regard check train.en train.de --test test.en,test.de · regard check multi30k"
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Source sentences, one a line; a .tsv or .jsonl of both sides; or a recipe.",
        autocompletion=completion.recipes_and_files,
    ),
]
Valid = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--valid", help="Validation data: source and target file, as for train.", show_default=False),
]
ValidFile = Annotated[
    Path | None,
    typer.Option("--valid-file", help="Validation data: one .tsv or .jsonl of both sides.", show_default=False),
]
Test = Annotated[
    list[str] | None,
    typer.Option(
        "--test",
        metavar="FILES",
        help="Held-out data that must not occur in the training data: SOURCE,TARGET or a .tsv.",
    ),
]
Most = Annotated[
    int, typer.Option("--most", min=0, metavar="N", help="Number of lines to name for each kind of finding.")
]


def register(app: typer.Typer) -> None:
    """Add ``regard check`` to the command line."""
    app.command("check", epilog=EPILOG)(check)


def check(
    source: Source,
    target: PairTarget = None,
    *,
    valid: Valid = None,
    valid_file: ValidFile = None,
    test: Test = None,
    most: Most = 5,
    as_json: AsJson = False,
) -> None:
    """Check parallel text, or the data of a recipe, and name the lines that are wrong or suspicious.

    If nothing is wrong, everything that training does before its first update is rehearsed: a corpus that passes can
    be trained on.
    """
    asked = _asked(source, target, valid, valid_file)
    held_out = [*asked.valid, *(_corpus(files) for files in test or [])]
    looked = [(corpus, _look(corpus, held_out, most)) for corpus in asked.train]
    looked += [(corpus, _look(corpus, (), most)) for corpus in asked.valid]
    sound = not any(_is_error(kind) for _, found in looked for kind in found.counts)
    remarks, refusal = _rehearse(asked.config) if sound else ([], None)
    if as_json:
        found = [_described(found) for _, found in looked]
        described: Any = {"corpora": found} if asked.recipe else {**found[0], "valid": found[1:]}
        refused = None if refusal is None else {"what": refusal.what, "where": refusal.where, "why": refusal.why}
        print(json.dumps(described | {"remarks": remarks, "refused": refused}, indent=2, ensure_ascii=False))
    else:
        for corpus, lint in looked:
            _tell(corpus, lint)
        for remark in remarks:
            print(f"\n{remark}")
        if sound and refusal is None:
            plain = not remarks and not any(found.counts for _, found in looked)
            print("nothing to remark" if plain else "\nit can be trained on as it is")
    if refusal is not None:
        raise refusal
    if not sound:
        raise typer.Exit(3)


class _Asked(NamedTuple):
    """The corpora to look through, and the config that training would take."""

    train: Sequence[CorpusConfig]
    valid: Sequence[CorpusConfig]
    config: Callable[[], RunConfig]
    recipe: bool


def _asked(
    source: Path, target: Path | None, valid: tuple[Path, Path] | None, valid_file: Path | None
) -> _Asked:  # fmt: skip
    from regard.commands.train import find_config
    from regard.data.corpora import CorpusConfig

    names = [str(each) for each in (source, target) if each is not None]
    find = partial(find_config, names, valid, valid_file, [], say=lambda reason: None)
    if target is None and _is_recipe(source):
        config = find()
        # Training and validation may share a file, dealt out by a hash of each sentence.
        shared = {corpus.source for corpus in config.data.train}
        held_out = [corpus for corpus in config.data.valid or () if corpus.source not in shared]
        return _Asked(config.data.train, held_out, lambda: config, True)
    files = [CorpusConfig(source=valid[0], target=valid[1])] if valid else []
    files = [CorpusConfig(source=valid_file)] if valid_file else files
    return _Asked([CorpusConfig(source=source, target=target)], files, find, False)


def _rehearse(find: Callable[[], RunConfig]) -> tuple[list[str], RegardError | None]:
    """What training would remark once the text is cut into pieces, or why it would refuse."""
    import tempfile

    from regard.runs.run_folder import RunFolder
    from regard.training.setup import rehearse

    try:
        with tempfile.TemporaryDirectory() as folder, progress("cutting", None, unit="pairs") as advance:
            return rehearse(RunFolder.create(Path(folder) / "run", find()), progress=advance), None
    except RegardError as error:
        return [], error


def _look(corpus: CorpusConfig, held_out: Sequence[CorpusConfig], most: int) -> Lint:
    from regard.data.lint.check import lint

    with progress("reading", None, unit="pairs") as advance:
        done = 0

        def read(line: int) -> None:
            nonlocal done
            advance(line - done)
            done = line

        return lint(corpus, held_out=held_out, most=most, progress=read)


def _is_recipe(source: Path) -> bool:
    """A file of one, or a name: what is no file and has no ending is none of a corpus."""
    return source.suffix == ".toml" or (not source.suffix and not source.exists())


def _corpus(files: str) -> CorpusConfig:
    from regard.data.corpora import CorpusConfig

    source, _, target = files.partition(",")
    return CorpusConfig(source=Path(source), target=Path(target) if target else None)


def _is_error(kind: str) -> bool:
    from regard.data.lint.check import KINDS

    return KINDS[kind] == "error"


def _tell(config: CorpusConfig, found: Lint) -> None:
    from regard.data.lint.check import KINDS

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


def _described(found: Lint) -> dict[str, object]:
    return {
        "lines": found.lines,
        "counts": found.counts,
        "findings": [finding._asdict() for finding in found.findings],
        "skipped": found.skipped,
    }
