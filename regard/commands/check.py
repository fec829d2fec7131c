"""``regard check``: check a corpus and a config before hours are spent on training."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import AsJson, PairTarget, epilog
from regard.commands.progress import progress
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.data.lint.check import LintReport
    from regard.tasks.check import CheckReport

EPILOG = epilog(
    "regard check train.en train.de --test test.en,test.de",
    "regard check book.txt",
    "regard check multi30k",
    notes="Exit code 0 if training could start, 3 if the corpus prevents it, 2 if the config does.",
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Source sentences, one a line; a .tsv, .jsonl, .csv or .parquet of both; a text; or a recipe.",
        autocompletion=completion.recipes_and_files,
    ),
]
Valid = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--valid", help="Validation data: source and target file, as for train.", show_default=False),
]
ValidFile = Annotated[
    Path | None,
    typer.Option(
        "--valid-file", help="Validation data: one .tsv, .jsonl, .csv or .parquet of both.", show_default=False
    ),
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
    """Check parallel text, a text, or the data of a recipe, and name the lines that are wrong or suspicious.

    If nothing is wrong, everything that training does before its first update is rehearsed: a corpus that passes can
    be trained on.
    """
    from regard.tasks.check import check as checked

    files = [each for each in (source, target) if each is not None]
    held_out = [*(valid or ()), *([valid_file] if valid_file else ())]
    tests = [_files(each) for each in test or []]
    found = checked(*files, valid=held_out, test=tests, most=most, showing=partial(progress, total=None, unit="pairs"))
    if as_json:
        print(json.dumps(_described(found), indent=2, ensure_ascii=False))
    else:
        _print(found)
    if found.refused is not None:
        raise found.refused
    if not found.clean:
        raise typer.Exit(3)


def _files(given: str) -> Path | tuple[Path, Path]:
    """``SOURCE,TARGET`` or one file."""
    source, _, target = given.partition(",")
    return (Path(source), Path(target)) if target else Path(source)


def _described(found: CheckReport) -> dict[str, Any]:
    corpora = [_as_json(each.lint) for each in (*found.train, *found.valid)]
    files = found.train and not found.recipe
    described: dict[str, Any] = {**corpora[0], "valid": corpora[1:]} if files else {"corpora": corpora}
    refusal = found.refused
    refused = None if refusal is None else {"what": refusal.what, "where": refusal.where, "why": refusal.why}
    return described | {"remarks": found.remarks, "refused": refused}


def _print(found: CheckReport) -> None:
    for checked in (*found.train, *found.valid):
        _print_findings(checked.name, checked.lint)
    for remark in found.remarks:
        print(f"\n{remark}")
    if found.trainable:
        plain = not found.remarks and not any(each.lint.counts for each in (*found.train, *found.valid))
        print("no findings" if plain else "\ntraining can start with this corpus")


def _print_findings(name: str, found: LintReport) -> None:
    from regard.data.lint.check import KINDS

    print(f"{pluralize(found.lines, 'training example' if found.summary else 'line')} in {name}")
    for fact in found.summary:
        print(fact)
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
        **({"summary": list(found.summary)} if found.summary else {}),
    }
