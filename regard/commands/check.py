"""``regard check``: check a corpus and a config before training."""

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
    notes="Exit code: 0 if training can start, 3 if the corpus prevents it, 2 if the config prevents it.",
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Source sentences, one per line; a .tsv, .jsonl, .csv or .parquet with both sides; a text; or a recipe.",
        autocompletion=completion.recipes_and_files,
    ),
]
Valid = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--valid", help="Validate on these two files, source and target, as in train.", show_default=False),
]
ValidFile = Annotated[
    Path | None,
    typer.Option(
        "--valid-file",
        help="Validate on this .tsv, .jsonl, .csv or .parquet with both sides.",
        show_default=False,
    ),
]
Test = Annotated[
    list[str] | None,
    typer.Option(
        "--test",
        metavar="FILES",
        help="Check that this held-out data does not occur in the training data: SOURCE,TARGET or a .tsv.",
    ),
]
MaxNamed = Annotated[
    int, typer.Option("--most", min=0, metavar="N", help="List at most N lines for each type of finding.")
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
    max_named: MaxNamed = 5,
    as_json: AsJson = False,
) -> None:
    """Check parallel text, a text, or the data of a recipe, and list wrong or suspicious lines.

    If the data has no errors, the command also runs all steps of training up to the first update. A corpus that passes
    can be trained on.
    """
    from regard.tasks.check import check as checked

    files = [path for path in (source, target) if path is not None]
    held_out = [*(valid or ()), *([valid_file] if valid_file else ())]
    tests = [_files(paths) for paths in test or []]
    show_progress = partial(progress, total=None, unit="pairs")
    report = checked(*files, valid=held_out, test=tests, max_findings=max_named, showing=show_progress)
    if as_json:
        print(json.dumps(_described(report), indent=2, ensure_ascii=False))
    else:
        _print(report)
    if report.refused is not None:
        raise report.refused
    if not report.clean:
        raise typer.Exit(3)


def _files(paths: str) -> Path | tuple[Path, Path]:
    """Parse ``SOURCE,TARGET`` or the name of one file."""
    source, _, target = paths.partition(",")
    return (Path(source), Path(target)) if target else Path(source)


def _described(report: CheckReport) -> dict[str, Any]:
    corpora = [_as_json(checked.lint) for checked in (*report.train, *report.valid)]
    files = report.train and not report.recipe
    described: dict[str, Any] = {**corpora[0], "valid": corpora[1:]} if files else {"corpora": corpora}
    refusal = report.refused
    refused = None if refusal is None else {"what": refusal.what, "where": refusal.where, "why": refusal.why}
    return described | {"remarks": report.remarks, "refused": refused}


def _print(report: CheckReport) -> None:
    for checked in (*report.train, *report.valid):
        _print_findings(checked.name, checked.lint)
    for remark in report.remarks:
        print(f"\n{remark}")
    if report.trainable:
        plain = not report.remarks and not any(checked.lint.counts for checked in (*report.train, *report.valid))
        print("no findings" if plain else "\ntraining can start with this corpus")


def _print_findings(name: str, report: LintReport) -> None:
    from regard.data.lint.check import KINDS

    print(f"{pluralize(report.lines, 'training example' if report.summary else 'line')} in {name}")
    for fact in report.summary:
        print(fact)
    for kind, count in report.counts.items():
        print(f"\n{KINDS[kind]:<8} {kind}: {count:,}")
        named = [finding for finding in report.findings if finding.kind == kind]
        for finding in named:
            where = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
            print(f"  {where}: {finding.message}")
        if count > len(named):
            print(f"  and {count - len(named):,} more")
    for skipped in report.skipped:
        print(f"\nnot checked: {skipped}")


def _as_json(report: LintReport) -> dict[str, object]:
    return {
        "lines": report.lines,
        "counts": report.counts,
        "findings": [finding._asdict() for finding in report.findings],
        "skipped": report.skipped,
        **({"summary": list(report.summary)} if report.summary else {}),
    }
