"""``regard check``: check a corpus and a config before hours are spent on training."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.commands import completion
from regard.commands.options import AsJson, PairTarget, epilog
from regard.commands.progress import progress
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.data.corpora import CorpusConfig
    from regard.data.lint.check import LintReport
    from regard.runs.config import RunConfig

__all__ = ["register"]

EPILOG = epilog(
    "regard check train.en train.de --test test.en,test.de",
    "regard check multi30k",
    notes="Exit code 0 if training could start, 3 if the corpus prevents it, 2 if the config does.",
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
    request = _check_request(source, target, valid, valid_file)
    held_out = [*request.valid, *(_corpus(files) for files in test or [])]
    checked = [(corpus, _lint_corpus(corpus, held_out, most)) for corpus in request.train]
    checked += [(corpus, _lint_corpus(corpus, (), most)) for corpus in request.valid]
    clean = not any(_is_error(kind) for _, found in checked for kind in found.counts)
    remarks, refusal = _rehearse_training(request.config) if clean else ([], None)
    if as_json:
        found = [_as_json(found) for _, found in checked]
        described: Any = {"corpora": found} if request.recipe else {**found[0], "valid": found[1:]}
        refused = None if refusal is None else {"what": refusal.what, "where": refusal.where, "why": refusal.why}
        print(json.dumps(described | {"remarks": remarks, "refused": refused}, indent=2, ensure_ascii=False))
    else:
        for corpus, lint in checked:
            _print_findings(corpus, lint)
        for remark in remarks:
            print(f"\n{remark}")
        if clean and refusal is None:
            plain = not remarks and not any(found.counts for _, found in checked)
            print("no findings" if plain else "\ntraining can start with this corpus")
    if refusal is not None:
        raise refusal
    if not clean:
        raise typer.Exit(3)


class _CheckRequest(NamedTuple):
    """Corpora to check, and the config that training would use."""

    train: Sequence[CorpusConfig]
    valid: Sequence[CorpusConfig]
    config: Callable[[], RunConfig]
    recipe: bool


def _check_request(
    source: Path, target: Path | None, valid: tuple[Path, Path] | None, valid_file: Path | None
) -> _CheckRequest:  # fmt: skip
    from regard.commands.train import find_config
    from regard.data.corpora import CorpusConfig

    names = [str(each) for each in (source, target) if each is not None]
    find = partial(find_config, names, valid, valid_file, [], say=lambda reason: None)
    if target is None and _is_recipe(source):
        config = find()
        # Training and validation may share a file, split by a hash of each sentence.
        shared = {corpus.source for corpus in config.data.train}
        held_out = [corpus for corpus in config.data.valid or () if corpus.source not in shared]
        return _CheckRequest(config.data.train, held_out, lambda: config, True)
    files = [CorpusConfig(source=valid[0], target=valid[1])] if valid else []
    files = [CorpusConfig(source=valid_file)] if valid_file else files
    return _CheckRequest([CorpusConfig(source=source, target=target)], files, find, False)


def _rehearse_training(find: Callable[[], RunConfig]) -> tuple[list[str], RegardError | None]:
    """Prepare as training does, in a temporary folder; return the remarks, and the error if training would refuse."""
    import tempfile

    from regard.runs.run_folder import RunFolder
    from regard.training.setup import rehearse

    try:
        with tempfile.TemporaryDirectory() as folder, progress("cutting", None, unit="pairs") as advance:
            return rehearse(RunFolder.create(Path(folder) / "run", find()), progress=advance), None
    except RegardError as error:
        return [], error


def _lint_corpus(corpus: CorpusConfig, held_out: Sequence[CorpusConfig], most: int) -> LintReport:
    from regard.data.lint.check import lint

    with progress("reading", None, unit="pairs") as advance:
        done = 0

        def read(line: int) -> None:
            nonlocal done
            advance(line - done)
            done = line

        return lint(corpus, held_out=held_out, max_findings=most, progress=read)


def _is_recipe(source: Path) -> bool:
    """Whether the argument is a recipe: a .toml file, or a name without a suffix that is no file."""
    return source.suffix == ".toml" or (not source.suffix and not source.exists())


def _corpus(files: str) -> CorpusConfig:
    from regard.data.corpora import CorpusConfig

    source, _, target = files.partition(",")
    return CorpusConfig(source=Path(source), target=Path(target) if target else None)


def _is_error(kind: str) -> bool:
    from regard.data.lint.check import KINDS

    return KINDS[kind] == "error"


def _print_findings(config: CorpusConfig, found: LintReport) -> None:
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


def _as_json(found: LintReport) -> dict[str, object]:
    return {
        "lines": found.lines,
        "counts": found.counts,
        "findings": [finding._asdict() for finding in found.findings],
        "skipped": found.skipped,
    }
