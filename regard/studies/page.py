"""Markdown page of all studies, generated from their stored results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.atomic_files import explain_os_errors, write_bytes_atomically
from regard.studies.catalog import STUDIES
from regard.studies.record import read_record
from regard.studies.seeds import seed_table, seed_verdict
from regard.studies.study import Cell, Study, format_cell

HEAD = """\
# Studies

Claims of the literature, tested with this code. Each verdict is computed: a study *holds* if all its criteria do.
`regard study all --page docs/evidence/studies.md` writes this page, and `regard study NAME` runs one study. The study's
file in `regard/studies/` explains its measurement and its thresholds, which are committed before the run. A *check*
tests closed forms or identities: no seed can change its verdict, only an error in the code can. `--seeds N` repeats a
study, which then *holds in k of N*. Times are those of one machine, which also ran other work.
"""


def write_page(page: Path, runs: Path) -> list[str]:
    """Write ``page`` from the results under ``runs``, and the figures to a folder with the name of the page next to it.

    Returns:
        The names of the studies without a result, which the page also lists.
    """
    figures = page.with_suffix("")
    records = {name: read_record(runs / name / "result.json") for name in STUDIES if (runs / name).is_dir()}
    with explain_os_errors(page):
        page.parent.mkdir(parents=True, exist_ok=True)
    figure_paths = dict(_copy_figures(records, runs, figures))
    text = "\n".join(
        [HEAD, *_overview(records), *(_section(record, figure_paths.get(name)) for name, record in records.items())]
    )
    write_bytes_atomically(page, text.encode())
    return [name for name in STUDIES if name not in records]


def verdict(record: Mapping[str, Any]) -> str:
    """Return the verdict in words: holds, does not hold, or in how many seeds it holds."""
    if "over_seeds" in record:
        return seed_verdict(record["over_seeds"])
    return "holds" if record["holds"] else "does not hold"


def _copy_figures(names: Iterable[str], runs: Path, figures: Path) -> Iterator[tuple[str, str]]:
    for name in names:
        source = runs / name / "figure.svg"
        if source.is_file():
            with explain_os_errors(figures):
                figures.mkdir(exist_ok=True)
            write_bytes_atomically(figures / f"{name}.svg", source.read_bytes())
            yield name, f"{figures.name}/{name}.svg"


def _overview(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    rows: list[tuple[Cell, ...]] = []
    for name, study in STUDIES.items():
        record = records.get(name)
        if record is None:
            rows.append((name, study.claim, "not run", ""))
        else:
            rows.append((f"[{name}](#{name})", study.claim, _labeled(study, record), f"{record['seconds']:,.0f} s"))
    yield _table(("study", "claim", "verdict", "took"), rows)


def _labeled(study: Study, record: Mapping[str, Any]) -> str:
    """Return the verdict, which names a check as one."""
    return f"check: {verdict(record)}" if study.check else verdict(record)


def _section(record: Mapping[str, Any], figure: str | None) -> str:
    name = record["name"]
    outcome = _labeled(STUDIES[name], record)
    columns, rows = _criteria(record)
    first = f"Table and figure: seed {record['seed']}.\n" if "over_seeds" in record else ""
    parts = [
        f"## {name}\n",
        f"> {record['claim']}\n>\n> {record['source']}\n",
        f"**{outcome[0].upper()}{outcome[1:]}.**" + (" (minimal version)" if record["quick"] else "") + "\n",
        f"![{name}]({figure})\n" if figure else "",
        _table(columns, rows),
        first,
        _table(record["columns"], record["rows"]),
        *(f"{remark}\n" for remark in record["remarks"]),
        f"`{_command(record)}` · {record['seconds']:,.0f} s with {record['threads']} "
        f"{'thread' if record['threads'] == 1 else 'threads'}, torch {record['versions']['torch']}\n",
    ]
    return "\n".join(part for part in parts if part)


def _command(record: Mapping[str, Any]) -> str:
    """Return the command of a record, without its files."""
    seeds = f" --seeds {len(record['over_seeds']['seeds'])}" if "over_seeds" in record else ""
    options = "".join(f" --set {name}={value}" for name, value in record.get("options", {}).items())
    return f"regard study {record['name']} --seed {record['seed']}{seeds}{options}"


def _criteria(record: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Cell]]]:
    """Return the columns and rows of the criteria, of one seed or of several."""
    if "over_seeds" in record:
        return seed_table(record["over_seeds"])
    return ("criterion", "measured", "threshold", "holds"), [
        (
            criterion["what"],
            criterion["value"],
            f"{criterion['comparison']} {format_cell(criterion['threshold'])}",
            "yes" if criterion["holds"] else "no",
        )
        for criterion in record["criteria"]
    ]


def _table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    lines = [columns, ["---"] * len(columns), *([format_cell(cell) for cell in row] for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
