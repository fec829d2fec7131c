"""``regard study``: measure a claim of the literature and judge it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import AsJson, Threads, epilog, set_threads

if TYPE_CHECKING:
    from regard.studies.study import Cell, Study

EPILOG = epilog("regard study list", "regard study saturation", "regard study all --page docs/evidence/studies.md")

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME…|list|all|page",
        help="Studies to run; list shows them, all runs them all, page writes the page from stored results.",
        autocompletion=completion.studies,
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for results, with a folder for each study.")]
Page = Annotated[
    Path | None,
    typer.Option(
        "--page", metavar="FILE", help="Write the page of all studies to this file.", show_default="OUT/studies.md"
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random numbers.")]
Text = Annotated[
    Path | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help="Text, plain or .gz, for studies that need one: modern, middle-word, pretrain (labeled).",
        exists=True,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Run the smallest form, to see that it works; REGARD_QUICK=1 does the same."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard study`` to the command line."""
    app.command("study", epilog=EPILOG)(study)


def study(
    names: Names,
    *,
    out: Out = Path("runs/studies"),
    page: Page = None,
    seed: Seed = 1,
    quick: Quick = False,
    text: Text = None,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Measure claims of the literature; each study gives a table, a verdict, a figure and JSON.

    The exit code is 0 whatever the verdict.
    """
    from regard.studies.catalog import STUDIES, find_study

    if names == ["list"]:
        _list(STUDIES.values(), as_json=as_json)
        return
    every, quick = names == ["all"], quick or bool(os.environ.get("REGARD_QUICK"))
    chosen = (
        _all(STUDIES.values(), text, quick=quick)
        if every
        else [find_study(name) for name in names if names != ["page"]]
    )
    set_threads(threads)
    for each in chosen:
        _run(each, out / each.name, seed=seed, quick=quick, text=text, as_json=as_json)
    if every or names == ["page"] or page is not None:
        _write_page(page or out / "studies.md", out)


def _list(studies: Any, *, as_json: bool) -> None:
    from dataclasses import asdict
    from textwrap import fill

    if as_json:
        print(json.dumps([asdict(each) for each in studies], indent=2, ensure_ascii=False))
        return
    for each in studies:
        claim = fill(each.claim, 100, initial_indent=" " * 15, subsequent_indent=" " * 15).lstrip()
        duration = f"{each.seconds} s" if each.seconds else "less than 1 s"
        text = "; needs --text FILE" if each.needs_text else ""
        print(f"{each.name:<14} {claim}\n{'':<14} {each.source}; took {duration} with one thread{text}\n")


def _all(studies: Iterable[Study], text: Path | None, *, quick: bool) -> list[Study]:
    """All studies but those that need a text where none is given, which are told."""
    chosen: list[Study] = []
    left: list[Study] = []
    for each in studies:
        (left if each.needs_text and text is None and not quick else chosen).append(each)
    if left:
        typer.echo(f"left out, since they need --text FILE: {', '.join(each.name for each in left)}", err=True)
    return chosen


def _run(each: Study, folder: Path, *, seed: int, quick: bool, text: Path | None, as_json: bool) -> None:
    from regard.commands.progress import progress
    from regard.core.figure import can_draw
    from regard.core.installation import extra_command
    from regard.studies.record import record_study

    with progress(each.name, 100, unit="%") as advance:
        told = 0

        def report(share: float) -> None:
            nonlocal told
            advance(int(100 * share) - told)
            told = int(100 * share)

        record = record_study(each, folder, seed=seed, quick=quick, report=report, text=text)
    if as_json:
        print(json.dumps(record, ensure_ascii=False), flush=True)  # one line a study
    else:
        for line in _lines(record):
            print(line)
        print(f"\nin {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}\n", flush=True)
    if not can_draw():
        typer.echo(f"no figure: matplotlib is not installed; {extra_command('plot')}", err=True)


def _lines(record: dict[str, Any]) -> Iterator[str]:
    from textwrap import wrap

    from regard.studies.page import verdict

    yield from wrap(f"{record['name']}: {record['claim']}", 100)
    yield f"({record['source']})\n"
    yield from _aligned([record["columns"], *record["rows"]])
    yield ""
    yield from _aligned([_judged(each) for each in record["criteria"]], left=2)
    for remark in record["remarks"]:
        yield from ("", *wrap(remark, 100))
    form = " (quick form: too small to mean much)" if record["quick"] else ""
    yield f"\n{record['name']} {verdict(record)}{form}"


def _judged(criterion: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one criterion: a mark, its words, the value, the comparison and the threshold."""
    from regard.studies.study import format_cell

    value, threshold = (format_cell(criterion[key]) for key in ("value", "threshold"))
    return "✓" if criterion["holds"] else "✗", criterion["what"], value, criterion["comparison"], threshold


def _aligned(rows: Sequence[Sequence[Cell]], *, left: int = 1) -> Iterator[str]:
    """Align rows in columns: the first ``left`` columns to the left, the others to the right."""
    from regard.studies.study import format_cell

    shown = [[format_cell(cell) for cell in row] for row in rows]
    wide = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, wide, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _write_page(page: Path, out: Path) -> None:
    from regard.studies.page import write_page

    missing = write_page(page, out)
    typer.echo(f"wrote {page}", err=True)
    if missing:
        typer.echo(f"without results: {', '.join(missing)}; regard study {' '.join(missing)}", err=True)
